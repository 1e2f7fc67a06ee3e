"""Reserve, Permit, PreBind, PostFilter and promises: pods that are on their way, and what plugins may do with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.commands import PatchPodStatus, PodRef, RecordEvent
from moorage.core.events import BindOutcome, DeleteDone, PodGone, PodSeen
from moorage.core.pods import PodTemplate, PodVolume
from moorage.core.state import ClusterState
from moorage.engine.units import Place
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.status import Code, Hold, Nomination, Status, unschedulable
from moorage.testing import make_node, make_pod
from tests.engine.actors import Gatekeeper, Permitter, PostFilter, PreBinder, Raiser, Reserver
from tests.engine.play import Play


def signalled(cycle: Cycle) -> bool:
    return cycle.state.object("Signal", "go") is not None


def hold_until_signal(cycle: Cycle) -> Hold | None:
    """Wait for a Signal object until the pod's deadline."""
    return None if signalled(cycle) else Hold(deadline_s=1010.0, reason="no signal came")


# --- Reserve ---


def test_a_refused_reservation_is_undone_in_reverse() -> None:
    """By all plugins, also those that were not asked any more, as in kube-scheduler."""
    diary: list[str] = []
    plugins = [
        Reserver("A", diary),
        Reserver("B", diary, lambda _: unschedulable("no volume left")),
        Reserver("C", diary),
    ]
    play = Play(*plugins)
    play.see(make_node("n1"), make_pod("p", cpu="1"))
    assert diary == [
        "A reserves p on n1",
        "B reserves p on n1",
        "C unreserves p",
        "B unreserves p",
        "A unreserves p",
    ]
    assert play.used_cpu("n1") == 0
    assert play.binds == {}
    assert play.note("p") == "no volume left"
    assert play.place("p") is Place.UNSCHEDULABLE


def test_a_refused_reservation_does_not_wake_anybody() -> None:
    """Nothing has changed: pods whose reservations fail must not wake each other up for ever."""
    play = Play(Reserver("A", [], lambda _: unschedulable("no")))
    play.see(make_node("n1"), make_pod("p"), make_pod("q"))
    assert play.reasons == [("p", "FailedScheduling"), ("q", "FailedScheduling")]
    assert play.wakeup == play.now + 30.0


# --- Permit and PreBind ---


def test_a_pod_held_in_permit_goes_on_when_what_it_waits_for_happens() -> None:
    """It stands on its node meanwhile, says where it is going, and is bound at once then."""
    play = Play(Permitter(hold_until_signal))
    play.see(make_node("n1", cpu="4"), make_pod("p", cpu="1"))
    assert play.binds == {}
    assert play.patches == [PatchPodStatus(PodRef("default", "p", "default/p"), nominated_node="n1")]
    assert play.used_cpu("n1") == 1000
    assert play.wakeup == 1010.0
    assert play.engine.next_change_s() == 1010.0
    play.see(make_node("n2"))
    assert play.commands == []
    play.object_seen("Signal", "go", 1)
    assert play.binds == {"p": "n1"}
    assert play.wakeup is None


def test_a_pod_held_too_long_comes_back() -> None:
    """At the deadline: the reason is told, what was reserved is given back, the promise is withdrawn."""
    diary: list[str] = []
    play = Play(Reserver("A", diary), Permitter(hold_until_signal))
    play.see(make_node("n1"), make_pod("p", cpu="1"))
    play.handle(at=1009.0)
    assert play.commands == []
    play.handle(at=1010.0)
    assert play.note("p") == "no signal came"
    assert [patch.nominated_node for patch in play.patches] == [""]
    assert diary[-1] == "A unreserves p"
    assert play.used_cpu("n1") == 0
    assert play.place("p") is Place.UNSCHEDULABLE, "its own departure does not wake it"


def test_commands_of_a_hold_are_sent_once() -> None:
    """The plugin repeats them at every question; the engine does not."""
    command = RecordEvent(PodRef("default", "p", "default/p"), "Normal", "Waiting", "Permit", "...", "test")
    play = Play(Permitter(lambda cycle: None if signalled(cycle) else Hold(2000.0, (command,))))
    play.see(make_node("n1"), make_pod("p"))
    assert play.of(RecordEvent) == [command]
    play.see(make_node("n2"))
    play.see(make_pod("q"), make_node("n3"))
    assert play.of(RecordEvent) == [command], "only that of q, which has the same"
    play.see(make_node("n4"))
    assert play.of(RecordEvent) == []


