"""An event loop whose time jumps to the next timer instead of waiting for it; the same calls give the same history.

A step in which something runs takes `STEP_S`, so that a loop which only yields gets on in time, too.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

STEP_S = 1e-5


class DeadlockError(RuntimeError):
    """No timer is set and nothing runs: nothing would ever happen again."""


class _Jumping(selectors.SelectSelector):
    """Passes time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("nothing is left to wait for")
        self.now_s += timeout if timeout > 0 else STEP_S
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at time 0. `spend` lets time pass in which nothing else can happen."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def spend(self, duration_s: float) -> None:
        self._jumping.now_s += duration_s

    def __repr__(self) -> str:
        return f"<VirtualLoop at {self.time():.3f} s>"


def run_virtually(main: Any) -> Any:
    """Run a coroutine in virtual time; its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
