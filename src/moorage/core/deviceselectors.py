"""Selectors on devices that might be allocated: each expression is evaluated once per device, as long as it stays.

An expression that reads single attributes and capacities only is evaluated once for all devices that are equal in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING

from moorage.core.devicepools import DeviceCandidate
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.devicecel import (
        AskedDevice,
        DeviceSelector,
        EvaluationError,
        ReadValues,
        SelectableDevice,
        SelectorAnswer,
    )

MOST_ANSWERS = 64
"""How many answers a device remembers; beyond that it starts over."""
_MOST_KEYS = 4096
"""Of how many different devices an expression remembers what it said; likewise."""
_KEPT_BYTES = 64 << 20
"""Of what all expressions remember together: a tenant may write many, and each may read many values of each device."""
_ANSWER_BYTES, _NAME_BYTES = 160, 16
"""What an answer takes, and what it takes for each value that is read, about."""
_KEPT_SELECTORS = 512
"""As many as are compiled."""
_LONGEST_KEPT = 200
"""Characters of an error that a device remembers; longer ones are found out again."""
_ROOM = 1_000
"""What evaluating a part of a selector may cost."""
_LEAST_EFFORT = 1_000
"""A selector is evaluated for so long at least before it is interrupted."""
_EFFORT_PER_LOOK = 5
"""What evaluating a selector may cost in the time in which a search looks at one more device."""


@dataclass(slots=True)
class Looks:
    """How much may still be looked at: devices, and what selectors cost for them."""

    left: int
    at_selectors: int = 0
    """How much of it selectors have taken so far."""
    begun: tuple[str, DeviceCandidate, AskedDevice] | None = None
    """A selector that was not done with a device when nothing was left."""

    def evaluated(self, effort: int) -> None:
        """A selector was evaluated."""
        self.at_selectors += effort // _EFFORT_PER_LOOK
        self.left -= effort // _EFFORT_PER_LOOK

    @property
    def room(self) -> int:
        """What evaluating a selector may cost with what is left."""
        return max(1, self.left * _EFFORT_PER_LOOK)


class SelectorError(Exception):
    """A selector that cannot be compiled, or fails on a device; the text goes on after the number of the selector."""


def holds(expression: str, candidate: DeviceCandidate, looks: Looks) -> bool | None:
    """Whether a CEL expression holds for a device; what it takes to find out is taken from `looks`.

    None if there was not enough of that: asked again, it goes on.
    """
    known = candidate.answers.get(expression)
    if known is None:
        known = _asked(expression, candidate, looks)
        if known is None:
            return None
    if isinstance(known, str):
        raise SelectorError(known)
    return known


def remember(candidate: DeviceCandidate, question: str | tuple[str, ...], answer: bool | str) -> None:
    """Keep what one or several selectors said of a device."""
    if len(candidate.answers) >= MOST_ANSWERS:
        candidate.answers.clear()
    candidate.answers[question] = answer


def _asked(expression: str, candidate: DeviceCandidate, looks: Looks) -> bool | str | None:
    """Whether it holds, or why it fails; None if that takes longer. A device remembers what its values do not tell."""
    selector = _compiled(expression)
    if isinstance(selector, str):
        return selector
    if candidate.readable is None:
        candidate.readable = _is_readable(candidate)
    reading = selector.reading
    key = reading.key(candidate.id.driver, candidate.device) if reading is not None and candidate.readable else None
    if reading is not None and key is not None:
        known = reading.answers.get(key)
        if known is not None:
            return known
    found = _found(selector, expression, candidate, looks)
    if isinstance(found, bool) and reading is not None and key is not None:
        _keep(reading, key, answer=found)
    elif found is not None and (isinstance(found, bool) or len(found) <= _LONGEST_KEPT):
        remember(candidate, expression, found)
    return found


class KeptAnswers:
    """What was said of devices by all expressions together; where it becomes too much, all of it is forgotten."""

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._readings: dict[int, ReadValues] = {}

    def keep(self, reading: ReadValues, key: Hashable, *, answer: bool) -> None:
        """Keep an answer with what was read for it."""
        size = _ANSWER_BYTES + _NAME_BYTES * len(reading.names)
        if self._bytes + size > self._most_bytes:
            for each in self._readings.values():
                each.answers.clear()
            self._readings.clear()
            self._bytes = 0
        if len(reading.answers) >= _MOST_KEYS:
            self._bytes -= size * len(reading.answers)
            reading.answers.clear()
        self._readings[id(reading)] = reading
        self._bytes += size
        reading.answers[key] = answer


_keep = KeptAnswers().keep


def all_hold(expressions: tuple[str, ...], candidate: DeviceCandidate, ask: Callable[[], bool | None]) -> bool | None:
    """Whether several expressions hold for a device, as for others that are equal in what all of them read.

    `ask` finds out where that is not known; None if it takes longer.
    """
    reading = _together(expressions) if len(expressions) > 1 else None  # one alone keeps its answers itself
    if reading is not None and candidate.readable is None:
        candidate.readable = _is_readable(candidate)
    key = reading.key(candidate.id.driver, candidate.device) if reading is not None and candidate.readable else None
    if reading is None or key is None:
        return ask()
    found = reading.answers.get(key)
    if found is None:
        found = ask()
        if found is not None:
            _keep(reading, key, answer=found)
    return found


@lru_cache(_KEPT_SELECTORS)
def _together(expressions: tuple[str, ...]) -> ReadValues | None:
    """What several selectors read; None if that is more than single values, or one of them is no selector."""
    from moorage.core.devicecel import ReadValues  # noqa: PLC0415 - with the first expression only

    names = set[tuple[str, str, str, str]]()
    for expression in expressions:
        selector = _compiled(expression)
        if isinstance(selector, str) or selector.reading is None:
            return None
        names.update(selector.reading.names)
    return ReadValues(tuple(sorted(names)))


@lru_cache(_KEPT_SELECTORS)
def _compiled(expression: str) -> DeviceSelector | str:
    """The selector that an expression is, or why it is none."""
    from moorage.core.devicecel import CompileError, compile_selector  # noqa: PLC0415 - as above

    selector = compile_selector(expression)
    return f": CEL compile error: {selector.message}" if isinstance(selector, CompileError) else selector


def _is_readable(candidate: DeviceCandidate) -> bool:
    from moorage.core.devicecel import is_readable  # noqa: PLC0415 - as above

    return is_readable(candidate.device)


def _found(selector: DeviceSelector, expression: str, candidate: DeviceCandidate, looks: Looks) -> bool | str | None:
    """The same, found out."""
    from moorage.core.devicecel import EvaluationError, hinted  # noqa: PLC0415 - as above

    answer = _answer(selector, expression, candidate, looks)
    if isinstance(answer, EvaluationError):
        return f" on device {candidate.id}: CEL runtime error: {hinted(answer.message)}"
    return None if answer is None else answer.matches


def _answer(
    selector: DeviceSelector, expression: str, candidate: DeviceCandidate, looks: Looks
) -> SelectorAnswer | EvaluationError | None:
    """What a selector says; one that was begun goes on."""
    if looks.begun is not None and looks.begun[0] == expression and looks.begun[1] is candidate:
        asking = looks.begun[2]
    else:
        asking = selector.begin(_selectable(candidate))
    before = asking.effort
    answer = asking.go_on(max(_LEAST_EFFORT, looks.room))
    looks.evaluated(asking.effort - before)
    looks.begun = None if answer is not None else (expression, candidate, asking)
    return answer


def condition_holds(condition: str, candidate: DeviceCandidate, looks: Looks) -> bool:
    """Whether a part of a selector holds for a device; false if it fails, or takes much or more than is left."""
    from moorage.core.devicecel import CompileError, SelectorAnswer, compile_selector  # noqa: PLC0415 - as above

    selector = compile_selector(condition)
    if isinstance(selector, CompileError):
        return False
    answer = selector.answer(_selectable(candidate), min(_ROOM, looks.room))
    looks.evaluated(answer.effort)
    return isinstance(answer, SelectorAnswer) and answer.matches


def _selectable(candidate: DeviceCandidate) -> SelectableDevice:
    from moorage.core.devicecel import SelectableDevice  # noqa: PLC0415 - as above

    device = candidate.device
    capacity = {name: each.value for name, each in device.capacity.items()}
    return SelectableDevice(candidate.id.driver, device.attributes, capacity, device.shared)
