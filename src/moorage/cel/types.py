"""Static types, and the unification with which overloads are chosen.

A type is a value. Type parameters are substituted through a `Mapping`, which grows while an expression is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TypeKind(Enum):
    """What a type is made of."""

    BOOL = "bool"
    BYTES = "bytes"
    DOUBLE = "double"
    DURATION = "duration"
    DYN = "dyn"
    ERROR = "!error!"
    INT = "int"
    LIST = "list"
    MAP = "map"
    NULL = "null"
    OPAQUE = "opaque"
    PARAMETER = "parameter"
    STRING = "string"
    STRUCT = "struct"
    TIMESTAMP = "timestamp"
    TYPE = "type"
    UINT = "uint"


@dataclass(frozen=True, slots=True)
class Type:
    """A type; `name` is the one that values of it carry at run time."""

    kind: TypeKind
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """The type with its declared name, as results are described."""
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name

    def shown(self) -> str:
        """The type as errors of the checker name it."""
        name = self.name if self.kind in _NAMED else self.kind.value
        return f"{name}({', '.join(each.shown() for each in self.parameters)})" if self.parameters else name


_NAMED = frozenset({TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.PARAMETER})

BOOL = Type(TypeKind.BOOL, "bool")
BYTES = Type(TypeKind.BYTES, "bytes")
DOUBLE = Type(TypeKind.DOUBLE, "double")
DURATION = Type(TypeKind.DURATION, "google.protobuf.Duration")
DYN = Type(TypeKind.DYN, "dyn")
ERROR = Type(TypeKind.ERROR, "!error!")
INT = Type(TypeKind.INT, "int")
NULL = Type(TypeKind.NULL, "null_type")
STRING = Type(TypeKind.STRING, "string")
TIMESTAMP = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
UINT = Type(TypeKind.UINT, "uint")
TYPE = Type(TypeKind.TYPE, "type")

OPTIONAL = "optional_type"


def list_of(element: Type) -> Type:
    """A list."""
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """A map."""
    return Type(TypeKind.MAP, "map", (key, value))


def type_of(what: Type) -> Type:
    """The type of a type."""
    return Type(TypeKind.TYPE, "type", (what,))


def optional_of(what: Type) -> Type:
    """A value that may be absent."""
    return Type(TypeKind.OPAQUE, OPTIONAL, (what,))


def parameter(name: str) -> Type:
    """A type parameter, or a variable that stands for a type that is not known yet."""
    return Type(TypeKind.PARAMETER, name)


def struct(name: str) -> Type:
    """A type with fields, or one of a library."""
    return Type(TypeKind.STRUCT, name)


def opaque(name: str) -> Type:
    """A type of a library that is known by its name only."""
    return Type(TypeKind.OPAQUE, name)


def is_dynamic(what: Type) -> bool:
    """Whether anything may be assigned to it; after an error everything may, so that one mistake gives one error."""
    return what.kind is TypeKind.DYN or what.kind is TypeKind.ERROR


def unwrapped(what: Type) -> tuple[Type, bool]:
    """The type inside an optional, and whether it was one."""
    if what.kind is TypeKind.OPAQUE and what.name == OPTIONAL:
        return what.parameters[0], True
    return what, False


class Mapping:
    """What type parameters stand for, as far as it is known."""

    __slots__ = ("_found",)

    def __init__(self, found: dict[str, Type] | None = None) -> None:
        self._found = found or {}

    def assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Whether the types agree pairwise; what follows for parameters is kept only if they do."""
        trial = Mapping(dict(self._found))
        if not trial.all_agree(left, right):
            return False
        self._found = trial._found
        return True

    def substituted(self, what: Type, unknown: Type | None = None) -> Type:
        """The type with known parameters replaced; with `unknown`, the others too."""
        while what.kind is TypeKind.PARAMETER:
            found = self._found.get(what.name)
            if found is None:
                return unknown or what
            what = found
        if not what.parameters:
            return what
        return Type(what.kind, what.name, tuple(self.substituted(each, unknown) for each in what.parameters))

    def all_agree(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Whether lists of types agree, keeping what is learned."""
        return len(left) == len(right) and all(self._agree(a, b) for a, b in zip(left, right, strict=True))

    def _agree(self, a: Type, b: Type) -> bool:
        if b.kind is TypeKind.PARAMETER:
            valid, known = self._substitutes(a, b)
            if valid or known:
                return valid
        if a.kind is TypeKind.PARAMETER:
            return self._substitutes(b, a)[0]
        if is_dynamic(a) or is_dynamic(b):
            return True
        if TypeKind.NULL in (a.kind, b.kind):
            return _nullable(b if a.kind is TypeKind.NULL else a)
        if a.kind is TypeKind.TYPE:
            return b.kind is TypeKind.TYPE
        if a.parameters or b.parameters:
            return a.kind is b.kind and a.name == b.name and self.all_agree(a.parameters, b.parameters)
        return a == b

    def _substitutes(self, what: Type, variable: Type) -> tuple[bool, bool]:
        """Whether a type can be what a variable stands for, and whether the variable already stands for something."""
        if what == variable:
            return True, True
        known = self._found.get(variable.name)
        if known is None:
            free = self._absent(variable, what)
            if free:
                self._found[variable.name] = what
            return free, False
        if what == known:
            return True, True
        if not self._agree(what, known):
            return False, True
        general = most_general(what, known)
        if self._absent(variable, general):
            self._found[variable.name] = general
        return True, True

    def _absent(self, variable: Type, within: Type) -> bool:
        if within == variable:
            return False
        if within.kind is TypeKind.PARAMETER:
            known = self._found.get(within.name)
            return known is None or self._absent(variable, known)
        return all(self._absent(variable, each) for each in within.parameters)


def _nullable(what: Type) -> bool:
    return what.kind in (TypeKind.NULL, TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.DURATION, TypeKind.TIMESTAMP)


def most_general(a: Type, b: Type) -> Type:
    """The more general of two types that agree."""
    return a if _less_specific(a, b) else b


def _less_specific(a: Type, b: Type) -> bool:
    if a.kind in (TypeKind.DYN, TypeKind.PARAMETER):
        return True
    if b.kind in (TypeKind.DYN, TypeKind.PARAMETER) or a.kind is not b.kind:
        return False
    if a.kind is TypeKind.TYPE:
        return True
    if a.name != b.name or len(a.parameters) != len(b.parameters):
        return False
    return all(_less_specific(left, right) for left, right in zip(a.parameters, b.parameters, strict=True))
