"""Preemption as the engine applies it: evicted once, nominated, held, woken, and told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from moorage.core.commands import DeletePod, PatchPodStatus, PodRef, RecordEvent
from moorage.core.events import DeleteDone, Event, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.engine.units import Place
from moorage.framework.status import Hold
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.testing import make_node, make_pod
from tests.engine.actors import Permitter
from tests.engine.play import Play

LOW = make_pod("low", cpu="4", node="n1")
HIGH = make_pod("high", cpu="4", priority=100)
TAIL = "preemption: found a potential placement for pod on node n1, preempting 1 victims"
DONE = DeleteDone("default/low", ok=True)
GONE = PodGone("default/low")
MARKED = PodSeen(replace(LOW, deleted_s=1001.0, preempted=True))


def begin(*pods: Pod) -> Play:
    """A full node and a pod that preempts."""
    play = Play(DefaultPreemption())
    play.see(make_node("n1", cpu="4"), LOW, *(pods or (HIGH,)))
    return play


def nominations(play: Play) -> dict[str, str | None]:
    return {patch.pod.name: patch.nominated_node for patch in play.patches if patch.nominated_node is not None}


def test_the_first_attempt_evicts_and_nominates() -> None:
    """One deletion with its reason, one patch with condition and nominated node, one warning; no bind yet."""
    play = begin()
    ref = PodRef("default", "low", "default/low")
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    assert play.of(DeletePod) == [
        DeletePod(ref, "PreemptionByScheduler", message, PodRef("default", "high", "default/high"))
    ]
    (patch,) = play.patches
    assert patch.nominated_node == "n1"
    assert patch.condition is not None
    assert patch.condition.message == f"0/1 nodes are available: 1 Insufficient cpu. {TAIL}"
    assert play.reasons == [("high", "FailedScheduling")]
    assert play.binds == {}


def test_the_eviction_is_announced_when_it_has_succeeded() -> None:
    """With the preemptor as the related object."""
    play = begin()
    play.handle(DONE)
    (event,) = play.of(RecordEvent)
    assert (event.pod.name, event.type, event.reason, event.action) == ("low", "Normal", "Preempted", "Preempting")
    assert event.note == "Preempted by pod default/high on node n1"
    assert event.related == PodRef("default", "high", "default/high")


ORDERS: list[object] = [
    pytest.param([[DONE], [GONE]], id="answer, then gone"),
    pytest.param([[GONE], [DONE]], id="gone, then answer"),
    pytest.param([[MARKED], [DONE], [GONE]], id="mark, answer, gone"),
    pytest.param([[DONE], [MARKED], [GONE]], id="answer, mark, gone"),
    pytest.param([[MARKED], [GONE], [DONE]], id="mark, gone, answer"),
    pytest.param([[DONE, GONE]], id="at once"),
]


@pytest.mark.parametrize("batches", ORDERS)
def test_the_preemptor_is_bound_when_the_victim_is_gone(batches: list[list[Event]]) -> None:
    """Whatever comes first; nobody is evicted twice, and the promise ends."""
    play = begin()
    binds: dict[str, str] = {}
    for batch in batches:
        play.handle(*batch)
        binds |= play.binds
        assert play.deletions == []
    assert binds == {"high": "n1"}
    assert not play.engine.state.nominations
    assert not play.engine.state.evictions.evicting("default/low")


def test_the_preemptor_is_held_until_the_deletion_is_answered() -> None:
    """Something that would wake it meanwhile leads to no attempt; the answer does."""
    play = begin()
    play.see(make_node("n2", cpu="4"))
    assert play.place("high") is Place.GATED
    assert play.binds == {}
    play.handle(DONE)
    assert play.binds == {"high": "n2"}


def test_while_a_victim_leaves_nobody_else_is_evicted() -> None:
    """Between the answer and the end of the grace period every attempt says so, and the nomination stays."""
    play = begin()
    play.handle(DONE)
    play.see(make_node("n2", cpu="4"), make_pod("low2", cpu="4", node="n2"), at=play.now + 20)
    play.handle(MARKED)
    assert play.deletions == []
    assert play.place("high") is Place.UNSCHEDULABLE
    entry = play.engine.queue.get("default/high")
    assert entry is not None
    assert entry.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert play.engine.state.nominations.node_of("default/high") == "n1"
    play.handle(GONE)
    assert play.binds == {"high": "n1"}


def test_a_failed_deletion_is_tried_again_after_a_backoff() -> None:
    """The hold ends, no event tells of an eviction, and the API server is not hammered."""
    play = begin()
    play.handle(DeleteDone("default/low", ok=False, message="forbidden"))
    assert play.of(RecordEvent) == []
    assert play.place("high") is Place.BACKOFF
    assert play.deletions == []
    play.wait(1.0)
    assert play.deletions == ["low"]


def test_a_victim_that_is_being_deleted_already_is_not_deleted_again() -> None:
    """It counts as a victim, but there is nothing to order and nothing to wait for."""
    play = Play(DefaultPreemption())
    play.see(make_node("n1", cpu="4"), replace(LOW, deleted_s=900.0), HIGH)
    assert play.deletions == []
    assert nominations(play) == {"high": "n1"}
    assert not play.engine.state.evictions.holds("default/high")
    play.handle(GONE)
    assert play.binds == {"high": "n1"}


def test_two_preemptors_do_not_share_the_room_of_one_victim() -> None:
    """The second one sees the promise of the first, equal in priority, and looks elsewhere."""
    second = make_pod("second", cpu="4", priority=100)
    play = Play(DefaultPreemption())
    play.see(make_node("n1", cpu="4"), make_node("n2", cpu="4"), LOW, make_pod("low2", cpu="4", node="n2"))
    play.see(HIGH, second)
    assert sorted(play.deletions) == ["low", "low2"]
    promised = {play.engine.state.nominations.node_of(uid) for uid in ("default/high", "default/second")}
    assert promised == {"n1", "n2"}


def test_a_more_important_pod_takes_a_promised_node() -> None:
    """The lesser pod's nomination is cleared; the victim that both want is deleted once."""
    play = begin()
    play.see(make_pod("top", cpu="4", priority=1000))
    assert play.deletions == []
    assert nominations(play) == {"high": "", "top": "n1"}
    assert play.engine.state.nominations.node_of("default/high") is None
    play.handle(DONE, GONE)
    assert play.binds == {"top": "n1"}
    assert play.place("high") is Place.UNSCHEDULABLE


