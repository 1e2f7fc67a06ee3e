"""What a claim gets, once its devices were found: results, configuration, and the nodes that can use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from moorage.core.affinity import NodeTerm
from moorage.core.claims import AllocatedDevice, Allocation, DeviceConfig, ResourceClaim
from moorage.core.devicefit import Wanted
from moorage.core.devicepools import DeviceCandidate
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.nodeterms import NAME_FIELD
from moorage.core.selectors import Operator, Requirement

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


class Chosen(NamedTuple):
    """A device that was chosen for a request."""

    wanted: Wanted
    candidate: DeviceCandidate
    share_id: str = ""
    consumed: FrozenDict[str, str] = EMPTY
    """Of a shared device."""
    paid: bool = False
    """Whether the counters of its pool were charged for it."""


def allocation_of(claim: ResourceClaim, picked: Sequence[Wanted], chosen: Sequence[Chosen], node: str) -> Allocation:
    """What a claim gets; `picked` is what was chosen for each of its requests."""
    return Allocation(
        devices=tuple(map(_device, chosen)),
        config=tuple(
            _without_needless_names(each, claim) for each in (*_of_classes(picked), *_of_claim(claim, picked))
        ),
        node_terms=_node_terms([each.candidate for each in chosen], node),
    )


def _device(chosen: Chosen) -> AllocatedDevice:
    name, device, choice = chosen.candidate.id, chosen.candidate.device, chosen.wanted.choice
    return AllocatedDevice(
        request=chosen.wanted.name,
        driver=name.driver,
        pool=name.pool,
        device=name.device,
        admin_access=choice.admin_access,
        tolerations=choice.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=chosen.share_id,
        consumed=chosen.consumed,
    )


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
