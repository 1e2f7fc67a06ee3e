"""Why claims get no devices, as details of a rejection."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.core.claims import Allocation, ResourceClaim
from moorage.core.devicediagnosis import NodeDiagnosis, RequestDiagnosis
from moorage.core.devicerefusals import constraint_text
from moorage.core.extendedclaims import SPECIAL_NAME
from moorage.core.phrases import counted, listed
from moorage.framework.details import Detail, NearMiss

MOST_LOOKS = 5_000
"""How many devices one explanation looks at; nodes beyond that have no details."""


def device_details(found: NodeDiagnosis) -> Iterator[Detail]:
    """What a node has for claims: a detail for each request that finds too little, else for what keeps them apart."""
    for pool in found.pools:
        yield Detail(f"pool {pool.id}", pool.problem)
    for each in found.lacking:
        yield Detail(subject(each), _verdict(each), each.refused, _nearest(each))
    for claim, number in found.apart:
        alone = [counted(each.fits, "device") for each in found.requests if each.claim is claim]
        told = f"{listed(alone)} would do alone, but not together"
        yield Detail(f"claim {claim.key}", f"{constraint_text(claim.constraints[number])}: {told}")
    if not found.lacking and not found.apart:
        fits = (f"{counted(each.fits, 'device')} for {subject(each)}" for each in found.requests)
        yield Detail("claims", f"each finds devices alone, but not all together: {listed(list(fits))}")


def subject(each: RequestDiagnosis) -> str:
    """A request in words."""
    if each.claim.name == SPECIAL_NAME:
        return f"extended resource of class {each.choice.device_class}"
    return f"request {each.request} of claim {each.claim.key}"


def _verdict(each: RequestDiagnosis) -> str:
    wanted = "all devices" if each.wanted is None else str(each.wanted)
    return f"wants {wanted}, {f'{each.fits} would fit' if each.fits else 'none fits'}"


def _nearest(each: RequestDiagnosis) -> tuple[NearMiss, ...]:
    """Devices of other classes, or for other nodes, are not near, whatever they have."""
    return tuple(
        NearMiss(near.name, tuple(refusal.text for refusal in near.refusals))
        for near in each.nearest
        if not any(refusal.unsuitable and refusal.fix is None for refusal in near.refusals)
    )


def elsewhere(claim: ResourceClaim, allocation: Allocation) -> Detail:
    """A claim that holds devices which a node cannot use."""
    names = listed([f"{each.device} of pool {each.pool}" for each in allocation.devices])
    return Detail(f"claim {claim.key}", f"holds {names or 'devices'}, which this node cannot use")
