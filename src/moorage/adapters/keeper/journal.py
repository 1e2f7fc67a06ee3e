"""The keeper's commands in words: one line each, for the log and for `--dry-run`."""

from __future__ import annotations

from moorage.core.commands import DeletePod, EvictPod, KeeperCommand, PatchNode, PatchObject, PatchPodStatus, PodRef
from moorage.engine.keeping import marks


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
            return f"remember that pod {_name(command.pod)} fell back from spot capacity"
    return ""


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
