"""Devices that drivers publish, as pieces that pods share: what is left of each, and what claims ask for.

The thousandths of `core.shareasks` measure both, so that scores of fragmentation need not know in whose words a pod
asks. They are an estimate for scores; which devices a claim gets is decided by `core.allocating`. Pools count that are
for one node alone. Of partitions of one device the counters of their pool count, not the partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.claims import EXACT_COUNT, DeviceChoice, ResourceClaim
from moorage.core.deviceindex import RESOURCE_CLAIM, DeviceIndex
from moorage.core.devicepools import DeviceCandidate, Pool
from moorage.core.limits import SHARED_DEVICES
from moorage.core.nodes import Node
from moorage.core.pods import FINISHED, Pod, PodTemplate
from moorage.core.quantity import parse_quantity
from moorage.core.shareasks import WHOLE, Convention, ShareAsk
from moorage.core.taints import is_barred

if TYPE_CHECKING:
    from moorage.core.state import ClusterState


class PublishedDevices(NamedTuple):
    """The devices that drivers publish for one node."""

    room: tuple[int, ...] = ()
    """What is left of each, in thousandths."""
    capacity: Mapping[str, int] = {}
    """The largest capacity of each name, in nanos."""


NOTHING_PUBLISHED = PublishedDevices()


def published_devices(index: DeviceIndex, node: Node) -> PublishedDevices:
    """What drivers publish for a node alone, and what is left of it."""
    room: list[int] = []
    capacity: dict[str, int] = {}
    for pool in index.pools(node):
        if not pool.usable or index.views.owner(pool.id) != node.name:
            continue
        room += _counted(pool, index)
        for each in pool.candidates:
            if not each.counters:
                room.append(_left(each, index))
            for name, amount in each.device.capacity.items():
                capacity[name] = max(capacity.get(name, 0), parse_quantity(amount.value))
    return PublishedDevices(tuple(room[:SHARED_DEVICES]), capacity) if room else NOTHING_PUBLISHED


def _counted(pool: Pool, index: DeviceIndex) -> Iterable[int]:
    """What is left of the sets of counters of a pool, each of them a device that is taken in partitions."""
    found: dict[str, int] = {}
    left = index.available(pool)
    for (name, counter), total in sorted(pool.counters.items()):
        part = WHOLE * max(left[name, counter], 0) // total if total > 0 else WHOLE
        found[name] = min(found.get(name, WHOLE), part)
    return found.values()


def _left(candidate: DeviceCandidate, index: DeviceIndex) -> int:
    device = candidate.device
    if index.held(candidate.id) or is_barred(candidate.taints, ()):
        return 0
    used = index.consumed(candidate.id) or {}
    totals = {name: parse_quantity(device.capacity[name].value) for name in used if name in device.capacity}
    parts = (WHOLE * max(total - used[name], 0) // total for name, total in totals.items() if total > 0)
    return min(parts, default=WHOLE)


def claimed_share(claims: Iterable[ResourceClaim], capacity: Mapping[str, int]) -> ShareAsk | None:
    """What claims ask for of devices, as one share; None if they ask for none.

    `capacity` is what a large device has, by name: shares are thousandths of it. Of alternatives the first counts, and
    of requests of different sizes the largest.
    """
    count = milli = 0
    for claim in claims:
        for request in claim.requests:
            choice = request.exactly or next(iter(request.alternatives), None)
            if choice is not None and not choice.admin_access:
                count += max(choice.count, 1) if choice.mode == EXACT_COUNT else 1
                milli = max(milli, _milli(choice, capacity))
    if not count:
        return None
    return ShareAsk(Convention.DRA, min(count, SHARED_DEVICES), milli, milli)


def _milli(choice: DeviceChoice, capacity: Mapping[str, int]) -> int:
    parts = (
        -(-WHOLE * parse_quantity(text) // capacity[name])
        for name, text in choice.capacity.items()
        if capacity.get(name, 0) > 0
    )
    return min(max(parts, default=WHOLE), WHOLE)


def share_of(state: ClusterState, template: PodTemplate) -> ShareAsk | None:
    """What pods with this template ask for of devices, in annotations, requests or claims; None if nothing.

    None also as long as one of the claims is not known.
    """
    if template.share is not None or not template.claims:
        return template.share
    table: Mapping[str, ResourceClaim] = state.objects.get(RESOURCE_CLAIM, {})
    claims = [table[key] for name in template.claims if (key := f"{template.namespace}/{name}") in table]
    return claimed_share(claims, state.shares().capacity) if len(claims) == len(template.claims) else None


def begin_to_learn(state: ClusterState, waiting: Iterable[Pod]) -> None:
    """Count pods for the workload from now on, with those that the state has and these."""
    state.workload.follow(())
    for pod in (*(record.pod for record in state.records()), *waiting):
        learn(state, pod)


def learn(state: ClusterState, pod: Pod) -> None:
    """Count a pod for the workload, if that is followed, once its claims are known; said again, nothing changes."""
    if not state.workload.followed:
        return
    share = share_of(state, pod.template)
    if share is not None or not pod.template.claims or pod.phase in FINISHED:
        state.workload.seen(pod, share)
