"""Quantities in expressions of the Common Expression Language, as Kubernetes' library has them."""

from __future__ import annotations

import re
from typing import ClassVar

from moorage.cel import costs
from moorage.cel import types as ty
from moorage.cel.functions import Function, Library, method, overload, remembered
from moorage.cel.types import Type
from moorage.cel.values import CelError, Foreign, Value
from moorage.core.quantity import INT64_MAX, NANO, QuantityError, parse_quantity
from moorage.core.values import dataclass

_WRITTEN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?((?:[eEinumkKMGTP]*[-+]?[0-9]*)?)", re.ASCII)
_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_DIGITS = 18


@dataclass(frozen=True, slots=True, eq=False)
class CelQuantity(Foreign):
    """An exact amount in nanos, and the digits and scale that Go keeps of a short one; None of a long one."""

    type: ClassVar[Type] = ty.struct("kubernetes.Quantity")
    go_name: ClassVar[str] = "cel.Quantity"
    nanos: int
    digits: tuple[int, int] | None
    computed: bool = False
    """Whether it is the result of `add` or `sub`, with which cel-go compares no other quantity."""

    def comparable_to(self, other: Value) -> bool:
        """Only quantities that were read."""
        return isinstance(other, CelQuantity) and not other.computed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelQuantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def integer(self) -> int | None:
        """The whole number that it is kept as; 1000m is none, though it is 1."""
        if self.digits is None or self.digits[1] < 0:
            return None
        number = self.digits[0] * 10 ** min(self.digits[1], 30)
        return number if abs(number) <= INT64_MAX else None

    def plus(self, other: CelQuantity) -> CelQuantity:
        """The sum."""
        return CelQuantity(self.nanos + other.nanos, _digits_of_sum(self.digits, other.digits), computed=True)

    def minus(self, other: CelQuantity) -> CelQuantity:
        """The difference."""
        negative = None if other.digits is None else (-other.digits[0], other.digits[1])
        return self.plus(CelQuantity(-other.nanos, negative))


def _digits_of_sum(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    if a is None or b is None:
        return None
    if not a[0] or not b[0]:
        return a if not b[0] else b
    scale = min(a[1], b[1])
    total = a[0] * 10 ** (a[1] - scale) + b[0] * 10 ** (b[1] - scale)
    return (total, scale) if abs(total) <= INT64_MAX else None


def read_quantity(text: str) -> CelQuantity | str:
    """The quantity that a text stands for, or what is wrong with it."""
    match = _WRITTEN.fullmatch(text)
    if match is None or not text:
        return _FORM
    try:
        nanos = parse_quantity(text)
    except QuantityError:
        if text in (".", "+", "-", "+.", "-."):
            return CelQuantity(0, (0, 0))
        return "unable to parse quantity's suffix"
    return CelQuantity(nanos, _digits(match))


def _digits(match: re.Match[str]) -> tuple[int, int] | None:
    """What Go keeps of a quantity with few digits."""
    sign = -1 if match[1] == "-" else 1
    whole, fraction, suffix = match[2].lstrip("0"), match[3] or "", match[4]
    if suffix in _BINARY:
        power = _BINARY[suffix]
        if fraction or _DIGITS - 4 - len(whole) - power * 3 // 10 < 0:
            return None
        return sign * (int(whole or 0) << power), 0
    exponent = _EXPONENTS[suffix] if suffix in _EXPONENTS else int(suffix[1:])
    scale = exponent - len(fraction)
    if len(whole) + len(fraction) > _DIGITS or scale < -9:
        return None
    return sign * int((whole + fraction) or 0), scale


@remembered
def quantity_value(text: str) -> Value:
    """A quantity as a value of CEL, or the error that it is none."""
    found = read_quantity(text)
    return CelError(found) if isinstance(found, str) else found


def _as_integer(quantity: CelQuantity) -> Value:
    number = quantity.integer()
    return CelError("cannot convert value to integer") if number is None else number


def _whole(number: int) -> CelQuantity:
    return CelQuantity(number * NANO, (number, 0))


def _order(a: CelQuantity, b: CelQuantity) -> int:
    return (a.nanos > b.nanos) - (a.nanos < b.nanos)


_Q = {"quantity": CelQuantity.type}
LIBRARY = Library(
    (
        Function(
            "quantity",
            (overload("string_to_quantity", "string -> quantity", quantity_value, **_Q),),
            cost=costs.first_argument,
            fixed=True,
        ),
        Function(
            "isQuantity",
            (
                overload(
                    "is_quantity_string", "string -> bool", lambda text: isinstance(quantity_value(text), CelQuantity)
                ),
            ),
            cost=costs.first_argument,
            fixed=True,
        ),
        Function(
            "sign",
            (overload("quantity_sign", "quantity -> int", lambda a: (a.nanos > 0) - (a.nanos < 0), **_Q),),
        ),
        Function(
            "isGreaterThan",
            (method("quantity_is_greater_than", "quantity, quantity -> bool", lambda a, b: a.nanos > b.nanos, **_Q),),
        ),
        Function(
            "isLessThan",
            (method("quantity_is_less_than", "quantity, quantity -> bool", lambda a, b: a.nanos < b.nanos, **_Q),),
        ),
        Function("compareTo", (method("quantity_compare_to", "quantity, quantity -> int", _order, **_Q),)),
        Function(
            "asApproximateFloat",
            (method("quantity_get_float", "quantity -> double", lambda a: a.nanos / NANO, **_Q),),
        ),
        Function("asInteger", (method("quantity_get_int", "quantity -> int", _as_integer, **_Q),)),
        Function(
            "isInteger",
            (method("quantity_is_integer", "quantity -> bool", lambda a: a.integer() is not None, **_Q),),
        ),
        Function(
            "add",
            (
                method("quantity_add", "quantity, quantity -> quantity", CelQuantity.plus, **_Q),
                method("quantity_add_int", "quantity, int -> quantity", lambda a, b: a.plus(_whole(b)), **_Q),
            ),
        ),
        Function(
            "sub",
            (
                method("quantity_sub", "quantity, quantity -> quantity", CelQuantity.minus, **_Q),
                method("quantity_sub_int", "quantity, int -> quantity", lambda a, b: a.minus(_whole(b)), **_Q),
            ),
        ),
    )
)
