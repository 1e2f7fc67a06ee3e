"""DynamicResources, in part: device claims that are allocated are honoured, others keep their pod pending.

A pod goes only where the devices of all its claims can be used, and is added to `reservedFor` of the claims before it
is bound. A claim that is not allocated yet would have to be allocated here; until that is built, such a pod is never
bound, since its containers could not start. The same holds for an extended resource that is backed by a DeviceClass,
but only on nodes that do not offer it themselves: where a device plugin offers it, the kubelet allocates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.claims import IMPLICIT_EXTENDED_RESOURCE, DeviceClass, ResourceClaim
from moorage.core.commands import PatchObject, PodRef
from moorage.core.durations import parse_duration
from moorage.core.edits import DropDevices
from moorage.core.frozen import FrozenDict
from moorage.core.nodeterms import any_term
from moorage.core.pods import UNRESOLVED_CLAIM, Pod, PodTemplate
from moorage.core.resourcenames import is_extended_resource
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import MAX_REASONS, SKIP, Code, Hold, Reason, Rejections, Status, unresolvable

CLAIM, DEVICE_CLASS = "ResourceClaim", "DeviceClass"
_WAITS = "DynamicResources/deadline"
_ELSEWHERE = Reason("resourceclaim not available on the node", resolvable=False)


class _Wanted(NamedTuple):
    """What a pod needs of devices."""

    claims: tuple[ResourceClaim, ...]
    backed: dict[str, Reason]
    """Extended resource that is backed by a DeviceClass -> why a node without it is rejected."""


def _seconds(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("must be a duration in quotes, such as 10s or 1m30s")  # noqa: TRY004 - pydantic's way
    return parse_duration(value)


class DynamicResourcesArgs(PluginArgs):
    """How long allocating may take on one node, and how long PreBind waits for claims."""

    filter_timeout: Annotated[float, BeforeValidator(_seconds), Field(ge=0.0)] = 10.0
    binding_timeout: Annotated[float, BeforeValidator(_seconds), Field(ge=1.0)] = 600.0


class DynamicResources(Plugin):
    """Keeps pods with device claims on nodes that can use the devices."""

    name: ClassVar[str] = "DynamicResources"
    Args: ClassVar[type[PluginArgs]] = DynamicResourcesArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_ALLOCATABLE | What.NODE_LABELS | What.OBJECT | What.SELF
    kinds: ClassVar[frozenset[str]] = frozenset({CLAIM, DEVICE_CLASS})
    keeps: ClassVar[Mapping[str, Any]] = {_WAITS: float}

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        self.args: DynamicResourcesArgs = args or DynamicResourcesArgs()

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Pods with claims, and those that request resources that a DeviceClass might back."""
        if template.claims:
            return True
        return bool(state.objects.get(DEVICE_CLASS)) and any(map(_may_be_devices, dict(template.requests.amounts)))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """Of claims only the pod's own matter."""
        if change.kind != CLAIM:
            return True
        return any(f"{template.namespace}/{name}" == change.key for name in template.claims)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse pods whose claims are missing, being deleted or not allocated, or whose devices no node offers."""
        claims = []
        for name in cycle.template.claims:
            claim: ResourceClaim | None = cycle.state.object(CLAIM, f"{cycle.template.namespace}/{name}")
            problem = _problem(cycle.pod, name, claim)
            if claim is None or problem is not None:
                return unresolvable(problem or "")
            claims.append(claim)
        wanted = cycle.memo[self.name] = _Wanted(tuple(claims), _backed(cycle))
        for name, reason in wanted.backed.items():
            if not _offered(cycle.state, name, cycle.state.rows()).any():
                return unresolvable(reason.text)
        return None if wanted.claims or wanted.backed else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows where the devices of a claim cannot be used, or would have to be allocated for a resource."""
        wanted: _Wanted | None = cycle.memo.get(self.name)
        if wanted is None:
            return None
        bits: Ints = np.zeros(len(rows), dtype=np.int64)
        for claim in wanted.claims:
            if claim.allocation is not None and claim.allocation.node_terms is not None:
                bits[~any_term(cycle.state, claim.allocation.node_terms, rows)] = 1
        for number, name in enumerate(wanted.backed, start=1):
            bits[~_offered(cycle.state, name, rows)] |= 1 << number
        return Rejections(bits, (_ELSEWHERE, *wanted.backed.values())) if bits.any() else None

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Give up the devices."""
        if rejected.pod.template.claims:
            yield Remedy((DropDevices(),), 7.0)

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> Status | None:  # noqa: ARG002
        """Nothing to deallocate; but if PreFilter ended before this plugin, kube-scheduler's message says so."""
        if judgement.refusal is None:
            return None
        names = [plugin.name for plugin in runner.plugins.pre_filter]
        refused_by = judgement.refusal.plugin
        if refused_by in names and self.name in names and names.index(refused_by) < names.index(self.name):
            return Status(Code.ERROR, ("not found",))
        return None

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        """Nothing to reserve: allocated claims can be shared."""

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """A reservation that was written stays: the next attempt can use it, and it is removed with the pod."""

    def pre_bind(self, cycle: Cycle, row: int) -> Status | Hold | None:  # noqa: ARG002 - part of the interface
        """Add the pod to `reservedFor` of its claims, and wait until they show it."""
        if not cycle.template.claims:
            return None
        deadline_s = cycle.memo.setdefault(_WAITS, cycle.now + self.args.binding_timeout)
        commands = []
        for name in cycle.template.claims:
            claim: ResourceClaim | None = cycle.state.object(CLAIM, f"{cycle.template.namespace}/{name}")
            problem = _problem(cycle.pod, name, claim)
            if claim is None or problem is not None:
                return Status(Code.ERROR, (problem or "",))
            if not claim.reserved_for_uid(cycle.pod.uid):
                commands.append(_reservation(cycle.pod, claim))
        reason = "timed out waiting for the reservation of resourceclaims"
        objects = tuple((CLAIM, f"{cycle.template.namespace}/{name}") for name in cycle.template.claims)
        return Hold(deadline_s, tuple(commands), reason, objects) if commands else None


