"""What expressions may use, and compiling them with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage.cel import addresses, lists, optionals, regexes, sets, standard, strings, urls
from moorage.cel import types as ty
from moorage.cel.checking import Checker
from moorage.cel.errors import ExpressionError, Problems
from moorage.cel.frames import Frame, PauseError
from moorage.cel.functions import Library, merged
from moorage.cel.macros import EXTENSION_MACROS, STANDARD_MACROS, TWO_VARIABLE_MACROS, Macros
from moorage.cel.parsing import parse
from moorage.cel.planning import PlanError, Program, compiled
from moorage.cel.reading import Path, paths_of
from moorage.cel.types import Type
from moorage.cel.validating import validate
from moorage.cel.values import MISSING, CelError, TypeValue, Value
from moorage.cel.work import MOST_WORK, CostExceededError, InternalError, WorkAccount, use_account

MOST_COST = 1_000_000
COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_WORK_PER_COST = 4
"""Work that takes about as long as what costs one unit."""
EXTENSIONS = tuple(each.LIBRARY for each in (strings, lists, sets, optionals, regexes, urls, addresses))
_MACROS = Macros(STANDARD_MACROS | TWO_VARIABLE_MACROS | EXTENSION_MACROS)
_TYPES = {
    each.name: each
    for each in (ty.BOOL, ty.BYTES, ty.DOUBLE, ty.DURATION, ty.INT, ty.NULL, ty.STRING, ty.TIMESTAMP, ty.TYPE, ty.UINT)
} | {"list": ty.list_of(ty.DYN), "map": ty.map_of(ty.DYN, ty.DYN), ty.OPTIONAL: ty.optional_of(ty.DYN)}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of an evaluation: a value, which may be a `CelError`, and what it cost."""

    value: Value
    cost: int
    effort: int
    """How long it took, in units of cost: with the work that costs do not count."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    type: Type
    _program: Program
    reads: Mapping[str, frozenset[Path]]
    """Variable -> what is read of it, see `paths_of`."""

    def evaluate(self, variables: Mapping[str, Value], limit: int = MOST_COST) -> Evaluation:
        """Its value with these variables."""
        evaluating, found = self.begin(variables, limit), None
        while found is None:
            found = evaluating.go_on(sys.maxsize)
        return found

    def begin(self, variables: Mapping[str, Value], limit: int = MOST_COST) -> Evaluating:
        """Begin to evaluate it, piece by piece."""
        return Evaluating(self._program, variables, limit)


class Evaluating:
    """An evaluation that can be interrupted (`cel.frames`)."""

    def __init__(self, program: Program, variables: Mapping[str, Value], limit: int) -> None:
        self._program = program
        self._account = WorkAccount()
        self._frame = Frame(variables, program.slots, limit, self._account)
        self._root = self._frame.trail
        self._cost, self._left = 0, MOST_WORK

    @property
    def effort(self) -> int:
        """How long it has taken so far, as of an `Evaluation`."""
        return self._cost + (MOST_WORK - self._left) // _WORK_PER_COST

    def go_on(self, effort: int) -> Evaluation | None:
        """Evaluate for about so long; None if there is more to do. The longest step of a fold is not interrupted."""
        frame = self._frame
        frame.pause_cost, frame.pause_left = self._cost + effort, self._left - effort * _WORK_PER_COST
        frame.trail, self._root.at = self._root, 0
        frame.reset(0, MOST_WORK)
        use_account(self._account)
        value = self._value()
        self._cost, self._left = frame.cost, self._account.left
        return None if value is MISSING else Evaluation(value, frame.cost, self.effort)

    def _value(self) -> Value:
        try:
            return self._program.run(self._frame)
        except PauseError:
            return MISSING
        except (CostExceededError, RecursionError):
            return CelError(COST_EXCEEDED)
        except InternalError as error:
            return CelError(f"internal error: {error}")


@dataclass(frozen=True)
class Environment:
    """Variables, types with fields, and libraries beside the standard one."""

    variables: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()

    def __post_init__(self) -> None:
        libraries = (standard.LIBRARY, *EXTENSIONS, *self.libraries)
        types = _TYPES | {each.name: each for library in libraries for each in library.types}
        self.__dict__["_functions"] = merged(libraries)
        self.__dict__["_names"] = {name: ty.type_of(each) for name, each in types.items()} | dict(self.variables)
        self.__dict__["_constants"] = {name: TypeValue(name) for name in types}

    def compile(self, text: str) -> Expression:
        """Compile an expression; raises ExpressionError."""
        try:
            return self._compiled(text)
        except RecursionError:  # types nested in types, which follow from what is not nested itself
            raise ExpressionError("compilation failed: the expression is nested too deeply; write less of it") from None

    def _compiled(self, text: str) -> Expression:
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise ExpressionError("compilation failed: the text has halves of surrogate pairs; write whole characters")
        problems = Problems(text)
        tree = parse(text, problems, _MACROS)
        if problems.count:
            raise ExpressionError(f"compilation failed: {problems}")
        checker = Checker(self.__dict__["_functions"], self.__dict__["_names"], self.fields, problems)
        found = checker.check(tree)
        if not problems.count:
            validate(tree, problems, checker.final)
        if problems.count:
            raise ExpressionError(f"compilation failed: {problems}")
        try:
            program = compiled(tree, self.__dict__["_functions"], self.__dict__["_constants"])
        except PlanError as error:
            raise ExpressionError(f"program instantiation failed: {error}") from None
        return Expression(found, program, {name: paths_of(tree, name) for name in self.variables})
