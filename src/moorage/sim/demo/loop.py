"""The loop that keeps a stage in pace with a clock. Clock and sleep are handed in, so tests need no time at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moorage.sim.demo.stage import DemoStage
from moorage.views.words import Happening

TICK_S = 0.1
LONGEST_STEP_S = 1.0
"""A process that was stopped for a while goes on where it was, instead of racing through what it missed."""
_NEARLY_S = 1e-6


class DemoClock(NamedTuple):
    """Where time comes from."""

    now_s: Callable[[], float]
    sleep: Callable[[float], None]


class View(Protocol):
    """Where the demo is shown."""

    def show(self, stage: DemoStage, happenings: Sequence[Happening]) -> None:
        """Called after every step, with what is new; may only look."""


def play(
    stage: DemoStage,
    view: View,
    clock: DemoClock,
    *,
    duration_s: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Let the demo run until it is stopped or its time is over."""
    last_s = clock.now_s()
    left_s = float("inf") if duration_s is None else duration_s
    reached_s = stage.elapsed_s
    view.show(stage, stage.advance(reached_s))
    while left_s > _NEARLY_S and not stopped():
        clock.sleep(min(TICK_S, left_s))
        now_s = clock.now_s()
        left_s -= now_s - last_s
        reached_s += min(now_s - last_s, LONGEST_STEP_S)
        last_s = now_s
        view.show(stage, stage.advance(reached_s))
