"""Lists as sets."""

from __future__ import annotations

from moorage.cel.functions import Function, Library, overload
from moorage.cel.values import Value, equal
from moorage.cel.work import spend


def _has(values: list[Value], what: Value) -> bool:
    spend(len(values))
    return any(equal(each, what) for each in values)


def _contains(values: list[Value], others: list[Value]) -> bool:
    return all(_has(values, each) for each in others)


def _intersects(values: list[Value], others: list[Value]) -> bool:
    return any(_has(values, each) for each in others)


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
