"""Values at run time: what they are, when they are equal, how they compare, and how Go prints them.

bool, int, float, str, bytes and None are Python's own; lists are Python lists that are never changed. The rest is here.
An error is a value too: `&&`, `||` and folds go on after one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from moorage.cel import types as ty
from moorage.cel.types import Type
from moorage.cel.work import spend

Value: TypeAlias = Any
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class CelError:
    """What went wrong, as a value."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"CelError({self.message!r})"


NO_OVERLOAD = CelError("no such overload")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class MutableList(list[Any]):
    """An accumulator that is appended to in place; there is no other reference to it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time in nanoseconds since 1970, UTC."""

    nanos: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type, as `type(x)` gives it."""

    name: str


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Value = None) -> None:
        self.present = present
        self.value = value


NONE = Optional(False)


class Foreign:
    """A value of a library: subclasses name their type and define `==`."""

    __slots__ = ()
    type: ClassVar[Type]
    go_name: ClassVar[str]
    """What cel-go calls the value where it prints the type of its own."""
    hashable: ClassVar[bool] = True
    """Whether cel-go can look it up in a constant list."""

    def comparable_to(self, other: Value) -> bool:
        """Whether cel-go compares it with another value at all."""
        return other.__class__ is self.__class__


class _Missing:
    """Nothing is there."""

    __slots__ = ()


MISSING = _Missing()
_BOOL_KEYS = {True: ("bool", True), False: ("bool", False)}


class Map:
    """A map. Keys are text, numbers (1, 1u and 1.0 are one key) or, wrapped, bools."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[Any, Value]) -> None:
        self.entries = entries

    def find(self, key: Value) -> Value:
        """The value at a key, or MISSING."""
        kind = key.__class__
        if kind is bool:
            key = _BOOL_KEYS[key]
        elif kind not in (str, int, Uint, float):
            return MISSING
        return self.entries.get(key, MISSING)

    def __contains__(self, key: Value) -> bool:
        return Map.find(self, key) is not MISSING

    def __iter__(self) -> Iterator[Value]:
        return (key[1] if key.__class__ is tuple else key for key in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Keys and values."""
        return zip(self, self.entries.values(), strict=True)


class DefaultMap(Map):
    """A map in which every key is found, though only those of its entries are in it."""

    __slots__ = ("default",)

    def __init__(self, entries: dict[Any, Value], default: Value) -> None:
        super().__init__(entries)
        self.default = default

    def find(self, key: Value) -> Value:
        """The value at a key, or the default."""
        found = Map.find(self, key)
        return self.default if found is MISSING else found


class MutableMap(Map):
    """An accumulator that entries are added to in place; there is no other reference to it."""

    __slots__ = ()


def map_key(key: Value) -> Value:
    """A key as maps hold it; an error if it cannot be one."""
    kind = key.__class__
    if kind is str or kind is int or kind is Uint or kind is float:
        return key
    return _BOOL_KEYS[key] if kind is bool else CelError(f"unsupported key type: {type_name(key)}")


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    MutableList: "list",
    Map: "map",
    DefaultMap: "map",
    MutableMap: "map",
    type(None): "null_type",
    Duration: ty.DURATION.name,
    Timestamp: ty.TIMESTAMP.name,
    TypeValue: "type",
    Optional: "optional_type",
    CelError: "error",
}
_GO_NAMES: dict[type, str] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
    CelError: "*types.Err",
    list: "*types.baseList",
    MutableList: "*types.baseList",
    Map: "*types.baseMap",
    DefaultMap: "*types.baseMap",
    MutableMap: "*types.baseMap",
}
LISTS = (list, MutableList)
NUMBERS = frozenset({int, Uint, float})


def type_name(value: Value) -> str:
    """The name of the type of a value."""
    name = _NAMES.get(value.__class__)
    return name if name is not None else str(value.type.name)


def go_name(value: Value) -> str:
    """What the value is in cel-go."""
    name = _GO_NAMES.get(value.__class__)
    return name if name is not None else str(getattr(value, "go_name", type_name(value)))


def size(value: Value) -> int:
    """The size that costs are computed with: 1 for what has none."""
    kind = value.__class__
    if kind is str or kind is list or kind is bytes or isinstance(value, list | Map):
        return len(value)
    if kind is Optional:
        return size(value.value) if value.present else 1
    return int(getattr(value, "size", 1)) if isinstance(value, Foreign) else 1


def equals(a: Value, b: Value) -> bool | CelError:
    """`==`; a value of a library is not even compared with anything else but null."""
    while a.__class__ is Optional and b.__class__ is Optional and a.present and b.present:
        a, b = a.value, b.value
    if isinstance(a, Foreign) and b is not None and not a.comparable_to(b):
        return NO_OVERLOAD
    return equal(a, b)


def equal(a: Value, b: Value) -> bool:
    """Whether values are equal; of different types they are not, except that numbers are compared by value.

    Inside lists and maps cel-go takes a comparison that fails, as it does between a value of a library and another, for
    one that holds.
    """
    if isinstance(a, Foreign):
        return a.comparable_to(b) and bool(a == b)
    pairs = [(a, b)]
    while pairs:
        a, b = pairs.pop()
        left = a.__class__
        if left is str:
            same = b.__class__ is str and a == b
        elif left in NUMBERS:
            same = b.__class__ in NUMBERS and a == b
        elif isinstance(a, list):
            same = isinstance(b, list) and len(a) == len(b)
            if same:
                spend(len(a))
                pairs.extend(zip(a, b, strict=True))
        elif isinstance(a, Map):
            same = isinstance(b, Map) and _paired(a, b, pairs)
        elif isinstance(a, Foreign):
            same = b is not None and (not a.comparable_to(b) or a == b)
        else:
            same = left is b.__class__ and (_same_option(a, b, pairs) if left is Optional else a == b)
        if not same:
            return False
    return True


def _same_option(a: Optional, b: Optional, pairs: list[tuple[Value, Value]]) -> bool:
    if a.present and b.present:
        pairs.append((a.value, b.value))
    return a.present == b.present


def _paired(a: Map, b: Map, pairs: list[tuple[Value, Value]]) -> bool:
    """Whether maps have the same keys; their values are to be compared."""
    spend(len(a))
    if a.entries.keys() != b.entries.keys():
        return False
    pairs.extend((value, b.entries[key]) for key, value in a.entries.items())
    return True


_COMPARABLE = frozenset({bool, str, bytes, Duration, Timestamp})


def comparable(value: Value) -> bool:
    """Whether a value has an order."""
    return value.__class__ in NUMBERS or value.__class__ in _COMPARABLE


def compare(a: Value, b: Value) -> int | CelError:
    """-1, 0 or 1; 0 for what has no order, like NaN."""
    left, right = a.__class__, b.__class__
    if left in NUMBERS:
        if right not in NUMBERS:
            return NO_OVERLOAD
        if a != a or b != b:  # noqa: PLR0124 - NaN
            return CelError("NaN values cannot be ordered")
    elif left is not right or left not in _COMPARABLE:
        return NO_OVERLOAD
    elif left is Duration or left is Timestamp:
        a, b = a.nanos, b.nanos
    return int(a > b) - int(a < b)


def go_float(text: str) -> float | None:
    """A number that Go would read; None if it is too large."""
    number = float(text)
    return number if math.isfinite(number) else None


def shown_float(number: float) -> str:
    """As Go's %g and %v print it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    digits, exponent = _digits(abs(number))
    sign = "-" if number < 0 else ""
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def _digits(number: float) -> tuple[str, int]:
    """The shortest digits that stand for a positive number, and the power of ten of the first."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1
    if whole == "0":
        power = int(exponent or 0) - 1 - (len(fraction) - len(fraction.lstrip("0")))
    return digits.rstrip("0") or "0", power


def shown(value: Value) -> str:
    """As Go's %v prints a value of cel-go in an error."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return shown_float(value)
    if value is None:
        return "null"
    return str(value) if kind in (str, int, Uint) else type_name(value)
