"""Closures for logic, calls, lists, maps and folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moorage.cel.frames import Begun, Ended, Frame, PauseError, Run
from moorage.cel.functions import Cost
from moorage.cel.values import (
    MISSING,
    NO_OVERLOAD,
    NUMBERS,
    CelError,
    Foreign,
    Map,
    MutableList,
    MutableMap,
    Optional,
    Value,
    go_name,
    map_key,
    shown,
)
from moorage.cel.work import CostExceededError, InternalError, spend

_LIST_COST, MAP_COST = 10, 30


# --- logic ---


def all_of(terms: tuple[Run, ...]) -> Run:
    """`&&`: false if any term is; otherwise the first error; otherwise true."""

    def conjunction(frame: Frame) -> Value:
        error = None
        for term in terms:
            value = term(frame)
            if value is False:
                return False
            if value is not True and error is None:
                error = value if value.__class__ is CelError else NO_OVERLOAD
        return True if error is None else error

    return conjunction


def any_of(terms: tuple[Run, ...]) -> Run:
    """`||`: true if any term is; otherwise the first error; otherwise false."""

    def disjunction(frame: Frame) -> Value:
        error = None
        for term in terms:
            value = term(frame)
            if value is True:
                return True
            if value is not False and error is None:
                error = value if value.__class__ is CelError else NO_OVERLOAD
        return False if error is None else error

    return disjunction


def alternative(first: Run, second: Run, unwrap: bool) -> Run:
    """`or` and `orValue`: the second is evaluated only if the first is absent."""

    def choose(frame: Frame) -> Value:
        value = first(frame)
        if value.__class__ is not Optional:
            return value if value.__class__ is CelError else NO_OVERLOAD
        if value.present:
            return value.value if unwrap else value
        return second(frame)

    return choose


def membership(element: Run, values: list[Value]) -> Run | None:
    """Whether an element is in a constant list of scalars; cel-go looks it up and counts nothing."""
    if any(each.__class__ not in NUMBERS and each.__class__ not in (str, bool) for each in values):
        return None
    known = frozenset((each.__class__ is bool, each) for each in values)

    def member(frame: Frame) -> Value:
        value = element(frame)
        kind = value.__class__
        if kind is CelError:
            return value
        if kind is bytes or (isinstance(value, Foreign) and not value.hashable):
            raise InternalError(f"runtime error: hash of unhashable type {go_name(value)}")
        return (kind in NUMBERS or kind is str or kind is bool) and (kind is bool, value) in known

    return member


# --- calls ---


def strict_call(call: Callable[..., Value], args: tuple[Run, ...], cost: Cost | None, eager: bool) -> Run:
    """A call whose arguments must not be errors; the first error is its result.

    Two arguments are both evaluated if the call is `eager`; of others those behind an error are not, and then the call
    costs nothing.
    """
    if len(args) == 1:
        return _unary(call, args[0], cost)
    if len(args) == 2 and eager:
        return _binary(call, args[0], args[1], cost)
    return _variadic(call, args, cost)


def _unary(call: Callable[..., Value], arg: Run, cost: Cost | None) -> Run:
    def unary(frame: Frame) -> Value:
        value = arg(frame)
        result = value if value.__class__ is CelError else call(value)
        frame.cost += 1 if cost is None else cost((value,), result)
        if frame.cost > frame.limit:
            raise CostExceededError
        return result

    return unary if call is not not_strictly_false else _lenient(arg)


def _lenient(arg: Run) -> Run:
    def lenient(frame: Frame) -> Value:
        value = arg(frame)
        frame.charge(1)
        return value is not False

    return lenient


def not_strictly_false(value: Value) -> Value:
    """What conditions of folds ask: errors do not end them."""
    return value is not False


def _binary(call: Callable[..., Value], left: Run, right: Run, cost: Cost | None) -> Run:
    def binary(frame: Frame) -> Value:
        a = left(frame)
        b = right(frame)
        if a.__class__ is CelError:
            result = a
        elif b.__class__ is CelError:
            result = b
        else:
            result = call(a, b)
        frame.cost += 1 if cost is None else cost((a, b), result)
        if frame.cost > frame.limit:
            raise CostExceededError
        return result

    return binary


def _variadic(call: Callable[..., Value], args: tuple[Run, ...], cost: Cost | None) -> Run:
    def variadic(frame: Frame) -> Value:
        values: list[Value] = []
        for arg in args:
            value = arg(frame)
            values.append(value)
            if value.__class__ is CelError:
                break
        failed = bool(values) and values[-1].__class__ is CelError
        result = values[-1] if failed else call(*values)
        if len(values) == len(args):
            frame.charge(1 if cost is None else cost(tuple(values), result))
        return result

    return variadic


def paid(value: Value, cost: int) -> Run:
    """A value that is known, and costs what it would cost to find."""

    def known(frame: Frame) -> Value:
        frame.charge(cost)
        return value

    return known


# --- lists, maps and folds ---


def list_maker(elements: tuple[Run, ...], optional: frozenset[int]) -> Run:
    """A list of elements, of which some may be absent."""

    def make(frame: Frame) -> Value:
        made: list[Value] = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional:
                value = _unwrapped(value, "list element")
                if value is MISSING:
                    continue
            if value.__class__ is CelError:
                frame.charge(_LIST_COST)
                return value
            made.append(value)
        frame.charge(_LIST_COST)
        return made

    return make


def _unwrapped(value: Value, what: str) -> Value:
    if value.__class__ is CelError:
        return value
    if value.__class__ is not Optional:
        return CelError(f"cannot initialize optional {what} from non-optional value {shown(value)}")
    return value.value if value.present else MISSING


def map_maker(entries: tuple[tuple[Run, Run, bool], ...]) -> Run:
    """A map of keys and values, of which some may be absent."""

    def make(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for key_of, value_of, optional in entries:
            key = map_key_or_error(key_of(frame))
            value = key if key.__class__ is CelError else value_of(frame)
            if optional and key.__class__ is not CelError:
                value = _unwrapped(value, f"entry '{shown(key)}'")
            if value is MISSING:
                made.pop(key, None)
            elif value.__class__ is CelError:
                frame.charge(MAP_COST)
                return value
            else:
                made[key] = value
        frame.charge(MAP_COST)
        return Map(made)

    return make


def map_key_or_error(key: Value) -> Value:
    """A key as maps hold it, or the error that it is."""
    return key if key.__class__ is CelError else map_key(key)


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a fold, and the slots of its variables."""

    over: Run
    condition: Run
    step: Run
    result: Run
    accumulator: int
    first: int
    second: int
    two: bool


