"""What is written to a claim on the way of its pod: protection, allocation, reservation, and how they are taken back.

All of it are strategic merge patches with the claim's uid as precondition. The API server refuses an allocation for a
claim that holds another one, and a reservation of a claim that is being deleted, so only deallocation needs a version.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from moorage.core.affinity import NodeTerm
from moorage.core.claims import (
    DELETE_PROTECTION,
    AllocatedDevice,
    Allocation,
    DeviceConfig,
    DeviceToleration,
    ResourceClaim,
)
from moorage.core.commands import JsonText, PatchObject, ref_of
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.selectors import Requirement

_PROTECTED: FrozenDict[str, Any] = FrozenDict({"metadata": FrozenDict({"finalizers": (DELETE_PROTECTION,)})})


def protect(pod: Pod, claim: ResourceClaim) -> PatchObject:
    """Keep the claim from vanishing while it holds devices."""
    return PatchObject(ref_of(pod), RESOURCE_CLAIM, claim.namespace, claim.name, _PROTECTED, claim.uid)


def reserve(pod: Pod, claim: ResourceClaim, allocation: Allocation | None) -> PatchObject:
    """Reserve the claim for the pod, with what it shall hold unless it holds that already."""
    consumer = FrozenDict({"resource": "pods", "name": pod.name, "uid": pod.uid})
    status: dict[str, Any] = {"reservedFor": (consumer,)}
    if allocation is not None:
        status["allocation"] = allocation_body(allocation)
    return _status(pod, claim, status)


def unreserve(pod: Pod, claim: ResourceClaim) -> PatchObject:
    """The claim is not reserved for the pod any more; what it holds stays, for the next attempt or the controller."""
    return _status(pod, claim, {"reservedFor": (FrozenDict({"$patch": "delete", "uid": pod.uid}),)})


def deallocate(pod: Pod, claim: ResourceClaim) -> PatchObject:
    """Take everything from a claim that no other pod needs; not if it has changed since: a consumer may have come."""
    taken = _status(pod, claim, {"allocation": None, "reservedFor": None, "devices": None})
    return replace(taken, resource_version=claim.resource_version)


def _status(pod: Pod, claim: ResourceClaim, status: dict[str, Any]) -> PatchObject:
    patch = FrozenDict({"status": FrozenDict(status)})
    return PatchObject(ref_of(pod), RESOURCE_CLAIM, claim.namespace, claim.name, patch, claim.uid, subresource="status")


def allocation_body(allocation: Allocation) -> FrozenDict[str, Any]:
    """An allocation as the API has it."""
    devices = {"results": tuple(map(_device, allocation.devices)), "config": tuple(map(_config, allocation.config))}
    terms = allocation.node_terms
    made = allocation.allocated_s
    return _given(
        devices=_given(**devices),
        nodeSelector=terms and FrozenDict({"nodeSelectorTerms": tuple(map(_term, terms))}),
        allocationTimestamp=None if made is None else _timestamp(int(made)),
    )


@lru_cache(maxsize=8)
def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _device(device: AllocatedDevice) -> FrozenDict[str, Any]:
    return _given(
        request=device.request,
        driver=device.driver,
        pool=device.pool,
        device=device.device,
        adminAccess=device.admin_access,
        tolerations=tuple(map(_toleration, device.tolerations)),
        bindingConditions=device.binding_conditions,
        bindingFailureConditions=device.binding_failure_conditions,
        shareID=device.share_id,
        consumedCapacity=device.consumed,
    )


def _toleration(toleration: DeviceToleration) -> FrozenDict[str, Any]:
    told = _given(key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect)
    return told if toleration.seconds is None else FrozenDict({**told, "tolerationSeconds": toleration.seconds})


def _config(config: DeviceConfig) -> FrozenDict[str, Any]:
    opaque = _given(driver=config.driver, parameters=JsonText(config.parameters) if config.parameters else None)
    return _given(source=config.source, requests=config.requests, opaque=opaque)


def _term(term: NodeTerm) -> FrozenDict[str, Any]:
    return _given(
        matchExpressions=tuple(map(_requirement, term.expressions)), matchFields=tuple(map(_requirement, term.fields))
    )


def _requirement(requirement: Requirement) -> FrozenDict[str, Any]:
    return _given(key=requirement.key, operator=requirement.operator.value, values=requirement.values)


def _given(**fields: Any) -> FrozenDict[str, Any]:
    """The fields that say something."""
    return FrozenDict({name: value for name, value in fields.items() if value})
