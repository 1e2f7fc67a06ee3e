"""Macros: calls that become folds, conditionals and presence tests when they are parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from moorage.cel.errors import Problems
from moorage.cel.syntax import Broken, Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR = "@result"
_OLD_ACCUMULATOR = "__result__"
_UNUSED = "#unused"
_SORTED = "@__sortBy_input__"


class MacroError(Exception):
    """The arguments do not fit; `at` is the place of the one that is wrong."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at


Expand: TypeAlias = Callable[[int, "Node | None", tuple[Node, ...]], "Node | None"]


class Macros:
    """The macros of an environment, by name, number of arguments and whether they are methods."""

    def __init__(self, table: dict[tuple[str, int, bool], Expand]) -> None:
        self._table = table

    def expanded(self, at: int, name: str, target: Node | None, args: tuple[Node, ...], problems: Problems) -> Node:
        """What a call becomes: itself unless it is a macro."""
        expand = self._table.get((name, len(args), target is not None))
        try:
            found = expand(at, target, args) if expand else None
        except MacroError as error:
            problems.add(error.at, str(error))
            return Broken(at)
        return Call(at, name, target, args) if found is None else found


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.at, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(args: tuple[Node, ...]) -> tuple[str, str]:
    """The variables of a macro that has two."""
    names = [each.name if isinstance(each, Ident) else "" for each in args[:2]]
    for name, node in zip(names, args, strict=False):
        if not name:
            raise MacroError(node.at, "argument must be a simple name")
    if names[0] == names[1]:
        raise MacroError(args[1].at, f"duplicate variable name: {names[0]}")
    return _variable(args[0], ""), _variable(args[1], "")


def _accumulated(at: int) -> Ident:
    return Ident(at, ACCUMULATOR)


def _call(at: int, function: str, *args: Node) -> Call:
    return Call(at, function, None, args)


def _has(at: int, _target: Node | None, args: tuple[Node, ...]) -> Node:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand.at, "invalid argument to has() macro")
    return Select(at, operand.operand, operand.field, test=True)


def _fold(
    at: int, target: Node | None, names: tuple[str, str], init: Node, condition: Node, step: Node, result: Node
) -> Node:
    return Fold(at, target or Broken(at), names[0], names[1], ACCUMULATOR, init, condition, step, result)


def _all(at: int, target: Node | None, names: tuple[str, str], predicate: Node) -> Node:
    condition = _call(at, "@not_strictly_false", _accumulated(at))
    step = _call(at, "_&&_", _accumulated(at), predicate)
    return _fold(at, target, names, Literal(at, True), condition, step, _accumulated(at))


def _exists(at: int, target: Node | None, names: tuple[str, str], predicate: Node) -> Node:
    condition = _call(at, "@not_strictly_false", _call(at, "!_", _accumulated(at)))
    step = _call(at, "_||_", _accumulated(at), predicate)
    return _fold(at, target, names, Literal(at, False), condition, step, _accumulated(at))


def _exists_one(at: int, target: Node | None, names: tuple[str, str], predicate: Node) -> Node:
    more = _call(at, "_+_", _accumulated(at), Literal(at, 1))
    step = _call(at, "_?_:_", predicate, more, _accumulated(at))
    result = _call(at, "_==_", _accumulated(at), Literal(at, 1))
    return _fold(at, target, names, Literal(at, 0), Literal(at, True), step, result)


_Quantifier: TypeAlias = Callable[[int, "Node | None", tuple[str, str], Node], Node]


def _one_variable(quantifier: _Quantifier) -> Expand:
    def expand(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        return quantifier(at, target, (_variable(args[0], "argument must be a simple name"), ""), args[1])

    return expand


def _two_variables(quantifier: _Quantifier) -> Expand:
    return lambda at, target, args: quantifier(at, target, _variables(args), args[2])


def _collected(
    at: int, target: Node | None, names: tuple[str, str], init: Node, step: Node, predicate: Node | None
) -> Node:
    if predicate is not None:
        step = _call(at, "_?_:_", predicate, step, _accumulated(at))
    return _fold(at, target, names, init, Literal(at, True), step, _accumulated(at))


def _appended(at: int, element: Node) -> Node:
    return _call(at, "_+_", _accumulated(at), ListNode(at, (element,)))


def _map(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    predicate = args[1] if len(args) == 3 else None
    return _collected(at, target, (name, ""), ListNode(at, ()), _appended(at, args[-1]), predicate)


def _filter(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    return _collected(at, target, (name, ""), ListNode(at, ()), _appended(at, args[0]), args[1])


def _transform_list(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    predicate = args[2] if len(args) == 4 else None
    return _collected(at, target, _variables(args), ListNode(at, ()), _appended(at, args[-1]), predicate)


def _transform_map(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    names = _variables(args)
    step = _call(at, "cel.@mapInsert", _accumulated(at), Ident(at, names[0]), args[-1])
    return _collected(at, target, names, MapNode(at, ()), step, args[2] if len(args) == 4 else None)


def _transform_map_entry(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    step = _call(at, "cel.@mapInsert", _accumulated(at), args[-1])
    return _collected(at, target, _variables(args), MapNode(at, ()), step, args[2] if len(args) == 4 else None)


def _bound(at: int, name: str, init: Node, result: Node) -> Fold:
    """A fold over nothing, whose accumulator is a variable."""
    return Fold(at, ListNode(at, ()), _UNUSED, "", name, init, Literal(at, False), Ident(at, name), result)


def _bind(at: int, target: Node | None, args: tuple[Node, ...]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].at, "cel.bind() variable names must be simple identifiers")
    return _bound(at, args[0].name, args[1], args[2])


def _optional_map(at: int, target: Node | None, args: tuple[Node, ...], flat: bool) -> Node:
    if not isinstance(args[0], Ident):
        name = "optFlatMap" if flat else "optMap"
        raise MacroError(args[0].at, f"{name}() variable name must be a simple identifier")
    mapped: Node = _bound(at, args[0].name, Call(at, "value", target, ()), args[1])
    if not flat:
        mapped = _call(at, "optional.of", mapped)
    return _call(at, "_?_:_", Call(at, "hasValue", target, ()), mapped, _call(at, "optional.none"))


def _sort_by(at: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    if target is None or isinstance(target, Literal | MapNode):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(at if target is None else target.at, message)
    keys = _map(at, Ident(at, _SORTED), args)
    return _bound(at, _SORTED, target, Call(at, "@sortByAssociatedKeys", Ident(at, _SORTED), (keys,)))


STANDARD_MACROS: dict[tuple[str, int, bool], Expand] = {
    ("has", 1, False): _has,
    ("all", 2, True): _one_variable(_all),
    ("exists", 2, True): _one_variable(_exists),
    ("exists_one", 2, True): _one_variable(_exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
TWO_VARIABLE_MACROS: dict[tuple[str, int, bool], Expand] = {
    ("all", 3, True): _two_variables(_all),
    ("exists", 3, True): _two_variables(_exists),
    ("exists_one", 3, True): _two_variables(_exists_one),
    ("existsOne", 3, True): _two_variables(_exists_one),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
EXTENSION_MACROS: dict[tuple[str, int, bool], Expand] = {
    ("bind", 3, True): _bind,
    ("optMap", 2, True): lambda at, target, args: _optional_map(at, target, args, flat=False),
    ("optFlatMap", 2, True): lambda at, target, args: _optional_map(at, target, args, flat=True),
    ("sortBy", 2, True): _sort_by,
}
