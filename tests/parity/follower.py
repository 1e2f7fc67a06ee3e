"""A long-lived engine that sees every change of a question, as a running scheduler does.

`moorage simulate` starts anew for every pod; here counters, kept answers and indexes live on while nodes and pods come,
change and go. After each pod the engine is told what kube-scheduler did, as if that had been its rival.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.core.events import BindDone, BindOutcome
from moorage.engine.engine import Engine
from moorage.engine.explain import NodeExplanation, explain
from moorage.engine.opinion import waiting_message
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.sim.feed import Feed
from moorage.sim.rules import rules_of
from tests.parity.moorage_side import reading
from tests.parity.questions import Key, Object


class Follower:
    """One engine on one embedded cluster."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._cluster = EmbeddedCluster(SIMULATION)
        self._cluster.load(objects)
        self._cluster.step()
        self._feed = Feed(self._cluster)
        rules = rules_of(reading(), seed=0, answers_to_all=False)
        self._engine = Engine(rules.profiles, rules.settings, observer=self._observe)
        self._explained: dict[str, NodeExplanation] = {}
        self._hear()

    def put(self, obj: Object) -> None:
        """Make an object, or put it in place of the one of its name."""
        found = self._cluster.apply(obj)
        if "status" in obj:
            self._cluster.store.put_status(found, obj["status"])
        self._hear()

    def remove(self, key: Key) -> None:
        """Delete an object at once; pods of a node that is gone may have gone with it."""
        if self._cluster.store.find(*key) is not None:
            self._cluster.delete(*key, grace_s=0)
        self._hear()

    def ask(self, pod: Object) -> dict[str, Any]:
        """The entry of a pod that comes now, as `simulate` would print it."""
        made = self._cluster.create(pod)
        self._explained = {}
        self._hear(budget=1)
        uid = made["metadata"]["uid"]
        binding = self._engine.bindings.get(uid)
        entry = self._engine.queue.get(uid)
        assert entry is not None, "the engine has not heard of the pod"
        return {
            "node": None if binding is None else binding.node,
            "victims": [],
            "message": waiting_message(self._engine, entry.pod) if binding is None else None,
            "explain": {
                name: {"rejected": node.rejected} if node.rejected else {"scores": node.scores, "total": node.total}
                for name, node in self._explained.items()
            },
        }

    def tell(self, key: Key, node: str | None) -> None:
        """What kube-scheduler did with the pod: bound it, or left it pending (then it goes)."""
        if node is None:
            self.remove(key)
            return
        uid = self._cluster.store.get(*key)["metadata"]["uid"]
        binding = self._engine.bindings.get(uid)
        self._cluster.store.bind(key[1], key[2], uid, node)
        if binding is not None:
            outcome = BindOutcome.BOUND if binding.node == node else BindOutcome.ELSEWHERE
            self._engine.handle([BindDone(uid, outcome, node)], self._cluster.now_s, budget=0)
        self._hear()

    def _hear(self, budget: int = 0) -> None:
        self._cluster.step()
        self._engine.handle(self._feed.pull(), self._cluster.now_s, budget=budget)

    def _observe(self, runner: Runner, cycle: Cycle) -> None:
        self._explained = explain(runner, cycle.state, cycle.pod, cycle.now)
