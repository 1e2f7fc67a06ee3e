"""The keeper's repacking carried out in memory, with a scheduler that breaks ties otherwise than the keeper does.

    python -m tests.repack.played [--nodes 300] [--seed 1] [--nodes-at-once 155]

Everything around keeper and scheduler is played: evictions under budgets, ReplicaSets that make successors, kubelets
that start them after a while. Time is virtual, so a run takes seconds; `compare` does the same on a real API server.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from moorage.core.commands import Bind, EvictPod, PatchNode
from moorage.core.events import (
    BindDone,
    BindOutcome,
    Event,
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodePatched,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import RUNNING, Pod
from moorage.engine.engine import Engine
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.keeping import KeeperConfiguration, Repacking
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.rules import rules_of
from moorage.wire.configuration import read_configuration
from moorage.wire.kinds import NODE, find_kind, pod_kind
from moorage.wire.templates import TemplateTable
from tests.repack.harbour import packing
from tests.repack.leftover import Leftover, leftover

BUDGET = "PodDisruptionBudget"
TICK_S = 0.1
QUIET_S = 80.0
LONGEST_S = 3600.0


class Outcome(NamedTuple):
    """What a run came to."""

    before: int
    """Nodes in use."""
    after: int
    planned: int
    """How many fewer the first plan promised."""
    evictions: int
    refused: int
    pending: int
    elsewhere: int
    """Successors that the scheduler put on other nodes than the keeper had proven."""
    took_s: float


class Play:
    """One cluster with its keeper and its scheduler."""

    def __init__(self, cluster: Leftover, settings: Repacking, scheduler_seed: int = 7) -> None:
        reading = read_configuration(json.dumps(packing("default-scheduler")).encode(), "p", Registry(BUILTIN))
        rules = rules_of(reading, scheduler_seed, answers_to_all=True)
        self.keeper = Keeper(rules.profiles, KeeperConfiguration(move_again_after_s=30.0, repack=settings))
        self.scheduler = Engine(rules.profiles, rules.settings, answers_to_all=True)
        self.now = self.began_s = self.moved_s = 1_800_000_000.0
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.evictions = self.refused = self.elsewhere = self.planned = 0
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._of_app: dict[str, set[str]] = defaultdict(set)
        self._to_keeper: list[KeeperEvent] = []
        self._to_scheduler: list[Event] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0
        self._proven: dict[str, str | None] = {}
        """Uid of a successor -> the place that was proven for it."""
        self._fill(cluster)
        self._wanted = {app: len(uids) for app, uids in self._of_app.items()}
        self._to_keeper += [self._budget(app) for app in self._budgets]
        self.before = self.in_use()

    def _fill(self, cluster: Leftover) -> None:
        pods = pod_kind(TemplateTable())
        for body in cluster.objects():
            if body["kind"] == "Node":
                self._see_node(NODE.from_builtin(body))
            elif body["kind"] == "Pod":
                self._see(pods.from_builtin(body))
            else:
                kind = find_kind(body["apiVersion"], body["kind"])
                assert kind is not None
                value = kind.from_builtin(body)
                self._tell(ObjectSeen(kind.id, value.key, value))
                if kind.id == BUDGET:
                    self._budgets[value.name] = value

    def run(self) -> Outcome:
        """Until nothing has been moved for a while."""
        while self.now - self.moved_s < QUIET_S and self.now - self.began_s < LONGEST_S:
            while self._timers and self._timers[0][0] <= self.now:
                heappop(self._timers)[2]()
            self._schedule()
            self._keep()
            self.now += TICK_S
        pending = sum(pod.node is None for pod in self.pods.values())
        took_s = round(self.moved_s - self.began_s, 1)
        counts = (self.planned, self.evictions, self.refused, pending, self.elsewhere)
        return Outcome(self.before, self.in_use(), *counts, took_s)

    def in_use(self) -> int:
        """Nodes with pods."""
        return len({pod.node for pod in self.pods.values()} - {None})

    # --- the scheduler ---

    def _schedule(self) -> None:
        while self._to_scheduler:
            events, self._to_scheduler = self._to_scheduler, []
            for command in self.scheduler.handle(events, self.now)[0]:
                if isinstance(command, Bind):
                    self._bind(command)

    def _bind(self, command: Bind) -> None:
        pod = self.pods[command.pod.uid]
        self._to_scheduler.append(BindDone(pod.uid, BindOutcome.BOUND, command.node))
        self.elsewhere += command.node != self._proven.get(pod.uid)
        self._see(replace(pod, node=command.node))
        self._after(Random(pod.uid).uniform(0.5, 1.5), lambda: self._start(pod.uid))

    def _start(self, uid: str) -> None:
        self._see(replace(self.pods[uid], phase=RUNNING))
        self._to_keeper.append(self._budget(_app(self.pods[uid])))

    # --- the keeper ---

    def _keep(self) -> None:
        events, self._to_keeper = self._to_keeper, []
        for command in self.keeper.handle(events, self.now)[0]:
            if isinstance(command, EvictPod):
                self._to_keeper.append(self._evict(command))
            elif isinstance(command, PatchNode):
                self._patch(command)
        plan = self.keeper.repack.plan_now
        if plan is not None and not self.planned:
            self.planned = len(plan.nodes) - plan.filled

    def _evict(self, command: EvictPod) -> EvictDone:
        pod = self.pods[command.pod.uid]
        if self._allowed(_app(pod)) <= 0:
            self.refused += 1
            return EvictDone(pod.uid, EvictOutcome.REFUSED)
        self.evictions += 1
        self.moved_s = self.now
        del self.pods[pod.uid]
        self._of_app[_app(pod)].discard(pod.uid)
        self._tell(PodGone(pod.uid))
        self._to_keeper.append(self._budget(_app(pod)))
        self._after(TICK_S, lambda: self._replace(pod, command.place))
        return EvictDone(pod.uid, EvictOutcome.EVICTED)

    def _replace(self, pod: Pod, place: str | None) -> None:
        self._made += 1
        name = f"{pod.name.split('+')[0]}+{self._made}"
        made = replace(pod, uid=f"made-{self._made}", name=name, node=None, phase="Pending", created_s=self.now)
        self._proven[made.uid] = place
        self._see(made)

    def _patch(self, command: PatchNode) -> None:
        node = self.nodes[command.node]
        notes: dict[str, Any] = {**node.annotations, **command.annotations}
        kept = FrozenDict({key: text for key, text in notes.items() if text is not None})
        closed = node.unschedulable if command.unschedulable is None else command.unschedulable
        self._see_node(replace(node, annotations=kept, unschedulable=closed))
        self._to_keeper.append(NodePatched(command, ok=True))

    # --- the cluster ---

    def _tell(self, event: PodSeen | PodGone | NodeSeen | ObjectSeen) -> None:
        self._to_keeper.append(event)
        self._to_scheduler.append(event)

    def _see(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._of_app[_app(pod)].add(pod.uid)
        self._tell(PodSeen(pod))

    def _see_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._tell(NodeSeen(node))

    def _after(self, pause_s: float, then: Callable[[], None]) -> None:
        heappush(self._timers, (self.now + pause_s, len(self._timers) + 1000 * self._made, then))

    def _allowed(self, app: str) -> int:
        """As many pods as a budget lets go that wants all but one."""
        healthy = sum(self.pods[uid].phase == RUNNING for uid in self._of_app[app])
        return max(0, healthy - self._wanted[app] + 1)

    def _budget(self, app: str) -> ObjectSeen:
        value = replace(self._budgets[app], disruptions_allowed=self._allowed(app), observed=True)
        return ObjectSeen(BUDGET, value.key, value)


def _app(pod: Pod) -> str:
    return pod.template.labels["app"]


def settings_of(nodes_at_once: int, least_gain: float = 0.1) -> Repacking:
    """The pace of `compare`."""
    return Repacking(
        moves_at_once=20,
        moves_per_hour=100_000,
        settle_s=5.0,
        nodes_at_once=nodes_at_once,
        least_gain=least_gain,
    )


def main() -> None:
    """Play and print a line of JSON."""
    parser = argparse.ArgumentParser(description="Carry out the keeper's repacking in memory.")
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes-at-once", type=int, default=155)
    options = parser.parse_args()
    play = Play(leftover(options.nodes, seed=options.seed), settings_of(options.nodes_at_once))
    print(json.dumps(play.run()._asdict()))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
