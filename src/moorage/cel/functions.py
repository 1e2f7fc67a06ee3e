"""Functions: overloads with static types for the checker, and what is called at run time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, TypeAlias

from moorage.cel import types as ty
from moorage.cel.types import Type, TypeKind
from moorage.cel.values import NO_OVERLOAD, CelError, Duration, Map, Timestamp, Value, type_name

_REMEMBERED, _SHORT = 1024, 64
Implementation: TypeAlias = Callable[..., Value]
Cost: TypeAlias = Callable[[tuple[Value, ...], Value], int]
"""What a call costs, from its arguments and its result, either of which may be an error."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    id: str
    params: tuple[Type, ...]
    result: Type
    member: bool
    call: Implementation | None = None
    """What is done where this overload applies; None where the function itself looks at its arguments."""
    variables: frozenset[str] = frozenset()
    """The names of its type parameters."""

    def accepts(self, args: tuple[Value, ...]) -> bool:
        """Whether the arguments have the types of the parameters, as far as values show it."""
        return len(args) == len(self.params) and all(map(fits, self.params, args))


@dataclass(frozen=True, slots=True)
class Function:
    """Everything of one name."""

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    """Called with any arguments where it is set; it refuses those that do not fit."""
    operand: Callable[[Value], bool] | None = None
    """What the first argument must be for `call` to be asked at all."""
    cost: Cost | None = None
    """What a call costs, whatever its overload; None for the cost of the overload, or 1."""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    """What calls of some overloads cost."""
    eager: bool = True
    """Whether both of two arguments are evaluated though the first is an error."""
    fixed: bool = False
    """Whether calls with constant arguments are made once, with the expression; each evaluation pays for them."""

    def callable(self, ids: tuple[str, ...]) -> Implementation:
        """What a call with these possible overloads does."""
        if self.call is not None:
            return self._guarded(self.call)
        if len(ids) == 1:
            (chosen,) = (each for each in self.overloads if each.id == ids[0])
            candidates: tuple[Overload, ...] = (chosen,)
        else:
            candidates = self.overloads
        return _dispatch(self.name, candidates)

    def _guarded(self, call: Implementation) -> Implementation:
        operand, name = self.operand, self.name
        if operand is None:
            return call
        missing = CelError(f"no such overload: {name}")

        def guarded(*args: Value) -> Value:
            if operand(args[0]):
                return call(*args)
            return NO_OVERLOAD if isinstance(args[0], str | Duration | Timestamp) else missing

        return guarded


def _dispatch(name: str, candidates: tuple[Overload, ...]) -> Implementation:
    by_class: dict[tuple[type, ...], Implementation] = {}
    """What was called for arguments of these classes, where nothing else of them matters."""

    def refused(*args: Value) -> Value:
        return CelError(f"no such overload: {name}({', '.join(map(type_name, args))})")

    def look(args: tuple[Value, ...]) -> Implementation:
        return next((each.call for each in candidates if each.call is not None and each.accepts(args)), refused)

    def dispatch(*args: Value) -> Value:
        classes = tuple(map(type, args))
        call = by_class.get(classes)
        if call is None:
            call = by_class[classes] = look(args)
        return call(*args)

    if any(param.kind in (TypeKind.LIST, TypeKind.MAP) for each in candidates for param in each.params):
        return lambda *args: look(args)(*args)
    return dispatch


def remembered(call: Callable[[str], Value]) -> Callable[[str], Value]:
    """A conversion of texts that knows its answers to short ones."""
    kept = lru_cache(maxsize=_REMEMBERED)(call)
    return lambda text: kept(text) if len(text) <= _SHORT else call(text)


def fits(param: Type, value: Value) -> bool:
    """Whether a value can be an argument of this type; of lists and maps the first element is looked at."""
    if param.kind in (TypeKind.DYN, TypeKind.PARAMETER):
        return True
    if param.name != type_name(value):
        return False
    if param.kind is TypeKind.LIST:
        return not value or fits(param.parameters[0], value[0])
    if isinstance(value, Map):
        for key, element in value.items():
            return fits(param.parameters[0], key) and fits(param.parameters[1], element)
    return True


_PIECE = re.compile(r"[A-Za-z_][\w.]*|[(),]")
_TYPES = {
    "bool": ty.BOOL,
    "bytes": ty.BYTES,
    "double": ty.DOUBLE,
    "duration": ty.DURATION,
    "dyn": ty.DYN,
    "int": ty.INT,
    "string": ty.STRING,
    "timestamp": ty.TIMESTAMP,
    "uint": ty.UINT,
}


def _read(pieces: list[str], known: dict[str, Type]) -> Type:
    name = pieces.pop(0)
    parameters: list[Type] = []
    if pieces and pieces[0] == "(":
        pieces.pop(0)
        while True:
            parameters.append(_read(pieces, known))
            if pieces.pop(0) == ")":
                break
    if name in known:
        return known[name]
    if len(name) == 1 and name.isupper():
        return ty.parameter(name)
    if name == "map":
        return ty.map_of(*parameters)
    return {"list": ty.list_of, "optional": ty.optional_of, "type": ty.type_of}[name](*parameters)


@cache
def _signature(text: str, known: tuple[tuple[str, Type], ...]) -> tuple[tuple[Type, ...], Type]:
    left, _, right = text.partition("->")
    names = _TYPES | dict(known)
    pieces = _PIECE.findall(left)
    params: list[Type] = []
    while pieces:
        params.append(_read(pieces, names))
        if pieces:
            pieces.pop(0)
    return tuple(params), _read(_PIECE.findall(right), names)


def _variables(what: Type) -> frozenset[str]:
    if what.kind is TypeKind.PARAMETER:
        return frozenset({what.name})
    return frozenset().union(*map(_variables, what.parameters))


def overload(name: str, signature: str, call: Implementation | None = None, **known: Type) -> Overload:
    """An overload from a text such as `list(A), A -> int`; capital letters are type parameters."""
    params, result = _signature(signature, tuple(known.items()))
    variables = frozenset().union(*map(_variables, (*params, result)))
    return Overload(name, params, result, member=False, call=call, variables=variables)


def method(name: str, signature: str, call: Implementation | None = None, **known: Type) -> Overload:
    """An overload whose first parameter is the object that it is called on."""
    return replace(overload(name, signature, call, **known), member=True)


@dataclass(frozen=True, slots=True)
class Library:
    """Functions and types that belong together."""

    functions: tuple[Function, ...]
    types: tuple[Type, ...] = ()
    """Types that expressions may name."""


def merged(libraries: Iterable[Library]) -> dict[str, Function]:
    """All functions by name; overloads of the same name come together, in order."""
    found: dict[str, Function] = {}
    for library in libraries:
        for function in library.functions:
            before = found.get(function.name)
            found[function.name] = function if before is None else _joined(before, function)
    return found


def _joined(first: Function, second: Function) -> Function:
    calls: Any = first.call or second.call
    return Function(
        first.name,
        first.overloads + second.overloads,
        calls,
        first.operand or second.operand,
        first.cost or second.cost,
        {**first.costs, **second.costs},
        first.eager and second.eager,
        first.fixed and second.fixed,
    )
