"""Waiting for what a process or an API server does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_S = 0.05


def eventually(condition: Callable[[], object], within_s: float, what: str | Callable[[], object]) -> None:
    """Wait until it holds; `what` says what did not happen, or is asked for it."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what() if callable(what) else what}"
        time.sleep(_LOOK_S)


def await_true(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for a condition that speaks for itself."""
    eventually(condition, timeout_s, "the condition did not come true in time")