def test_a_nomination_that_leads_nowhere_is_cleared() -> None:
    """With the next attempt that finds no candidate, in the same patch as the condition."""
    play = begin()
    play.handle(DONE, GONE, PodSeen(make_pod("peer", cpu="4", priority=100, node="n1")))
    assert play.binds == {}
    (patch,) = [patch for patch in play.patches if patch.pod.name == "high"]
    assert patch.nominated_node == ""
    assert patch.condition is not None
    assert patch.condition.message.endswith("1 No preemption victims found for incoming pod.")


def test_a_nomination_by_somebody_else_counts() -> None:
    """The promised node is tried first and taken without scoring; it is kept free from equals until then."""
    play = Play(DefaultPreemption())
    play.see(make_node("n1", cpu="4"), make_node("n2", cpu="8"))
    play.see(make_pod("p", cpu="1", nominated_node="n1"))
    assert play.binds == {"p": "n1"}


def test_a_preemptor_that_vanishes_leaves_nothing_behind() -> None:
    """No promise, no hold; the victim goes all the same and is announced."""
    play = begin()
    play.handle(PodGone("default/high"))
    play.handle(DONE)
    assert play.reasons == [("low", "Preempted")]
    play.handle(GONE)
    assert not play.engine.state.nominations
    assert not play.engine.state.evictions.holds("default/high")


def test_a_victim_that_waits_in_permit_is_sent_back_instead_of_being_deleted() -> None:
    """Nothing was written about it yet, so there is nothing to delete."""
    play = Play(Permitter(lambda cycle: Hold(9999.0) if cycle.pod.name == "low" else None), DefaultPreemption())
    play.see(make_node("n1", cpu="4"), make_pod("low", cpu="4"))
    assert play.node_of("low") == "n1"
    play.see(HIGH)
    assert play.deletions == []
    assert play.binds == {"high": "n1"}
    assert ("low", "Preempted") in play.reasons
    assert play.note("low") is not None
    assert play.place("low") is Place.UNSCHEDULABLE


FINISHES: list[Callable[[Pod], Event]] = [
    lambda pod: PodSeen(replace(pod, phase="Succeeded")),
    lambda pod: PodGone(pod.uid),
]


@pytest.mark.parametrize("finish", FINISHES, ids=["finished", "gone"])
def test_a_victim_that_ends_by_itself_releases_the_preemptor(finish: Callable[[Pod], Event]) -> None:
    """There is room; the answer to the deletion does not matter any more."""
    play = begin()
    play.handle(finish(LOW))
    assert play.binds == {"high": "n1"}
    play.handle(DeleteDone("default/low", ok=False, message="gone"))
    assert play.deletions == []


def test_patches_are_not_repeated() -> None:
    """An attempt that says what the pod says already writes nothing."""
    play = begin()
    (patch,) = play.patches
    play.handle(DONE)
    seen = replace(HIGH, nominated_node="n1", scheduled_condition=patch.condition)
    play.see(seen)
    play.see(make_node("n3", cpu="1"), at=play.now + 20)
    written = [command for command in play.commands if isinstance(command, PatchPodStatus)]
    assert all(each.nominated_node is None for each in written)
