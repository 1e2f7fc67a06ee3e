"""Lists as sets."""

from __future__ import annotations

from collections.abc import Callable

from moorage.cel.functions import Function, Library, overload
from moorage.cel.values import Value, equal
from moorage.cel.work import spend

_LOOKED_UP = frozenset({int, str, bool})
"""Types whose values are equal if they are the same key of a set, beside their type."""


def _finder(values: list[Value], others: list[Value]) -> Callable[[Value], bool]:
    """Whether a value of the others is among the values."""
    spend(len(values) + len(others))
    if all(each.__class__ in _LOOKED_UP for each in values) and all(each.__class__ in _LOOKED_UP for each in others):
        known = {(each.__class__, each) for each in values}
        return lambda what: (what.__class__, what) in known

    def compared(what: Value) -> bool:
        spend(len(values))
        return any(equal(each, what) for each in values)

    return compared


def _contains(values: list[Value], others: list[Value]) -> bool:
    return all(map(_finder(values, others), others))


def _intersects(values: list[Value], others: list[Value]) -> bool:
    return any(map(_finder(values, others), others))


LIBRARY = Library(
    (
        Function("sets.contains", (overload("list_sets_contains_list", "list(T), list(T) -> bool", _contains),)),
        Function("sets.intersects", (overload("list_sets_intersects_list", "list(T), list(T) -> bool", _intersects),)),
        Function(
            "sets.equivalent",
            (
                overload(
                    "list_sets_equivalent_list",
                    "list(T), list(T) -> bool",
                    lambda values, others: _contains(values, others) and _contains(others, values),
                ),
            ),
        ),
    )
)
