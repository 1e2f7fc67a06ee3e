"""Deadlines by name: what a dictionary and `min` would say, without looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.engine.deadlines import Deadlines

STEP = st.tuples(st.sampled_from(["set", "drop", "take"]), st.sampled_from("abcd"), st.integers(0, 9))


@given(st.lists(STEP, max_size=60))
def test_the_first_is_that_of_all(steps: list[tuple[str, str, int]]) -> None:
    """Whatever was set, set again, dropped and taken before."""
    deadlines, want = Deadlines[str](), dict[str, float]()
    for what, name, at_s in steps:
        if what == "set":
            deadlines.set(name, at_s)
            want[name] = at_s
        elif what == "drop":
            deadlines.drop(name)
            want.pop(name, None)
        else:
            due = sorted((time, each) for each, time in want.items() if time <= at_s)
            assert deadlines.take_due(at_s) == [each for _, each in due]
            for _, each in due:
                del want[each]
        assert deadlines.first_s() == min(want.values(), default=None)


def test_times_that_move_leave_nothing_behind() -> None:
    """A plugin that names another deadline at every question does not fill the heap."""
    deadlines = Deadlines[str]()
    for time in range(10_000):
        deadlines.set("a", 1e6 + time)
    assert len(deadlines._heap) < 100
    assert deadlines.first_s() == 1e6 + 9_999
