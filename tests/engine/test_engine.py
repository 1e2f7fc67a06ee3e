"""From a pod's first sight to its node: binding, confirming in any order, waking up, several profiles, determinism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moorage.core.commands import Bind, PodRef, RecordEvent
from moorage.core.events import BindOutcome, Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.pods import Condition, Pod
from moorage.engine.units import Place
from moorage.framework.changes import What
from moorage.framework.plugin import Plugin
from moorage.framework.status import Reason, Rejections
from moorage.testing import make_node, make_pod
from tests.engine.play import Play, small_profile
from tests.framework.readers import default_profile, make_profile

WAITING_MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture
def play() -> Play:
    """An engine that knows two empty nodes of 4 cpus."""
    made = Play()
    made.see(make_node("n1", cpu="4"), make_node("n2", cpu="4"))
    return made


# --- binding ---


def test_a_pod_is_bound_and_confirmed(play: Play) -> None:
    """Assumed with the Bind command, told about when the API server agrees, counted once throughout."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    assert play.of(Bind)[0].pod == PodRef("default", "p", "default/p")
    assert play.used_cpu(node) == 1000
    assert play.wakeup is None, "nothing to do until the bind is answered"
    play.bound("p")
    assert play.reasons == [("p", "Scheduled")]
    assert play.note("p") == f"Successfully assigned default/p to {node}"
    assert play.place("p") is None
    play.confirm("p")
    assert play.commands == []
    assert play.used_cpu(node) == 1000


def test_the_watch_may_be_faster_than_the_answer(play: Play) -> None:
    """The pod is seen on its node before the bind is answered."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    play.confirm("p")
    assert play.commands == []
    play.bound("p")
    assert play.reasons == [("p", "Scheduled")]
    assert play.used_cpu(node) == 1000


def test_an_older_version_seen_after_the_bind_changes_nothing(play: Play) -> None:
    """A status update from before the bind arrives late: the pod must not be placed a second time."""
    pod = make_pod("p", cpu="1")
    play.see(pod)
    node = play.binds["p"]
    play.bound("p")
    play.see(replace(pod, scheduled_condition=Condition("PodScheduled", "False", "Unschedulable", "old news")))
    assert play.commands == []
    assert play.place("p") is None
    play.confirm("p")
    assert play.used_cpu(node) == 1000


def test_a_failed_bind_is_tried_again_after_a_backoff(play: Play) -> None:
    """What was assumed is given back; the user sees SchedulerError; the wait grows with each error."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    play.answer("p", BindOutcome.FAILED, message="etcd is away")
    assert play.used_cpu(node) == 0
    assert play.binds == {}
    (patch,) = play.patches
    assert patch.condition == Condition("PodScheduled", "False", "SchedulerError", "binding rejected: etcd is away")
    assert play.reasons == [("p", "FailedScheduling")]
    assert play.wakeup == play.now + 1.0
    play.wait(0.5)
    assert play.binds == {}
    play.wait(0.5)
    assert "p" in play.binds
    play.answer("p", BindOutcome.FAILED, message="still")
    assert play.wakeup == play.now + 2.0


def test_a_bind_that_failed_but_was_seen_to_succeed_counts(play: Play) -> None:
    """The answer got lost, the watch did not."""
    play.see(make_pod("p", cpu="1"))
    play.confirm("p")
    play.answer("p", BindOutcome.FAILED, message="connection reset")
    assert play.reasons == [("p", "Scheduled")]
    assert play.patches == []


def test_a_pod_that_is_gone_gives_its_place_back(play: Play) -> None:
    """The API server does not know the pod any more; the watch tells so a little later."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    del play.pods["default/p"]
    play.answer("p", BindOutcome.GONE)
    assert (play.commands, play.used_cpu(node), play.place("p")) == ([], 0, None)
    play.pod_gone("p")
    assert play.commands == []


def test_a_pod_that_somebody_else_bound_is_taken_over(play: Play) -> None:
    """It counts where it is at once, and older versions of it do not bring it back."""
    pod = make_pod("p", cpu="1")
    play.see(pod)
    node = play.binds["p"]
    other = "n1" if node == "n2" else "n2"
    play.answer("p", BindOutcome.ELSEWHERE, node=other)
    assert (play.used_cpu(node), play.used_cpu(other)) == (0, 1000)
    play.see(pod)
    assert play.commands == []
    play.confirm("p", other)
    assert (play.used_cpu(node), play.used_cpu(other)) == (0, 1000)


def test_a_pod_seen_elsewhere_before_the_answer_is_taken_over(play: Play) -> None:
    """The same, with the watch first."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    other = "n1" if node == "n2" else "n2"
    play.confirm("p", other)
    play.answer("p", BindOutcome.ELSEWHERE, node=other)
    assert play.commands == []
    assert (play.used_cpu(node), play.used_cpu(other)) == (0, 1000)


