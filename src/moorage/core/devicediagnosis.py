"""Why claims get no devices on a node: for each request, what refuses how many devices, and which ones nearly do.

For explanations, never for decisions. Each device counts once, for the first rule that refuses it: what it is
(selectors of class and request), then whether it is free, then amounts, taints and constraints. Requests are looked at
one by one; where each of them finds devices alone, the constraint that keeps them apart is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from moorage.core.allocating import Search
from moorage.core.claims import ALL, DeviceChoice, DeviceClass, ResourceClaim
from moorage.core.devicefit import AllocationError, Wanted
from moorage.core.deviceindex import DEVICE_CLASS
from moorage.core.devicepools import DeviceCandidate, Pool
from moorage.core.devicerefusals import DeviceRefusal, HeldBy, Holders, Refusing
from moorage.core.deviceselectors import Looks
from moorage.core.nodes import Node
from moorage.core.state import ClusterState
from moorage.core.values import dataclass

MOST_NEAR = 3
"""How many near misses of a request are kept, per node."""
_PROOF = 2_000
"""How long a search may take that proves that a constraint is to blame, in devices that it looks at."""


@dataclass(frozen=True, slots=True)
class NearDevice:
    """A device that nearly fits."""

    candidate: DeviceCandidate
    refusals: tuple[DeviceRefusal, ...]

    @property
    def name(self) -> str:
        """Its name, without driver and pool."""
        return self.candidate.id.device


@dataclass(frozen=True, slots=True)
class RequestDiagnosis:
    """What a node has for one request, or for one alternative of it."""

    claim: ResourceClaim
    choice: DeviceChoice
    request: str
    """`request`, or `request/alternative`."""
    wanted: int | None
    """None for all devices."""
    fits: int
    """How many devices nothing stands against."""
    lacks: int
    """How many more are needed; of all devices, how many cannot be had."""
    refused: dict[str, int] = field(default_factory=dict)
    """Rule -> how many devices it refuses."""
    nearest: tuple[NearDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """What a node has for claims."""

    requests: tuple[RequestDiagnosis, ...] = ()
    apart: tuple[tuple[ResourceClaim, int], ...] = ()
    """Constraints, by claim and position, each of which alone keeps devices apart that suffice for the requests."""
    pools: tuple[Pool, ...] = ()
    """Pools from which nothing can be allocated."""
    complete: bool = True
    """Whether all devices were looked at."""

    @property
    def lacking(self) -> tuple[RequestDiagnosis, ...]:
        """The requests that find too few devices even alone; of alternatives, if none finds enough."""
        served = {_base(each) for each in self.requests if not each.lacks}
        return tuple(each for each in self.requests if _base(each) not in served)


def _base(each: RequestDiagnosis) -> tuple[str, str]:
    return each.claim.key, each.request.partition("/")[0]


def diagnose(
    state: ClusterState,
    node: Node,
    claims: Sequence[ResourceClaim],
    held: Holders,
    looks: Looks,
    most_near: int = MOST_NEAR,
) -> NodeDiagnosis:
    """What stands against the claims on a node; so many near misses are kept for each request."""
    pools = state.devices.pools(node)
    classes: dict[str, DeviceClass] = state.objects.get(DEVICE_CLASS, {})

    def search(wanted: Sequence[ResourceClaim]) -> Search:
        return Search(node, pools, wanted, classes, state.devices)

    found: list[RequestDiagnosis] = []
    by_id = {pool.id: pool for pool in pools}
    for claim in claims:
        refusing = Refusing(state, search((claim,)), 0, claim, by_id, looks, held)
        # All at once: the search remembers answers by what is wanted, for as long as that exists.
        every = [
            refusing.search.fit.ready(claim, request.name, choice)
            for request in claim.requests
            for choice in request.choices
        ]
        found += [_request(refusing, pools, wanted, most_near) for wanted in every]
    unusable = tuple(pool for pool in pools if not pool.usable)
    diagnosis = NodeDiagnosis(tuple(found), (), unusable, looks.left > 0)
    if diagnosis.lacking or not diagnosis.complete:
        return diagnosis
    apart = tuple(
        (claim, number)
        for claim in claims
        for number in range(len(claim.constraints))
        if _suffices(search([_without(each, number) if each is claim else each for each in claims]), looks)
    )
    return replace(diagnosis, apart=apart)


def _request(refusing: Refusing, pools: Sequence[Pool], wanted: Wanted, most_near: int) -> RequestDiagnosis:
    everything = wanted.choice.mode == ALL
    refused: dict[str, int] = {}
    near: list[NearDevice] = []
    fits = blocked = 0
    for candidate in _candidates(pools, refusing.looks):
        refusals = refusing.refusals(wanted, candidate)
        if not refusals:
            fits += 1
            continue
        refused[refusals[0].rule] = refused.get(refusals[0].rule, 0) + 1
        blocked += not refusals[0].unsuitable
        near.append(NearDevice(candidate, tuple(refusals)))
        if len(near) > 8 * most_near:
            near = sorted(near, key=_distance)[:most_near]
    count = None if everything else wanted.choice.count
    lacks = (blocked or int(not fits)) if count is None else max(0, count - fits)
    suitable = [each for each in near if not _distance(each)[0]]
    nearest = tuple(sorted(suitable or near, key=_distance)[:most_near])
    return RequestDiagnosis(refusing.claim, wanted.choice, wanted.name, count, fits, lacks, refused, nearest)


def _candidates(pools: Sequence[Pool], looks: Looks) -> Iterator[DeviceCandidate]:
    for pool in pools:
        for candidate in pool.candidates:
            if looks.left <= 0:
                return
            yield candidate


def _distance(near: NearDevice) -> tuple[bool, int, int]:
    """Devices of other classes last; fewer refusals first; of equals those that the claim can change."""
    fixes = [each.fix for each in near.refusals]
    return None in fixes, len(fixes), sum(isinstance(fix, HeldBy) for fix in fixes)


def _without(claim: ResourceClaim, number: int) -> ResourceClaim:
    return replace(claim, constraints=(*claim.constraints[:number], *claim.constraints[number + 1 :]))


def _suffices(search: Search, looks: Looks) -> bool:
    """Whether a search finds devices soon."""
    work = min(_PROOF, looks.left)
    looks.left -= work
    try:
        return work > 0 and search.run(work) is True
    except AllocationError:
        return False
