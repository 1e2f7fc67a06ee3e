"""The contract's cluster in memory: the embedded API server, the engine, and virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moorage.adapters.memory.cluster import INSTANT, EmbeddedCluster
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.commands import Bind, Command
from moorage.core.events import Event
from moorage.core.invariants import check_invariants
from moorage.engine.backoff import Backoff
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.sim.feed import Feed
from moorage.wire.configuration import Reading
from tests.contract.cluster import Manifest

PATIENCE_S = 60.0
"""Virtual seconds in which what has to happen must have happened."""
HOLD_S = 900.0
"""Long enough for every retry that the queue knows."""
MOST_ROUNDS = 1000


class EmbeddedContract:
    """`Cluster` on the embedded cluster. Nothing happens between calls; waiting moves the virtual clock."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._cluster = EmbeddedCluster(INSTANT)
        self._runner = CommandRunner(self._cluster.store)
        self._acts: dict[str, Callable[[], None]] = {}
        self._start()

    def _start(self) -> None:
        configuration = self._reading.configuration
        assert configuration is not None
        backoff = Backoff(configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s)
        self._engine: Engine | None = Engine(self._reading.profiles, EngineSettings(backoff))
        self._feed = Feed(self._cluster)
        self._wake_s: float | None = None

    def close(self) -> None:
        """Check that the scheduler's view still adds up."""
        assert self._engine is not None
        check_invariants(self._engine.state)

    # --- requests ---

    def create(self, obj: Manifest) -> Manifest:
        return _json(self._cluster.create(_json(obj)))

    def find(self, kind: str, name: str) -> Manifest | None:
        found = self._cluster.store.find(kind, _namespace(kind), name)
        return None if found is None else _json(found)

    def list(self, kind: str) -> list[Manifest]:
        return [_json(obj) for obj in self._cluster.store.list(kind)]

    def patch(self, kind: str, name: str, patch: Manifest) -> None:
        if "status" in patch:
            self._cluster.store.patch_status(kind, _namespace(kind), name, patch["status"])
        else:
            self._cluster.patch(kind, _namespace(kind), name, patch)

    def delete(self, kind: str, name: str) -> None:
        self._cluster.delete(kind, _namespace(kind), name, grace_s=0)

    def bind(self, pod: str, node: str) -> None:
        self._cluster.store.bind("default", pod, "", node)

    def before_bind(self, pod: str, act: Callable[[], None]) -> None:
        self._acts[pod] = act

    @contextmanager
    def scheduler_away(self) -> Iterator[None]:
        self._engine = None
        yield
        self._start()

    # --- time ---

    def eventually(self, truth: Callable[[], object], what: str) -> None:
        end_s = self._cluster.now_s + PATIENCE_S
        self.settle()
        while not truth():
            assert self._advance(end_s), f"not within {PATIENCE_S} virtual seconds: {what}"

    def settle(self) -> None:
        """Decide, carry out and let everyone react until nobody has anything left to do at this moment."""
        assert self._engine is not None
        answers: list[Event] = []
        for _ in range(MOST_ROUNDS):
            self._cluster.step()
            seen = self._feed.pull()
            assert not self._feed.unreadable
            due = self._wake_s is not None and self._wake_s <= self._cluster.now_s
            if not (seen or answers or due):
                return
            commands, self._wake_s = self._engine.handle([*answers, *seen], self._cluster.now_s)
            answers = [answer for command in commands if (answer := self._carry_out(command)) is not None]
        raise AssertionError("the cluster does not come to rest")

    def hold(self, truth: Callable[[], object], what: str) -> None:
        end_s = self._cluster.now_s + HOLD_S
        self.settle()
        assert truth(), what
        while self._advance(end_s):
            assert truth(), what

    def _advance(self, end_s: float) -> bool:
        """Go on to the next moment at which something happens by itself; False if there is none."""
        times = [time for time in (self._wake_s, self._cluster.next_s) if time is not None]
        next_s = min(times, default=end_s)
        if next_s >= end_s:
            return False
        self._cluster.advance(max(next_s, self._cluster.now_s))
        self.settle()
        return True

    def _carry_out(self, command: Command) -> Event | None:
        act = self._acts.pop(command.pod.name, None) if isinstance(command, Bind) else None
        if act is not None:
            act()
        return self._runner.run(command)


def _namespace(kind: str) -> str:
    return "" if kind in ("Node", "PriorityClass") else "default"


def _json(obj: Any) -> Manifest:
    """A copy that nobody else holds, as it would have come over the network."""
    copy: Manifest = json.loads(json.dumps(obj))
    return copy