def test_a_pod_deleted_while_it_is_being_bound_is_forgotten(play: Play) -> None:
    """Whatever the answer is."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    play.pod_gone("p")
    assert play.used_cpu(node) == 0
    play.answer("p", BindOutcome.BOUND, node)
    assert play.commands == []
    assert play.used_cpu(node) == 0


def test_a_pod_marked_for_deletion_while_it_is_being_bound_is_let_go(play: Play) -> None:
    """If the bind succeeded after all, the watch shows the pod on its node."""
    pod = make_pod("p", cpu="1")
    play.see(pod)
    node = play.binds["p"]
    play.see(replace(pod, deleted_s=play.now))
    assert play.used_cpu(node) == 0
    play.answer("p", BindOutcome.BOUND, node)
    play.see(replace(pod, deleted_s=play.now, node=node))
    assert play.used_cpu(node) == 1000
    play.pod_gone("p")
    assert play.used_cpu(node) == 0


def test_a_node_removed_under_an_assumed_pod(play: Play) -> None:
    """The bind is on its way: its answer decides, and a node that comes back finds the pod again."""
    play.see(make_pod("p", cpu="1"))
    node = play.binds["p"]
    play.node_gone(node)
    play.see(make_node("n3"))
    assert play.used_cpu("n3") == 0, "another node on the same row"
    play.see(make_node(node))
    assert play.used_cpu(node) == 1000
    play.node_gone(node)
    play.answer("p", BindOutcome.FAILED, message="no such node")
    play.wait(1.0)
    assert play.binds["p"] != node


def test_finished_and_bound_pods_are_never_placed(play: Play) -> None:
    """Nor those that are being deleted, nor those of other schedulers."""
    play.see(
        make_pod("bound", node="n1"),
        replace(make_pod("done"), phase="Succeeded"),
        replace(make_pod("leaving"), deleted_s=1.0),
        make_pod("stranger", scheduler_name="somebody-else"),
    )
    assert play.commands == []
    assert len(play.engine.queue) == 0


def test_requests_beyond_what_is_free_are_never_granted(play: Play) -> None:
    """Assumed pods count as much as bound ones."""
    play.see(*(make_pod(f"p{i}", cpu="1500m") for i in range(6)))
    assert sorted(play.binds.values()) == ["n1", "n1", "n2", "n2"]
    assert sum(reason == "FailedScheduling" for _, reason in play.reasons) == 2


# --- unschedulable ---


def test_the_message_of_an_unschedulable_pod(play: Play) -> None:
    """kube-scheduler's words: reasons with their numbers, sorted bytewise."""
    play.see(
        make_node("tainted", cpu="32", taints=["dedicated=db:NoSchedule"]),
        *(make_node(f"small-{i}", cpu="1", memory="1Gi") for i in range(9)),
        make_pod("p", cpu="8", memory="8Gi"),
    )
    want = "0/12 nodes are available: 1 node(s) had untolerated taint(s), 11 Insufficient cpu, 9 Insufficient memory."
    assert play.note("p") == want
    (patch,) = play.patches
    assert patch.condition == Condition("PodScheduled", "False", "Unschedulable", want)


def test_with_no_nodes_at_all() -> None:
    """A new node helps whatever the pod wants."""
    play = Play()
    play.see(make_pod("p", cpu="1"))
    assert play.note("p") == "no nodes available to schedule pods"
    play.see(make_node("n1"))
    assert play.binds == {"p": "n1"}


def test_the_condition_is_written_only_when_it_changes() -> None:
    """The event is recorded each time; the recorder makes a series of it."""
    play = Play()
    pod = make_pod("p", cpu="3")
    play.see(make_node("n1", cpu="2"), pod)
    (patch,) = play.patches
    play.see(replace(pod, scheduled_condition=patch.condition))
    assert play.commands == []
    play.see(make_node("n1", cpu="2500m"))
    assert play.commands == [], "a node that is too small even when empty does not help"
    play.see(make_pod("other", node="n1", cpu="1"))
    play.pod_gone("other")
    assert play.patches == []
    assert play.reasons == [("p", "FailedScheduling")]


def test_the_generation_that_was_looked_at_is_written() -> None:
    """It becomes the condition's observedGeneration."""
    play = Play()
    play.see(make_node("n1", cpu="1"), replace(make_pod("p", cpu="2"), generation=7))
    assert play.patches[0].observed_generation == 7


