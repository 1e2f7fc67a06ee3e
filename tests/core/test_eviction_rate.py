"""How many evictions within a minute are too many, and until when."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.eviction_rate import WINDOW_S, EvictionRate, Refusal, owner_of
from moorage.testing import make_pod

REFUSALS = [
    pytest.param((0, 0), [(0.0, "a" * 99)], (1.0, "a"), None, id="no limits"),
    pytest.param((3, 0), [(0.0, "ab")], (1.0, "c"), None, id="up to the limit"),
    pytest.param((3, 0), [(0.0, "ab")], (1.0, "cd"), Refusal(3, None, 60.0), id="beyond it"),
    pytest.param((3, 0), [(0.0, "a"), (5.0, "b"), (7.0, "c")], (8.0, "cd"), Refusal(3, None, 65.0), id="room for two"),
    pytest.param((3, 0), [(0.0, "abc")], (60.0, "abc"), None, id="a minute later"),
    pytest.param((3, 0), [(0.0, "abc")], (59.9, "a"), Refusal(3, None, 60.0), id="nearly a minute later"),
    pytest.param((3, 0), [], (0.0, "abcd"), Refusal(3, None, None), id="more than the limit at once"),
    pytest.param((0, 2), [(0.0, "ab"), (1.0, "ab")], (2.0, "c"), None, id="another owner"),
    pytest.param((0, 2), [(0.0, "ab"), (1.0, "ab")], (2.0, "ca"), Refusal(2, "a", 60.0), id="the same owner"),
    pytest.param((0, 2), [], (0.0, "aaa"), Refusal(2, "a", None), id="too many of one owner at once"),
    pytest.param((6, 2), [(0.0, "ab"), (9.0, "ab")], (9.0, "aac"), Refusal(2, "a", 69.0), id="the longer wait counts"),
    pytest.param((1, 1), [(500.0, "a")], (10.0, "a"), None, id="a clock that was set back"),
    pytest.param((1, 1), [(0.0, "a")], (0.0, ""), None, id="nobody"),
]


@pytest.mark.parametrize(("limits", "noted", "asked", "want"), REFUSALS)
def test_refusals(
    limits: tuple[int, int], noted: list[tuple[float, str]], asked: tuple[float, str], want: Refusal | None
) -> None:
    """Owners are letters. The answer names the limit, whose it is, and when to come back."""
    rate = EvictionRate(*limits)
    for at_s, owners in noted:
        rate.note(owners, at_s)
    assert rate.refusal(asked[1], asked[0]) == want


STEPS = st.lists(st.tuples(st.floats(0.0, 40.0), st.text("abc", min_size=1, max_size=4)), max_size=40)


@given(limits=st.tuples(st.integers(1, 6), st.integers(1, 4)), steps=STEPS)
def test_no_minute_sees_more_than_the_limits_and_who_waits_gets_through(
    limits: tuple[int, int], steps: list[tuple[float, str]]
) -> None:
    """Compared with a plain list of what was let through."""
    rate, now = EvictionRate(*limits), 0.0
    done: list[tuple[float, str]] = []
    for step_s, owners in steps:
        now += step_s
        refusal = rate.refusal(owners, now)
        if refusal is not None and refusal.retry_s is not None:
            assert refusal.retry_s > now
            now = refusal.retry_s
            refusal = rate.refusal(owners, now)
            assert refusal is None
        if refusal is None:
            rate.note(owners, now)
            done.extend((now, owner) for owner in owners)
    for end_s, _ in done:
        within = Counter(owner for at_s, owner in done if at_s <= end_s < at_s + WINDOW_S)
        assert within.total() <= limits[0]
        assert max(within.values()) <= limits[1]


def test_owners() -> None:
    """Pods of one controller count together, pods without one by name, so that one made anew counts with the old."""
    assert owner_of(make_pod("a", owner="web")) == owner_of(make_pod("b", owner="web"))
    assert owner_of(make_pod("a")) != owner_of(make_pod("b"))
    assert owner_of(make_pod("a", uid="1")) == owner_of(make_pod("a", uid="2"))
