"""Recursion without a stack: a step is a generator that yields the steps whose results it needs.

Expressions may be nested deeper than Python's stack allows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Step: TypeAlias = Generator[Any, Any, T]
"""Yields other steps, is sent their results, and returns its own."""


def done(result: T) -> Step[T]:
    """A step that needs nothing."""
    yield from ()
    return result


def run(first: Step[T]) -> T:
    """The result of a step, and of all that it needs."""
    waiting: list[Step[Any]] = [first]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as end:
            waiting.pop()
            result = end.value
    found: T = result
    return found