@pytest.mark.parametrize(
    "helping",
    [
        pytest.param([NodeSeen(make_node("n2"))], id="node added"),
        pytest.param([NodeSeen(make_node("n1", cpu="8"))], id="node grew"),
        pytest.param([PodGone("default/hog")], id="pod deleted"),
        pytest.param([PodSeen(replace(make_pod("hog", cpu="4", node="n1"), phase="Succeeded"))], id="pod finished"),
        pytest.param([PodSeen(make_pod("hog", cpu="1", node="n1"))], id="pod shrank in place"),
        pytest.param([PodSeen(make_pod("p", cpu="0"))], id="the pod itself wants less"),
    ],
)
def test_what_wakes_a_pod_that_lacks_cpu(helping: list[Event]) -> None:
    """It is tried at once, since nothing else is active, though its backoff is not over."""
    play = Play()
    play.see(make_node("n1", cpu="4"), make_pod("hog", cpu="4", node="n1"), make_pod("p", cpu="3"))
    assert play.place("p") is Place.UNSCHEDULABLE
    play.handle(*helping)
    assert "p" in play.binds


@pytest.mark.parametrize(
    "idle",
    [
        pytest.param([NodeSeen(make_node("n2", cpu="1"))], id="a node that is too small"),
        pytest.param([NodeSeen(make_node("n1", cpu="4", labels={"a": "b"}))], id="a label"),
        pytest.param([NodeSeen(make_node("n1", cpu="4", taints=["x:PreferNoSchedule"]))], id="a taint"),
        pytest.param([PodSeen(make_pod("more", node="n1"))], id="one more pod"),
        pytest.param([PodSeen(replace(make_pod("hog", cpu="4", node="n1"), started_s=5.0))], id="a pod started"),
        pytest.param([PodSeen(make_pod("hog", cpu="4", node="n1", labels={"a": "b"}))], id="a pod's label"),
        pytest.param([PodSeen(replace(make_pod("hog", cpu="4", node="n1"), deleted_s=5.0))], id="a pod is ending"),
        pytest.param([PodGone("default/nobody")], id="an unknown pod deleted"),
        pytest.param([PodSeen(make_pod("p", cpu="3", nominated_node=""))], id="a status of the pod"),
        pytest.param([ObjectSeen("Example", "default/s", 1), ObjectGone("Example", "default/s")], id="an object"),
        pytest.param([NodeGone("nothing")], id="an unknown node deleted"),
    ],
)
def test_what_does_not_wake_a_pod_that_lacks_cpu(idle: list[Event]) -> None:
    """An event wakes only the pods that it can help."""
    play = Play()
    play.see(make_node("n1", cpu="4"), make_pod("hog", cpu="4", node="n1"), make_pod("p", cpu="3"))
    play.handle(*idle)
    assert play.commands == []
    assert play.place("p") is Place.UNSCHEDULABLE


def test_a_pod_that_nothing_helps_is_tried_again_after_five_minutes() -> None:
    """A hint may be wrong; the flush looks every 30 s."""
    play = Play()
    play.see(make_node("n1", cpu="1"), make_pod("p", cpu="2"))
    attempts = []
    start = play.now
    while play.wakeup is not None and play.now < start + 700:
        play.handle(at=play.wakeup)
        if play.reasons:
            attempts.append(play.now - start)
    assert attempts == [330.0, 660.0]


def test_a_gated_pod_waits_until_its_gates_are_gone(play: Play) -> None:
    """The API server writes its condition; the scheduler says nothing."""
    play.see(make_pod("p", gates=["example.com/ready"]))
    assert play.commands == []
    assert play.place("p") is Place.GATED
    assert play.wakeup is None
    play.see(make_pod("p"))
    assert "p" in play.binds


# --- order, budget, time ---


def test_more_important_pods_go_first() -> None:
    """Whatever the order of the events."""
    play = Play()
    play.see(make_node("n1", cpu="1"), make_pod("low", cpu="1"), make_pod("high", cpu="1", priority=10), budget=1)
    assert play.binds == {"high": "n1"}


def test_the_budget_limits_the_decisions(play: Play) -> None:
    """What is left is decided on in later calls, and the time of the next call says so."""
    play.see(*(make_pod(f"p{i}") for i in range(5)), budget=2)
    assert list(play.binds) == ["p0", "p1"]
    assert play.wakeup == play.now
    play.handle(budget=0)
    assert (play.binds, play.wakeup) == ({}, play.now)
    play.handle(budget=2)
    assert list(play.binds) == ["p2", "p3"]
    play.handle(budget=2)
    assert list(play.binds) == ["p4"]
    assert play.wakeup is None


def test_when_to_call_again(play: Play) -> None:
    """The first of: the end of an error's backoff, the look at unschedulable pods; None if nothing waits."""
    play.see(make_pod("huge", cpu="64"))
    assert play.wakeup == play.now + 30.0
    play.see(make_pod("p"))
    play.answer("p", BindOutcome.FAILED)
    assert play.wakeup == play.now + 1.0
    play.pod_gone("p")
    assert play.wakeup == play.now + 30.0
    play.pod_gone("huge")
    play.wait(30.0)
    assert play.wakeup is None


