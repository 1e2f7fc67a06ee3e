"""The device claims of a pod: which there are, what keeps it from running anywhere, and whether drivers are ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moorage.core.claims import AllocatedDevice, Allocation, DeviceClass, DeviceCondition, ResourceClaim
from moorage.core.deviceindex import DEVICE_CLASS, EXTENDED_RESOURCE_CLAIM, RESOURCE_CLAIM
from moorage.core.pods import UNRESOLVED_CLAIM, Pod
from moorage.core.state import ClusterState

MOST_CONSUMERS = 256
"""How many consumers the API server lets a claim have."""
_TRUE = "True"


class DeviceClaims(NamedTuple):
    """The claims of a pod, in its order."""

    allocated: tuple[tuple[ResourceClaim, Allocation], ...]
    """Those that hold devices, or that another member of the gang has reserved devices for."""
    open: tuple[ResourceClaim, ...]
    """Those that need devices."""


def missing(state: ClusterState, pod: Pod) -> str | None:
    """Why the pod cannot be tried: a claim is not there, is being deleted, or was made for another pod."""
    for name in pod.template.claims:
        if name.startswith(UNRESOLVED_CLAIM):
            return f'pod "{pod.key}": ResourceClaim not created yet'
        claim: ResourceClaim | None = state.object(RESOURCE_CLAIM, f"{pod.namespace}/{name}")
        if claim is None:
            return f'could not find v1.ResourceClaim "{pod.namespace}/{name}"'
        if claim.deleting:
            return f'resourceclaim "{name}" is being deleted'
        if name in pod.template.made_claims and (claim.owner is None or claim.owner.uid != pod.uid):
            return f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
    return None


def pod_claims(state: ClusterState, pod: Pod) -> DeviceClaims | str:
    """The claims of a pod, none of which is missing; or why it cannot be placed anywhere now."""
    allocated: list[tuple[ResourceClaim, Allocation]] = []
    unallocated: list[ResourceClaim] = []
    classes: Mapping[str, DeviceClass] = state.objects.get(DEVICE_CLASS, {})
    for name in pod.template.claims:
        claim: ResourceClaim = state.objects[RESOURCE_CLAIM][f"{pod.namespace}/{name}"]
        pending = state.devices.pending(claim.key)
        if claim.allocation is not None:
            if state.devices.writes.ends(claim.key, claim.resource_version):  # another pod gives up what it holds
                return f"resource claim {claim.key} is in the process of being deallocated"
            if len(claim.reserved_for) >= MOST_CONSUMERS and not claim.reserved_for_uid(pod.uid):
                return "resourceclaim in use"
            allocated.append((claim, claim.allocation))
        elif pending is not None and pod.template.gang is not None:
            allocated.append((claim, pending))
        elif pending is not None:
            return f"resource claim {claim.key} is in the process of being allocated"
        elif (problem := _unknown_class(claim, classes)) is not None:
            return problem
        else:
            unallocated.append(claim)
    return DeviceClaims(tuple(allocated), tuple(unallocated))


def _unknown_class(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> str | None:
    for request in claim.requests:
        if request.exactly is None and not request.alternatives:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
        for choice in request.alternatives or (request.exactly,):
            if choice is not None and choice.device_class not in classes:
                name = f"{request.name}/{choice.name}" if choice.name else request.name
                return f"request {name}: device class {choice.device_class} does not exist"
    return None


def gives_back(before: ResourceClaim | None, after: ResourceClaim | None) -> bool:
    """Whether a claim held devices that it holds no more, or was a special one that its pod can ask for anew."""
    if before is None:
        return False
    held = before.allocation is not None and (after is None or after.allocation is None)
    return held or (after is None and EXTENDED_RESOURCE_CLAIM in before.annotations)


def preference(claims: Iterable[tuple[ResourceClaim, Allocation]]) -> int:
    """How good the alternatives are that claims hold: for each request 8 for the first, 7 for the second, and so on."""
    total = 0
    for claim, allocation in claims:
        names = {device.request for device in allocation.devices}
        for request in claim.requests:
            for index, choice in enumerate(request.alternatives):
                if f"{request.name}/{choice.name}" in names:
                    total += _MOST_ALTERNATIVES - index
    return total


_MOST_ALTERNATIVES = 8


class Readiness(NamedTuple):
    """Whether drivers have made the devices of a claim ready."""

    ready: bool
    failure: str = ""


def readiness(claim: ResourceClaim) -> Readiness:
    """What drivers say of the devices of a claim; those without binding conditions are ready."""
    for device in claim.allocation.devices if claim.allocation is not None else ():
        if not device.binding_conditions:
            continue
        told = {each.type: each for each in _conditions(claim, device)}
        for name in device.binding_failure_conditions:
            if name in told and told[name].status == _TRUE:
                failed = told[name]
                return Readiness(
                    False,
                    f'device binding failed: claim={claim.name}, reason={failed.reason}, message="{failed.message}"',
                )
        if any(name not in told or told[name].status != _TRUE for name in device.binding_conditions):
            return Readiness(False)
    return Readiness(True)


def _conditions(claim: ResourceClaim, device: AllocatedDevice) -> tuple[DeviceCondition, ...]:
    return next((each.conditions for each in claim.devices if (each.driver, each.pool, each.device) == device.id), ())


def ready_by_s(claim: ResourceClaim, timeout_s: float) -> float | None:
    """Until when the devices of a claim have to be ready; None where it is not known since when it holds them."""
    allocation = claim.allocation
    if allocation is None or allocation.allocated_s is None or not allocation.awaits_drivers:
        return None
    return allocation.allocated_s + timeout_s
