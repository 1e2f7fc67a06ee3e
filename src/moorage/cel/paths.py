"""Paths: a name or a value, and what is selected from it step by step, with what each step costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moorage.cel.frames import Frame, Run
from moorage.cel.steps import Step, done
from moorage.cel.values import (
    MISSING,
    NO_OVERLOAD,
    NONE,
    NUMBERS,
    CelError,
    Map,
    Optional,
    Uint,
    Value,
    go_name,
    shown,
    type_name,
)
from moorage.cel.work import CostExceededError


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step of a path: a constant key, or one that is computed."""

    key: Value = None
    computed: Run | None = None
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class ValuePath:
    """A root and what is selected from it, or a condition with two paths."""

    root: Run
    qualifiers: tuple[PathStep, ...] = ()
    branches: tuple[ValuePath, ValuePath] | None = None
    known: Run | None = None
    """Evaluates a path with branches, once that has been made."""

    def then(self, qualifier: PathStep) -> Step[ValuePath]:
        """The path with one more step."""
        if self.branches is None:
            return done(replace(self, qualifiers=(*self.qualifiers, qualifier)))
        return self._branches_then(qualifier)

    def _branches_then(self, qualifier: PathStep) -> Step[ValuePath]:
        first, second = self.branches or (self, self)
        left: ValuePath = yield first.then(qualifier)
        right: ValuePath = yield second.then(qualifier)
        return ValuePath(self.root, branches=(left, right))


def resolver(path: ValuePath, final: int) -> Step[Run]:
    """Evaluates a path; `final` is what the whole of it costs beside its steps."""
    if path.known is not None and final == 0:
        return path.known
    if path.branches is not None:
        first: Run = yield resolver(path.branches[0], 0)
        second: Run = yield resolver(path.branches[1], 0)
        return _conditional(path.root, first, second, final)
    if all(each.computed is None and not each.optional and not each.test for each in path.qualifiers):
        return _plain_path(path, final)
    return _general_path(path, final)


def _conditional(condition: Run, first: Run, second: Run, final: int) -> Run:
    def choose(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            value = first(frame)
        elif chosen is False:
            value = second(frame)
        else:
            value = chosen if chosen.__class__ is CelError else NO_OVERLOAD
        frame.cost += final
        return value

    return choose


def _plain_path(path: ValuePath, final: int) -> Run:
    root, keys = path.root, tuple(each.key for each in path.qualifiers)
    general = _general_path(path, final)

    def follow(frame: Frame) -> Value:
        value = root(frame)
        cost = frame.cost
        limit = frame.limit
        if value.__class__ is Optional and keys:
            return general(frame)
        if value.__class__ is not CelError:
            for key in keys:
                cost += 1
                if cost > limit:
                    break
                value = qualified(value, key)
                if value.__class__ is CelError:
                    break
        if cost <= limit:
            cost += final
        frame.cost = cost
        if cost > limit:
            raise CostExceededError
        return value

    return follow


def _general_path(path: ValuePath, final: int) -> Run:
    root, qualifiers = path.root, path.qualifiers

    def follow(frame: Frame) -> Value:
        value = root(frame)
        optional = False
        if value.__class__ is Optional and qualifiers:
            optional = value.present
            if not optional:
                frame.charge(final)
                return value
            value = value.value
        for qualifier in qualifiers:
            if value.__class__ is CelError:
                break
            key = qualifier.key if qualifier.computed is None else qualifier.computed(frame)
            optional = optional or qualifier.optional
            value = _step(frame, value, key, qualifier.test, optional)
            if value is MISSING:
                frame.charge(final)
                return False if qualifier.test else NONE
        frame.charge(final)
        if optional and value.__class__ is not CelError:
            return True if qualifiers[-1].test else Optional(True, value)
        return value

    return follow


def _step(frame: Frame, value: Value, key: Value, test: bool, optional: bool) -> Value:
    """One step of a path: what is there, MISSING where that is no error, or an error."""
    if key.__class__ is CelError:
        if test or not optional:
            frame.charge(1)
        return key
    if not test and not optional:
        frame.charge(1)
        return qualified(value, key)
    found = _present(value, key)
    if test or (found is not MISSING and found.__class__ is not CelError):
        frame.charge(1)
    if test and not optional and found.__class__ is not CelError:
        return found is not MISSING
    return found


def qualified(value: Value, key: Value) -> Value:
    """What is selected from a value, or an error."""
    if isinstance(value, Map):
        found = value.find(key)
        if found is not MISSING:
            return found
        return CelError(f"no such key: {shown(key)}") if _is_key(key) else _bad_key(key)
    if isinstance(value, list):
        index = _list_index(key)
        if index.__class__ is CelError:
            return index
        if 0 <= index < len(value):
            return value[index]
        return CelError(f"index out of bounds: {shown(key)}")
    return CelError(f"no such key: {shown(key)}") if _is_key(key) else _bad_key(key)


def _present(value: Value, key: Value) -> Value:
    """What is selected from a value, MISSING, or an error."""
    if not _is_key(key):
        return _bad_key(key)
    if isinstance(value, Map):
        return value.find(key)
    if isinstance(value, list):
        index = _list_index(key)
        if index.__class__ is CelError:
            return index
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _is_key(key: Value) -> bool:
    return key.__class__ in NUMBERS or key.__class__ is str or key.__class__ is bool


def _bad_key(key: Value) -> CelError:
    return CelError(f"invalid qualifier type: {go_name(key)}")


def _list_index(key: Value) -> Value:
    if key.__class__ is int or key.__class__ is Uint:
        return key
    if key.__class__ is float:
        return int(key) if key.is_integer() else CelError(f"unsupported index value {shown(key)} in list")
    return CelError(f"unsupported index type '{type_name(key)}' in list") if _is_key(key) else _bad_key(key)
