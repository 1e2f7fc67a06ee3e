"""What a claim gets, once its devices were found: results, configuration, and the nodes that can use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from moorage.core.affinity import NodeTerm
from moorage.core.claims import AllocatedDevice, Allocation, DeviceConfig, ResourceClaim
from moorage.core.devicefit import DeviceFit, Wanted
from moorage.core.devicepools import DeviceCandidate
from moorage.core.devices import DeviceId
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.nodeterms import NAME_FIELD
from moorage.core.selectors import Operator, Requirement

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


class Pick(NamedTuple):
    """A device for a request of a claim, which are given by their numbers."""

    claim: int
    request: int
    alternative: int
    """0 for requests without alternatives."""
    candidate: DeviceCandidate


ShareId: TypeAlias = Callable[[ResourceClaim, DeviceId, int], str]
"""Makes a name for the share that a claim gets of a device; the number tells several apart."""


def unnamed(*_: object) -> str:
    """For shares whose names do not matter."""
    return ""


def allocations_of(
    picks: Iterable[Pick], claims: Sequence[ResourceClaim], fit: DeviceFit, node: str, share_id: ShareId
) -> tuple[Allocation, ...]:
    """What claims get; of each, the picks come in the order of its requests."""
    picked = [[fit.ready(claim, each.name, each.choices[0]) for each in claim.requests] for claim in claims]
    results: list[list[AllocatedDevice]] = [[] for _ in claims]
    candidates: list[list[DeviceCandidate]] = [[] for _ in claims]
    for number, place, alternative, candidate in picks:
        claim = claims[number]
        wanted = picked[number][place]
        choice = claim.requests[place].choices[alternative]
        if wanted.choice is not choice:
            wanted = picked[number][place] = fit.ready(claim, wanted.request, choice)
        share = share_id(claim, candidate.id, len(results[number])) if candidate.device.shared else ""
        results[number].append(_result(wanted, candidate, share, fit))
        candidates[number].append(candidate)
    return tuple(
        Allocation(tuple(devices), _config(claim, wanted), _node_terms(found, node))
        for claim, wanted, devices, found in zip(claims, picked, results, candidates, strict=True)
    )


def _result(wanted: Wanted, candidate: DeviceCandidate, share: str, fit: DeviceFit) -> AllocatedDevice:
    name, device, choice = candidate.id, candidate.device, wanted.choice
    return AllocatedDevice(
        request=wanted.name,
        driver=name.driver,
        pool=name.pool,
        device=name.device,
        admin_access=choice.admin_access,
        tolerations=choice.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=share,
        consumed=FrozenDict(fit.consumption(wanted, candidate) or {}) if device.shared else EMPTY,
    )


def _config(claim: ResourceClaim, picked: Sequence[Wanted]) -> tuple[DeviceConfig, ...]:
    """The configuration for what was picked for each request."""
    if not claim.config and not any(wanted.device_class.config for wanted in picked):
        return ()
    return tuple(_without_needless_names(each, claim) for each in (*_of_classes(picked), *_of_claim(claim, picked)))


def _of_classes(picked: Sequence[Wanted]) -> list[DeviceConfig]:
    """The configuration of each class, once, for all requests that name it."""
    classes = {wanted.device_class.name: wanted.device_class for wanted in picked}
    return [
        replace(
            config, requests=tuple(each.name for each in picked if each.device_class.name == name), source=FROM_CLASS
        )
        for name, device_class in classes.items()
        for config in device_class.config
    ]


def _of_claim(claim: ResourceClaim, picked: Sequence[Wanted]) -> list[DeviceConfig]:
    """The configuration of the claim; one that names requests comes once for each of them that was served."""
    found = []
    for config in claim.config:
        served = [each for each in picked if each.request in config.requests or each.name in config.requests]
        found += [replace(config, source=FROM_CLAIM)] * (len(served) if config.requests else 1)
    return found


def _without_needless_names(config: DeviceConfig, claim: ResourceClaim) -> DeviceConfig:
    """No names means all requests."""
    return replace(config, requests=()) if len(config.requests) == len(claim.requests) else config


def _node_terms(candidates: Sequence[DeviceCandidate], node: str) -> tuple[NodeTerm, ...] | None:
    """The one node if a device is bound to it, else what all selectors require together; None for all nodes."""
    expressions: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for each in candidates:
        reach = each.reach
        if each.device.binds_to_node or (reach is not None and reach.node):
            return (NodeTerm(fields=(Requirement(NAME_FIELD, Operator.IN, (node,)),)),)
        for term in (reach.terms if reach is not None else None) or ():
            expressions.update(dict.fromkeys(term.expressions))
            fields.update(dict.fromkeys(term.fields))
    return (NodeTerm(tuple(expressions), tuple(fields)),) if expressions or fields else None
