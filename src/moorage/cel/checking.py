"""The type checker: every name is declared, every call has an overload, and every node gets its type."""

from __future__ import annotations

from collections.abc import Mapping as Table

from moorage.cel import types as ty
from moorage.cel.errors import Problems
from moorage.cel.functions import Function, Overload
from moorage.cel.steps import Step, done, run
from moorage.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select, StructNode
from moorage.cel.types import Type, TypeKind
from moorage.cel.values import type_name

_LITERALS = {each.name: each for each in (ty.BOOL, ty.BYTES, ty.DOUBLE, ty.INT, ty.NULL, ty.STRING, ty.UINT)}
_LOGIC = frozenset({"_&&_", "_||_"})


def qualified(node: Node) -> str:
    """The dotted name that names and selections make up; empty if there is anything else in it."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(names)])


class Checker:
    """Checks one expression in an environment."""

    def __init__(
        self,
        functions: Table[str, Function],
        names: Table[str, Type],
        fields: Table[str, Table[str, Type]],
        problems: Problems,
    ) -> None:
        self._functions = functions
        self._names = names
        self._fields = fields
        self._problems = problems
        self._known = ty.Mapping()
        self._scopes: list[dict[str, Type]] = []
        self._variables = 0

    def check(self, tree: Node) -> Type:
        """The type of the expression; what is wrong is in the problems."""
        return self.final(run(self._check(tree)))

    def final(self, what: Type | None) -> Type:
        """A type with everything that is known now; what is not is dynamic."""
        return self._known.substituted(what or ty.ERROR, ty.DYN)

    def _check(self, node: Node) -> Step[Type]:
        if node.type is None:
            found: Type = yield self._typed(node)
            node.type = found
        return node.type

    def _typed(self, node: Node) -> Step[Type]:
        if isinstance(node, Literal):
            return done(_LITERALS[type_name(node.value)])
        if isinstance(node, Ident):
            return done(self._ident(node))
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._optional_field(node) if node.function == "_?._" else self._call(node)
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Fold):
            return self._fold(node)
        if isinstance(node, StructNode):
            self._undeclared(node.at, node.name.removeprefix("."))
        return done(ty.ERROR)

    # --- names ---

    def _undeclared(self, at: int, name: str) -> None:
        self._problems.add(at, f"undeclared reference to '{name}' (in container '')")

    def _declared(self, name: str) -> Type | None:
        if name.startswith("."):
            return self._names.get(name[1:])
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._names.get(name)

    def _ident(self, node: Ident) -> Type:
        found = self._declared(node.name)
        if found is None:
            self._undeclared(node.at, node.name)
            return ty.ERROR
        return found

    def _select(self, node: Select) -> Step[Type]:
        name = qualified(node)
        found = self._names.get(name.removeprefix(".")) if name and not node.test else None
        if found is not None and not self._shadowed(name):
            node.name = name.removeprefix(".")
            return found
        result: Type = yield self._field(node.at, node.operand, node.field, optional=False)
        return ty.BOOL if node.test else self._known.substituted(result)

    def _shadowed(self, name: str) -> bool:
        first = name.partition(".")[0]
        return any(first in scope for scope in self._scopes)

    def _field(self, at: int, operand: Node, field: str, optional: bool) -> Step[Type]:
        whole: Type = yield self._check(operand)
        target, was_optional = ty.unwrapped(self._known.substituted(whole))
        result = self._field_type(at, target, field)
        return ty.optional_of(result) if optional or was_optional else result

    def _field_type(self, at: int, target: Type, field: str) -> Type:
        if target.kind is TypeKind.MAP:
            return target.parameters[1]
        if target.kind is TypeKind.STRUCT:
            fields = self._fields.get(target.name)
            if fields is not None and field in fields:
                return fields[field]
            missing = f"undefined field '{field}'"
            self._problems.add(at, f"unexpected failed resolution of '{target.name}'" if fields is None else missing)
            return ty.ERROR
        if target.kind is TypeKind.PARAMETER:
            self._known.assignable((ty.DYN,), (target,))
        elif not ty.is_dynamic(target):
            self._problems.add(at, f"type '{target.shown()}' does not support field selection")
        return ty.DYN

    # --- calls ---

    def _optional_field(self, node: Call) -> Step[Type]:
        operand, field = node.args
        name = field.value if isinstance(field, Literal) else ""
        result: Type = yield self._field(node.at, operand, name, optional=True)
        yield self._check(field)
        node.overloads = ("select_optional_field",)
        return self._known.substituted(result)

    def _call(self, node: Call) -> Step[Type]:
        for arg in node.args:
            yield self._check(arg)
        if node.target is None:
            name = node.function.removeprefix(".")
            return self._resolved(node, name) if name in self._functions else self._unknown(node, node.function)
        prefix = qualified(node.target)
        whole = f"{prefix}.{node.function}".removeprefix(".")
        if prefix and whole in self._functions:
            node.function, node.target = whole, None
            return self._resolved(node, whole)
        yield self._check(node.target)
        if node.function not in self._functions:
            return self._unknown(node, node.function)
        return self._resolved(node, node.function)

    def _unknown(self, node: Call, name: str) -> Type:
        self._undeclared(node.at, name)
        return ty.ERROR

    def _resolved(self, node: Call, name: str) -> Type:
        node.function = name
        nodes = node.args if node.target is None else (node.target, *node.args)
        args = tuple(each.type or ty.ERROR for each in nodes)
        if name in _LOGIC:
            return self._logic(node, args)
        result: Type | None = None
        chosen: list[str] = []
        for overload in self._functions[name].overloads:
            if overload.member is (node.target is None):
                continue
            found = self._applied(overload, args)
            if found is not None:
                chosen.append(overload.id)
                result = found if result in (None, found) else ty.DYN
        if result is None:
            self._no_overload(node, name, args)
            return ty.ERROR
        node.overloads = tuple(chosen)
        return result

    def _logic(self, node: Call, args: tuple[Type, ...]) -> Type:
        wrong = [index for index, each in enumerate(args) if not self._known.assignable((each,), (ty.BOOL,))]
        for index in wrong:
            self._mismatch(node.args[index].at, ty.BOOL, args[index])
        node.overloads = ("logical",)
        return ty.ERROR if wrong else ty.BOOL

    def _applied(self, overload: Overload, args: tuple[Type, ...]) -> Type | None:
        if len(args) != len(overload.params):
            return None
        params, result = overload.params, overload.result
        if overload.variables:
            fresh = ty.Mapping({name: self._variable() for name in overload.variables})
            params, result = tuple(map(fresh.substituted, params)), fresh.substituted(result)
        return self._known.substituted(result) if self._known.assignable(args, params) else None

    def _no_overload(self, node: Call, name: str, args: tuple[Type, ...]) -> None:
        shown = [self._known.substituted(each, ty.DYN).shown() for each in args]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        applied = f"{target}({', '.join(shown)})"
        self._problems.add(node.at, f"found no matching overload for '{name}' applied to '{applied}'")

    def _variable(self) -> Type:
        self._variables += 1
        return ty.parameter(f"_var{self._variables}")

    def _mismatch(self, at: int, expected: Type, actual: Type) -> None:
        self._problems.add(at, f"expected type '{expected.shown()}' but found '{actual.shown()}'")

    # --- lists, maps and folds ---

    def _joined(self, before: Type | None, now: Type) -> Type:
        """The type of elements so far; of mixed ones it is dynamic, which is looked into later."""
        if before is None:
            return now
        return ty.most_general(before, now) if self._known.assignable((before,), (now,)) else ty.DYN

    def _inside(self, at: int, what: Type, optional: bool) -> Type:
        """The type of an element; one that may be absent has to be optional."""
        if not optional:
            return what
        inner, was_optional = ty.unwrapped(self._known.substituted(what))
        if not was_optional and not ty.is_dynamic(inner):
            self._mismatch(at, ty.optional_of(inner), inner)
        return inner

    def _list(self, node: ListNode) -> Step[Type]:
        element: Type | None = None
        for index, each in enumerate(node.elements):
            found: Type = yield self._check(each)
            element = self._joined(element, self._inside(each.at, found, index in node.optional))
        return ty.list_of(element or self._variable())

    def _map(self, node: MapNode) -> Step[Type]:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            found: Type = yield self._check(entry.key)
            key = self._joined(key, found)
            found = yield self._check(entry.value)
            value = self._joined(value, self._inside(entry.value.at, found, entry.optional))
        return ty.map_of(key or self._variable(), value or self._variable())

    def _fold(self, node: Fold) -> Step[Type]:
        found: Type = yield self._check(node.range)
        accumulated: Type = yield self._check(node.init)
        first, second = self._elements(node, self._known.substituted(found))
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append({node.variable: first} | ({node.variable2: second} if node.variable2 else {}))
        condition: Type = yield self._check(node.condition)
        self._assert(node.condition.at, ty.BOOL, condition)
        step: Type = yield self._check(node.step)
        self._assert(node.step.at, accumulated, step)
        self._scopes.pop()
        result: Type = yield self._check(node.result)
        self._scopes.pop()
        return self._known.substituted(result)

    def _elements(self, node: Fold, over: Type) -> tuple[Type, Type]:
        """The types of the variables of a fold over a range."""
        two = bool(node.variable2)
        if over.kind is TypeKind.LIST:
            return (ty.INT, over.parameters[0]) if two else (over.parameters[0], ty.DYN)
        if over.kind is TypeKind.MAP:
            return over.parameters[0], over.parameters[1]
        if over.kind is TypeKind.PARAMETER or ty.is_dynamic(over):
            self._known.assignable((ty.DYN,), (over,))
            return ty.DYN, ty.DYN
        message = (
            f"expression of type '{over.shown()}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )
        self._problems.add(node.range.at, message)
        return ty.ERROR, ty.ERROR

    def _assert(self, at: int, expected: Type, actual: Type) -> None:
        if not self._known.assignable((expected,), (actual,)):
            self._mismatch(at, expected, actual)