def slot(number: int) -> Run:
    """A variable of a fold."""
    return lambda frame: frame.slots[number]


def accumulated(number: int, init: Run) -> Run:
    """The accumulator; it begins with what `init` gives when it is first asked for."""

    def value_of(frame: Frame) -> Value:
        value = frame.slots[number]
        if value is MISSING:
            value = init(frame)
            if value.__class__ is list and not value:
                value = MutableList()
            elif isinstance(value, Map) and not value:
                value = MutableMap({})
            frame.slots[number] = value
        return value

    return value_of


def folded(loop: Loop) -> Run:
    """Goes through the range until the condition is false; may be interrupted after each step, and goes on there."""
    over = loop.over
    steps = _steps(loop)

    def fold(frame: Frame) -> Value:
        trail = frame.trail
        place = trail.at
        trail.at += 1
        if place == len(trail.met):
            trail.met.append(None)
        known = trail.met[place]
        if known is None:
            elements = over(frame)
            if elements.__class__ is CelError:
                return elements
            if not isinstance(elements, list | Map):
                return _not_iterable(elements, loop.two)
            frame.slots[loop.accumulator] = MISSING
            pairs = loop.two and (elements.items() if isinstance(elements, Map) else enumerate(elements))
            known = trail.met[place] = Begun(iter(pairs or elements), trail.at, frame.cost, frame.account.left)
        trail.at = known.after
        if isinstance(known, Ended):
            frame.reset(known.cost, known.left)
            return known.value
        frame.trail = known.inside
        value = steps(frame, known)
        frame.trail = trail
        trail.met[place] = Ended(value, known.after, frame.cost, frame.account.left)
        return value

    return fold


def _steps(loop: Loop) -> Callable[[Frame, Begun], Value]:
    """What is left of a fold, and its result."""
    finish, accumulator, go_through = loop.result, loop.accumulator, _walk(loop)

    def steps(frame: Frame, known: Begun) -> Value:
        inside = known.inside
        inside.at = 0
        frame.reset(known.cost, known.left)
        if not known.finishing:
            go_through(frame, known)
            inside.at, known.cost, known.left, known.finishing = 0, frame.cost, frame.account.left, True
            inside.met.clear()
        value = finish(frame)
        frame.slots[accumulator] = MISSING
        if value.__class__ is MutableList:
            spend(len(value))
            return list(value)
        return Map(value.entries) if value.__class__ is MutableMap else value

    return steps


def _walk(loop: Loop) -> Callable[[Frame, Begun], None]:
    """The steps that are left, until the condition is false or the evaluation is interrupted."""
    condition, step = loop.condition, loop.step
    accumulator, first, second, two = loop.accumulator, loop.first, loop.second, loop.two

    def walk(frame: Frame, known: Begun) -> None:
        slots, account, inside = frame.slots, frame.account, known.inside
        if inside.met:  # interrupted inside of a step
            condition(frame)
            slots[accumulator] = step(frame)
            inside.met.clear()
        for element in known.rest:
            if two:
                slots[first], slots[second] = element
            else:
                slots[first] = element
            inside.at, known.cost, known.left = 0, frame.cost, account.left
            if condition(frame) is False:
                break
            slots[accumulator] = step(frame)
            if inside.at:
                inside.met.clear()
            if frame.cost > frame.pause_cost or account.left < frame.pause_left:
                known.cost, known.left = frame.cost, account.left
                raise PauseError

    return walk


def _not_iterable(value: Value, two: bool) -> CelError:
    if two:
        return CelError(f"unsupported comprehension range type: {go_name(value)}")
    return CelError(f"got '{go_name(value)}', expected iterable type")
