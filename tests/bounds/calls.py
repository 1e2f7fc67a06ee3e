"""Counts calls of functions, and lines: what a piece of work takes, whatever machine it runs on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MOST_CALLS = 150_000
"""Calls of functions that an object may cost, Python's and C's: less than 50 ms on any machine of today."""
MOST_CALLS_OF_OTHERS = 15_000
LEFT_BYTES = 200_000
"""What caches of bounded size may keep of an object that is gone."""


def calls(work: Callable[[], Any]) -> int:
    """How many calls of functions a piece of work takes."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with _without_collections():
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
    return count


def lines(work: Callable[[], Any]) -> int:
    """How many lines of Python a piece of work runs, where loops that call nothing have to show."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    with _without_collections():
        sys.settrace(note)
        try:
            work()
        finally:
            sys.settrace(before)
    return count


@contextmanager
def _without_collections() -> Iterator[None]:
    """What other tests have left behind calls back when it is collected, and that is no part of the work."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
