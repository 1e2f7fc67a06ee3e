"""What a pod counts for: in queues, prices and on all pages, by this one rule.

| | counts |
|---|---|
| requests | as they are; devices that are requested by the name of their class under the name of that class |
| a fraction of GPUs | thousandths of `nvidia.com/gpu`, if its profile gives fractions; no less than it requests |
| claims | devices that they hold, before that the least that they request, under the name of their class |

A class is named by its extended resource, else `deviceclass.resource.kubernetes.io/NAME`. A claim that several pods use
counts for the first of them (`core.claimusers`). Amounts are fine ones (`core.quantity`).

A fraction in MiB is a part of the GPUs of the pod's node, and a claim's share of a device is the largest part of a
capacity that it consumes; before they have a node or a device, both are parts of the smallest that would do. A fraction
that cannot be read counts for nothing, as SharedDevices does not place such a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from moorage.core.arrays import Rows
from moorage.core.claims import (
    CLAIM_DEVICES,
    EXACT_COUNT,
    AllocatedDevice,
    Allocation,
    DeviceChoice,
    DeviceClass,
    ResourceClaim,
)
from moorage.core.deviceindex import DEVICE_CLASS, RESOURCE_CLAIM
from moorage.core.deviceoffers import DeviceOffers, name_of_class
from moorage.core.pods import Pod, PodTemplate
from moorage.core.quantity import THOUSANDTHS, fineness, parse_quantity
from moorage.core.resourcenames import IMPLICIT_EXTENDED_RESOURCE, is_scalar_resource
from moorage.core.shareasks import NVIDIA_GPU, WHOLE, Convention, ShareAsk

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

Named = tuple[tuple[str, int], ...]
"""Names of resources and fine amounts above 0, sorted."""
NOTHING: Named = ()


class PodAmounts:
    """Counts pods as the state is now."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.offers = DeviceOffers(state.objects, state.devices)
        self.gives_fractions: Callable[[str], bool] = _never
        """Whether pods with this scheduler name get the fractions of devices that they ask for."""
        self.divides_devices = False
        """Whether any do."""

    # --- nodes ---

    def offered(self, name: str, rows: Rows) -> int:
        """What nodes offer of a resource, without what drivers publish."""
        if name == NVIDIA_GPU and self.divides_devices:
            return int(self._state.shares().count.take(rows).sum()) * THOUSANDTHS
        column = self._state.resources.known(name)
        return 0 if column is None else int(self._state.resources.allocatable[column, rows].sum()) * fineness(name)

    def offered_names(self) -> frozenset[str]:
        """Devices and the like, of which a node offers some, or a driver has published some."""
        names = {name for name in self._state.resources.names if name and is_scalar_resource(name)}
        names.update(name for devices in self.offers.by_owner().values() for name in devices)
        if self.divides_devices and self._state.shares().count.any():
            names.add(NVIDIA_GPU)
        return frozenset(names)

    # --- pods ---

    def own(self, pod: Pod) -> Named:
        """What a pod counts for without its claims."""
        amounts: dict[str, int] = {}
        for name, amount in pod.requests.amounts:
            counted = self._name(name)
            amounts[counted] = amounts.get(counted, 0) + amount * fineness(counted)
        ask = self.fraction(pod.template)
        if ask is not None:
            least = 0 if ask.convention is Convention.HAMI else amounts.get(NVIDIA_GPU, 0)
            amounts[NVIDIA_GPU] = max(least, ask.count * self._milli(ask, pod))
        return _sorted(amounts)

    def fraction(self, template: PodTemplate) -> ShareAsk | None:
        """What a pod gets of devices that pods share; None if its requests say all."""
        ask = template.share
        if ask is None or ask.problem or ask.convention is Convention.WHOLE:
            return None
        return ask if self.gives_fractions(template.scheduler_name) else None

    def moves(self, template: PodTemplate) -> bool:
        """Whether what such a pod counts for follows from more than it says itself, and so may change."""
        return bool(template.claims) or (template.share is not None and template.share.memory_mib > 0)

    def _milli(self, ask: ShareAsk, pod: Pod) -> int:
        """What a fraction is of each device."""
        part = max(ask.milli, ask.memory_milli)
        if ask.memory_mib:
            memory = self._memory(ask.memory_mib, pod)
            part = max(part, -(-WHOLE * ask.memory_mib // memory) if memory else WHOLE)
        return min(part, WHOLE)

    def _memory(self, mib: int, pod: Pod) -> int:
        """The memory of each of the devices on the node of a pod, or of the smallest that would do; 0 if unknown."""
        shares, record = self._state.shares(), self._state.record(pod.uid)
        row = None if record is None else self._state.row_of(record.node)
        if row is not None and shares.measured.item(row):
            return shares.each.item(row)
        rows = self._state.rows()
        sizes = shares.each[rows][shares.measured[rows] & (shares.count[rows] > 0) & (shares.each[rows] >= mib)]
        return int(sizes.min()) if row is None and len(sizes) else 0

    def _name(self, resource: str) -> str:
        if not resource.startswith(IMPLICIT_EXTENDED_RESOURCE):
            return resource
        return name_of_class(self._classes, resource.removeprefix(IMPLICIT_EXTENDED_RESOURCE))

    @property
    def _classes(self) -> Mapping[str, DeviceClass]:
        found: Mapping[str, DeviceClass] = self._state.objects.get(DEVICE_CLASS, {})
        return found

    # --- claims ---

    def claim(self, key: str) -> Named:
        """What a claim counts for; nothing while there is no such claim."""
        claim: ResourceClaim | None = self._state.objects.get(RESOURCE_CLAIM, {}).get(key)
        if claim is None:
            return NOTHING
        allocation = self._state.devices.allocation(key)
        return _sorted(self._requested(claim) if allocation is None else self._held(claim, allocation))

    def follows_devices(self, key: str) -> bool:
        """Whether what a claim counts for follows from the capacities of devices."""
        claim: ResourceClaim | None = self._state.objects.get(RESOURCE_CLAIM, {}).get(key)
        allocation = self._state.devices.allocation(key)
        if allocation is not None:
            return any(device.share_id for device in allocation.devices)
        choices = () if claim is None else (choice for each in claim.requests for choice in each.choices)
        return any(choice.capacity or choice.mode != EXACT_COUNT for choice in choices)

    def _held(self, claim: ResourceClaim, allocation: Allocation) -> dict[str, int]:
        classes = {
            f"{each.name}/{choice.name}" if choice.name else each.name: choice.device_class
            for each in claim.requests
            for choice in each.choices
        }
        found: Counter[str] = Counter()
        for device in allocation.devices:
            if not device.admin_access and device.request in classes:
                found[name_of_class(self._classes, classes[device.request])] += self._part(device)
        return found

    def _part(self, device: AllocatedDevice) -> int:
        """What a claim has of a device: all, or the largest part of a capacity."""
        if not device.share_id:
            return THOUSANDTHS
        sizes = {name: self.offers.device_capacity(device.id, name) for name in device.consumed}
        parts = [_part_of(text, sizes[name]) for name, text in device.consumed.items() if sizes[name] > 0]
        return max(parts, default=THOUSANDTHS)

    def _requested(self, claim: ResourceClaim) -> dict[str, int]:
        """The least of what the alternatives of each request take of each class."""
        found: Counter[str] = Counter()
        for request in claim.requests:
            found.update(self.least(map(self.choice, request.choices)))
        return found

    def least(self, ways: Iterable[Mapping[str, int]]) -> dict[str, int]:
        """What all alternatives take at least."""
        every = list(ways)
        return {name: min(way.get(name, 0) for way in every) for name in every[0]}

    def choice(self, choice: DeviceChoice) -> dict[str, int]:
        """What devices of one sort count for; of all devices of a node, as many as the node with most of them has."""
        if choice.admin_access or not choice.device_class:
            return {}
        name, part = name_of_class(self._classes, choice.device_class), THOUSANDTHS
        if choice.capacity:
            sizes = ((text, self.offers.least_capacity(each, text)) for each, text in choice.capacity.items())
            part = max((_part_of(text, size) for text, size in sizes if size), default=THOUSANDTHS)
        count = choice.count if choice.mode == EXACT_COUNT else self.offers.most(name) // THOUSANDTHS
        return {name: min(max(count, 1), CLAIM_DEVICES) * part}


def claim_keys(template: PodTemplate) -> tuple[str, ...]:
    """The keys of the claims that such a pod names, each once."""
    return tuple(dict.fromkeys(f"{template.namespace}/{name}" for name in template.claims))


def summed(parts: Iterable[Named]) -> Named:
    """The sum of amounts."""
    total: Counter[str] = Counter()
    for each in parts:
        total.update(dict(each))
    return _sorted(total)


def _part_of(text: str, size: int) -> int:
    return min(max(-(-THOUSANDTHS * parse_quantity(text) // size), 0), THOUSANDTHS)


def _sorted(amounts: Mapping[str, int]) -> Named:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))


def _never(_: str) -> bool:
    """No profile gives fractions."""
    return False
