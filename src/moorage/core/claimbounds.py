"""Of what a claim offers as alternatives, what the queue of its pod has room for.

An allocator takes the first alternative that is available. One that would take a queue beyond its limit, or a pod that
may not be evicted beyond the quota, is not: else a claim would ask for little, and get more than its queue may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from moorage.core.claims import DeviceChoice, DeviceRequest, ResourceClaim
from moorage.core.pods import Pod
from moorage.core.quantity import format_fine
from moorage.core.state import ClusterState

_Amounts = Mapping[DeviceChoice, Mapping[str, int]]


def bounded_claims(state: ClusterState, pod: Pod, claims: tuple[ResourceClaim, ...]) -> tuple[ResourceClaim, ...] | str:
    """The claims with the alternatives that there is room for; or why there is none left of a request."""
    if not state.queues.active or not any(_is_choosy(claim) for claim in claims):
        return claims
    left = state.queues.left(pod)
    if not left:
        return claims
    found = []
    for claim in claims:
        requests = []
        for request in claim.requests:
            kept = _bounded(state, request, left)
            if isinstance(kept, str):
                return f"claim {claim.key}, {kept}"
            requests.append(kept)
        found.append(replace(claim, requests=tuple(requests)) if _is_choosy(claim) else claim)
    return tuple(found)


def _is_choosy(claim: ResourceClaim) -> bool:
    return any(request.alternatives for request in claim.requests)


def _bounded(state: ClusterState, request: DeviceRequest, left: dict[str, int]) -> DeviceRequest | str:
    """A request with what there is room for; `left`, beside the least that it takes, loses what more it may get."""
    if not request.alternatives:
        return request
    takes = {choice: state.amounts.choice(choice) for choice in request.alternatives}
    least = state.amounts.least(takes.values())
    more = {
        choice: {name: amount - least.get(name, 0) for name, amount in each.items() if name in left}
        for choice, each in takes.items()
    }
    kept = tuple(choice for choice, each in more.items() if all(amount <= left[name] for name, amount in each.items()))
    if not kept:
        return f"request {request.name}: {_short(takes, more, left)}"
    for name in left:
        left[name] -= max(more[choice].get(name, 0) for choice in kept)
    return replace(request, alternatives=kept)


def _short(
    takes: Mapping[DeviceChoice, Mapping[str, int]],
    more: Mapping[DeviceChoice, Mapping[str, int]],
    left: dict[str, int],
) -> str:
    """What no alternative has room for."""
    lacking: Iterable[str] = (
        f"{format_fine(name, takes[choice][name])} {name}"
        for choice, each in more.items()
        for name, amount in each.items()
        if amount > left[name]
    )
    return f"its queue has no room for {' or '.join(dict.fromkeys(lacking))}"
