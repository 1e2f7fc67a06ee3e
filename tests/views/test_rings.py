"""Numbers over time in bounded memory: nothing counted is lost, and what is recent is known finely."""

from __future__ import annotations

import math
from random import Random

import pytest

from moorage.views.rings import Rings, Values


def small() -> Rings:
    """A quarter of a minute and a minute in steps, and everything in eight intervals."""
    return Rings(fixed=((1.0, 10), (5.0, 12)), last=(20.0, 8))


def known(values: Values) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def test_a_gauge_holds_until_it_is_told_again() -> None:
    """An interval has the value at its end; those in which nothing was told have the value before."""
    rings = small()
    rings.hold({"g": 1.0}, 100.0)
    rings.hold({"g": 1.0}, 103.5)
    rings.hold({"g": 7.0}, 105.0)
    found = rings.read(100.0, 105.0, 100)
    assert found.step_s == 1.0
    assert found.ends_s.tolist() == [101.0, 102.0, 103.0, 104.0, 105.0, 105.001]
    assert known(found.of("g")) == [1.0, 1.0, 1.0, 7.0, 7.0, 7.0]
    assert known(found.of("nothing")) == [None] * 6


def test_counts_belong_to_their_own_time() -> None:
    """Also if they are told late; not before the beginning, nor where nothing is kept any more."""
    rings = small()
    rings.count("c", 99.0)
    rings.hold({}, 100.0)
    rings.hold({}, 108.0)
    for at_s in (99.9, 100.0, 102.2, 102.9, 108.0, 500.0):
        rings.count("c", at_s)
    assert rings.read(100.0, 109.0, 100).of("c").tolist() == [1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0]


def test_a_time_of_which_nothing_is_known_is_a_gap() -> None:
    """A journal has such times."""
    rings = small()
    rings.hold({"g": 1.0}, 100.0)
    rings.pause(104.0)
    rings.hold({"g": 2.0}, 105.0)
    assert known(rings.read(100.0, 105.0, 100).of("g")) == [1.0, None, None, None, 2.0, 2.0]


def test_a_gauge_that_is_no_longer_told_is_not_known() -> None:
    """It has no value from then on."""
    rings = small()
    rings.hold({"g": 1.0, "h": 1.0}, 100.0)
    rings.hold({"h": 2.0}, 102.0)
    assert known(rings.read(0.0, 200.0, 100).of("g")) == [None, None, None]
    assert known(rings.read(0.0, 200.0, 100).of("h")) == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("length_s", [5.0, 60.0, 500.0, 86_400.0, 3e8])
def test_memory_does_not_grow_and_no_count_is_lost(length_s: float) -> None:
    """However long it goes on, the last level has everything, in a bounded number of intervals."""
    rng, rings = Random(int(length_s)), small()
    times = sorted(1e9 + rng.random() * length_s for _ in range(300))
    for number, at_s in enumerate(times):
        rings.hold({"g": float(number)}, at_s)
        rings.count("c", at_s)
    everything = rings.read(0.0, 1e11, 1000)
    assert everything.of("c").sum() == 300
    assert everything.of("g")[-1] == 299.0
    assert len(everything.ends_s) <= 12
    assert all(before < after for before, after in zip(everything.ends_s, everything.ends_s[1:], strict=False))
    sizes = {len(values) for level in rings._levels for values in (*level.gauges.values(), *level.counts.values())}
    assert sizes <= {8, 10, 12}


@pytest.mark.parametrize("most", [2, 3, 7, 50, 1000])
@pytest.mark.parametrize("step_s", [0.0, 5.0, 30.0])
def test_a_range_has_at_most_so_many_points(most: int, step_s: float) -> None:
    """Of the finest step that allows it; counts of a range add up to the same at any step."""
    rings = Rings()
    for second in range(2000):
        rings.hold({"g": float(second)}, 1e9 + second)
        rings.count("c", 1e9 + second)
    found = rings.read(1e9 + 1200, 1e9 + 1999, most, step_s)
    assert 1 <= len(found.ends_s) <= most
    assert found.step_s >= step_s
    assert found.of("g")[-1] == 1999.0
    assert found.of("c").sum() >= 800
    if step_s and found.step_s == step_s:
        assert ((found.ends_s[:-1] % step_s) == 0).all()


def test_new_points_fit_those_that_are_known() -> None:
    """A reader that asks again for the end of what it has, in the same steps, gets the same and what is new."""
    rings = Rings()
    for second in range(4000):
        rings.hold({"g": float(second)}, 1e9 + second)
        rings.count("c", 1e9 + second)
    before = rings.read(1e9 + 400, 1e9 + 3999, 120)
    more = rings.read(float(before.ends_s[-3]), 1e11, 120, before.step_s)
    assert more.step_s == before.step_s
    assert more.ends_s.tolist() == before.ends_s[-2:].tolist()
    assert more.of("c").tolist() == before.of("c")[-2:].tolist()
    assert more.of("g").tolist() == before.of("g")[-2:].tolist()


def test_time_never_runs_backwards() -> None:
    """A clock that was set back, or nonsense, changes nothing that is known."""
    rings = small()
    rings.hold({"g": 1.0}, 100.0)
    rings.hold({"g": 2.0}, 103.0)
    rings.hold({"g": 3.0}, 101.0)
    rings.hold({"g": 9.0}, 1e300)
    rings.hold({"g": 9.0}, math.nan)
    assert known(rings.read(0.0, 1e11, 100).of("g")) == [2.0, 2.0, 2.0, 3.0]


def test_gauges_can_be_added_up() -> None:
    """What there is no room for becomes part of another one, its past included."""
    rings = small()
    rings.hold({"a": 1.0, "b": 2.0}, 100.0)
    rings.hold({"a": 1.0, "b": 2.0}, 102.0)
    rings.merge("b", "a")
    rings.merge("a", "new")
    assert rings.gauges() == ["new"]
    assert known(rings.read(0.0, 1e11, 100).of("new")) == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("step_s", [0.0, 5.0, 1e9])
def test_ranges_without_bounds(step_s: float) -> None:
    """Everything that there is."""
    rings = small()
    rings.hold({"g": 1.0}, 101.0)
    rings.hold({"g": 2.0}, 109.0)
    rings.count("c", 105.0)
    assert rings.read(-math.inf, math.inf, 100, step_s).of("c").sum() == 1.0
    assert len(rings.read(200.0, 150.0, 100, step_s).ends_s) <= 1
