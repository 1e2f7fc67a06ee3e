"""How the sides of a trial are compared, in virtual time: what is worse goes, what is better may stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from moorage.core.events import NodeSeen
from moorage.core.trials import Side, TrialEnd, TrialPhase, TrialVerdict
from moorage.engine.sides import JUDGED_EVERY_S
from moorage.framework.trying import AtEnd, Limit, TrialConfiguration, TrialLimits
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.testing import make_node
from tests.engine.trialplays import STRICT, Only, TrialPlay, trial

HOUR_S = 3600.0


def names(count: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def begin(terms: TrialConfiguration, *plugins: object, **cluster: object) -> TrialPlay:
    play = TrialPlay(terms, *plugins, **cluster)  # type: ignore[arg-type]
    play.recall()
    return play


# --- worse ---


def never_placed(play: TrialPlay) -> None:
    play.create("new", names(6))


def evicting(play: TrialPlay) -> None:
    play.create("low", names(8), cpu="3", priority=-1)
    play.create("new", names(6), cpu="3")


def binds_fail(play: TrialPlay) -> None:
    play.failing.add("new")
    play.create("new", names(6))
    play.wait(1)


def placed_late(play: TrialPlay) -> None:
    play.create("new", names(6))
    play.wait(60)
    play.tell(NodeSeen(make_node("late", cpu="100")))


WORSE: dict[str, tuple[TrialConfiguration, dict[str, object], Callable[[TrialPlay], None]]] = {
    "pending": (trial(Only("")), {}, never_placed),
    "evictions": (trial(DefaultPreemption()), {"cpu": "4"}, evicting),
    "failedBinds": (trial(), {}, binds_fail),
    "waitingP99": (
        trial(Only("late"), limits=replace(STRICT, pending=Limit(1.0, 100.0))),
        {},
        placed_late,
    ),
}


@pytest.mark.parametrize(("terms", "cluster", "spoil"), WORSE.values(), ids=WORSE)
def test_what_is_worse_is_gone(
    request: pytest.FixtureRequest,
    terms: TrialConfiguration,
    cluster: dict[str, object],
    spoil: Callable[[TrialPlay], None],
) -> None:
    """Within the time that the limits allow, with the measure that it was worse by; its pods are placed again."""
    play = begin(terms, nodes=8, **cluster)
    play.create("old", names(6), cpu="100m")
    spoil(play)
    play.failing.clear()
    play.wait(terms.limits.lasting_s + 2 * JUDGED_EVERY_S)
    assert (play.record.end, play.record.verdict) == (TrialEnd.WORSE, TrialVerdict.WORSE)
    assert request.node.callspec.id in play.record.message
    play.wait(60)
    assert {key for key in play.pods if key.startswith("new/")} <= set(play.bound)


def test_it_must_be_worse_for_a_while() -> None:
    """A limit that is passed for a moment ends nothing; one that stays passed does, not later than promised."""
    limits = replace(STRICT, lasting_s=60.0)
    play = begin(trial(Only("late"), limits=limits))
    play.create("old", names(6))
    play.create("new", names(6))
    play.wait(40)
    assert play.phase() is TrialPhase.RUNNING
    play.tell(NodeSeen(make_node("late", cpu="6")))
    play.wait(120)
    assert play.phase() is TrialPhase.ENDED  # the time that they waited
    assert "waitingP99" in play.record.message
    other = begin(trial(Only("late"), limits=replace(limits, waiting_p99=Limit(1.0, 1e6))))
    other.create("old", names(6))
    other.create("new", names(6))
    other.wait(40)
    other.tell(NodeSeen(make_node("late", cpu="6")))
    other.wait(50)
    assert other.phase() is TrialPhase.RUNNING
    other.create("new", names(6, "more"))
    other.wait(60 - JUDGED_EVERY_S - 1)
    assert other.phase() is TrialPhase.RUNNING
    other.wait(3 * JUDGED_EVERY_S)
    assert (other.phase(), other.record.end) == (TrialPhase.ENDED, TrialEnd.WORSE)


def test_too_few_pods_prove_nothing() -> None:
    """On either side: the trial runs to its end, is not kept, and says why."""
    for mine, theirs in ((3, 50), (50, 3)):
        play = begin(trial(Only(""), duration_s=600.0, at_end=AtEnd.KEEP))
        play.create("old", names(theirs))
        play.create("new", names(mine))
        play.wait(599)
        assert play.phase() is TrialPhase.RUNNING
        play.wait(2)
        assert (play.phase(), play.record.verdict) == (TrialPhase.ENDED, TrialVerdict.UNKNOWN)
        assert f"{mine} pods in the trial and {theirs} beside it, at least 4 are needed" in play.record.message


def test_sides_of_different_size_are_compared_by_what_each_could_expect() -> None:
    """Ten of a hundred pending beside one of ten is alike."""
    play = begin(trial(duration_s=600.0, limits=replace(STRICT, pending=Limit(1.2, 0.0))))
    play.create("old", names(90))
    play.create("old", names(10, "large"), cpu="1000")
    play.create("new", names(9))
    play.create("new", names(1, "large"), cpu="1000")
    play.wait(601)
    assert (play.record.end, play.record.verdict) == (TrialEnd.TIME_OVER, TrialVerdict.ALIKE)


def test_pods_that_are_older_than_the_trial_do_not_count() -> None:
    """What was pending before is nobody's fault."""
    play = TrialPlay(trial(duration_s=600.0))
    play.create("new", names(50, "stuck"), cpu="1000")
    play.now += 10
    play.recall()
    play.create("new", names(6))
    play.create("old", names(6))
    play.wait(60)
    assert play.phase() is TrialPhase.RUNNING
    play.wait(600)
    assert play.record.verdict is TrialVerdict.ALIKE


