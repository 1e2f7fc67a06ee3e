"""Single quantities and frozen maps of them, for the kinds around pods and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from moorage.core.frozen import FrozenDict
from moorage.wire.amounts import parse_amounts

QuantityWire: TypeAlias = str | int | float | None
"""A quantity as JSON may hold it."""

_STORAGE = "storage"
_NO_AMOUNTS: FrozenDict[str, int] = FrozenDict()


def storage_bytes(quantities: Mapping[str, QuantityWire] | None, path: str) -> int:
    """The amount of `storage` in a list of resources, 0 where it is missing."""
    value = (quantities or {}).get(_STORAGE)
    return 0 if value is None else parse_amounts({_STORAGE: value}, path)[_STORAGE]


def optional_bytes(value: QuantityWire, field: str) -> int | None:
    """The bytes that a top-level field of this name holds, None where it is missing."""
    return None if value is None else parse_amounts({field: value}, "")[field]


def frozen_amounts(quantities: Mapping[str, QuantityWire] | None, path: str) -> FrozenDict[str, int]:
    """Amounts by resource name: cpu in milli, everything else in whole units."""
    return FrozenDict(parse_amounts(quantities, path)) if quantities else _NO_AMOUNTS
