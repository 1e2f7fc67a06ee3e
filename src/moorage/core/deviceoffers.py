"""How many devices of each class drivers publish, under the names by which pods count for them (`core.amounts`).

Worked out per pool, when it is asked for, from the slices and classes that there are then. A device counts for every
class whose selectors hold for it, whether it is in use or not; partitions of a device count one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from moorage.core.claims import DeviceClass
from moorage.core.deviceindex import DEVICE_CLASS, DeviceIndex
from moorage.core.devicepools import DeviceCandidate
from moorage.core.devices import DeviceId, PoolId
from moorage.core.deviceselectors import Looks, SelectorError, holds
from moorage.core.quantity import THOUSANDTHS, parse_quantity
from moorage.core.resourcenames import IMPLICIT_EXTENDED_RESOURCE

_LOOKS = 1 << 16
"""How much selectors may cost for all devices of a pool."""


def name_of_class(classes: Mapping[str, DeviceClass], name: str) -> str:
    """The resource under which devices of a class count: its extended resource, else the implicit name."""
    found = classes.get(name)
    extended = None if found is None else found.extended_resource
    return IMPLICIT_EXTENDED_RESOURCE + name if extended is None else extended


class PoolOffer:
    """What the devices of a pool are."""

    __slots__ = ("capacity", "devices", "owner")

    def __init__(self, owner: str, devices: Mapping[str, int], capacity: Mapping[str, set[int]]) -> None:
        self.owner = owner
        """The one node that can use them; empty if there is none."""
        self.devices = devices
        """By resource, in thousandths."""
        self.capacity = capacity
        """The capacities of each name, in nanos."""


class DeviceOffers:
    """Counts published devices."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]], index: DeviceIndex) -> None:
        self._objects, self._index = objects, index
        self._pools: dict[PoolId, PoolOffer] = {}
        self._changed: dict[PoolId, None] = {}
        self._backing = -1
        """By which classes the pools were counted."""
        self._capacity: dict[str, set[int]] = {}
        self._by_owner: dict[str, Counter[str]] = {}

    def note(self, pools: Iterable[PoolId]) -> None:
        """Slices of these pools came, changed or went."""
        self._changed.update(dict.fromkeys(pools))

    def by_owner(self) -> Mapping[str, Mapping[str, int]]:
        """Node that alone can use devices, or empty -> resource -> thousandths."""
        self._catch_up()
        return self._by_owner

    def most(self, resource: str) -> int:
        """The most that one node has of a resource, in thousandths."""
        return max((devices.get(resource, 0) for devices in self.by_owner().values()), default=0)

    def least_capacity(self, name: str, text: str) -> int:
        """The smallest capacity of this name that is as large as this, in nanos; 0 if no device has it."""
        self._catch_up()
        wanted = parse_quantity(text)
        return min((size for size in self._capacity.get(name, ()) if size >= wanted), default=0)

    def device_capacity(self, device: DeviceId, name: str) -> int:
        """The capacity of a device, in nanos; 0 if that is not known."""
        slices = self._index.views.slices_of(PoolId(device.driver, device.pool))
        found = (each for part in slices for each in part.devices if each.name == device.device)
        capacities = [each.capacity[name].value for each in found if name in each.capacity]
        return max(map(parse_quantity, capacities), default=0)

    def _catch_up(self) -> None:
        version = self._index.backing_version
        if version != self._backing:
            self._backing = version
            self.note([*self._pools, *self._index.views.pool_ids])
        if not self._changed:
            return
        for pool in self._changed:
            offer = self._count(pool)
            if offer is None:
                self._pools.pop(pool, None)
            else:
                self._pools[pool] = offer
        self._changed.clear()
        self._sum()

    def _sum(self) -> None:
        self._capacity, self._by_owner = {}, {}
        for offer in self._pools.values():
            self._by_owner.setdefault(offer.owner, Counter()).update(offer.devices)
            for name, sizes in offer.capacity.items():
                self._capacity.setdefault(name, set()).update(sizes)

    def _count(self, key: PoolId) -> PoolOffer | None:
        pool = self._index.views.whole(key)
        if pool is None or not pool.usable:
            return None
        classes: Mapping[str, DeviceClass] = self._objects.get(DEVICE_CLASS, {})
        looks, devices, capacity = Looks(_LOOKS), Counter[str](), dict[str, set[int]]()
        for candidate in (*pool.candidates, *pool.others):
            names = {name_of_class(classes, each.name) for each in classes.values() if _is_of(each, candidate, looks)}
            devices.update(dict.fromkeys(names, THOUSANDTHS))
            for name, each in candidate.device.capacity.items():
                capacity.setdefault(name, set()).add(parse_quantity(each.value))
        return PoolOffer(self._index.views.owner(key), devices, capacity)


def _is_of(device_class: DeviceClass, candidate: DeviceCandidate, looks: Looks) -> bool:
    try:
        return all(each != "" and holds(each, candidate, looks) for each in device_class.selectors)
    except SelectorError:
        return False
