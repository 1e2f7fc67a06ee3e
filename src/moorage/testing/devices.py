"""Slices, classes and claims of devices in a line each, for tests; `put` of `moorage.testing.storage` adds them.

put(state, make_slice("n1-0", node="n1", devices=[make_device("gpu-0", model="a100")]), make_device_class("gpu"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.core.claims import (
    AllocatedDevice,
    Allocation,
    DeviceChoice,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
)
from moorage.core.devices import Attribute, CounterUse, Device, DeviceCapacity, Reach, ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.testing.builders import make_node_term

DEVICE_DRIVER = "gpu.example.com"


def make_device(
    name: str, *, capacity: Mapping[str, str] | None = None, counters: Mapping[str, str] | None = None, **fields: Any
) -> Device:
    """A device; fields that devices do not have are its attributes. Counters are of the set `shared`."""
    known = {key: fields.pop(key) for key in [*fields] if key in Device.__dataclass_fields__}
    attributes: dict[str, Attribute] = fields
    return Device(
        name,
        attributes=FrozenDict(attributes),
        capacity=FrozenDict({key: DeviceCapacity(value) for key, value in (capacity or {}).items()}),
        counters=(CounterUse("shared", FrozenDict(counters)),) if counters else (),
        **known,
    )


def make_slice(
    name: str,
    *,
    node: str | None = None,
    on: str | None = None,
    pool: str | None = None,
    devices: Iterable[Device | str] = (),
    **fields: Any,
) -> ResourceSlice:
    """A slice for one node, for those that a condition such as `zone In a` selects, or for all."""
    reach = Reach(terms=(make_node_term(on),)) if on else Reach(node or "", everywhere=node is None)
    return ResourceSlice(
        name,
        fields.pop("driver", DEVICE_DRIVER),
        pool or node or "pool",
        fields.pop("generation", 1),
        fields.pop("slice_count", 1),
        fields.pop("reach", reach),
        devices=tuple(make_device(each) if isinstance(each, str) else each for each in devices),
        **fields,
    )


def make_device_class(name: str, *selectors: str, **fields: Any) -> DeviceClass:
    """A class of devices."""
    return DeviceClass(name, selectors=selectors, **fields)


def make_resource_claim(name: str, *choices: DeviceChoice, namespace: str = "default", **fields: Any) -> ResourceClaim:
    """A claim with a request `r0`, `r1`, ... for each choice; one for a device of the class `gpu` if there are none."""
    wanted = choices or (DeviceChoice(device_class="gpu"),)
    requests = tuple(DeviceRequest(f"r{number}", choice) for number, choice in enumerate(wanted))
    uid = fields.pop("uid", f"claim/{namespace}/{name}")
    return ResourceClaim(namespace, name, uid, requests=fields.pop("requests", requests), **fields)


def make_allocation(*devices: str, request: str = "r0", **fields: Any) -> Allocation:
    """What a claim holds; a device is `pool/device`, or `driver/pool/device`."""
    named = (tuple(device.split("/")) for device in devices)
    parts = (each if len(each) > 2 else (DEVICE_DRIVER, *each) for each in named)
    return Allocation(tuple(AllocatedDevice(request, driver, pool, name, **fields) for driver, pool, name in parts))