def test_only_events_that_the_plugin_wakes_on_make_it_asked_again() -> None:
    """A plugin that waits for objects is not asked at every pod event."""
    asked: list[str] = []

    def say(cycle: Cycle) -> Hold:
        asked.append(cycle.pod.name)
        return Hold(2000.0)

    play = Play(Permitter(say, wakes=What.OBJECT))
    play.see(make_node("n1"), make_pod("p"))
    play.see(make_node("n2"), make_pod("other", node="n2"))
    assert asked == ["p"]
    play.object_seen("Signal", "x", 1)
    assert asked == ["p", "p"]


class Watched(Permitter):
    """Counts how often somebody looks at what it wakes on."""

    looks = 0

    @property
    def wakes(self) -> What:
        type(self).looks += 1
        return What.OBJECT

    @wakes.setter
    def wakes(self, _: What) -> None: ...


def test_pods_that_wait_cost_nothing_while_nothing_concerns_them() -> None:
    """A turn looks at none of them; one whose time has come is found without the others."""
    looks = []
    for number in (5, 50):
        play = Play(Watched(lambda cycle: Hold(1000.0 + int(cycle.pod.name), reason="too late")))
        play.see(make_node("n1"), *(make_pod(str(10 + each)) for each in range(number)))
        before = Watched.looks
        play.see(make_node("n2"))
        play.handle(at=1010.0)
        assert play.note("10") == "too late"
        looks.append(Watched.looks - before)
        play.handle(at=1012.0)
        assert [play.note("11"), play.note("12")] == ["too late"] * 2
        assert play.wakeup == 1013.0
    assert looks[0] == looks[1]


def test_a_held_pod_hears_of_pods_that_are_assumed_later() -> None:
    """A gang's first member waits for the second, with nobody else in the queue."""

    def say(cycle: Cycle) -> Hold | None:
        return None if cycle.state.pod_count >= 2 else Hold(2000.0)

    play = Play(Permitter(say))
    play.see(make_node("n1"), make_pod("first"))
    assert play.binds == {}
    play.see(make_pod("second"))
    assert play.binds == {"second": "n1", "first": "n1"}


def test_a_pod_that_waits_for_an_object_is_asked_again_only_when_that_changes() -> None:
    """However many wait: pods and objects of others cost nothing more for them."""
    asked: list[str] = []

    def say(cycle: Cycle) -> Hold | None:
        asked.append(cycle.pod.name)
        own = ("Signal", cycle.pod.name)
        return None if cycle.state.object(*own) else Hold(2000.0, objects=(own,))

    play = Play(PreBinder(say))
    play.see(make_node("n1"), *(make_pod(f"p{number}") for number in range(20)))
    asked.clear()
    play.see(make_pod("other", node="n1"), make_node("n2"))
    play.pod_gone("other")
    play.object_seen("Signal", "elsewhere", 1)
    assert asked == []
    play.object_seen("Signal", "p7", 1)
    assert (asked, play.binds) == (["p7"], {"p7": "n1"})
    play.handle(at=2000.0)
    assert set(asked) == {f"p{number}" for number in range(20)}, "the deadline counts as ever"


@pytest.mark.parametrize("leaves", ["a", "b"])
def test_who_shares_a_claim_with_a_pod_that_leaves_is_asked_again(leaves: str) -> None:
    """One of them writes for both; the other one has to when that is gone."""
    volumes = (PodVolume("c"),)
    asked: list[str] = []

    def say(cycle: Cycle) -> Hold:
        asked.append(cycle.pod.name)
        return Hold(2000.0, objects=(("PersistentVolumeClaim", "default/c"),))

    play = Play(PreBinder(say))
    play.see(make_node("n1"), make_pod("a", volumes=volumes), make_pod("b", volumes=volumes))
    asked.clear()
    play.pod_gone(leaves)
    assert asked == ["b" if leaves == "a" else "a"]


def test_wait_without_a_deadline_ends_after_a_quarter_of_an_hour() -> None:
    """kube-scheduler's longest Permit wait."""
    play = Play(Permitter(lambda _: Status(Code.WAIT, ("wait for it",))))
    play.see(make_node("n1"), make_pod("p"))
    assert play.wakeup == play.now + 900.0
    play.see(make_node("n2"), at=play.now + 100.0)
    assert play.wakeup == play.now + 800.0
    play.handle(at=play.wakeup)
    assert play.note("p") == "wait for it"


