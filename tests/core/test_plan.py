"""The incremental plan is the greedy choice from scratch, at any time, and costs O(log units) and what changes.

`MOORAGE_PLAN_SEQUENCES` says how many random sequences are tried: 10000 for a thorough run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.plan import Plan, PlannedUnit

SEQUENCES = int(os.environ.get("MOORAGE_PLAN_SEQUENCES", "400"))


class PlainPlanner:
    """Sorts everything and places from scratch at every question."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.units: dict[str, PlannedUnit] = {}

    def in_order(self) -> list[PlannedUnit]:
        return sorted(self.units.values(), key=lambda unit: (unit.key, unit.id))

    def chosen(self) -> list[str]:
        left, taken = self.capacity, []
        for unit in self.in_order():
            if unit.size <= left:
                left -= unit.size
                taken.append(unit.id)
        return taken


def chosen_by(plan: Plan) -> list[str]:
    return [unit.id for unit in plan if plan.has(unit.id)]


def plan_of(capacity: int, *units: tuple[str, int, int]) -> Plan:
    """A plan of (id, rank, size)."""
    plan = Plan(capacity)
    for unit_id, rank, size in units:
        plan.put(unit_id, (rank,), size)
    plan.changes()
    return plan


GANG = ("gang", 50, 3)
HIGH = ("high", 0, 1)
LOW = ("low", 90, 1)
CHOICES = [
    pytest.param(0, [], id="no node"),
    pytest.param(1, ["high"], id="one node"),
    pytest.param(2, ["high", "low"], id="a gang that does not fit is passed over"),
    pytest.param(3, ["high", "low"], id="it is not cut either"),
    pytest.param(4, ["high", "gang"], id="it fits whole"),
    pytest.param(5, ["high", "gang", "low"], id="room for all"),
]


@pytest.mark.parametrize(("nodes", "want"), CHOICES)
def test_the_choice_is_greedy(nodes: int, want: list[str]) -> None:
    """In order, every unit that still fits is taken; no unit is ever taken in part."""
    assert chosen_by(plan_of(nodes, GANG, LOW, HIGH)) == want


EVENTS = {
    "nothing": (lambda _: None, [], []),
    "the same again": (lambda plan: plan.put("gang", (50,), 3), [], []),
    "a node more": (lambda plan: plan.resize(5), ["low"], []),
    "a node less": (lambda plan: plan.resize(3), ["low"], ["gang"]),
    "no node": (lambda plan: plan.resize(0), [], ["high", "gang"]),
    "a more important unit": (lambda plan: plan.put("new", (10,), 1), ["new", "low"], ["gang"]),
    "a less important unit": (lambda plan: plan.put("new", (99,), 1), [], []),
    "one leaves": (lambda plan: plan.drop("high"), ["low"], ["high"]),
    "one waiting leaves": (lambda plan: plan.drop("low"), [], []),
    "a stranger leaves": (lambda plan: plan.drop("nobody"), [], []),
    "one grows": (lambda plan: plan.put("gang", (50,), 4), ["low"], ["gang"]),
    "one shrinks": (lambda plan: plan.put("gang", (50,), 2), ["low"], []),
    "one rises": (lambda plan: plan.put("low", (1,), 1), ["low"], ["gang"]),
    "there and back": (lambda plan: [plan.resize(9), plan.resize(4)], [], []),
}


@pytest.mark.parametrize(("event", "want_entered", "want_left"), EVENTS.values(), ids=EVENTS.keys())
def test_changes_since_the_last_call(
    event: Callable[[Plan], object], want_entered: list[str], want_left: list[str]
) -> None:
    """On four nodes, high and the gang are in; who enters and who leaves is told once, in order."""
    plan = plan_of(4, HIGH, GANG, LOW)
    event(plan)
    assert plan.changes() == (want_entered, want_left)
    assert plan.changes() == ([], [])


def test_units_are_told_in_order() -> None:
    """Iteration follows the keys, then the ids; the length counts those that are not in the plan too."""
    plan = plan_of(1, ("b", 1, 1), ("c", 0, 2), ("a", 1, 1))
    assert list(plan) == [PlannedUnit("c", (0,), 2), PlannedUnit("a", (1,), 1), PlannedUnit("b", (1,), 1)]
    assert (len(plan), "b" in plan, plan.has("b"), "x" in plan, plan.has("x")) == (3, True, False, False, False)
    assert plan.used == 1


