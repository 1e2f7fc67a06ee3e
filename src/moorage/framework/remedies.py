"""What would help a pod that a plugin rejects: remedies, which the plugin itself suggests.

A plugin that has `remedies` is asked about one row at a time. A remedy is made of edits (`core.edits`): of the pod, of
the node, of the pod's controller. It should be minimal for that row; `Rejected.accepts` says whether the plugin would
accept a changed pod. Whether a remedy is enough is not for the plugin to say: the engine tries each of them, alone and
together with those of other plugins, with every filter of the profile, and suggests only what works
(`engine.counterfactual`).

Costs are compared between plugins, so they follow one scale: about 1 for lowering a request a little, 2 for an
annotation or a toleration, 3 for a node's label, 4 for giving up a rule of the pod, 7 for giving up a volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moorage.core.edits import AddClaim, DropVolume, Edits
from moorage.core.pods import Pod, PodTemplate, named_claims
from moorage.core.state import ClusterState
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Remedy:
    """Edits that go together, and how much they ask for; smaller is better."""

    edits: Edits
    cost: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """A pod that the plugin rejects on one row."""

    state: ClusterState
    pod: Pod
    row: int
    accepts: Callable[[PodTemplate], bool]
    """Whether the plugin would accept a pod with this template on the row, as things stand."""


def lowering_cost(before: int, after: int) -> float:
    """The cost of lowering a request; one that is lowered to nothing changes the pod most."""
    return 1.0 + 4.0 * (before - after) / before + (0.0 if after else 3.0)


def least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """The smallest sufficient number in low..high. `high` suffices, and so does every number above one that does."""
    step = 1
    while low + step - 1 < high and not enough(low + step - 1):
        low, step = low + step, step * 2
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def volume_remedies(plugin: object, rejected: Rejected) -> Iterator[Remedy]:  # noqa: ARG001 - a method of plugins
    """The `remedies` of every plugin that reads volumes: create the missing claims, or give up a volume."""
    template, state = rejected.pod.template, rejected.state
    known = state.volumes.raw_claim
    missing = [name for name in named_claims(template) if known(f"{template.namespace}/{name}") is None]
    classes = sorted(each.name for each in state.objects.get("StorageClass", {}).values() if each.wait_for_consumer)
    if missing and classes:
        yield Remedy(tuple(AddClaim(template.namespace, name, classes[0]) for name in missing), 2.0 * len(missing))
    for volume in template.volumes:
        yield Remedy((DropVolume(volume),), 7.0)
    if len(template.volumes) > 1:
        yield Remedy(tuple(map(DropVolume, template.volumes)), 7.0 * len(template.volumes))
