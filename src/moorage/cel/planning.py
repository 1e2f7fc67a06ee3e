"""A checked tree to closures that evaluate it and count what that costs, as cel-go counts it.

A closure takes the frame of the evaluation and returns a value, an error being one. It calls the closures of the nodes
below it directly, so that the stack is as deep as the tree is high.

The costs have rules of their own, which cel-go's answers show: a selection or index costs 1, and so does the name that
it starts at; presence tests cost what is selected, without the name; `?:`, `&&`, `||` and `in` of a constant list cost
nothing; names right below `?:` cost nothing; constants are folded and cost nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from moorage.cel.closures import (
    MAP_COST,
    Loop,
    accumulated,
    all_of,
    alternative,
    any_of,
    folded,
    list_maker,
    map_maker,
    membership,
    paid,
    slot,
    strict_call,
)
from moorage.cel.costs import cost_of
from moorage.cel.frames import Frame, Run
from moorage.cel.functions import Function, Implementation
from moorage.cel.paths import PathStep, ValuePath, resolver
from moorage.cel.patternsyntax import PatternError, PatternReader
from moorage.cel.steps import Step, done, run
from moorage.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select
from moorage.cel.values import NO_OVERLOAD, CelError, TypeValue, Value

MOST_HIGH = 600
"""Trees that are higher are refused: every level is a frame of Python's stack."""
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})


class PlanError(Exception):
    """A constant part of the expression cannot be evaluated, or the tree is too high."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a node is evaluated."""

    run: Run
    high: int
    constant: tuple[Value] | None = None
    path: ValuePath | None = None

    def as_path(self) -> ValuePath:
        return self.path or ValuePath(self.run)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    run: Run
    slots: int


def compiled(tree: Node, functions: Mapping[str, Function], names: Mapping[str, Value]) -> Program:
    """Closures for a checked tree; `names` are the constants among the declared names."""
    planner = _Planner(functions, names)
    plan = run(planner.plan(tree))
    return Program(plan.run, planner.slots)


