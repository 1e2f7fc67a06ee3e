"""How much a request consumes of the capacities of a device, and whether there is enough.

Amounts are nanos. Where a range has a step, kube-scheduler counts in whole units, and so do we: 250m in a range of
steps of 100m becomes 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.devices import Device, DeviceCapacity, RequestPolicy
from moorage.core.quantity import INT64_MAX, NANO, format_quantity, parse_quantity

NO_AMOUNTS: Mapping[str, int] = {}
_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(ValueError):
    """An amount that cannot be counted, which ends the search; the text says which."""


def consumption(device: Device, requested: Mapping[str, str]) -> dict[str, str] | None:
    """What a request takes of each capacity of the device, as texts; None if the device cannot serve it at all."""
    if any(name not in device.capacity for name in requested):
        return None
    taken = {name: _taken(name, capacity, requested.get(name)) for name, capacity in device.capacity.items()}
    for name, capacity in device.capacity.items():
        if capacity.policy is not None and _violates(capacity.policy, taken[name]):
            return None
    return taken


def is_enough(device: Device, taken: Mapping[str, str], *used: Mapping[str, int]) -> bool:
    """Whether the device has room for what is taken beside what is used already."""
    return all(
        parse_quantity(text) + sum(each.get(name, 0) for each in used) <= parse_quantity(device.capacity[name].value)
        for name, text in taken.items()
    )


def _taken(name: str, capacity: DeviceCapacity, requested: str | None) -> str:
    policy = capacity.policy
    if requested is None:
        text = capacity.value if policy is None or policy.default is None else policy.default
    elif policy is None:
        text = requested
    elif policy.has_range and policy.least is not None:
        text = _in_range(name, policy, policy.least, requested)
    else:
        amount = parse_quantity(requested)
        text = next((value for value in policy.values if amount <= parse_quantity(value)), requested)
    if parse_quantity(text) < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    return text


def _in_range(name: str, policy: RequestPolicy, least: str, requested: str) -> str:
    amount = parse_quantity(requested)
    if amount < parse_quantity(least):
        return least
    if policy.step is None:
        return requested
    if amount > INT64_MAX * NANO:
        raise CapacityError(f'capacity "{name}": {_UNREPRESENTABLE}: request {_shown(requested)} exceeds MaxInt64')
    first, step = _units(least), _units(policy.step)
    rounded = first + -(-(_units(requested) - first) // step) * step if step else first
    if rounded > INT64_MAX:
        raise CapacityError(
            f'capacity "{name}": {_UNREPRESENTABLE}: rounding request {_shown(requested)} up to the next '
            "step passes MaxInt64"
        )
    return format_quantity(rounded * NANO, binary=_is_binary(policy.step))


def _violates(policy: RequestPolicy, taken: str) -> bool:
    amount = parse_quantity(taken)
    if policy.default is not None and amount == parse_quantity(policy.default):
        return False
    if policy.has_range:
        if policy.most is not None and amount > parse_quantity(policy.most):
            return True
        step = 0 if policy.step is None else _units(policy.step)
        return bool(step) and (_units(taken) - _units(policy.least or "0")) % step != 0
    return bool(policy.values) and all(amount != parse_quantity(value) for value in policy.values)


def written_like(nanos: int, text: str) -> str:
    """An amount in the units, binary or decimal, of a quantity."""
    return format_quantity(nanos, binary=_is_binary(text))


def _shown(text: str) -> str:
    return written_like(parse_quantity(text), text)


def _is_binary(text: str) -> bool:
    return text.endswith("i")


def _units(text: str) -> int:
    """Whole units, rounded up."""
    return -(-parse_quantity(text) // NANO)
