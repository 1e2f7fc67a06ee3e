"""The keeper's commands in words: one line each, for the log and for `--dry-run`."""

from __future__ import annotations

from moorage.core.commands import (
    ClearNode,
    DeletePod,
    EvictPod,
    KeeperCommand,
    PatchNode,
    PatchObject,
    PatchPodStatus,
    PodRef,
)
from moorage.engine.keeping import marks
from moorage.engine.keeping.deletion_costs import COST


def sentence(command: KeeperCommand) -> str:
    """What the command does; empty for what needs no words."""
    match command:
        case PatchNode():
            return _about_node(command)
        case EvictPod():
            place = f"there is room on node {command.place}" if command.place else "no node has room for its successor"
            return f"evict pod {_name(command.pod)} from node {command.node} ({command.cause}); {place}"
        case DeletePod():
            return f"delete pod {_name(command.pod)} although a budget covers it: {command.message}"
        case PatchPodStatus():
            return f"promise node {command.nominated_node} to pod {_name(command.pod)}"
        case PatchObject():
            return _about_object(command)
        case ClearNode():
            names = ", ".join(map(_name, command.pods))
            return f"delete what node {command.node} left if a read says that it is gone: {names}"
    return ""


def _about_object(command: PatchObject) -> str:
    name = _name(command.pod)
    if command.kind != "Pod":
        return f"write the status of {command.kind} {name}"
    annotations = command.patch.get("metadata", {}).get("annotations", {})
    if COST not in annotations:
        return f"remember that pod {name} fell back from spot capacity"
    cost = annotations[COST]
    return f"give pod {name} no deletion cost" if cost is None else f"give pod {name} the deletion cost {cost}"


def _about_node(command: PatchNode) -> str:
    notice = command.annotations.get(marks.NOTICE)
    if notice:
        until = command.annotations.get(marks.UNTIL)
        deed = "cordon node" if command.unschedulable else "mark node"
        return f"{deed} {command.node}: it is about to go, {until} at the latest ({notice})"
    deed = "uncordon node" if command.unschedulable is False else "unmark node"
    return f"{deed} {command.node}: it stays after all"


def _name(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"
