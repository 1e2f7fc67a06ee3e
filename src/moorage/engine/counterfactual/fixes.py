"""What would have to change for one plugin to accept one node: a table of plugin -> ways out.

A fix is row-specific and minimal: the value is computed from the row, or found by asking the filters about this row
with the pod changed. Whether it is enough is for the trial to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from moorage.core.annotations import MIN_HOSTS, ON_DEMAND_BASE
from moorage.core.columns import PODS_COLUMN
from moorage.core.controllers import controller_of
from moorage.core.edits import (
    AddClaim,
    Annotate,
    DropAnnotations,
    DropDevices,
    DropHostPort,
    DropLabel,
    DropTaint,
    DropVolume,
    Edit,
    Edits,
    LowerRequest,
    Tolerate,
    Uncordon,
)
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.core.strategies import policy_of
from moorage.core.strategy import STRATEGY_ANNOTATIONS
from moorage.core.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT_KEY, Taint, is_tolerated
from moorage.engine.counterfactual.relations import pod_rule_fixes, spread_fixes
from moorage.engine.counterfactual.scene import Scene, lowering_cost
from moorage.engine.counterfactual.selection import selection_fixes

TROUBLE = "node.kubernetes.io/"
"""How the keys of taints begin that say that something is wrong with a node at present."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that go together, and how much they ask for; smaller is better."""

    edits: Edits
    cost: float


Fixer: TypeAlias = Callable[[Scene, Pod, int], Iterable[Fix]]


def fixes_for(plugin: str, scene: Scene, pod: Pod, row: int) -> list[Fix]:
    """The ways to make a plugin accept a row; none for plugins that nobody here knows."""
    fixer = _FIXERS.get(plugin)
    return [] if fixer is None else list(fixer(scene, pod, row))


def one_of_each(plugins: Iterable[str]) -> list[str]:
    """The plugins without those that have the same ways out as an earlier one; in the order of their names."""
    found = {_FIXERS.get(name, name): name for name in sorted(plugins, reverse=True)}
    return sorted(found.values())


# --- amounts ---


def _requests(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:
    edits: list[Edit] = []
    cost = 0.0
    resources = scene.state.resources
    if resources.allocatable[PODS_COLUMN, row] <= resources.requested[PODS_COLUMN, row]:
        return
    for name, amount in pod.template.requests.amounts:
        column = resources.known(name)
        free = 0 if column is None else int(resources.allocatable[column, row] - resources.requested[column, row])
        if free < amount:
            edits.append(LowerRequest(name, max(0, free)))
            cost += lowering_cost(amount, max(0, free))
    if edits:
        yield Fix(tuple(edits), cost)


# --- what the node says ---


def missing_taints(state: ClusterState, template: PodTemplate, row: int) -> list[Taint]:
    """The taints of a row that keep such a pod off."""
    return [
        taint
        for taint in state.node(row).taints
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not is_tolerated(taint, template.tolerations)
    ]


def _taints(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:
    node = scene.state.node(row)
    missing = missing_taints(scene.state, pod.template, row)
    if node.unschedulable:
        # Being cordoned shows as a taint too, and goes with it.
        rest = [taint for taint in missing if taint.key != UNSCHEDULABLE_TAINT_KEY]
        if len(rest) < len(missing):
            yield Fix((Uncordon(node.name), *map(Tolerate, rest)), 1.5 + _taint_cost(rest))
    yield Fix(tuple(map(Tolerate, missing)), _taint_cost(missing))
    yield Fix(tuple(DropTaint(node.name, taint) for taint in missing), _taint_cost(missing) + 1.5)


def _taint_cost(taints: Iterable[Taint]) -> float:
    return sum(6.0 if taint.key.startswith(TROUBLE) else 2.0 for taint in taints)


def _cordoned(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    yield Fix((Uncordon(scene.state.node(row).name),), 1.5)


def _ports(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:
    ports = pod.template.host_ports
    for port in ports:
        left = tuple(each for each in ports if each != port)
        if len(ports) > 1 and scene.accepts("NodePorts", replace(pod.template, host_ports=left), row):
            yield Fix((DropHostPort(port),), 2.5)
    yield Fix(tuple(map(DropHostPort, ports)), 2.5 * len(ports))


# --- storage and devices ---


def _volumes(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    template, state = pod.template, scene.state
    missing = [
        volume.claim
        for volume in template.volumes
        if volume.claim is not None
        and not volume.ephemeral
        and state.volumes.raw_claim(f"{template.namespace}/{volume.claim}") is None
    ]
    classes = sorted(each.name for each in state.objects.get("StorageClass", {}).values() if each.wait_for_consumer)
    if missing and classes:
        yield Fix(tuple(AddClaim(template.namespace, name, classes[0]) for name in missing), 2.0 * len(missing))
    for volume in template.volumes:
        yield Fix((DropVolume(volume),), 7.0)
    if len(template.volumes) > 1:
        yield Fix(tuple(map(DropVolume, template.volumes)), 7.0 * len(template.volumes))


def _devices(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    if pod.template.claims:
        yield Fix((DropDevices(),), 7.0)


# --- what the controller says ---


def _hosts(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    """As many hosts as the controller's pods have got already."""
    controller = controller_of(scene.state, pod.template)
    if controller is None:
        return
    places = max(1, scene.state.owner_rows(pod.template).places)
    key = next((key for key in MIN_HOSTS if key in controller.annotations), MIN_HOSTS[0])
    edit = Annotate(controller.kind, pod.namespace, controller.name, key, str(places))
    yield Fix((edit,), 2.0)


def _on_demand(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    controller = controller_of(scene.state, pod.template)
    if controller is not None:
        yield Fix((Annotate(controller.kind, pod.namespace, controller.name, ON_DEMAND_BASE[0], "0"),), 3.0)


def _strategy(scene: Scene, pod: Pod, row: int) -> Iterator[Fix]:  # noqa: ARG001 - a `Fixer`
    own = tuple(key for key in STRATEGY_ANNOTATIONS if key in pod.template.annotations)
    if own:
        yield Fix((DropAnnotations(own),), 4.0)
    controller = controller_of(scene.state, pod.template)
    if controller is not None:
        said = [key for key in STRATEGY_ANNOTATIONS if key in controller.annotations]
        for key in said[:1]:
            yield Fix((Annotate(controller.kind, pod.namespace, controller.name, key, None),), 4.0)
    policy = policy_of(scene.state, pod.template)
    for key in () if policy is None else dict.fromkeys(each.key for each in policy.selector.requirements):
        yield Fix((DropLabel(key),), 5.0)


def _plain(fixer: Callable[[Scene, Pod, int], Iterable[tuple[Edits, float]]]) -> Fixer:
    return lambda scene, pod, row: (Fix(edits, cost) for edits, cost in fixer(scene, pod, row))


_FIXERS: dict[str, Fixer] = {
    "NodeResourcesFit": _requests,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordoned,
    "NodePorts": _ports,
    "NodeAffinity": _plain(selection_fixes),
    "InterPodAffinity": _plain(pod_rule_fixes),
    "PodTopologySpread": _plain(spread_fixes),
    "VolumeBinding": _volumes,
    "VolumeZone": _volumes,
    "VolumeRestrictions": _volumes,
    "NodeVolumeLimits": _volumes,
    "DynamicResources": _devices,
    "ControllerSpread": _hosts,
    "SpotPlacement": _on_demand,
    "PlacementStrategy": _strategy,
}
"""Plugin -> its ways out."""
