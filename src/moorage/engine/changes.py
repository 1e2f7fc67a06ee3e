"""What observed changes can mean for waiting pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.nodes import Node
from moorage.core.podclaims import gives_back
from moorage.core.pods import Pod
from moorage.core.state import PodMove
from moorage.engine.failures import EXTENDER, NO_DOMAIN, NO_NODES
from moorage.engine.faults import Faults
from moorage.engine.units import QueuedPod, Unit
from moorage.framework.changes import Change, What
from moorage.framework.runner import Runner
from moorage.framework.status import Status


def node_change(before: Node | None, after: Node, *, devices: bool = False) -> Change | None:
    """What a new version of a node changes for placement, its shared devices perhaps; None if nothing."""
    if before is None:
        return Change(What.NODE_ADDED, node=after)
    what = What(0)
    if devices or before.allocatable != after.allocatable:
        what |= What.NODE_ALLOCATABLE
    if before.labels != after.labels:
        what |= What.NODE_LABELS
    if before.taints != after.taints or before.unschedulable != after.unschedulable:
        what |= What.NODE_TAINTS
    if (before.images, before.features, before.annotations) != (after.images, after.features, after.annotations):
        what |= What.NODE_OTHER
    return Change(what, node=after) if what else None


def object_change(kind: str, key: str, before: Any, after: Any, *, freed: bool = False) -> Change:
    """What a new version of another object, or its end, changes; `freed` if a write to a claim has come to nothing."""
    frees = kind == RESOURCE_CLAIM and (freed or gives_back(before, after))
    return Change(What.OBJECT, kind=kind, key=key, frees=frees, added=before is None, gone=after is None)


MOVES = {
    PodMove.ADDED: What.POD_ADDED,
    PodMove.MOVED: What.POD_ADDED,
    PodMove.REMOVED: What.POD_REMOVED,
    PodMove.UPDATED: What.POD_UPDATED,
}
"""What a pod's move means for waiting pods."""


STAND_INS = {NO_NODES: What.NODE_ADDED, NO_DOMAIN: What.NODE_ADDED | What.NODE_LABELS, EXTENDER: What.ANY}
"""Names used in place of a plugin -> the kinds of change that can help."""


def wakers_of(runners: Iterable[Runner], what: What, kind: str) -> list[str]:
    """The plugins whose rejections a change of this kind can help; `kind` is that of an object, else empty."""
    found = dict.fromkeys(name for name, wakes in STAND_INS.items() if wakes & what)
    for runner in runners:
        plugins = (plugin for plugin in runner.plugins.all if plugin.wakes & what)
        found |= dict.fromkeys(plugin.name for plugin in plugins if not kind or kind in plugin.kinds)
    return [*found]


def helps(plugin_name: str, pod: Pod, change: Change, runner: Runner | None, faults: Faults) -> bool:
    """Whether a change may help a waiting pod that a plugin rejected; `runner` is the pod's, None if it has none."""
    if change.pod is not None and change.pod.uid == pod.uid and change.what != What.SELF:
        return False  # the result of its own attempt is not news
    if plugin_name in STAND_INS or runner is None:
        return bool(change.what & STAND_INS.get(plugin_name, What.NODE_ADDED))
    plugin = runner.plugins.get(plugin_name)
    if plugin is None or not int(plugin.wakes) & int(change.what):  # flags are slow, and this runs for all waiting pods
        return False
    if change.what == What.OBJECT and change.kind not in plugin.kinds:
        return False
    answer = faults.ask(plugin, plugin.helps, pod.template, change)
    return isinstance(answer, Status) or bool(answer)


def helps_unit(
    plugin_name: str, unit: Unit, change: Change, runner_of: Callable[[Pod], Runner | None], faults: Faults
) -> bool:
    """The same for a unit: a gang may be helped if any of its members may, unless the change is one of their own."""
    if unit.gang is None:
        return helps(plugin_name, unit.pod, change, runner_of(unit.pod), faults)
    own = change.pod is not None and change.pod.uid in unit.members
    pods = () if own else _one_of_each(unit.members.values())
    return any(helps(plugin_name, pod, change, runner_of(pod), faults) for pod in pods)


def _one_of_each(entries: Iterable[QueuedPod]) -> Iterable[Pod]:
    """One pod of each template. Equal templates are usually one object; a second one costs only time."""
    return {id(entry.pod.template): entry.pod for entry in entries}.values()
