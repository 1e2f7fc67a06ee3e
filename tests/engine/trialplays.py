"""An engine with a trial, and a cluster in which binds succeed unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.echo import answer_to
from moorage.core.events import (
    BindDone,
    BindOutcome,
    ConfigurationChanged,
    Event,
    NodeSeen,
    PodGone,
    PodSeen,
    TrialRecalled,
)
from moorage.core.pods import Pod, on_node
from moorage.core.trials import Side, TrialPhase, TrialRecord
from moorage.engine.engine import Engine
from moorage.engine.invariants import check_engine
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import ProfileConfiguration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.profiles import Profile
from moorage.framework.status import Reason, Rejections
from moorage.framework.trying import Limit, TrialConfiguration, TrialLimits, TrialPods
from moorage.testing import make_node, make_pod
from tests.engine.play import small_profile

STRICT = TrialLimits(4, 0.0, Limit(1.0, 2.0), Limit(1.0, 2.0), Limit(1.0, 2.0), Limit(2.0, 5.0))
"""Four pods are enough, and being worse once is enough."""


class Only(Plugin):
    """A filter that leaves one node, or none."""

    name: ClassVar[str] = "Only"
    reads: ClassVar[Reads] = Reads.NODE

    def __init__(self, node: str = "") -> None:
        super().__init__()
        self.node = node

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        codes = np.array([cycle.state.node(int(row)).name != self.node for row in rows], dtype=np.int64)
        return Rejections(codes, (Reason(f"not {self.node or 'any'}"),))


def trial(
    *plugins: Plugin,
    pods: TrialPods | None = None,
    duration_s: float = 3600.0,
    limits: TrialLimits = STRICT,
    profile: Profile | None = None,
    **terms: Any,
) -> TrialConfiguration:
    """A trial of the usual profile with further plugins, for the namespace `new` unless told otherwise."""
    built = profile or small_profile(*plugins)
    written = ProfileConfiguration(built.scheduler_name)
    name = terms.pop("name", "trial")
    return TrialConfiguration(
        name, pods or TrialPods(("new",)), duration_s, (written,), limits=limits, built=(built,), **terms
    )


class TrialPlay:
    """One engine; `recall` makes its trial begin."""

    def __init__(self, terms: TrialConfiguration | None, *plugins: Plugin, nodes: int = 2, cpu: str = "100") -> None:
        self.settings = EngineSettings(trial=terms)
        self.profiles: Sequence[Profile] = [small_profile(*plugins)]
        self.engine = Engine(self.profiles, self.settings)
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.bound: dict[str, str] = {}
        """Pod -> node, of all that were bound."""
        self.failing: set[str] = set()
        """Namespaces whose binds fail."""
        self.wakeup: float | None = None
        self.tell(*(NodeSeen(make_node(f"n{number}", cpu=cpu)) for number in range(nodes)))

    def tell(self, *events: Event, budget: int = 1 << 62) -> list[Command]:
        """Events, and everything that follows from them at this moment."""
        told: list[Command] = []
        waiting: list[Event] = list(events)
        for _ in range(50):
            for event in waiting:
                self._note(event)
            commands, self.wakeup = self.engine.handle(waiting, self.now, budget)
            told += commands
            check_engine(self.engine, self.pods.values())
            waiting = [answer for command in commands for answer in self._answers(command)]
            if not waiting:
                return told
        return told

    def recall(self, record: TrialRecord | None = None) -> None:
        self.tell(TrialRecalled(record))

    def reconfigure(self, terms: TrialConfiguration | None) -> None:
        self.settings = replace(self.settings, trial=terms)
        self.tell(ConfigurationChanged("", self.profiles, self.settings), *map(PodSeen, self.pods.values()))

    def create(self, namespace: str, names: Iterable[str], **pod: Any) -> list[Command]:
        made = [make_pod(name, namespace=namespace, created_s=self.now, **{"cpu": "1", **pod}) for name in names]
        return self.tell(*map(PodSeen, made))

    def wait(self, seconds: float) -> list[Command]:
        """Time passes, and the engine is called whenever it asks for it."""
        until, told = self.now + seconds, []
        while self.wakeup is not None and self.wakeup <= until:
            self.now = max(self.wakeup, self.now + 0.001)
            told += self.tell()
        self.now = max(self.now, until)
        return [*told, *self.tell()]

    def side(self, key: str) -> Side | None:
        return self.engine.sides.side_of(self.pods[key])

    def phase(self) -> TrialPhase:
        return self.record.phase

    @property
    def record(self) -> TrialRecord:
        found = self.engine.sides.snapshot(self.now)
        assert found is not None
        return found

    def _note(self, event: Event) -> None:
        if isinstance(event, PodSeen):
            self.pods[event.pod.uid] = event.pod
        elif isinstance(event, PodGone):
            self.pods.pop(event.uid, None)

    def _answers(self, command: Command) -> list[Event]:
        if isinstance(command, DeletePod):
            return [PodGone(command.pod.uid)]
        if not isinstance(command, Bind):
            answer = answer_to(command)
            return [] if answer is None else [answer]
        uid = command.pod.uid
        if command.pod.namespace in self.failing:
            return [BindDone(uid, BindOutcome.FAILED, command.node, "no")]
        self.bound[uid] = command.node
        return [BindDone(uid, BindOutcome.BOUND, command.node), PodSeen(on_node(self.pods[uid], command.node))]
