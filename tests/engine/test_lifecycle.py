"""The life of a pod: which steps there are, and what is remembered of them."""

from __future__ import annotations

import pytest

from moorage.core.events import BindOutcome
from moorage.core.invariants import InvariantError
from moorage.engine.lifecycle import KEPT_STEPS, ON_ITS_WAY, STEPS, WAITING, State
from moorage.engine.units import Place, QueuedPod, Unit, place_of
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

LASTING = WAITING | ON_ITS_WAY | {State.TRYING}


def queued(state: State = State.NEW) -> tuple[QueuedPod, Unit]:
    """A pod in a state, and the unit in which it is queued by itself."""
    pod = make_pod("a")
    unit = Unit(pod.uid, pod, None, 0.0, 0.0, state=state)
    entry = unit.members[pod.uid] = QueuedPod(pod, unit, 0.0, state)
    return entry, unit


def steps_of(entry: QueuedPod | None) -> list[tuple[float, State]]:
    assert entry is not None
    return [(at_s, state) for at_s, state, _ in entry.story]


def test_every_state_has_a_row_and_can_be_reached() -> None:
    """Every one but the first follows another one; only two are an end."""
    assert set(STEPS) == set(State)
    assert set().union(*STEPS.values()) == set(State) - {State.NEW}
    assert {state for state, after in STEPS.items() if not after} == {State.BOUND, State.GONE}


@pytest.mark.parametrize("before", State)
def test_a_step_that_is_not_in_the_table_raises(before: State) -> None:
    """At once, and it says whose step it was; the pod stays where it was."""
    for after in set(State) - STEPS[before] - {before}:
        entry, unit = queued(before)
        for mover in (entry, unit):
            with pytest.raises(InvariantError, match=f"default/a: {before} -> {after} is no step"):
                mover.move(after, 1.0, "")
        assert (entry.state, unit.state, entry.story) == (before, before, [])


@pytest.mark.parametrize("state", sorted(LASTING))
def test_a_pod_that_is_not_needed_any_more_can_go(state: State) -> None:
    """From wherever it stays for longer."""
    assert State.GONE in STEPS[state]


def test_places_follow_from_states() -> None:
    """What is not waiting is in flight."""
    places = {state: place_of(state) for state in State}
    assert {state.value: places[state].value for state in WAITING} == {state.value: state.value for state in WAITING}
    assert all(place is Place.IN_FLIGHT for state, place in places.items() if state not in WAITING)


def test_the_life_of_a_pod() -> None:
    """Tried in vain, woken by a node, bound."""
    play = Play()
    play.see(make_pod("p", cpu="1"), at=1.0)
    entry = play.engine.queue.get("default/p")
    assert steps_of(entry) == [
        (1.0, State.ACTIVE), (1.0, State.TRYING), (1.0, State.BACK), (1.0, State.UNSCHEDULABLE),
    ]  # fmt: skip
    assert entry is not None
    assert entry.story[2][2] == entry.message != ""
    play.see(make_node("n", cpu="4"), at=5.0)
    assert steps_of(entry)[4:] == [(5.0, State.ACTIVE), (5.0, State.TRYING), (5.0, State.BINDING)]
    assert entry.story[-1][2] == "n"
    play.answer("p", BindOutcome.BOUND)
    assert entry.state is State.BOUND
    assert play.engine.queue.get("default/p") is None


@pytest.mark.parametrize(
    "again",
    [
        (State.ACTIVE, State.TRYING, State.BACK, State.UNSCHEDULABLE),
        (State.ACTIVE, State.TRYING, State.PERMIT, State.PRE_BIND, State.READY, State.BINDING, State.BACK),
        (State.ACTIVE, State.GATED),
    ],
    ids=["unschedulable", "never-bound", "gated"],
)
def test_a_story_is_bounded(again: tuple[State, ...]) -> None:
    """However long a pod waits, only its latest steps are kept."""
    entry, unit = queued()
    for at_s in range(1, 101):
        for state in again:
            (entry if state in ON_ITS_WAY else unit).move(state, float(at_s), "")
    assert KEPT_STEPS <= len(entry.story) <= KEPT_STEPS + len(again)
    assert steps_of(entry)[-len(again) :] == [(100.0, state) for state in again]