class OpensAt(Plugin):
    """Opens all nodes at a time."""

    name = "OpensAt"
    wakes = What(0)

    def filter(self, cycle: Any, rows: Any) -> Rejections | None:
        if cycle.now >= 5000.0:
            return None
        cycle.expires(5000.0)
        return Rejections(np.ones(len(rows), dtype=np.int64), (Reason("closed"),))


def test_an_answer_that_changes_with_time_is_looked_at_again_then() -> None:
    """The plugin says when; nothing else has to happen."""
    play = Play(OpensAt())
    play.see(make_node("n1"), make_pod("p"))
    assert play.note("p") == "0/1 nodes are available: 1 closed."
    assert play.engine.next_change_s() == 5000.0
    play.handle(at=4999.0)
    assert play.binds == {}
    play.handle(at=5000.0)
    assert play.binds == {"p": "n1"}
    assert play.engine.next_change_s() is None


# --- profiles ---


def test_several_profiles_share_one_queue_and_one_state() -> None:
    """Each pod is decided by its own profile; the order is common; unknown names are nobody's."""
    picky = small_profile(OpensAt(), scheduler_name="picky")
    play = Play(profiles=[small_profile(), picky])
    play.see(
        make_node("n1", cpu="2"),
        make_pod("a", cpu="1"),
        make_pod("b", cpu="1", scheduler_name="picky", priority=5),
        make_pod("c", cpu="1", scheduler_name="nobody"),
    )
    assert play.binds == {"a": "n1"}
    assert play.note("b") == "0/1 nodes are available: 1 closed."
    assert play.place("c") is None
    assert [command.reporter for command in play.commands if isinstance(command, RecordEvent)] == ["picky"]
    play.handle(at=5000.0)
    assert play.binds == {"b": "n1"}
    play.see(make_pod("d", cpu="1"))
    assert play.note("d") == WAITING_MESSAGE


def test_one_profile_can_answer_to_every_name() -> None:
    """As the simulator does without a configuration."""
    play = Play(answers_to_all=True)
    play.see(make_node("n1"), make_pod("p", scheduler_name="whoever"))
    assert play.binds == {"p": "n1"}


def test_the_observer_is_told_of_every_attempt() -> None:
    """With the state as the attempt finds it."""
    seen: list[tuple[str, int]] = []
    play = Play(observer=lambda _, cycle: seen.append((cycle.pod.name, cycle.state.pod_count)))
    play.see(make_node("n1"), make_pod("a"), make_pod("b"))
    assert seen == [("a", 0), ("b", 1)]


# --- determinism ---


def story(nodes: list[Any], seed: int = 0) -> list[Any]:
    """The commands of a small history."""
    play = Play(profiles=[replace(default_profile(), scheduler_name="default-scheduler")], seed=seed)
    told: list[Any] = [*play.see(*nodes)]
    told += play.see(*(make_pod(f"p{i}", cpu="300m", priority=i % 3) for i in range(40)))
    for name, node in list(play.binds.items()):
        told += play.answer(name, BindOutcome.BOUND if name[-1] != "7" else BindOutcome.FAILED, node)
    told += play.node_gone("n3")
    told += play.wait(1.0)
    told += play.see(make_node("n99", cpu="1"))
    return told


def test_same_events_same_commands() -> None:
    """And the order in which nodes came does not matter."""
    nodes = [make_node(f"n{i}", cpu="2", zone=f"z{i % 2}") for i in range(8)]
    want = story(nodes)
    assert story(nodes) == want
    assert story(nodes[::-1]) == want
    assert story(nodes, seed=1) != want, "the seed breaks ties"


def test_default_plugins_place_a_pod() -> None:
    """The whole default profile, as it runs with no configuration."""
    play = Play(profiles=[default_profile()])
    play.see(make_node("n1"), make_pod("p", cpu="1", scheduler_name="moorage"))
    assert play.binds == {"p": "n1"}


def test_unknown_events_of_unknown_pods_are_harmless(play: Play) -> None:
    """Answers and deletions that concern nobody."""
    play.handle(PodGone("x"), NodeGone("y"), ObjectGone("Kind", "z"))
    play.answer("nobody", BindOutcome.FAILED)
    assert play.commands == []


def pod_versions(name: str) -> list[Pod]:
    return [make_pod(name), make_pod(name, labels={"v": "2"}), make_pod(name, labels={"v": "3"})]


def test_the_newest_version_is_decided_on() -> None:
    """Several versions in one call."""
    play = Play(
        profiles=[make_profile([each.make() for each in small_profile().plugins], scheduler_name="default-scheduler")]
    )
    play.see(make_node("n1"), *pod_versions("p"))
    record = play.engine.state.record("default/p")
    assert record is not None
    assert record.pod.template.labels == {"v": "3"}
