"""Selectors on devices that might be allocated: each expression is evaluated once per device, as long as it stays.

An expression that reads single attributes and capacities only is evaluated once for all devices that are equal in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.core.devicepools import DeviceCandidate

if TYPE_CHECKING:
    from moorage.core.devicecel import SelectableDevice

MOST_ANSWERS = 64
"""How many expressions a device remembers; beyond that it starts over."""
_MOST_KEYS = 4096
"""Of how many different devices an expression remembers what it said; likewise."""


class SelectorError(Exception):
    """A selector that cannot be compiled, or fails on a device; the text goes on after the number of the selector."""


def holds(expression: str, candidate: DeviceCandidate) -> bool:
    """Whether a CEL expression holds for a device."""
    known = candidate.answers.get(expression)
    if known is None:
        if len(candidate.answers) >= MOST_ANSWERS:
            candidate.answers.clear()
        known = candidate.answers[expression] = _asked(expression, candidate)
    return known


def _asked(expression: str, candidate: DeviceCandidate) -> bool:
    from moorage.core.devicecel import (  # noqa: PLC0415 - loaded with the first expression only
        CompileError,
        EvaluationError,
        compile_selector,
        hinted,
        is_readable,
    )

    selector = compile_selector(expression)
    if isinstance(selector, CompileError):
        raise SelectorError(f": CEL compile error: {selector.message}")
    device, driver = candidate.device, candidate.id.driver
    key = selector.key(driver, device) if is_readable(device) else None
    known = None if key is None else selector.answers.get(key)
    if known is not None:
        return known
    answer = selector.matches(_selectable(candidate))
    if isinstance(answer, EvaluationError):
        raise SelectorError(f" on device {candidate.id}: CEL runtime error: {hinted(answer.message)}")
    if key is not None:
        if len(selector.answers) >= _MOST_KEYS:
            selector.answers.clear()
        selector.answers[key] = answer
    return answer


def condition_holds(condition: str, candidate: DeviceCandidate, limit: int) -> tuple[bool, int]:
    """Whether a part of a selector holds for a device, false if it fails or costs more than `limit`; and its cost."""
    from moorage.core.devicecel import CompileError, SelectorAnswer, compile_selector  # noqa: PLC0415 - as above

    selector = compile_selector(condition)
    if isinstance(selector, CompileError):
        return False, 0
    answer = selector.answer(_selectable(candidate), limit)
    return isinstance(answer, SelectorAnswer) and answer.matches, answer.cost


def _selectable(candidate: DeviceCandidate) -> SelectableDevice:
    from moorage.core.devicecel import SelectableDevice  # noqa: PLC0415 - as above

    device = candidate.device
    capacity = {name: each.value for name, each in device.capacity.items()}
    return SelectableDevice(candidate.id.driver, device.attributes, capacity, device.shared)
