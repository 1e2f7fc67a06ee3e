"""Functions of lists and of maps that macros make."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from moorage.cel import costs
from moorage.cel.functions import Function, Library, Overload, method, overload
from moorage.cel.standard import add
from moorage.cel.values import (
    MISSING,
    NO_OVERLOAD,
    CelError,
    Duration,
    Map,
    MutableMap,
    Uint,
    Value,
    comparable,
    compare,
    equal,
    map_key,
    shown,
    type_name,
)
from moorage.cel.work import MOST_WORK, CostExceededError, spend

_KINDS = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_LONG = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}


def _is_sorted(values: list[Value]) -> Value:
    for index, each in enumerate(values):
        if not comparable(each):
            return NO_OVERLOAD
        if index and compare(values[index - 1], each) == 1:
            return False
    return True


def _summed(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        found = zero
        for each in values:
            found = add(found, each)
            if found.__class__ is CelError:
                break
        return found

    return total


def _best(name: str, worse: int) -> Callable[[list[Value]], Value]:
    def choose(values: list[Value]) -> Value:
        if not values:
            return CelError(f"{name} called on empty list")
        found = values[0]
        for each in values:
            if not comparable(each):
                return NO_OVERLOAD
            if compare(found, each) == worse:
                found = each
        return found

    return choose


def _index_of(values: list[Value], what: Value) -> int:
    return next((index for index, each in enumerate(values) if equal(each, what)), -1)


def _last_index_of(values: list[Value], what: Value) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if equal(values[index], what)), -1)


def _includes(values: Value, what: Value) -> bool:
    if isinstance(values, list):
        return any(equal(each, what) for each in values)
    return equal(values, what)


def _range(number: int) -> Value:
    if number < 0:
        return CelError(f"lists.range: size must be non-negative, got {number}")
    if number > MOST_WORK:
        raise CostExceededError
    spend(number)
    return list(range(number))


def _slice(values: list[Value], start: int, end: int) -> Value:
    text = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        return CelError(f"{text}negative indexes not supported")
    if start > end:
        return CelError(f"{text}start index must be less than or equal to end index")
    if len(values) < end:
        return CelError(f"{text}list is length {len(values)}")
    return values[start:end]


def _flattened(values: list[Value], depth: int = 1) -> Value:
    if depth < 0:
        return CelError("level must be non-negative")
    found: list[Value] = []
    waiting = [(each, depth) for each in reversed(values)]
    while waiting:
        value, left = waiting.pop()
        if isinstance(value, list) and left > 0:
            spend(len(value))
            waiting.extend((each, left - 1) for each in reversed(value))
        else:
            found.append(value)
    return found


_PARAMETERS = {"list": "list(dyn)", "map": "map(dyn, dyn)", "optional_type": "optional_type(dyn)"}


def _flatten(values: Value, *depth: Value) -> Value:
    if isinstance(values, list) and all(each.__class__ is int for each in depth):
        return _flattened(values, *depth)
    shown_types = [_PARAMETERS.get(name, name) for name in map(type_name, (values, *depth))]
    return CelError(f"no such overload: {shown_types[0]}.flatten({', '.join(shown_types[1:])})")


def _distinct(values: list[Value]) -> list[Value]:
    found: list[Value] = []
    for each in values:
        spend(len(found))
        if not any(equal(each, other) for other in found):
            found.append(each)
    return found


def _sorted_by(values: list[Value], keys: list[Value]) -> Value:
    if len(values) != len(keys):
        sizes = f"{len(values)} and {len(keys)} elements respectively"
        text = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
        return CelError(f"{text} {sizes}")
    if not values:
        return values
    if not comparable(keys[0]):
        return CelError("list elements must be comparable")
    if any(type_name(each) != type_name(keys[0]) for each in keys):
        return CelError("list elements must have the same type")
    spend(len(values) * 20)
    before: Callable[[int, int], int] = lambda a, b: _order(keys[a], keys[b])  # noqa: E731
    order = sorted(range(len(values)), key=cmp_to_key(before))
    return [values[index] for index in order]


def _is_list(value: Value) -> bool:
    return isinstance(value, list)


def _order(a: Value, b: Value) -> int:
    found = compare(a, b)
    return found if isinstance(found, int) else 0


def _inserted(entries: MutableMap, *more: Value) -> Value:
    """Entries of a map that a macro makes: a key and a value, or another map."""
    pairs = [more] if len(more) == 2 else list(more[0].items())
    made = entries.entries if isinstance(entries, MutableMap) else dict(entries.entries)
    for key, value in pairs:
        held = map_key(key)
        if held.__class__ is CelError:
            return held
        if made.get(held, MISSING) is not MISSING:
            return CelError(f"insert failed: key {shown(key)} already exists")
        made[held] = value
    return entries if isinstance(entries, MutableMap) else Map(made)


def _each(pattern: str, signature: str, call: Callable[..., Value] | None, long: bool = False) -> tuple[Overload, ...]:
    """An overload per kind of elements."""
    return tuple(
        method(pattern.format(_LONG.get(kind, kind) if long else kind), signature.format(kind), call) for kind in _KINDS
    )


LIBRARY = Library(
    (
        Function("isSorted", _each("list_{0}_is_sorted_bool", "list({0}) -> bool", _is_sorted), cost=costs.traversal),
        Function(
            "sum",
            tuple(
                method(f"list_{kind}_sum_{kind}", f"list({kind}) -> {kind}", _summed(zero))
                for kind, zero in _ZEROS.items()
            ),
            cost=costs.traversal,
        ),
        Function("max", _each("list_{0}_max_{0}", "list({0}) -> {0}", _best("max", -1)), cost=costs.traversal),
        Function("min", _each("list_{0}_min_{0}", "list({0}) -> {0}", _best("min", 1)), cost=costs.traversal),
        Function("indexOf", (method("list_a_index_of_int", "list(A), A -> int", _index_of),)),
        Function("lastIndexOf", (method("list_a_last_index_of_int", "list(A), A -> int", _last_index_of),)),
        Function("includes", (method("list_includes_dyn_dyn", "dyn, dyn -> bool", _includes),), cost=costs.traversal),
        Function("lists.range", (overload("lists_range", "int -> list(int)", _range),)),
        Function("slice", (method("list_slice", "list(T), int, int -> list(T)", _slice),)),
        Function(
            "flatten",
            (
                method("list_flatten", "list(list(T)) -> list(T)"),
                method("list_flatten_int", "list(dyn), int -> list(dyn)"),
            ),
            _flatten,
        ),
        Function("reverse", (method("list_reverse", "list(T) -> list(T)", lambda values: values[::-1]),)),
        Function("distinct", (method("list_distinct", "list(T) -> list(T)", _distinct),)),
        Function(
            "sort",
            _each("list_{0}_sort", "list({0}) -> list({0})", None, long=True),
            lambda values: _sorted_by(values, values),
            _is_list,
        ),
        Function(
            "@sortByAssociatedKeys",
            _each("list_{0}_sortByAssociatedKeys", "list(T), list({0}) -> list(T)", None, long=True),
            _sorted_by,
            _is_list,
        ),
        Function(
            "cel.@mapInsert",
            (
                overload("@mapInsert_map_key_value", "map(K, V), K, V -> map(K, V)", _inserted),
                overload("@mapInsert_map_map", "map(K, V), map(K, V) -> map(K, V)", _inserted),
            ),
        ),
    )
)
