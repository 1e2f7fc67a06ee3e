"""What slices, claims and classes of devices have in common: quantities, expressions, parameters, taints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from moorage.core.claims import DeviceConfig, DeviceToleration
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.limits import DEVICE_PARTS, DEVICE_TEXT
from moorage.core.quantity import QuantityError, parse_quantity, quantity_text
from moorage.core.taints import Taint
from moorage.wire.errors import REFUSALS, FieldError, join_path
from moorage.wire.metadata import Int64Wire
from moorage.wire.quantities import QuantityWire
from moorage.wire.whole import whole

T = TypeVar("T")

NOTHING = msgspec.Raw(b"")
_OPERATORS = ("Equal", "Exists")


class DeviceTaintWire(msgspec.Struct, gc=False):
    """A taint of a device."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class DeviceTolerationWire(msgspec.Struct, gc=False, rename="camel"):
    """A toleration of taints of devices."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64Wire | None = None


class ExpressionWire(msgspec.Struct, gc=False):
    """A CEL expression."""

    expression: str | None = None


class DeviceSelectorWire(msgspec.Struct, gc=False):
    """A selector of devices."""

    cel: ExpressionWire | None = None


class OpaqueWire(msgspec.Struct, gc=False):
    """Parameters that only their driver understands."""

    driver: str | None = None
    parameters: msgspec.Raw = NOTHING


class DeviceConfigWire(msgspec.Struct, gc=False):
    """Configuration for devices: of a class, of a claim, or of what was allocated."""

    requests: list[str] | None = None
    opaque: OpaqueWire | None = None
    source: str | None = None


def some(entries: Sequence[T] | None, path: str) -> Sequence[T]:
    """All entries of a list, of which there are not too many; of null none."""
    return whole(entries, DEVICE_PARTS, path) or ()


def quantity(value: QuantityWire, path: str) -> str:
    """The text of a quantity that can be parsed."""
    try:
        text = quantity_text(value)
        parse_quantity(text)
    except QuantityError as error:
        _, _, remedy = str(error).rpartition("; ")
        raise FieldError(path, value, "is not a quantity", remedy) from None
    return text


def quantities(values: Mapping[str, QuantityWire] | None, path: str) -> FrozenDict[str, str]:
    """Texts of quantities by name."""
    if not values:
        return EMPTY
    whole(values, DEVICE_PARTS, path)
    return FrozenDict({name: quantity(value, join_path(path, name)) for name, value in values.items()})


def expressions(wires: Sequence[DeviceSelectorWire] | None, path: str) -> tuple[str, ...]:
    """The CEL expressions of selectors; empty for a selector of another type."""
    found = tuple((wire.cel and wire.cel.expression) or "" for wire in some(wires, path))
    for index, expression in enumerate(found):
        _bounded(len(expression), f"{path}[{index}].cel.expression")
    return found


def device_taint(wire: DeviceTaintWire) -> Taint:
    """A taint of a device."""
    return Taint(wire.key or "", wire.value or "", wire.effect or "")


def device_tolerations(wires: Sequence[DeviceTolerationWire] | None, path: str) -> tuple[DeviceToleration, ...]:
    """The tolerations of a request."""
    return tuple(
        DeviceToleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "", seconds)
        for each in some(wires, path)
        for seconds in (each.toleration_seconds,)
    )


def device_configs(wires: Sequence[DeviceConfigWire] | None, path: str) -> tuple[DeviceConfig, ...]:
    """Configurations for devices."""
    return tuple(_device_config(wire, f"{path}[{index}]") for index, wire in enumerate(some(wires, path)))


def _device_config(wire: DeviceConfigWire, path: str) -> DeviceConfig:
    opaque = wire.opaque or OpaqueWire()
    return DeviceConfig(
        driver=opaque.driver or "",
        parameters=_parameters(opaque.parameters, f"{path}.opaque.parameters"),
        requests=tuple(some(wire.requests, f"{path}.requests")),
        source=wire.source or "",
    )


def _parameters(raw: msgspec.Raw, path: str) -> str:
    data = bytes(raw)
    _bounded(len(data), path)
    try:
        return msgspec.json.encode(msgspec.json.decode(data), order="sorted").decode() if data else ""
    except REFUSALS:
        raise FieldError(path, data[:80].decode("utf-8", "replace"), "cannot be read", "write plain JSON") from None


def _bounded(length: int, path: str) -> None:
    if length > DEVICE_TEXT:
        raise FieldError(
            path, length, "characters are too many", f"an object with more than {DEVICE_TEXT} is not read; write fewer"
        )