def test_permit_then_pre_bind_may_hold_one_after_the_other() -> None:
    """Each has its own deadline; Permit is not asked again once it has agreed."""
    permits: list[str] = []

    def permit(cycle: Cycle) -> Hold | None:
        permits.append(cycle.pod.name)
        return None if cycle.state.object("Signal", "permit") else Hold(1100.0)

    play = Play(Permitter(permit), PreBinder(lambda cycle: None if signalled(cycle) else Hold(1200.0, reason="volume")))
    play.see(make_node("n1"), make_pod("p"))
    assert play.wakeup == 1100.0
    play.object_seen("Signal", "permit", 1)
    assert (play.binds, play.wakeup) == ({}, 1200.0)
    asked = len(permits)
    play.object_seen("Signal", "go", 1)
    assert play.binds == {"p": "n1"}
    assert len(permits) == asked


def test_a_refusal_by_permit_waits_for_help() -> None:
    """Unschedulable, with the plugin's reason."""
    play = Play(Permitter(lambda cycle: None if signalled(cycle) else unschedulable("the group is not complete")))
    play.see(make_node("n1"), make_pod("p", cpu="1"))
    assert play.note("p") == "the group is not complete"
    assert play.used_cpu("n1") == 0
    assert play.place("p") is Place.UNSCHEDULABLE
    play.object_seen("Signal", "go", 1)
    assert play.binds == {"p": "n1"}


@pytest.mark.parametrize("how", ["deleted", "marked for deletion", "failed", "bound by somebody else"])
def test_a_pod_that_ends_while_it_is_held_is_let_go(how: str) -> None:
    """No bind is sent for it later, and what was reserved is given back."""
    diary: list[str] = []
    play = Play(Reserver("A", diary), Permitter(hold_until_signal))
    pod = make_pod("p", cpu="1")
    play.see(make_node("n1"), pod)
    if how == "deleted":
        play.pod_gone("p")
    elif how == "bound by somebody else":
        play.see(make_node("n2"), replace(pod, node="n2"))
    else:
        play.see(replace(pod, deleted_s=5.0) if how == "marked for deletion" else replace(pod, phase="Failed"))
    assert diary == ["A reserves p on n1", "A unreserves p"]
    assert play.used_cpu("n1") == 0
    play.object_seen("Signal", "go", 1)
    assert play.commands == []


def test_a_held_pod_whose_node_is_removed_looks_for_another() -> None:
    """Also if another node takes the row: it must never be bound to that one by mistake."""
    play = Play(Permitter(hold_until_signal))
    play.see(make_node("n1"), make_pod("p", cpu="1"))
    play.node_gone("n1")
    assert play.of(RecordEvent)[0].note == "node n1 was deleted while the pod waited to be bound to it"
    play.see(make_node("n2"))
    assert play.node_of("p") == "n2"
    play.object_seen("Signal", "go", 1)
    assert play.binds == {"p": "n2"}


def test_a_pod_changed_while_it_is_held_is_requeued_with_its_new_version() -> None:
    """What the user changed meanwhile counts at the next attempt."""
    play = Play(Permitter(hold_until_signal))
    play.see(make_node("n1", cpu="2"), make_pod("p", cpu="1"))
    play.see(make_pod("p", cpu="4"))
    play.handle(at=1010.0)
    play.see(make_pod("other", node="n1"))
    play.pod_gone("other")
    assert play.note("p") == "0/1 nodes are available: 1 Insufficient cpu."


# --- PreEnqueue ---


def test_a_gated_pod_is_asked_about_again_when_its_plugin_is_concerned() -> None:
    """Other objects do not matter to the plugin that holds it."""
    asked: list[str] = []
    ready: list[str] = []

    def say(pod: object) -> Status | None:
        asked.append(str(pod))
        return None if ready else unschedulable("not ready")

    play = Play(Gatekeeper(say))
    play.see(make_node("n1"), make_pod("p"))
    assert play.place("p") is Place.GATED
    before = len(asked)
    ready.append("now")
    play.object_seen("Other", "x", 1)
    assert len(asked) == before
    play.object_seen("Signal", "x", 1)
    assert play.binds == {"p": "n1"}


# --- PostFilter and promises ---


