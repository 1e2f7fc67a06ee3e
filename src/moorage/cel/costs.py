"""What calls cost, by function or by overload; a call of anything else costs 1.

A cost is computed from the arguments and the result, either of which may be an error, whose size is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from moorage.cel.functions import Cost, Function
from moorage.cel.values import Duration, Foreign, Map, Timestamp, Value, go_name, size
from moorage.cel.work import InternalError

TRAVERSAL = 0.1
"""Per character."""
_PATTERN = 0.25
"""Per character of a regular expression."""
_LIST = 10


def per_character(number: int, times: int = 1) -> int:
    """What it costs to go through so many characters."""
    return math.ceil(number * times * TRAVERSAL)


def first_argument(args: tuple[Value, ...], _: Value) -> int:
    """One pass over the first argument."""
    return per_character(size(args[0]))


def first_argument_twice(args: tuple[Value, ...], _: Value) -> int:
    """Two passes over the first argument."""
    return per_character(size(args[0]), 2)


def result_twice(_: tuple[Value, ...], result: Value) -> int:
    """Two passes over the result."""
    return per_character(size(result), 2)


def pattern(args: tuple[Value, ...], _: Value) -> int:
    """A text and a regular expression."""
    return math.ceil((1.0 + size(args[0])) * TRAVERSAL) * math.ceil(size(args[1]) * _PATTERN)


def traversal(args: tuple[Value, ...], _: Value) -> int:
    """One pass over everything in the first argument."""
    total, waiting = 0, [args[0]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str | bytes):
            total += int(len(value.encode() if isinstance(value, str) else value) * TRAVERSAL)
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, Map):
            waiting.extend(part for entry in value.items() for part in entry)
        else:
            total += 1
    return total


def equality(args: tuple[Value, ...], _: Value) -> int:
    """The shorter of both; values of libraries cost 1."""
    if isinstance(args[0], Foreign):
        return 1
    return smaller(args, _)


def smaller(args: tuple[Value, ...], _: Value) -> int:
    """One pass over the shorter argument."""
    return per_character(min(size(args[0]), size(args[1])))


def _both(args: tuple[Value, ...], _: Value) -> int:
    return per_character(size(args[0]) + size(args[1]))


def _second(args: tuple[Value, ...], _: Value) -> int:
    return per_character(size(args[1]))


def _product(args: tuple[Value, ...], _: Value) -> int:
    return per_character(size(args[0])) * per_character(size(args[1]))


def _list_size(args: tuple[Value, ...], _: Value) -> int:
    return size(args[1])


def _allocated(factor: float, number: int) -> int:
    return int(number * factor) + 1 + _LIST


def _new_list(_: tuple[Value, ...], result: Value) -> int:
    return _allocated(1, size(result))


def _flattened(args: tuple[Value, ...], _: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    if depth.__class__ is not int:
        raise InternalError(f"interface conversion: ref.Val is {go_name(depth)}, not types.Int")
    return _allocated(depth if depth >= 0 else 1, size(args[0]))


_ADDERS = (int, float, str, bytes, Duration, Timestamp)


def _compared_with_itself(index: int) -> Cost:
    def cost(args: tuple[Value, ...], _: Value) -> int:
        values = args[index]
        if not isinstance(values, list):
            missing = "Contains" if isinstance(values, _ADDERS) and not isinstance(values, bool) else "Add"
            raise InternalError(
                f"interface conversion: {go_name(values)} is not traits.Lister: missing method {missing}"
            )
        if not values:
            return _allocated(2, 0)
        factor = 2 + TRAVERSAL if isinstance(values[0], str | bytes) else 2.0
        return _allocated(factor, size(values) ** 2)

    return cost


def _sets(factor: int) -> Cost:
    return lambda args, _: 1 + size(args[0]) * size(args[1]) * factor


_SORTED = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")
_BY_OVERLOAD: dict[str, Cost] = {
    "list_slice": _new_list,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "lists_range": _new_list,
    "list_reverse": _new_list,
    "list_distinct": _compared_with_itself(0),
    **{f"list_{name}_sort": _compared_with_itself(0) for name in _SORTED},
    **{f"list_{name}_sortByAssociatedKeys": _compared_with_itself(1) for name in _SORTED},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "starts_with_string": _second,
    "ends_with_string": _second,
    "string_to_bytes": first_argument,
    "bytes_to_string": first_argument,
    "strings_quote": first_argument,
    "string_format": first_argument,
    "in_list": _list_size,
    "equals": equality,
    "not_equals": smaller,
    "add_string": _both,
    "add_bytes": _both,
    "matches": pattern,
    "matches_string": pattern,
    "contains_string": _product,
    **{
        f"{relation}_{kind}": smaller
        for relation in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}


def cost_of(overload: str, function: Function) -> Callable[[tuple[Value, ...], Value], int] | None:
    """The cost of a call whose overload is known, or empty; None for 1."""
    return function.costs.get(overload) or function.cost or _BY_OVERLOAD.get(overload)
