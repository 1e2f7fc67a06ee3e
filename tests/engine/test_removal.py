"""The order of removal: whatever is left is as near to the targets as it can be, and little is written for it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.strategy import Rule, Strategy, targets
from moorage.engine.keeping.removal import STEP, TOP, Sequences, host_keepers, keep_order, numbered

RULES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7)), min_size=1, max_size=4).filter(
    lambda rules: any(weight for _, weight in rules)
)


def strategy_of(rules: list[tuple[int, int]]) -> Strategy:
    """Rules of base and weight."""
    return Strategy(tuple(Rule(base, weight, (("kind", f"k{i}"),)) for i, (base, weight) in enumerate(rules)))


@given(RULES, st.integers(0, 60))
def test_the_sequence_is_that_of_the_targets(rules: list[tuple[int, int]], pods: int) -> None:
    """The first n of it, counted, are the targets for n; asking for fewer after more changes nothing."""
    strategy, sequences = strategy_of(rules), Sequences()
    for number in (pods, pods // 2):
        sequence = sequences.of(strategy, number)[:number]
        assert tuple(map(sequence.count, range(len(rules)))) == targets(strategy, number)


@given(RULES, st.data())
def test_what_is_left_is_as_near_to_the_targets_as_it_can_be(rules: list[tuple[int, int]], data: st.DataObject) -> None:
    """For every smaller number no rule lacks a pod that it has now; strays go first; nobody is lost."""
    strategy = strategy_of(rules)
    counts = data.draw(st.lists(st.integers(0, 12), min_size=len(rules), max_size=len(rules)))
    by_rule = [[f"{rule}-{i}" for i in range(count)] for rule, count in enumerate(counts)]
    strays = ["s-0", "s-1"]
    kept = keep_order(Sequences().of(strategy, sum(counts)), by_rule, strays)
    assert kept[sum(counts) :] == strays
    assert sorted(kept) == sorted(pod for pods in [*by_rule, strays] for pod in pods)
    for size in range(sum(counts) + 1):
        left = [sum(pod.startswith(f"{rule}-") for pod in kept[:size]) for rule in range(len(rules))]
        wanted = targets(strategy, size)
        assert all(has >= min(counts[rule], wanted[rule]) for rule, has in enumerate(left))
    for pods in by_rule:
        assert [pod for pod in kept if pod in pods] == pods, "a rule's own order is kept"


@given(st.lists(st.one_of(st.none(), st.integers(-5, 3 * TOP), st.integers(1, 40)), max_size=30))
def test_costs_fall_and_what_can_stay_stays(have: list[int | None]) -> None:
    """Strictly, and above what a pod without a cost counts; numbers that say it already are not touched."""
    costs = numbered(have)
    assert len(costs) == len(have)
    assert all(high > low for high, low in pairwise(costs))
    assert not costs or costs[-1] > 0
    assert numbered(costs) == costs


@pytest.mark.parametrize(
    ("have", "want"),
    [
        pytest.param([None, None], [TOP - STEP, TOP - 2 * STEP], id="new"),
        pytest.param([90, 50, 7], [90, 50, 7], id="in order already"),
        pytest.param([990, 980, None], [990, 980, 970], id="one more at the end"),
        pytest.param([990, None, 970], [990, 980, 970], id="one comes between"),
        pytest.param([980, 990, 970], [1000, 990, 970], id="two change places: one write"),
        pytest.param([None, 500], [510, 500], id="one comes first"),
        pytest.param([8, None, 7], [TOP - STEP, TOP - 2 * STEP, TOP - 3 * STEP], id="no room: all anew"),
        pytest.param([5, None], [TOP - STEP, TOP - 2 * STEP], id="too low to go below: all anew"),
        pytest.param([-3, 0], [TOP - STEP, TOP - 2 * STEP], id="somebody else's numbers"),
    ],
)
def test_what_is_written(have: list[int | None], want: list[int]) -> None:
    """As few as it takes."""
    assert numbered(have) == want


@pytest.mark.parametrize(
    ("pods", "hosts", "want"),
    [
        pytest.param([("a", False), ("b", False)], 2, [False, False], id="one pod a host: any may go"),
        pytest.param([("a", False), ("a", False), ("b", False)], 2, [True, False, True], id="one of each host stays"),
        pytest.param([("a", True), ("b", True), ("b", True)], 2, [True, True, False], id="two marks on one host"),
        pytest.param([("a", False), ("a", True), ("b", False)], 2, [False, True, True], id="a mark that serves stays"),
        pytest.param([("a", False), ("a", False)], 2, [True, False], id="fewer hosts than wanted"),
        pytest.param(
            [("a", False), ("b", False), ("c", False), ("c", False)], 2, [True, True, False, False], id="2 do"
        ),
    ],
)
def test_who_stays_so_that_there_are_enough_hosts(pods: list[tuple[str, bool]], hosts: int, want: list[bool]) -> None:
    """One pod on each of so many hosts, with as few changes as possible."""
    assert host_keepers(pods, hosts) == want
