"""Quantities by resource name become amounts; what is not a quantity is named with its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moorage.core.quantity import QuantityError, amount, quantity_text
from moorage.wire.errors import FieldError, join_path


def parse_amounts(
    quantities: Mapping[str, str | int | float | None] | None, path: str, read: Callable[[str, str], int] = amount
) -> dict[str, int]:
    """Amounts by resource name, as `read` has them of a name and a text; null is 0, as for the API server."""
    return {name: _parse_amount(name, value, path, read) for name, value in (quantities or {}).items()}


def _parse_amount(name: str, value: str | float | None, path: str, read: Callable[[str, str], int]) -> int:
    try:
        parsed = read(name, quantity_text(value))
    except QuantityError as error:
        _, _, remedy = str(error).rpartition("; ")
        raise FieldError(join_path(path, name), value, "is not a quantity", remedy) from None
    if parsed < 0:
        raise FieldError(join_path(path, name), value, "is negative", "write 0 or more")
    return parsed
