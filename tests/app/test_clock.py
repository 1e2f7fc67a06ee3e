"""The wall clock may be set at any time: nothing waits longer or shorter for it, and a line tells of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from moorage.adapters import clock

ROOT = Path(__file__).parents[2]


def in_a_process(scenario: str) -> str:
    command = [sys.executable, "-m", "tests.app.clock_jump", scenario]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.parametrize("scenario", ["back", "forth"])
def test_backoffs_and_deadlines_do_not_jump(scenario: str) -> None:
    """An hour back: a pod that backs off is tried all the same. An hour forth: a pod that is held stays held."""
    assert in_a_process(scenario) == "fine"


def test_no_part_goes_by_the_wall_clock() -> None:
    """Every process has parts that wait, count ages or stamp what they write."""
    jumps_s: dict[str, float] = json.loads(in_a_process("clocks"))
    assert jumps_s == dict.fromkeys(jumps_s, 0.0)


def test_time_begins_at_the_wall_clock_and_never_goes_back() -> None:
    """What the API server stamps can be compared with it."""
    assert abs(clock.now_s() - clock.wall_s()) < 60.0
    times_s = [clock.now_s() for _ in range(1000)]
    assert times_s == sorted(times_s)


def test_a_line_tells_that_the_clock_was_set() -> None:
    """One line for each jump; what a clock gains or loses slowly is not worth one."""
    shifts_s = iter([0.0, 0.5, 3600.5, 3601.0, 1.0])
    looks = 0

    async def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise asyncio.CancelledError

    now_s: Callable[[], float] = lambda: 1_000.0  # noqa: E731 - a clock that stands still
    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        asyncio.run(clock.tell_of_jumps(lambda: 1_000.0 + next(shifts_s), now_s, sleep))
    assert [line["by_s"] for line in lines] == [3600.0, -3600.0]
