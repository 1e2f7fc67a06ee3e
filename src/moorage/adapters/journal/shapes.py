"""Whether a value is of a declared type, down to the last element; what was read is used only then."""

from __future__ import annotations

import types
import typing
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias

from moorage.core.frozen import FrozenDict

Check: TypeAlias = Callable[[Any], bool]
_UNIONS = (typing.Union, types.UnionType)
_ROWS = (list, set, frozenset, deque)
_TABLES = (dict, FrozenDict, Mapping)


def hints_of(kind: Any) -> Mapping[str, Any]:
    """The declared types of the fields of a dataclass or a NamedTuple, by name, in order."""
    return _hints_of(kind)


@cache
def _hints_of(kind: Any) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    return {name: hints[name] for name in names}


@cache
def check_of(declared: Any) -> Check:
    """A function that says whether a value is of a type."""
    if declared in (Any, object, Hashable):
        return lambda _: True
    if declared is float:
        return lambda value: type(value) is float or type(value) is int
    if declared is None or declared in (int, str, bytes, bool, type(None)):
        kind = type(None) if declared is None else declared
        return lambda value: type(value) is kind
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _UNIONS:
        checks = tuple(check_of(each) for each in inner)
        return lambda value: any(check(value) for check in checks)
    if origin is typing.Literal:
        return lambda value: value in inner
    if origin is None:
        return lambda value: isinstance(value, declared)
    return _container(origin, inner)


def _container(origin: Any, inner: tuple[Any, ...]) -> Check:
    if origin is tuple and len(inner) > 1 and inner[1] is not ...:
        checks = tuple(check_of(each) for each in inner)
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(checks)
            and all(check(each) for check, each in zip(checks, value, strict=True))
        )
    one = check_of(inner[0])
    if origin is tuple or origin in _ROWS or origin is Sequence:
        kind = tuple if origin is Sequence else origin
        return lambda value: isinstance(value, kind) and all(map(one, value))
    if origin in _TABLES:
        other = check_of(inner[1])
        return lambda value: isinstance(value, origin) and all(map(one, value)) and all(map(other, value.values()))
    raise TypeError(f"values of type {origin} are not checked")
