"""Claims of pods that leave in a what-if: what they hold is free once no pod is left that uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from moorage.core.claims import AllocatedDevice, Allocation, ResourceClaim
from moorage.core.devicecapacity import is_enough
from moorage.core.deviceindex import RESOURCE_CLAIM, DeviceIndex
from moorage.core.devicepools import Counter as PoolCounter
from moorage.core.devicepools import Pool
from moorage.core.devices import DeviceId
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.quantity import parse_quantity
from moorage.core.state import ClusterState


def used_claims(state: ClusterState, pod: Pod) -> Iterator[ResourceClaim]:
    """The claims with devices that are reserved for a pod, the special one last."""
    found = [state.object(RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in pod.template.claims]
    for claim in (*found, state.devices.special_of(pod)):
        if claim is not None and claim.allocation is not None and claim.reserved_for_uid(pod.uid):
            yield claim


def uses_devices(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod uses devices that others could have otherwise, which admin access does not take from anybody."""
    held = (claim.allocation.devices for claim in used_claims(state, pod) if claim.allocation is not None)
    return any(not device.admin_access for devices in held for device in devices)


def free_abandoned(state: ClusterState) -> None:
    """Free the claims whose pods are all gone, as the claim controller will; inside a statement."""
    for claim in [*state.objects.get(RESOURCE_CLAIM, {}).values()]:
        users = claim.reserved_for if claim.allocation is not None else ()
        if users and all(each.resource == "pods" and state.record(each.uid) is None for each in users):
            state.put_object(RESOURCE_CLAIM, claim.key, claim.freed())


def give_up(state: ClusterState, pod: Pod, *, gone: bool) -> dict[str, ResourceClaim]:
    """A pod gives up the claims that it uses; returns what they were, by key.

    What only it used is free. Of one that is not `gone`, only what was made for it: a claim of its own accord stays
    where its devices are, for the pod's successor too. The special claim ends: another one is made wherever it goes.
    """
    if not state.objects.get(RESOURCE_CLAIM):
        return {}
    used, special = {claim.key: claim for claim in used_claims(state, pod)}, state.devices.special_of(pod)
    for key, claim in [*used.items()]:
        others = tuple(each for each in claim.reserved_for if each.uid != pod.uid)
        own = claim.owner is not None and claim.owner.uid == pod.uid
        if not (others or gone or own):
            del used[key]
            continue
        left = replace(claim, reserved_for=others) if others else replace(claim.freed(), deleting=claim is special)
        state.put_object(RESOURCE_CLAIM, key, left)
    return used


def come_back(state: ClusterState, pod: Pod, claims: Mapping[str, ResourceClaim]) -> None:
    """A pod uses the claims again that it gave up."""
    for key, claim in claims.items():
        own = tuple(each for each in claim.reserved_for if each.uid == pod.uid)
        now: ResourceClaim = state.objects[RESOURCE_CLAIM][key]
        state.put_object(RESOURCE_CLAIM, key, replace(claim, reserved_for=(*now.reserved_for, *own)))


def still_free(state: ClusterState, node: Node, claims: Mapping[str, ResourceClaim]) -> bool:
    """Whether claims that were given up on a node can hold again what they held."""
    back: list[Allocation] = []
    for key, claim in claims.items():
        now, held = state.devices.allocation(key), claim.allocation
        if now is not None and (held is None or now.devices != held.devices):
            return False  # others of its pods are elsewhere by now
        if now is None and held is not None:
            back.append(held)
    return not back or _have_room(state, node, back)


def _have_room(state: ClusterState, node: Node, allocations: list[Allocation]) -> bool:
    index = state.devices
    held: dict[DeviceId, list[AllocatedDevice]] = {}
    for each in (each for allocation in allocations for each in allocation.devices if not each.admin_access):
        held.setdefault(each.id, []).append(each)
        if index.held(each.id) or (not each.share_id and index.in_use(each.id)):
            return False
    return all(_pool_has_room(index, pool, held) for pool in index.pools(node))


def _pool_has_room(index: DeviceIndex, pool: Pool, held: Mapping[DeviceId, Iterable[AllocatedDevice]]) -> bool:
    """Whether shares of devices are left, and counters of the pool."""
    counted: Counter[PoolCounter] = Counter()
    for candidate in pool.candidates:
        if candidate.id not in held:
            continue
        mine: Counter[str] = Counter()
        for each in held[candidate.id]:
            if not is_enough(candidate.device, each.consumed, index.consumed(candidate.id) or {}, mine):
                return False
            mine.update({name: parse_quantity(text) for name, text in each.consumed.items()})
        counted.update({} if index.in_use(candidate.id) else dict(candidate.counters))
    left = index.available(pool) if counted else {}
    return all(left[counter] >= amount for counter, amount in counted.items())
