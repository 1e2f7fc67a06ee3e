"""The tree of an expression. Nodes know where they are in the text; the checker adds types and chosen overloads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from moorage.cel.types import Type


@dataclass(slots=True, eq=False)
class Literal:
    """A constant."""

    at: int
    value: Any
    type: Type | None = None


@dataclass(slots=True, eq=False)
class Ident:
    """A name."""

    at: int
    name: str
    type: Type | None = None


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or with `test` whether it is there."""

    at: int
    operand: Node
    field: str
    test: bool = False
    type: Type | None = None
    name: str = ""
    """Where the whole of it is a qualified name of something declared: that name."""


@dataclass(slots=True, eq=False)
class Call:
    """A function, operator or, with `target`, a method."""

    at: int
    function: str
    target: Node | None
    args: tuple[Node, ...]
    type: Type | None = None
    overloads: tuple[str, ...] = ()
    """The ids of the overloads that may apply; one unless types are dynamic."""


@dataclass(slots=True, eq=False)
class ListNode:
    """A list; elements whose index is in `optional` may be absent."""

    at: int
    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()
    type: Type | None = None


@dataclass(slots=True, eq=False)
class MapEntry:
    """A key and a value of a map."""

    at: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapNode:
    """A map."""

    at: int
    entries: tuple[MapEntry, ...]
    type: Type | None = None


@dataclass(slots=True, eq=False)
class StructNode:
    """A message of a named type, which no environment of ours declares."""

    at: int
    name: str
    type: Type | None = None


@dataclass(slots=True, eq=False)
class Fold:
    """What macros become: the range is gone through, and the accumulator is computed anew at each step."""

    at: int
    range: Node
    variable: str
    variable2: str
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node
    type: Type | None = None


@dataclass(slots=True, eq=False)
class Broken:
    """Where an error was reported."""

    at: int
    type: Type | None = field(default=None)


Node: TypeAlias = Literal | Ident | Select | Call | ListNode | MapNode | StructNode | Fold | Broken