def nominate(node: str, *victims: str, message: str = "preemption: found") -> PostFilter:
    return PostFilter(lambda _: Nomination(node, tuple(f"default/{name}" for name in victims), message))


def test_a_pod_that_makes_room_is_promised_the_node() -> None:
    """The victims are deleted and told; others do not get the room; the pod takes it when they are gone."""
    play = Play(nominate("n1", "victim"))
    play.see(make_node("n1", cpu="2"), make_pod("victim", cpu="2", node="n1"), make_pod("p", cpu="2", priority=9))
    assert play.deletions == ["victim"]
    assert play.note("p") == "0/1 nodes are available: 1 Insufficient cpu. preemption: found"
    assert [patch.nominated_node for patch in play.patches if patch.nominated_node] == ["n1"]
    play.handle(DeleteDone("default/victim", ok=True))
    assert play.note("victim") == "Preempted by pod default/p on node n1"
    play.handle(PodGone("default/victim"), PodSeen(make_pod("late", cpu="2")))
    assert play.binds == {"p": "n1"}


def test_the_promised_node_is_tried_first_and_taken_without_scoring() -> None:
    """Whichever component wrote status.nominatedNodeName, as long as the node fits."""
    play = Play()
    play.see(make_node("n1", cpu="2"), make_node("roomy", cpu="64"))
    play.see(make_pod("p", cpu="1", nominated_node="n1"))
    assert play.binds == {"p": "n1"}
    play.see(make_pod("q", cpu="8", nominated_node="n1"), make_pod("r", cpu="1", nominated_node="gone"))
    assert play.binds == {"q": "roomy", "r": "roomy"}


def test_a_promise_follows_the_status_of_the_pod() -> None:
    """Written anew it moves, cleared it ends, and an old one seen again does not undo a new one."""
    play = Play(nominate("n1"))
    play.see(make_node("n1", cpu="1"), make_node("n2", cpu="1"))
    pod = make_pod("p", cpu="2", nominated_node="n2")
    play.see(pod)
    nominations = play.engine.state.nominations
    assert nominations.node_of(pod.uid) == "n1", "PostFilter's answer counts"
    play.see(replace(pod, generation=3))
    assert nominations.node_of(pod.uid) == "n1", "n2 is old news"
    play.see(replace(pod, nominated_node="n1"))
    play.see(replace(pod, nominated_node=None))
    assert nominations.node_of(pod.uid) is None


def test_a_broken_promise_wakes_those_that_it_kept_out() -> None:
    """The promised pod is deleted: the room is free again."""
    play = Play(PostFilter(lambda cycle: Nomination("n1") if cycle.pod.name == "big" else None))
    play.see(make_node("n1", cpu="2"), make_pod("hog", cpu="2", node="n1"), make_pod("big", cpu="2", priority=9))
    play.see(make_pod("small", cpu="1"))
    play.handle(PodGone("default/hog"), budget=0)
    play.see(make_pod("big", cpu="2", priority=9, gates=["stop"]), budget=0)
    play.pod_gone("big")
    assert play.binds == {"small": "n1"}


def test_clearing_a_promise_is_written() -> None:
    """PostFilter may find that the promise leads nowhere."""
    play = Play(PostFilter(lambda _: Nomination(None, message="preemption: no use")))
    play.see(make_node("n1", cpu="1"), make_pod("p", cpu="2", nominated_node="n1"))
    assert play.engine.state.nominations.node_of("default/p") is None
    assert "" in [patch.nominated_node for patch in play.patches]
    assert play.note("p") == "0/1 nodes are available: 1 Insufficient cpu. preemption: no use"


def test_what_post_filter_says_is_told() -> None:
    """A status without a nomination is the tail of the message."""
    play = Play(PostFilter(lambda _: unschedulable("preemption: not eligible due to preemptionPolicy=Never.")))
    play.see(make_node("n1", cpu="1"), make_pod("p", cpu="2"))
    want = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    assert play.note("p") == want


def test_a_promise_survives_a_failed_bind() -> None:
    """The room that was made for the pod is still its own at the next attempt."""
    play = Play()
    play.see(make_node("n1", cpu="2"), make_pod("p", cpu="2", nominated_node="n1", priority=5))
    play.answer("p", BindOutcome.FAILED, message="try again")
    play.see(make_pod("thief", cpu="2"))
    assert play.binds == {}
    play.wait(1.0)
    assert play.binds == {"p": "n1"}