# --- better ---


def test_what_is_better_says_so_and_stays_if_it_is_told_to() -> None:
    """Pods of the control find no node; those of the trial do."""
    for at_end, want in ((AtEnd.KEEP, TrialPhase.KEPT), (AtEnd.RETURN, TrialPhase.ENDED)):
        play = begin(trial(duration_s=HOUR_S, at_end=at_end), Only(""))
        play.create("old", names(8))
        play.create("new", names(8))
        play.wait(HOUR_S + 1)
        assert (play.record.verdict, play.record.end) == (TrialVerdict.BETTER, TrialEnd.TIME_OVER)
        assert "pending is 0 where 8 is expected" in play.record.message
        assert play.phase() is want
        play.create("new", ["later"])
        play.wait(60)
        assert ("new/later" in play.bound) == (at_end is AtEnd.KEEP)


def test_a_trial_that_was_kept_is_judged_no_more_and_goes_with_its_document() -> None:
    """It is configuration from then on."""
    terms = trial(duration_s=60.0, at_end=AtEnd.KEEP)
    play = begin(terms, Only(""))
    play.create("old", names(8))
    play.create("new", names(8))
    play.wait(61)
    assert play.phase() is TrialPhase.KEPT
    before = play.record
    play.failing.add("new")
    play.create("new", names(20, "more"))
    play.wait(600)
    assert play.record == before
    assert play.engine.sides.next_s() is None
    play.reconfigure(None)
    assert (play.phase(), play.record.end) == (TrialPhase.ENDED, TrialEnd.REMOVED)


def test_worse_at_the_last_moment_is_not_kept() -> None:
    """Though it has not been worse for long."""
    play = begin(trial(Only(""), duration_s=60.0, at_end=AtEnd.KEEP, limits=replace(STRICT, lasting_s=300.0)))
    play.create("old", names(8))
    play.wait(50)
    play.create("new", names(8))
    play.wait(11)
    assert (play.phase(), play.record.end, play.record.verdict) == (
        TrialPhase.ENDED,
        TrialEnd.TIME_OVER,
        TrialVerdict.WORSE,
    )


# --- time ---


@pytest.mark.parametrize("jumps", [(-500.0, 10.0), (1e7, 1e7 + 1)], ids=["back", "ahead"])
def test_a_clock_that_jumps_does_no_harm(jumps: Iterable[float]) -> None:
    """Backwards the trial runs longer, far ahead it is over; nothing raises, nothing is counted below zero."""
    play = begin(trial(duration_s=HOUR_S))
    play.create("old", names(6))
    play.create("new", names(6))
    for jump in jumps:
        play.now = 1000.0 + jump
        play.tell()
        play.create("new", [f"at-{abs(int(jump))}"])
    record = play.record
    assert record.ran_s >= 0
    assert all(place >= 0 for side in Side for place, _ in record.counts(side).waits)
    assert record.phase is (TrialPhase.ENDED if play.now > 1e6 else TrialPhase.RUNNING)


def test_the_engine_asks_to_be_called_while_a_trial_runs_only() -> None:
    """No timer without one."""
    play = TrialPlay(trial(duration_s=12.0))
    assert play.engine.handle((), play.now)[1] is None
    play.recall()
    play.tell()
    assert play.wakeup == play.now + JUDGED_EVERY_S
    play.wait(13)
    assert play.phase() is TrialPhase.ENDED
    assert play.engine.handle((), play.now)[1] is None


def test_default_limits_forgive_small_numbers() -> None:
    """A single eviction or a slow pod is no verdict."""
    limits = TrialLimits()
    assert not limits.evictions.passed(5, 0)
    assert limits.evictions.passed(6, 0)
    assert not limits.waiting_p99.passed(24.9, 10)
    assert limits.waiting_p99.passed(25.1, 10)
