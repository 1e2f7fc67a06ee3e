"""A preemptor waits exactly until all its victims are answered for; nobody is ordered to go twice."""

from __future__ import annotations

from moorage.core.evictions import Evictions, Released


def test_a_preemptor_is_held_until_the_last_answer() -> None:
    """Each victim counts, in whatever order they are answered."""
    evictions = Evictions()
    assert evictions.order("v1", "p")
    assert evictions.order("v2", "p")
    assert evictions.holds("p")
    assert evictions.answered("v2", ok=True) == []
    assert evictions.holds("p")
    assert evictions.answered("v1", ok=True) == [Released("p", failed=False)]
    assert not evictions.holds("p")


def test_a_victim_counts_as_leaving_until_it_is_gone() -> None:
    """Long after the answer: it may take a grace period to end."""
    evictions = Evictions()
    evictions.order("v", "p")
    evictions.answered("v", ok=True)
    assert evictions.evicting("v")
    assert not evictions.order("v", "q"), "ordered twice"
    assert not evictions.holds("q"), "there is no answer to wait for"
    assert evictions.gone("v") == []
    assert not evictions.evicting("v")


def test_two_preemptors_may_wait_for_one_victim() -> None:
    """The deletion is ordered once, and its answer releases both."""
    evictions = Evictions()
    assert evictions.order("v", "p")
    assert not evictions.order("v", "q")
    assert evictions.answered("v", ok=True) == [Released("p", failed=False), Released("q", failed=False)]


def test_a_failed_deletion_releases_too_and_may_be_ordered_again() -> None:
    """The failure is told when the last victim was answered."""
    evictions = Evictions()
    evictions.order("v1", "p")
    evictions.order("v2", "p")
    assert evictions.answered("v1", ok=False) == []
    assert not evictions.evicting("v1")
    assert evictions.answered("v2", ok=True) == [Released("p", failed=True)]
    assert evictions.order("v1", "p")
    assert evictions.answered("v1", ok=True) == [Released("p", failed=False)], "an old failure is forgotten"


def test_a_pod_that_vanishes_is_as_good_as_an_answer() -> None:
    """The watch may be faster than the answer, which then changes nothing."""
    evictions = Evictions()
    evictions.order("v", "p")
    assert evictions.gone("v") == [Released("p", failed=False)]
    assert evictions.answered("v", ok=False) == []
    assert not evictions.evicting("v")
    assert evictions.gone("stranger") == []


def test_a_late_failure_does_not_undo_what_was_seen() -> None:
    """The deletion mark was seen, so the pod goes, whatever the answer says."""
    evictions = Evictions()
    evictions.order("v", "p")
    evictions.answered("v", ok=True)
    evictions.answered("v", ok=False)
    assert evictions.evicting("v")


def test_a_preemptor_that_needs_no_room_any_more_is_forgotten() -> None:
    """Its victims still count as leaving."""
    evictions = Evictions()
    evictions.order("v", "p")
    evictions.forget("p")
    assert not evictions.holds("p")
    assert evictions.answered("v", ok=True) == []
    assert evictions.evicting("v")