# --- plugins that raise ---

FAILING = ["pre_filter", "filter", "score", "reserve", "permit", "pre_bind", "bind"]


@pytest.mark.parametrize("point", FAILING)
def test_a_plugin_that_raises_costs_only_its_own_pod(point: str) -> None:
    """The pod gets SchedulerError and is tried again later; the pods before and after it are bound."""
    play = Play(Raiser())
    play.see(
        make_node("n1"),
        make_node("n2"),
        make_pod("before", priority=2),
        make_pod("bad", cpu="1", priority=1, labels={"raises": point}),
        make_pod("after"),
    )
    assert set(play.binds) == {"before", "after"}
    condition = next(patch.condition for patch in play.patches if patch.pod.name == "bad")
    assert condition is not None
    assert condition.reason == "SchedulerError"
    assert f"ValueError: {point} is broken" in condition.message
    assert "\n" not in condition.message
    assert play.used_cpu("n1") + play.used_cpu("n2") == 0
    assert play.wakeup == play.now + 1.0
    play.wait(1.0)
    assert play.reasons == [("bad", "FailedScheduling")]
    assert play.wakeup == play.now + 2.0


@pytest.mark.parametrize("point", ["pre_enqueue", "reserve", "permit", "pre_bind", "bind"])
def test_a_plugin_that_returns_what_its_contract_does_not_allow_costs_only_its_own_pod(point: str) -> None:
    """As if it had raised."""
    wrong = Raiser()
    method = getattr(wrong, point)

    def answer(*asked: Any) -> Any:
        pod = asked[0] if point == "pre_enqueue" else asked[0].pod
        return True if pod.name == "bad" else method(*asked)

    setattr(wrong, point, answer)
    play = Play(wrong)
    play.see(make_node("n1"), make_pod("bad", cpu="1", priority=1), make_pod("good"))
    assert set(play.binds) == {"good"}
    assert play.used_cpu("n1") == 0
    told = [*play.engine.faults.take(), *(patch.condition.message for patch in play.patches if patch.condition)]
    assert any("TypeError: the plugin returned bool" in line for line in told)


def test_a_plugin_that_cannot_say_whether_a_pod_concerns_it_costs_only_that_pod() -> None:
    """Also where the node is known already, as the pod is nominated to it."""

    class Undecided(Raiser):
        def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
            if template.labels.get("raises") == "concerns":
                raise ValueError("concerns is broken")
            return True

    play = Play(Undecided())
    play.see(make_node("n1"), make_pod("bad", cpu="1", labels={"raises": "concerns"}, nominated_node="n1"))
    play.see(make_pod("good"))
    assert set(play.binds) == {"good"}
    assert play.used_cpu("n1") == 0


@pytest.mark.parametrize("point", ["pre_enqueue", "post_filter", "unreserve", "post_bind", "helps"])
def test_a_plugin_that_raises_where_it_only_watches_is_noted(point: str) -> None:
    """Nothing is lost, and the process that runs the engine can log the mistake."""
    play = Play(Raiser())
    play.see(make_node("n1"), make_pod("bad", labels={"raises": point}), make_pod("good"))
    assert "good" in play.binds
    if "bad" in play.binds:
        play.answer("bad", BindOutcome.FAILED if point == "unreserve" else BindOutcome.BOUND, "n1")
    play.see(make_node("n2"))
    assert any(f"plugin Raiser: {point} raised ValueError" in line for line in play.engine.faults.take())
    assert play.engine.faults.take() == []


def test_a_hint_that_raises_wakes_the_pod() -> None:
    """Better one attempt too many than a pod that waits for ever."""
    play = Play(Raiser())
    play.see(make_node("n1"), make_pod("bad", labels={"raises": "helps"}))
    assert play.place("bad") is Place.UNSCHEDULABLE
    play.see(make_node("n2"))
    assert play.reasons == [("bad", "FailedScheduling")]


def test_an_error_status_is_an_error() -> None:
    """A plugin that says Error instead of raising gets the same treatment."""
    play = Play(Reserver("A", [], lambda _: Status(Code.ERROR, ("cannot reach the array",))))
    play.see(make_node("n1"), make_pod("p"))
    condition = play.patches[0].condition
    assert condition is not None
    assert (condition.reason, condition.message) == ("SchedulerError", "running plugin A: cannot reach the array")
    assert play.wakeup == play.now + 1.0