def _problem(pod: Pod, name: str, claim: ResourceClaim | None) -> str | None:
    """Why a claim keeps its pod from running anywhere."""
    if name.startswith(UNRESOLVED_CLAIM):
        return f'pod "{pod.key}": ResourceClaim not created yet: {name.removeprefix(UNRESOLVED_CLAIM)}'
    if claim is None:
        return f'could not find resource claim "{pod.namespace}/{name}"'
    if claim.deleting:
        return f'resourceclaim "{name}" is being deleted'
    if claim.allocation is None:
        return f'resourceclaim "{claim.key}" is not allocated, and this scheduler does not allocate devices'
    return None


def _may_be_devices(resource: str) -> bool:
    return resource.startswith(IMPLICIT_EXTENDED_RESOURCE) or is_extended_resource(resource)


def _offered(state: ClusterState, resource: str, rows: Rows) -> Mask:
    """Whether the nodes of these rows have any of the resource themselves, bool[len(rows)]."""
    column = state.resources.known(resource)
    if column is None:
        return np.zeros(len(rows), dtype=np.bool_)
    offered: Mask = state.pick(state.resources.allocatable[column], rows) > 0
    return offered


def _backed(cycle: Cycle) -> dict[str, Reason]:
    """The requested resources that are backed by a DeviceClass, with the reason that rejects nodes without them."""
    wanted = [name for name, amount in cycle.template.requests.amounts if amount and _may_be_devices(name)]
    classes: Iterable[DeviceClass] = cycle.state.objects.get(DEVICE_CLASS, {}).values() if wanted else ()
    behind: dict[str, str] = {}
    for device_class in sorted(classes, key=lambda each: each.name):
        for name in device_class.resource_names:
            behind.setdefault(name, device_class.name)
    return {
        name: Reason(
            f'extended resource "{name}" is backed by DeviceClass "{behind[name]}", and this scheduler does not '
            "allocate devices",
            resolvable=False,
        )
        for name in [name for name in wanted if name in behind][: MAX_REASONS - 1]
    }


def _reservation(pod: Pod, claim: ResourceClaim) -> PatchObject:
    consumer = FrozenDict({"resource": "pods", "name": pod.name, "uid": pod.uid})
    patch = FrozenDict({"status": FrozenDict({"reservedFor": (consumer,)})})
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    return PatchObject(ref, CLAIM, claim.namespace, claim.name, patch, claim.uid, subresource="status")
