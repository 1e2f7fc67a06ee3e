"""An engine with the outside world played by hand: events go in, commands are looked at, time is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from moorage.core.commands import AskExtenders, AskPreemption, Bind, Command, DeletePod, PatchPodStatus, RecordEvent
from moorage.core.events import (
    BindDone,
    BindOutcome,
    Event,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
    StatusDone,
)
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.engine import Engine
from moorage.engine.invariants import check_engine
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import Profile
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.plugins.taint_toleration import TaintToleration
from tests.framework.readers import make_profile

SCHEDULER = "default-scheduler"
C = TypeVar("C", bound=Command)


def small_profile(*plugins: Plugin, scheduler_name: str = SCHEDULER) -> Profile:
    """Enough built-in plugins for a scheduler, and these."""
    built_in = (SchedulingGates(), PrioritySort(), TaintToleration(), NodeResourcesFit())
    return make_profile([*built_in, *plugins, DefaultBinder()], scheduler_name=scheduler_name)


class Play:
    """One engine, the pods that exist, the time, and what the last call returned."""

    def __init__(self, *plugins: Plugin, profiles: Iterable[Profile] = (), seed: int = 0, **engine: Any) -> None:
        settings = EngineSettings(Backoff(), seed)
        self.engine = Engine(list(profiles) or [small_profile(*plugins)], settings, **engine)
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.commands: list[Command] = []
        self.asked: dict[str, int] = {}
        """Pod -> token of the latest question about it."""
        self.records: dict[str, PatchPodStatus] = {}
        """Pod -> the latest record of a gang's start that was ordered on it."""
        self.wakeup: float | None = None

    # --- what happens ---

    def handle(self, *events: Event, at: float | None = None, budget: int = 1 << 62) -> list[Command]:
        """One call of the engine."""
        self.now = self.now if at is None else at
        for event in events:
            if isinstance(event, PodSeen):
                self.pods[event.pod.uid] = event.pod
            elif isinstance(event, PodGone):
                self.pods.pop(event.uid, None)
        self.commands, self.wakeup = self.engine.handle(events, self.now, budget)
        self.asked |= {ask.pod.uid: ask.token for ask in self.commands if isinstance(ask, AskExtenders | AskPreemption)}
        self.records |= {patch.pod.uid: patch for patch in self.patches if patch.token}
        self.check()
        return self.commands

    def see(self, *things: Node | Pod, at: float | None = None, budget: int = 1 << 62) -> list[Command]:
        """Nodes and pods were added or changed, in this order."""
        events: list[Event] = [PodSeen(each) if isinstance(each, Pod) else NodeSeen(each) for each in things]
        return self.handle(*events, at=at, budget=budget)

    def wait(self, seconds: float) -> list[Command]:
        """Time passes, and the engine is called again."""
        return self.handle(at=self.now + seconds)

    def node_gone(self, name: str) -> list[Command]:
        return self.handle(NodeGone(name))

    def pod_gone(self, name: str) -> list[Command]:
        return self.handle(PodGone(f"default/{name}"))

    def object_seen(self, kind: str, key: str, value: object = None) -> list[Command]:
        return self.handle(ObjectSeen(kind, key, value))

    def confirm(self, name: str, node: str | None = None) -> list[Command]:
        """The watch shows the pod on its node."""
        pod = self.pods[f"default/{name}"]
        return self.see(replace(pod, node=node or self.node_of(name), phase="Running"))

    def answer(self, name: str, outcome: BindOutcome, node: str | None = None, message: str = "") -> list[Command]:
        """The bind was answered."""
        return self.handle(BindDone(f"default/{name}", outcome, node, message))

    def recorder(self) -> str:
        """The uid of the pod on which the last call recorded the start of a gang."""
        [patch] = [patch for patch in self.patches if patch.token]
        assert patch.gang_record is not None
        assert not patch.gang_record.done
        return patch.pod.uid

    def recorded(self, uid: str | None = None, *, ok: bool = True, message: str = "") -> list[Command]:
        """The start of a gang was put on record, that of the last call unless the pod is named; or could not be."""
        patch = self.records[uid or self.recorder()]
        return self.handle(StatusDone(patch.pod.uid, ok, message, patch.token))

    def bound(self, name: str) -> list[Command]:
        return self.answer(name, BindOutcome.BOUND, self.node_of(name))

    # --- what came of it ---

    def of(self, kind: type[C]) -> list[C]:
        """The last call's commands of one kind."""
        return [command for command in self.commands if isinstance(command, kind)]

    @property
    def binds(self) -> dict[str, str]:
        """Pod -> node, of the last call."""
        return {command.pod.name: command.node for command in self.of(Bind)}

    @property
    def patches(self) -> list[PatchPodStatus]:
        return self.of(PatchPodStatus)

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """(pod, reason) of the Kubernetes events of the last call."""
        return [(command.pod.name, command.reason) for command in self.of(RecordEvent)]

    @property
    def deletions(self) -> list[str]:
        return [command.pod.name for command in self.of(DeletePod)]

    def note(self, name: str) -> str:
        """The text of the last Kubernetes event about a pod."""
        return [command.note for command in self.of(RecordEvent) if command.pod.name == name][-1]

    def place(self, name: str) -> Place | None:
        """Where in the queue a pod is."""
        entry = self.engine.queue.get(f"default/{name}")
        return None if entry is None else entry.place

    def node_of(self, name: str) -> str | None:
        """Where a pod stands, assumed or not."""
        record = self.engine.state.record(f"default/{name}")
        return None if record is None else record.node

    def used_cpu(self, node: str) -> int:
        """Milli-cpu that is requested on a node."""
        row = self.engine.state.row_of(node)
        assert row is not None
        return int(self.engine.state.resources.requested[0, row])

    def check(self) -> None:
        """Nothing is broken and nobody is lost."""
        check_engine(self.engine, self.pods.values())