@pytest.mark.parametrize(
    "mistake",
    [lambda: Plan().put("a", (), 0), lambda: Plan(-1), lambda: Plan().resize(-1)],
    ids=["no pods", "negative capacity", "negative new capacity"],
)
def test_numbers_that_make_no_sense_are_refused(mistake: Callable[[], object]) -> None:
    """A mistake of the caller is an error at once, not a wrong plan later."""
    with pytest.raises(ValueError, match="must"):
        mistake()


EVENT = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 14), st.integers(0, 5), st.integers(1, 6)),
    st.tuples(st.just("drop"), st.integers(0, 14)),
    st.tuples(st.just("resize"), st.integers(0, 25)),
    st.tuples(st.just("changes")),
)


@settings(max_examples=SEQUENCES)
@given(capacity=st.integers(0, 25), events=st.lists(EVENT, min_size=1, max_size=40))
def test_the_plan_equals_one_made_from_scratch(capacity: int, events: list[tuple[str | int, ...]]) -> None:
    """After every event the choice is the plain planner's, and what is told adds up to it."""
    plan, plain, known = Plan(capacity), PlainPlanner(capacity), set[str]()
    for what, *numbers in events:
        play(plan, plain, str(what), [int(number) for number in numbers])
        assert chosen_by(plan) == plain.chosen()
        assert list(plan) == plain.in_order()
        if what == "changes":
            known = told(plan, known)
    assert told(plan, known) == set(plain.chosen())


def play(plan: Plan, plain: PlainPlanner, what: str, numbers: list[int]) -> None:
    """Make one event happen to both."""
    if what == "put":
        number, rank, size = numbers
        unit = PlannedUnit(f"u{number}", (rank,), size)
        plan.put(*unit)
        plain.units[unit.id] = unit
    elif what == "drop":
        plan.drop(f"u{numbers[0]}")
        plain.units.pop(f"u{numbers[0]}", None)
    elif what == "resize":
        plan.resize(numbers[0])
        plain.capacity = numbers[0]


def told(plan: Plan, known: set[str]) -> set[str]:
    """Who is in the plan for someone who only listens to `changes`."""
    entered, left = plan.changes()
    assert not known & set(entered)
    assert set(left) <= known
    return (known | set(entered)) - set(left)


UNITS = 1 << 12
MOST_STEPS = 10 * int(math.log2(UNITS))
"""For one event and one change: a descent or two, each some times the least height of the tree."""


@pytest.fixture
def large() -> Plan:
    """Half of many units fit; sizes are mixed, the last unit in order is a large one."""
    plan = Plan(UNITS)
    for number in range(UNITS - 1):
        plan.put(f"unit-{number}", (number,), 1 + number % 3)
    plan.put("last", (UNITS,), UNITS)
    plan.changes()
    return plan


FEW_STEPS = {
    "far behind the cut": lambda plan, key: plan.put("new", (UNITS - key,), 1),
    "far before the cut": lambda plan, key: plan.put("new", (key,), 1),
    "a small capacity step": lambda plan, _: plan.resize(plan.capacity - 1),
    "one in the plan goes": lambda plan, key: plan.drop(f"unit-{key}"),
    "one behind the cut goes": lambda plan, key: plan.drop(f"unit-{UNITS - 2 - key}"),
}


@pytest.mark.parametrize("event", FEW_STEPS.values(), ids=FEW_STEPS.keys())
@pytest.mark.parametrize("key", [0, 3, 700], ids=["edge", "near the edge", "inside"])
def test_an_event_does_not_walk_all_units(large: Plan, event: Callable[[Plan, int], object], key: int) -> None:
    """Steps grow with log units and with the units that enter or leave, however many stand in between."""
    before = large.visited
    event(large, key)
    entered, left = large.changes()
    assert large.visited - before <= MOST_STEPS * (1 + len(entered) + len(left))
    assert len(entered) + len(left) < 10
