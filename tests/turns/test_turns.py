"""Comparing two checkouts in turns."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from tests.turns.run import compare, core


def test_turns_alternate_so_that_a_machine_that_slows_down_hits_both(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a figure that falls by one with every measurement, both get the same sum in an even number of turns."""
    left = count(100, -1)
    asked: list[str] = []

    def falling(python: str) -> float:
        asked.append(python)
        return float(next(left))

    compare("equal", falling, ("old", "new"), turns=2)
    assert asked == ["old", "new", "new", "old"]
    assert capsys.readouterr().out.split("now, ")[1] == " 99.0 and 100.0 %\n"


def test_decisions_are_measured_in_another_process() -> None:
    """The figure is of the Moorage that the given Python has."""
    assert core("anti-affinity", 20)(sys.executable) > 0
