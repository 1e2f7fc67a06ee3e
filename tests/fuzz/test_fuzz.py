"""A share of `make fuzz`: every target with some inputs, from a seed that stays."""

from __future__ import annotations

import pytest

from tests.fuzz.laboratory import made, shares, tried, try_target
from tests.fuzz.targets import TARGETS, Target

_INPUTS = shares(4_000, TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_is_raised_that_is_not_documented(target: Target) -> None:
    """Whatever the input, a target answers or says no in its own way; how long that takes is for `make fuzz` to say."""
    result = try_target(target, 1, range(_INPUTS[target.name]))
    assert result.raised == 0, result.findings


@pytest.mark.parametrize("target", TARGETS[:3], ids=lambda target: target.name)
def test_an_input_follows_from_its_number(target: Target) -> None:
    """So that what was found can be tried again."""
    assert [made(target, 5, number) for number in range(20)] == [made(target, 5, number) for number in range(20)]


def test_what_is_not_documented_is_found() -> None:
    """An exception that a target does not name is told with its place."""

    def broken(_: object) -> None:
        raise KeyError("x")

    target = Target("broken", lambda mutator: mutator.json({"a": 1}), broken, (ValueError,))
    assert "KeyError" in tried(target, b"")[1]
    assert try_target(target, 1, range(3)).raised == 3
