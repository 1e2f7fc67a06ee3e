"""What happened, derived from what goes into an engine or a keeper and what comes out of it.

`decided` reads commands, `bound` the answer to a bind. `Sightings` compares objects with their previous versions, for
readers that see no commands. All of them yield values of one table (`words`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.core.commands import (
    Bind,
    ClearNode,
    Command,
    DeletePod,
    EvictPod,
    KeeperCommand,
    PatchNode,
    PatchObject,
    PatchPodStatus,
    PodRef,
    RecordEvent,
)
from moorage.core.events import BindDone, BindOutcome
from moorage.core.nodes import Node
from moorage.core.objects import Workload
from moorage.core.pods import PREEMPTION, Pod
from moorage.engine.keeping import marks
from moorage.engine.keeping.deletion_costs import COST
from moorage.views.words import NODE, POD, Facts, Happening, HappeningKind

_WAITING = ("Unschedulable", "SchedulerError")
"""Reasons of the condition PodScheduled that come with a message of the scheduler."""


def about_pod(at_s: float, what: HappeningKind, pod: PodRef | Pod, facts: Facts) -> Happening:
    """Something happened to a pod."""
    return Happening(at_s, what, POD, pod.key, facts)


def about_node(at_s: float, what: HappeningKind, name: str, facts: Facts = {}) -> Happening:  # noqa: B006 - never changed
    """Something happened to a node."""
    return Happening(at_s, what, NODE, name, facts)


# What was decided


def decided(command: Command | KeeperCommand, now_s: float = 0.0) -> Iterator[Happening]:
    """What a command means; nothing for those that people need not see. Lines of a log have times of their own."""
    reader = _READERS.get(type(command))
    return iter(()) if reader is None else reader(command, now_s)


def bound(bind: Bind, answer: BindDone, now_s: float = 0.0) -> Happening:
    """How a bind ended."""
    if answer.outcome is BindOutcome.BOUND:
        return about_pod(now_s, HappeningKind.PLACED, bind.pod, _choice(bind))
    facts = {**_choice(bind), "outcome": answer.outcome.value, "message": answer.message}
    return about_pod(now_s, HappeningKind.UNBOUND, bind.pod, facts)


def confirmed(bind: Bind, now_s: float = 0.0) -> Happening:
    """The API server has accepted a bind."""
    return about_pod(now_s, HappeningKind.CONFIRMED, bind.pod, {"uid": bind.pod.uid})


def _choice(bind: Bind) -> Facts:
    return {"node": bind.node, "feasible": bind.feasible, "nodes": bind.evaluated}


def _bind(command: Bind, now_s: float) -> Iterator[Happening]:
    yield about_pod(now_s, HappeningKind.ATTEMPTED, command.pod, _choice(command))


def _event(command: RecordEvent, now_s: float) -> Iterator[Happening]:
    if command.reason == "FailedScheduling":
        yield about_pod(now_s, HappeningKind.FAILED, command.pod, {"message": command.note})
    elif command.reason == "Preempted" and command.related is not None:
        yield about_pod(now_s, HappeningKind.PREEMPTS, command.related, {"victim": command.pod.name})


def _delete(command: DeletePod, now_s: float) -> Iterator[Happening]:
    preemptor = "" if command.preemptor is None else command.preemptor.key
    facts = {"preemptor": preemptor, "reason": command.reason, "message": command.message}
    yield about_pod(now_s, HappeningKind.EVICTS, command.pod, facts)


def _status(command: PatchPodStatus, now_s: float) -> Iterator[Happening]:
    if command.nominated_node:
        yield about_pod(now_s, HappeningKind.NOMINATED, command.pod, {"node": command.nominated_node})
    condition = command.condition
    if condition is not None and condition.type == "PodScheduled" and condition.status == "False":
        yield about_pod(now_s, HappeningKind.WAITS, command.pod, {"message": condition.message})


def _evict(command: EvictPod, now_s: float) -> Iterator[Happening]:
    facts = {"node": command.node, "cause": command.cause, "place": command.place}
    yield about_pod(now_s, HappeningKind.MOVES, command.pod, facts)


def _node(command: PatchNode, now_s: float) -> Iterator[Happening]:
    notice, repack = command.annotations.get(marks.NOTICE), command.annotations.get(marks.REPACK)
    facts: dict[str, Any] = {"node": command.node}
    if repack:
        what = HappeningKind.CLOSES
        facts |= {"why": repack}
    elif marks.REPACK in command.annotations:
        what = HappeningKind.OPENS
    elif notice:
        what = HappeningKind.CORDONS if command.unschedulable else HappeningKind.MARKS
        facts |= {"notice": notice, "until": command.annotations.get(marks.UNTIL)}
    else:
        what = HappeningKind.FREES if command.unschedulable is False else HappeningKind.UNMARKS
    yield about_node(now_s, what, command.node, facts)


def _object(command: PatchObject, now_s: float) -> Iterator[Happening]:
    annotations = command.patch.get("metadata", {}).get("annotations", {})
    if COST in annotations:
        yield about_pod(now_s, HappeningKind.COSTS, command.pod, {"cost": annotations[COST]})
    elif marks.FALLBACK in annotations:
        yield about_pod(now_s, HappeningKind.REMEMBERS, command.pod, {})
    elif command.subresource == "status":
        yield Happening(now_s, HappeningKind.REPORTS, command.kind, f"{command.namespace}/{command.name}")


def _clear(command: ClearNode, now_s: float) -> Iterator[Happening]:
    pods = ", ".join(pod.key for pod in command.pods)
    yield about_node(now_s, HappeningKind.CLEARS, command.node, {"pods": pods})


_READERS: Mapping[type, Callable[[Any, float], Iterator[Happening]]] = {
    Bind: _bind,
    RecordEvent: _event,
    DeletePod: _delete,
    PatchPodStatus: _status,
    EvictPod: _evict,
    PatchNode: _node,
    PatchObject: _object,
    ClearNode: _clear,
}


def ordered(command: KeeperCommand) -> str:
    """What a command of the keeper does, in one line; empty for what needs no words."""
    return next((each.order for each in decided(command) if each.order), "")


# What was seen


class Sightings:
    """Finds out what happened by comparing objects with their previous versions.

    What exists at the start is not news, so nothing is yielded before `settled`.
    """

    def __init__(self, *, settled: bool = False) -> None:
        self.settled = settled

    def pod(self, before: Pod | None, pod: Pod, now_s: float) -> Iterator[Happening]:
        """A pod was added or changed."""
        if not self.settled:
            return
        if pod.node is not None and (before is None or before.node is None):
            yield about_pod(now_s, HappeningKind.PLACED, pod, {"node": pod.node})
        said = _waits(pod)
        if said and said != _waits(before):
            yield about_pod(now_s, HappeningKind.WAITS, pod, {"message": said})
        if before is not None:
            yield from _phase(before, pod, now_s)
            if pod.deleted_s is not None and before.deleted_s is None:
                yield from ending(pod, now_s)

    def pod_gone(self, before: Pod, now_s: float) -> Iterator[Happening]:
        """A pod is gone."""
        if self.settled and before.deleted_s is None:
            yield from ending(before, now_s)

    def node(self, before: Node | None, node: Node, now_s: float) -> Iterator[Happening]:
        """A node was added or changed."""
        if not self.settled:
            return
        if before is None:
            yield about_node(now_s, HappeningKind.JOINED, node.name)
            return
        if before.unschedulable != node.unschedulable:
            yield about_node(
                now_s, HappeningKind.CORDONED if node.unschedulable else HappeningKind.UNCORDONED, node.name
            )
        if before.ready != node.ready:
            yield about_node(now_s, HappeningKind.READY if node.ready else HappeningKind.NOT_READY, node.name)

    def node_gone(self, name: str, now_s: float) -> Iterator[Happening]:
        """A node is gone."""
        if self.settled:
            yield about_node(now_s, HappeningKind.LEFT, name)


def _waits(pod: Pod | None) -> str:
    """Why a pod has no node, as its scheduler says."""
    condition = None if pod is None or pod.node is not None else pod.scheduled_condition
    return condition.message if condition is not None and condition.reason in _WAITING else ""


def _phase(before: Pod, pod: Pod, now_s: float) -> Iterator[Happening]:
    if pod.phase == before.phase or pod.deleted_s is not None:
        return
    if pod.phase == "Running":
        yield about_pod(now_s, HappeningKind.RUNNING, pod, {"node": pod.node})
    elif pod.finished:
        yield about_pod(now_s, HappeningKind.FINISHED, pod, {"node": pod.node, "phase": pod.phase})


def ending(pod: Pod, now_s: float, reason: str = "") -> Iterator[Happening]:
    """A pod is deleted; `reason` is that of its condition DisruptionTarget, where it is known."""
    reason = reason or (PREEMPTION if pod.preempted else "")
    facts = {"reason": reason} if reason else {}
    place = {"node": pod.node} if pod.node else {}
    if reason or not pod.finished:
        yield about_pod(now_s, HappeningKind.EVICTED if reason else HappeningKind.REMOVED, pod, {**facts, **place})


def completion(before: Workload | None, job: Workload, now_s: float) -> Iterator[Happening]:
    """A Job has finished with all its completions."""
    known = before is not None and before.finished
    if job.finished and not known and job.succeeded >= (job.completions or 1):
        yield Happening(now_s, HappeningKind.COMPLETE, job.kind, job.key, {"succeeded": job.succeeded})