class _Planner:
    def __init__(self, functions: Mapping[str, Function], names: Mapping[str, Value]) -> None:
        self.slots = 0
        self._functions = functions
        self._names = names
        self._scopes: list[dict[str, Run]] = []
        self._known: dict[int, _Plan] = {}

    def plan(self, node: Node) -> Step[_Plan]:
        found = self._known.get(id(node))
        if found is None:
            planned: _Plan = yield self._planned(node)
            found = planned
            if found.high > MOST_HIGH:
                raise PlanError("max recursion depth exceeded")
            self._known[id(node)] = found
        return found

    def _planned(self, node: Node) -> Step[_Plan]:
        if isinstance(node, Literal):
            return done(_constant(node.value))
        if isinstance(node, Ident):
            return done(self._ident(node))
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            if node.function == "_?_:_":
                return self._conditional(node)
            indexes = node.function in ("_[_]", "_[?_]", "_?._")
            return self._index(node, node.function != "_[_]") if indexes else self._call(node)
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Fold):
            return self._fold(node)
        raise PlanError("the tree has not been checked")

    def _plans(self, nodes: tuple[Node, ...]) -> Step[list[_Plan]]:
        plans: list[_Plan] = []
        for node in nodes:
            plan: _Plan = yield self.plan(node)
            plans.append(plan)
        return plans

    # --- names and paths ---

    def _ident(self, node: Ident) -> _Plan:
        if not node.name.startswith("."):
            for scope in reversed(self._scopes):
                if node.name in scope:
                    return _path_plan(ValuePath(scope[node.name]), 1)
        return self._global(node.name.removeprefix("."))

    def _global(self, name: str) -> _Plan:
        if name in self._names:
            return _constant(self._names[name])
        return _path_plan(ValuePath(lambda frame: frame.variables[name]), 1)

    def _select(self, node: Select) -> Step[_Plan]:
        if node.name:
            return self._global(node.name)
        operand: _Plan = yield self.plan(node.operand)
        qualifier = PathStep(node.field, test=node.test)
        path: ValuePath = yield operand.as_path().then(qualifier)
        return _path_plan(path, operand.high + 1, tested=node.test)

    def _index(self, node: Call, optional: bool) -> Step[_Plan]:
        operand: _Plan = yield self.plan(node.args[0])
        index: _Plan = yield self.plan(node.args[1])
        if index.constant is not None:
            qualifier = PathStep(index.constant[0], optional=optional)
        else:
            inner = run(resolver(index.path, 0)) if index.path else index.run
            qualifier = PathStep(computed=inner, optional=optional)
        path: ValuePath = yield operand.as_path().then(qualifier)
        return _path_plan(path, max(operand.high, index.high) + 1)

    def _conditional(self, node: Call) -> Step[_Plan]:
        condition: _Plan = yield self.plan(node.args[0])
        first: _Plan = yield self.plan(node.args[1])
        second: _Plan = yield self.plan(node.args[2])
        path = ValuePath(condition.run, branches=(first.as_path(), second.as_path()))
        return _path_plan(path, max(condition.high, first.high, second.high) + 1)

    # --- calls ---

    def _call(self, node: Call) -> Step[_Plan]:
        nodes = node.args if node.target is None else (node.target, *node.args)
        args: list[_Plan] = yield self._plans(nodes)
        high = max((each.high for each in args), default=0) + 1
        runs = tuple(each.run for each in args)
        if node.function == "_&&_":
            return _Plan(all_of(runs), high)
        if node.function == "_||_":
            return _Plan(any_of(runs), high)
        if node.function in ("or", "orValue"):
            return _Plan(alternative(runs[0], runs[1], unwrap=node.function == "orValue"), high)
        return self._plain_call(node, args, runs, high)

    def _plain_call(self, node: Call, args: list[_Plan], runs: tuple[Run, ...], high: int) -> _Plan:
        only = node.overloads[0] if len(node.overloads) == 1 else ""
        if only == "in_list" and args[1].constant is not None:
            values = args[1].constant[0]
            member = membership(args[0].run, values)
            if member is not None:
                return _Plan(member, high) if values else _constant(False)
        function = self._functions[node.function]
        call = function.callable(node.overloads)
        if node.function in _CONVERSIONS and len(args) == 1 and args[0].constant is not None:
            value = call(args[0].constant[0])
            if isinstance(value, CelError):
                raise PlanError(value.message)
            return _constant(value)
        cost = cost_of(only, function)
        prepared = function.name in _PREPARED and _is_text(args[1].constant)
        if prepared and node.function in _SEARCHES:
            _check_pattern((args[1].constant or ("",))[0])
        eager = function.eager and not prepared and (function.call is not None or bool(only))
        planned = strict_call(_of_text(call) if prepared else call, runs, cost, eager)
        if function.fixed and all(each.constant is not None for each in args):
            frame = Frame({}, 0, sys.maxsize)
            planned = paid(planned(frame), frame.cost)
        return _Plan(planned, high)

    # --- lists, maps and folds ---

    def _list(self, node: ListNode) -> Step[_Plan]:
        elements: list[_Plan] = yield self._plans(node.elements)
        make = list_maker(tuple(each.run for each in elements), node.optional)
        if all(each.constant is not None for each in elements) and not node.optional:
            return _constant([each.constant[0] for each in elements if each.constant])
        return _Plan(make, max(each.high for each in elements) + 1)

    def _map(self, node: MapNode) -> Step[_Plan]:
        parts: list[tuple[_Plan, _Plan, bool]] = []
        for entry in node.entries:
            key: _Plan = yield self.plan(entry.key)
            value: _Plan = yield self.plan(entry.value)
            parts.append((key, value, entry.optional))
        make = map_maker(tuple((key.run, value.run, optional) for key, value, optional in parts))
        if all(key.constant and value.constant and not optional for key, value, optional in parts):
            found = make(Frame({}, 0, MAP_COST))
            return _constant(found)
        return _Plan(make, max(max(key.high, value.high) for key, value, _ in parts) + 1)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _fold(self, node: Fold) -> Step[_Plan]:
        over: _Plan = yield self.plan(node.range)
        init: _Plan = yield self.plan(node.init)
        accumulator, first, second = self._slot(), self._slot(), self._slot()
        self._scopes.append({node.accumulator: accumulated(accumulator, init.run)})
        self._scopes.append({node.variable: slot(first)})
        if node.variable2:
            self._scopes[-1][node.variable2] = slot(second)
        condition: _Plan = yield self.plan(node.condition)
        step: _Plan = yield self.plan(node.step)
        self._scopes.pop()
        result: _Plan = yield self.plan(node.result)
        self._scopes.pop()
        loop = Loop(over.run, condition.run, step.run, result.run, accumulator, first, second, bool(node.variable2))
        high = max(over.high, init.high + 1, condition.high, step.high, result.high)
        return _Plan(folded(loop), high + 2)


_SEARCHES = frozenset({"find", "findAll"})
_PREPARED = _SEARCHES | {"matches"}


def _is_text(constant: tuple[Value] | None) -> bool:
    return constant is not None and constant[0].__class__ is str


def _of_text(call: Implementation) -> Implementation:
    """A search whose pattern is constant does not name the types that do not fit; a type is a text to it."""

    def search(*args: Value) -> Value:
        text = args[0].name if isinstance(args[0], TypeValue) else args[0]
        if text.__class__ is not str or any(each.__class__ is not int for each in args[2:]):
            return NO_OVERLOAD
        return call(text, *args[1:])

    return search


def _check_pattern(pattern: Value) -> None:
    """Constant patterns are compiled with the expression."""
    try:
        PatternReader(pattern).read()
    except PatternError as error:
        raise PlanError(f"error parsing regexp: {error}") from None


def _constant(value: Value) -> _Plan:
    return _Plan(lambda _: value, 1, (value,))


def _path_plan(path: ValuePath, high: int, tested: bool = False) -> _Plan:
    evaluate = run(resolver(path, (0 if path.branches else 1) - tested))
    if path.branches is not None and not tested:
        path = replace(path, known=evaluate)
    return _Plan(evaluate, high, None, path)
