"""Where a pod waits: what others can guess is what the queue of the engine says."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.commands import RecordEvent
from moorage.core.echo import with_status
from moorage.core.pods import Condition, Pod
from moorage.engine.units import Place
from moorage.framework.cycle import Cycle
from moorage.testing.builders import make_node, make_pod
from moorage.views.waiting import Tried, guess
from tests.engine.actors import Reserver
from tests.engine.play import Play

GATED = Condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
"""What the API server writes on a pod that is created with gates, and leaves there."""


class Bystander:
    """Knows a pod as the API server shows it: its conditions, and the events about it."""

    def __init__(self, play: Play, pod: Pod) -> None:
        self.play = play
        self.pod = pod
        self.tried: Tried | None = None

    def look(self) -> None:
        """Take over what the last call of the engine had written."""
        for patch in self.play.patches:
            self.pod = with_status(self.pod, patch)
        for event in self.play.of(RecordEvent):
            assert event.reason == "FailedScheduling"
            times = 1 if self.tried is None else self.tried.times + 1
            self.tried = Tried(self.play.now, times, event.note)

    def agrees(self, place: Place) -> bool:
        """Whether guess and queue both say this; the pod alone tells as much unless it backs off."""
        alone = guess(self.pod)[0]
        said = guess(self.pod, self.tried, self.play.now)[0]
        return place is said is self.play.place(self.pod.name) and (alone is said or place is Place.BACKOFF)


def test_a_pod_that_has_not_been_tried() -> None:
    """It is active; with gates it is not, and as soon as they are gone it is."""
    play = Play()
    new, gated = make_pod("new"), replace(make_pod("gated", gates=["example.com/wait"]), scheduled_condition=GATED)
    play.see(new, gated, budget=0)
    assert Bystander(play, new).agrees(Place.ACTIVE)
    assert Bystander(play, gated).agrees(Place.GATED)
    free = replace(gated, gates=())
    play.see(free, budget=0)
    assert Bystander(play, free).agrees(Place.ACTIVE)
    assert guess(free) == (Place.ACTIVE, "not tried yet by default-scheduler")


def test_a_pod_that_fits_nowhere() -> None:
    """It is unschedulable from the moment that it was tried: it waits for a change, not for time to pass."""
    play = Play()
    big = Bystander(play, make_pod("big", cpu="64"))
    play.see(make_node("n1", cpu="4"), big.pod)
    big.look()
    assert big.tried is not None
    assert big.agrees(Place.UNSCHEDULABLE)
    play.wait(60)
    assert big.agrees(Place.UNSCHEDULABLE)
    assert guess(replace(big.pod, nominated_node="n1"))[1] == f"waits for room on n1; {big.tried.note}"


def test_a_pod_whose_attempt_failed() -> None:
    """It backs off, and is active afterwards."""

    def fails(cycle: Cycle) -> None:
        if cycle.pod.name == "a":
            raise ValueError("no answer")

    play = Play(Reserver("Broken", [], fails))
    pod = Bystander(play, make_pod("a"))
    play.see(make_node("n1", cpu="4"), pod.pod)
    pod.look()
    assert pod.agrees(Place.BACKOFF)
    play.see(make_pod("more-important", priority=9), at=play.now + 1.5, budget=1)
    assert play.binds == {"more-important": "n1"}
    assert pod.agrees(Place.ACTIVE)
