"""Commands answered without a cluster, as if each had been carried out at once.

`answer_to` gives the answer alone: a dry run hears it, and its watch goes on showing what is true. `Echo` adds what the
watch of a cluster would show next, for replays, benchmarks and tests: a bound pod on its node, a deleted one gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import overload

from moorage.core.assignments import Assignment
from moorage.core.commands import (
    Bind,
    Command,
    DeletePod,
    EvictPod,
    KeeperCommand,
    PatchNode,
    PatchObject,
    PatchPodStatus,
    ReleaseCapacity,
    RequestCapacity,
)
from moorage.core.events import (
    BindDone,
    BindOutcome,
    CapacityDone,
    DeleteDone,
    Event,
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodePatched,
    PatchDone,
    PodGone,
    PodSeen,
    StatusDone,
)
from moorage.core.pods import Pod
from moorage.core.sharewriting import taken_devices
from moorage.core.values import copier

_on_node: Callable[[Pod, str, str | None, tuple[int, ...], Assignment | None], Pod] = copier(
    Pod, "node", "nominated_node", "devices", "assigned"
)


@overload
def answer_to(command: Bind) -> BindDone: ...


@overload
def answer_to(command: Command) -> Event | None: ...


@overload
def answer_to(command: KeeperCommand) -> KeeperEvent | None: ...


def answer_to(command: Command | KeeperCommand) -> KeeperEvent | None:
    """That the command was carried out; None for commands without an answer, and for calls to extenders."""
    match command:
        case Bind():
            return BindDone(command.pod.uid, BindOutcome.BOUND, command.node)
        case DeletePod():
            return DeleteDone(command.pod.uid, ok=True)
        case PatchPodStatus() if command.token:
            return StatusDone(command.pod.uid, ok=True, token=command.token)
        case PatchObject():
            return PatchDone(command, ok=True)
        case RequestCapacity() | ReleaseCapacity():
            return CapacityDone(command.gang, ok=True)
        case EvictPod():
            return EvictDone(command.pod.uid, EvictOutcome.EVICTED)
        case PatchNode():
            return NodePatched(command, ok=True)
    return None


def with_status(pod: Pod, command: PatchPodStatus) -> Pod:
    """The pod with what the command writes."""
    condition, nominated = command.condition, command.nominated_node
    if command.gang_record is not None:
        pod = replace(pod, gang_record=command.gang_record)
    elif condition is not None:
        pod = replace(pod, scheduled_condition=condition)
    return pod if nominated is None else replace(pod, nominated_node=nominated or None)


class Echo:
    """The pods of a cluster in which every command succeeds. A pod that is not in `pods` is answered for, not shown."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.pods: dict[str, Pod] = {pod.uid: pod for pod in pods}
        """Uid -> the pod as it was last shown; deleted ones stay."""

    def events(self, commands: Iterable[Command]) -> list[Event]:
        """The answers to the commands, each followed by what the watch shows of it."""
        found: list[Event] = []
        for command in commands:
            answer = answer_to(command)
            if answer is not None:
                found.append(answer)
            found += self._shown(command)
        return found

    def _shown(self, command: Command) -> list[Event]:
        uid = command.pod.uid
        if isinstance(command, DeletePod):
            return [PodGone(uid)]
        pod = self.pods.get(uid)
        if pod is None or not isinstance(command, Bind | PatchPodStatus):
            return []
        if isinstance(command, Bind):
            devices = taken_devices(command.annotations) if command.annotations else ()
            pod = _on_node(pod, command.node, None, devices, command.assigned)
        else:
            pod = with_status(pod, command)
        self.pods[uid] = pod
        return [PodSeen(pod)]
