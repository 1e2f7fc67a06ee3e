"""Kubernetes quantities (`500m`, `1.5Gi`, `1E3`) as exact integers.

The grammar is that of apimachinery: an optional sign, ASCII digits with at most one point, then nothing, a decimal
suffix (n u m k M G T P E), a binary suffix (Ki Mi Gi Ti Pi Ei) or a decimal exponent (`e3`, `E-3`; `E` alone is exa).

A parsed quantity is an integer number of nanos; what is finer rounds away from zero, so that a request for a little
gets a little. Amounts, the numbers that placement counts with, are 64-bit: cpu in milli, everything else in whole
units, both rounded away from zero and capped where they would not fit. Fine amounts, which queues count with, are
thousandths of devices, as pods may have a fraction of one; of everything else they are amounts.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from moorage.core.resourcenames import may_be_devices
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY

MAX_LENGTH = 64
"""Longer texts are refused: no sensible quantity needs as many characters."""
MAX_EXPONENT = 99
"""Larger exponents, of either sign, are refused: no sensible quantity needs them."""

INT64_MAX = 2**63 - 1

NANO = 10**9
THOUSANDTHS = 1000
_NANOS_PER_MILLI = 10**6
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = re.compile(rf"({_NUMBER})(?:([eE])([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_RESOURCES = frozenset({MEMORY, EPHEMERAL_STORAGE})
_HUGE_PAGES = "hugepages-"


class QuantityError(ValueError):
    """The text is not a quantity; the message is one line and names the text and the remedy."""


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> int:
    """The number of nanos that a quantity stands for."""
    if len(text) > MAX_LENGTH:
        raise QuantityError(
            f"quantity {text[:16]!r}... has {len(text)} characters; write at most {MAX_LENGTH} characters"
        )
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity; write a number such as 2, 500m, 1.5Gi or 1e3")
    number, exponent_mark, exponent_text, suffix = match.groups()
    digits, scale = _mantissa(number)
    if exponent_mark:
        exponent = int(exponent_text)
        if abs(exponent) > MAX_EXPONENT:
            raise QuantityError(f"quantity {text!r} has an exponent beyond {MAX_EXPONENT}; write a smaller exponent")
        return _scaled(digits, exponent - scale + 9)
    if suffix in _BINARY_EXPONENTS:
        nanos = _scaled(digits << _BINARY_EXPONENTS[suffix], 9 - scale)
        return max(-INT64_MAX * NANO, min(INT64_MAX * NANO, nanos))
    return _scaled(digits, _DECIMAL_EXPONENTS[suffix or ""] - scale + 9)


def _mantissa(number: str) -> tuple[int, int]:
    """All digits as one integer, and how many of them stand behind the point."""
    whole_part, _, fraction = number.partition(".")
    return int(whole_part + fraction), len(fraction)


def _scaled(digits: int, exponent: int) -> int:
    """`digits * 10**exponent`, rounded away from zero to an integer."""
    return digits * 10**exponent if exponent >= 0 else _divide_away(digits, 10**-exponent)


def _divide_away(value: int, divisor: int) -> int:
    """The quotient, rounded away from zero."""
    return -(-value // divisor) if value > 0 else value // divisor


def _capped(value: int) -> int:
    return max(-INT64_MAX, min(INT64_MAX, value))


def to_milli(nanos: int) -> int:
    """Nanos as whole milli units, rounded away from zero, within 64 bits."""
    return _capped(_divide_away(nanos, _NANOS_PER_MILLI))


def to_units(nanos: int) -> int:
    """Nanos as whole units, rounded away from zero, within 64 bits."""
    return _capped(_divide_away(nanos, NANO))


def cpu_milli(text: str) -> int:
    """A quantity of cpu in milli."""
    return to_milli(parse_quantity(text))


def whole(text: str) -> int:
    """A quantity in whole units (bytes, pieces)."""
    return to_units(parse_quantity(text))


@lru_cache(maxsize=4096)
def amount(resource_name: str, text: str) -> int:
    """A quantity of a resource in the unit that placement counts with: milli for cpu, whole units otherwise."""
    nanos = parse_quantity(text)
    return to_milli(nanos) if resource_name == CPU else to_units(nanos)


def fineness(resource_name: str) -> int:
    """How many parts of one unit of an amount fine amounts count: thousandths of what may be devices."""
    return THOUSANDTHS if may_be_devices(resource_name) else 1


def fine_amount(resource_name: str, text: str) -> int:
    """A quantity of a resource as a fine amount."""
    return to_milli(parse_quantity(text)) if may_be_devices(resource_name) else amount(resource_name, text)


def quantity_text(value: object) -> str:
    """The text of a quantity as JSON and YAML may hold it: a string, a plain number (`cpu: 0.5`), or null for zero."""
    if value is None:
        return "0"
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise QuantityError(f"{value!r} is not a quantity; write a number or a text such as 500m or 1.5Gi")


def format_amount(resource_name: str, amount: int) -> str:
    """An amount as Kubernetes prints it: `1500m` and `2` of cpu, `1Gi` of memory, `110` of pods.

    An amount does not remember how its parts were written. Bytes are printed in binary units unless decimal ones are
    plainer (`10G` rather than `9765625Ki`).
    """
    if resource_name == CPU:
        return f"{amount}m" if amount % 1000 else _decimal(amount // 1000)
    if resource_name in _BINARY_RESOURCES or resource_name.startswith(_HUGE_PAGES):
        return _binary(amount)
    return _decimal(amount)


def format_fine(resource_name: str, amount: int) -> str:
    """A fine amount as Kubernetes prints the amount, with up to three decimals: `0.5` of devices."""
    units, parts = divmod(amount, fineness(resource_name))
    return f"{units}.{parts:03}".rstrip("0") if parts else format_amount(resource_name, units)


def format_quantity(nanos: int, *, binary: bool = False) -> str:
    """A quantity as apimachinery prints it: `1500m`, `2G`; with `binary`, whole numbers from 1024 on as `2Gi`."""
    if binary and nanos % NANO == 0 and abs(nanos) >= 1024 * NANO:
        mantissa, steps = _reduced(nanos // NANO, 1024)
        return f"{mantissa}{_BINARY_SUFFIXES[steps]}"
    if nanos == 0:
        return "0"
    mantissa, steps = _reduced(nanos, 1000, len(_DECIMAL_EXPONENTS))
    return f"{mantissa}{tuple(_DECIMAL_EXPONENTS)[steps]}"


def _decimal(value: int) -> str:
    mantissa, steps = _reduced(value, 1000)
    return f"{mantissa}{_DECIMAL_SUFFIXES[steps]}"


def _binary(value: int) -> str:
    mantissa, steps = _reduced(value, 1024)
    if steps == 0 or abs(_reduced(value, 1000)[0]) < abs(mantissa):
        return _decimal(value)
    return f"{mantissa}{_BINARY_SUFFIXES[steps]}"


def _reduced(value: int, factor: int, suffixes: int = len(_DECIMAL_SUFFIXES)) -> tuple[int, int]:
    """The value divided by the factor as often as that is exact, and how often that was."""
    steps = 0
    while value and value % factor == 0 and steps < suffixes - 1:
        value //= factor
        steps += 1
    return value, steps
