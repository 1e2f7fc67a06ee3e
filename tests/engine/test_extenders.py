"""Decisions in which HTTP extenders have a say, with the test in the place of the extenders."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.commands import AskExtenders, AskPreemption, Bind, PodRef, Victims
from moorage.core.events import BindOutcome, DeleteDone, ExtendersAnswered, PodGone, PreemptionAnswered
from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.breakers import PAUSE_S, SHOWN_S, Breaker, Switched
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.configuration import Extender, ManagedResource
from moorage.framework.plugin import Plugin
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.testing import make_node, make_pod
from tests.engine.play import Play, small_profile

GPU = "example.com/gpu"
FILTER = Extender("http://f", filter_verb="filter")
SCORE = Extender("http://s", prioritize_verb="prioritize", weight=1)
PREEMPT = Extender("http://p", preempt_verb="preempt")
NODES = [make_node(f"n{number}", cpu="4") for number in (1, 2, 3)]


def play_with(*extenders: Extender, plugins: tuple[Plugin, ...] = ()) -> Play:
    """An engine with extenders."""
    play = Play()
    settings = EngineSettings(Backoff(), extenders=extenders)
    play.engine = Engine([small_profile(*plugins)], settings)
    return play


def begin(*extenders: Extender, pods: tuple[Pod, ...] = (make_pod("a", cpu="1"),)) -> Play:
    """Three nodes and pending pods."""
    play = play_with(*(extenders or (FILTER,)))
    play.see(*NODES, *pods)
    return play


def reply(play: Play, name: str, *kept: str, **answer: Any) -> None:
    """The extenders answer the question about a pod."""
    uid = f"default/{name}"
    play.handle(ExtendersAnswered(uid, kept, token=play.asked[uid], **answer))


def message_of(play: Play, name: str) -> str:
    entry = play.engine.queue.get(f"default/{name}")
    assert entry is not None
    return entry.message


def test_nothing_is_chosen_before_the_answer() -> None:
    """One question with the nodes that passed; the pod is bound among those that were kept."""
    play = begin()
    ref = PodRef("default", "a", "default/a")
    assert play.commands == [AskExtenders(ref, ("n1", "n2", "n3"), (0,), token=1)]
    reply(play, "a", "n3")
    assert play.binds == {"a": "n3"}
    assert play.of(Bind)[0].feasible == 1


def test_filters_come_first() -> None:
    """Extenders hear only of nodes that passed every filter, and of no pod that passed none."""
    play = play_with(FILTER)
    play.see(make_node("n1", cpu="1"), make_node("n2", cpu="4"), make_pod("a", cpu="2"), make_pod("b", cpu="8"))
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n2",)]
    reply(play, "a", "n2")
    assert play.reasons == [("b", "FailedScheduling")]
    assert play.of(AskExtenders) == []


@pytest.mark.parametrize(
    ("scores", "want"),
    [
        pytest.param({}, "n1", id="none: the emptier node"),
        pytest.param({"n2": 10}, "n1", id="too little to matter"),
        pytest.param({"n2": 1000}, "n2", id="enough to matter"),
        pytest.param({"n3": 5000}, "n1", id="for a node that was not kept"),
    ],
)
def test_scores_are_added_to_the_totals(scores: dict[str, int], want: str) -> None:
    """The plugins' totals and the extenders' scores together decide."""
    play = play_with(SCORE)
    play.see(*NODES, make_pod("x", cpu="2", node="n2"), make_pod("y", cpu="2", node="n3"), make_pod("a", cpu="1"))
    reply(play, "a", "n1", "n2", scores=scores)
    assert play.binds == {"a": want}


def test_an_error_is_an_error_of_the_scheduler() -> None:
    """The message is the extender's, and the pod sits out the backoff of an error."""
    play = begin()
    reply(play, "a", error="no idea")
    (patch,) = play.patches
    assert patch.condition is not None
    assert (patch.condition.reason, patch.condition.message) == ("SchedulerError", "no idea")
    assert play.place("a") is Place.BACKOFF
    assert play.wait(0.5) == []
    play.wait(1.0)
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["a"]


REJECTIONS = {
    "with reasons": (
        {"failed": {"n1": "no gpu", "n2": "no gpu"}, "unresolvable": {"n3": "too old"}},
        "0/3 nodes are available: 1 too old, 2 no gpu.",
    ),
    "the stronger one counts": (
        {"failed": {"n1": "a", "n2": "a", "n3": "a"}, "unresolvable": {"n3": "b"}},
        "0/3 nodes are available: 1 b, 2 a.",
    ),
    "some in silence": ({"failed": {"n1": "no gpu"}}, "0/3 nodes are available: 1 no gpu."),
    "all in silence": ({}, "0/3 nodes are available:"),
}


@pytest.mark.parametrize(("answer", "want"), REJECTIONS.values(), ids=REJECTIONS.keys())
def test_rejections_count_in_the_message(answer: dict[str, Any], want: str) -> None:
    """Each node once, in kube-scheduler's form; anything that happens wakes the pod."""
    play = begin()
    reply(play, "a", **answer)
    assert message_of(play, "a") == want
    assert play.place("a") is Place.UNSCHEDULABLE
    entry = play.engine.queue.get("default/a")
    assert entry is not None
    assert entry.unit.rejected_by == {"Extender"}
    play.see(make_pod("other", cpu="1", node="n1"))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["a"]


def test_managed_resources_decide_who_is_asked() -> None:
    """A pod that requests none of them is placed at once; one that does is asked about."""
    gpu = Extender("http://g", filter_verb="f", managed_resources=(ManagedResource(GPU),))
    play = play_with(gpu)
    play.see(
        make_node("n1", cpu="4", resources={GPU: 2}), make_pod("plain", cpu="1"), make_pod("gpu", requests={GPU: 1})
    )
    assert play.binds == {"plain": "n1"}
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["gpu"]


def test_those_that_may_be_ignored_are_asked_last() -> None:
    """Otherwise the order of the configuration counts."""
    lax = Extender("http://l", filter_verb="f", ignorable=True)
    play = begin(lax, FILTER, SCORE, Extender("http://b", bind_verb="bind"))
    assert [ask.extenders for ask in play.of(AskExtenders)] == [(1, 2, 0)]


def test_one_pod_at_a_time() -> None:
    """Others wait for their turn, the most important one first, and those of no interest do not wait at all."""
    pods = (make_pod("a", cpu="1"), make_pod("b", cpu="1"), make_pod("c", cpu="1", priority=5))
    play = play_with(FILTER)
    play.see(*NODES, pods[0])
    play.see(*pods[1:])
    assert play.commands == []
    reply(play, "a", "n1")
    assert play.binds == {"a": "n1"}
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["c"]
    reply(play, "c", "n1")
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["b"]


ONE = Extender("http://one", filter_verb="f", managed_resources=(ManagedResource(GPU),))
OTHER = Extender("http://other", filter_verb="f", managed_resources=(ManagedResource("example.com/fpga"),))


def test_each_extender_has_its_own_turn() -> None:
    """A question to one holds up nobody who waits for another; who needs both waits for both."""
    play = play_with(ONE, OTHER)
    fpga = "example.com/fpga"
    play.see(make_node("n1", cpu="9", resources={GPU: 9, fpga: 9}))
    play.see(make_pod("a", requests={GPU: 1}), make_pod("b", requests={fpga: 1}), make_pod("c", requests={GPU: 1}))
    play.see(make_pod("both", requests={GPU: 1, fpga: 1}, priority=9), make_pod("d", requests={fpga: 1}))
    assert sorted(play.asked) == ["default/a", "default/b"]
    reply(play, "b", "n1")
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["d"], "the one that needs both still waits for a"
    reply(play, "a", "n1")
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["c"]
    reply(play, "c", "n1")
    reply(play, "d", "n1")
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["both"]


# --- circuits ---

IGNORABLE = Extender("http://i", filter_verb="filter", ignorable=True)
FAULT = ((0, "no answer within 5 s"),)


def fail(play: Play, name: str, **answer: Any) -> None:
    """The extender gives no answer about a pod."""
    extender = play.engine.asking._extenders[0]  # type: ignore[union-attr] # the test gave it
    kept = tuple(node.name for node in NODES) if extender.ignorable else ()
    reply(play, name, *kept, faults=FAULT, error="" if extender.ignorable else FAULT[0][1], **answer)


def test_one_that_may_be_ignored_and_hangs_is_passed_over() -> None:
    """Three pods wait for it in vain, then nobody does; of 20 pods all are bound after three questions."""
    play = begin(IGNORABLE, pods=tuple(make_pod(f"p{number}", cpu="100m") for number in range(20)))
    bound: set[str] = set()
    questions = 0
    while asked := play.of(AskExtenders):
        (question,) = asked
        questions += 1
        fail(play, question.pod.name)
        bound |= play.binds.keys()
    assert (questions, len(bound)) == (3, 20)
    (news,) = play.engine.asking.breakers.take_news()  # type: ignore[union-attr]
    assert news == Switched("http://i", open=True, error="no answer within 5 s")


def test_an_extender_is_being_tried_until_it_answers() -> None:
    """Also where another one answers meanwhile about a pod that both are interested in: no second question goes out."""
    other = Extender("http://p", preempt_verb="preempt", managed_resources=(ManagedResource("example.com/x"),))
    play = play_with(ONE, other, plugins=(DefaultPreemption(),))
    play.see(make_node("n1", cpu="4", resources={GPU: 99, "example.com/x": 9}), make_pod("low", cpu="3", node="n1"))
    for number in range(3):
        play.see(make_pod(f"p{number}", requests={GPU: 1}))
        fail(play, f"p{number}")
    play.now += PAUSE_S
    play.see(make_pod("trial", requests={GPU: 1}, priority=5))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["trial"]
    play.see(make_pod("large", cpu="4", requests={GPU: 1, "example.com/x": 1}, priority=10))
    (question,) = play.of(AskPreemption)
    play.handle(PreemptionAnswered(question.pod.uid, token=question.token, heard=(1,)))
    play.see(make_pod("next", requests={GPU: 1}, priority=5))
    assert play.of(AskExtenders) == []


def test_a_circuit_is_tried_with_one_question_and_closed_by_an_answer() -> None:
    """After the pause one pod is asked about; others are bound without it meanwhile; its answer closes the circuit."""
    play = begin(IGNORABLE, pods=())
    for number in range(3):
        play.see(make_pod(f"p{number}", cpu="100m"))
        fail(play, f"p{number}")
    play.see(make_pod("soon", cpu="100m"))
    assert "soon" in play.binds
    play.now += PAUSE_S
    play.see(make_pod("trial", cpu="100m"), make_pod("meanwhile", cpu="100m"))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["trial"]
    assert "meanwhile" in play.binds
    fail(play, "trial")
    play.now += PAUSE_S
    play.see(make_pod("still-open", cpu="100m"))
    assert play.of(AskExtenders) == [], "the pause has doubled"
    play.now += PAUSE_S
    play.see(make_pod("again", cpu="100m"))
    reply(play, "again", "n1", heard=(0,))
    play.see(make_pod("asked", cpu="100m"))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["asked"]
    assert [news.open for news in play.engine.asking.breakers.take_news()] == [True, False]  # type: ignore[union-attr]


def test_a_circuit_that_nothing_comes_for_is_not_shown_open_for_ever() -> None:
    """It is tried with the next pod, whenever that comes; one more failure opens it again."""
    breaker = Breaker("a")
    for _ in range(3):
        breaker.failed("no answer", 100.0)
    assert breaker.shown_open(100.0 + PAUSE_S)
    assert not breaker.shown_open(100.0 + PAUSE_S + SHOWN_S)
    assert breaker.admits(500.0)
    breaker.failed("no answer", 500.0)
    assert breaker.shown_open(500.0)
    assert not breaker.admits(500.0 + PAUSE_S)


def test_pods_of_one_that_must_be_heard_fail_at_once() -> None:
    """With the backoff of an error, and in words; others are decided on."""
    play = begin(ONE, pods=())
    play.see(make_node("n9", cpu="4", resources={GPU: 9}))
    for number in range(3):
        play.see(make_pod(f"p{number}", requests={GPU: 1}))
        fail(play, f"p{number}")
    play.see(make_pod("late", requests={GPU: 1}), make_pod("plain", cpu="1"))
    assert play.of(AskExtenders) == []
    assert "plain" in play.binds
    assert play.place("late") is Place.BACKOFF
    want = "extender http://one failed 3 times in a row and is not asked: no answer within 5 s"
    assert message_of(play, "late") == want


def test_what_an_extender_says_about_a_pod_opens_nothing() -> None:
    """An error that it answers with is about the question: no tenant can have it passed over for the others."""
    play = begin(pods=())
    for number in range(5):
        play.see(make_pod(f"p{number}", cpu="100m"))
        reply(play, f"p{number}", error="cannot place this pod", heard=(0,))
    play.see(make_pod("next", cpu="100m"))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["next"]


def test_with_no_budget_the_next_turn_waits_too() -> None:
    """The engine says that it wants to be called again."""
    play = begin(pods=(make_pod("a", cpu="1"), make_pod("b", cpu="1")))
    play.handle(ExtendersAnswered("default/a", ("n1",), token=play.asked["default/a"]), budget=0)
    assert play.binds == {"a": "n1"}
    assert play.wakeup == play.now
    play.handle()
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["b"]


@pytest.mark.parametrize("how", ["deleted", "bound by somebody else"])
def test_a_pod_that_vanishes_while_asked_about(how: str) -> None:
    """The answer is for nobody; the next pod gets its turn with it."""
    play = begin(pods=(make_pod("a", cpu="1"), make_pod("b", cpu="1")))
    if how == "deleted":
        play.pod_gone("a")
    else:
        play.confirm("a", "n2")
    assert play.commands == []
    reply(play, "a", "n1")
    assert play.binds == {}
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["b"]


def test_a_pod_that_vanishes_while_it_waits() -> None:
    """Its turn never comes."""
    play = begin(pods=(make_pod("a", cpu="1"), make_pod("b", cpu="1"), make_pod("c", cpu="1")))
    play.pod_gone("b")
    reply(play, "a", "n1")
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["c"]


def test_the_decision_is_made_on_the_state_of_the_answer() -> None:
    """A kept node that was filled meanwhile is not taken; what is left of the kept ones is."""
    play = begin()
    play.see(make_pod("x", cpu="4", node="n1"))
    reply(play, "a", "n1", "n2")
    assert play.binds == {"a": "n2"}


def test_nodes_that_came_up_meanwhile_are_asked_about() -> None:
    """With nothing kept, the attempt goes on with all nodes that fit now; without new ones it fails."""
    play = begin()
    play.see(make_node("n4", cpu="4"))
    reply(play, "a", failed={"n1": "no", "n2": "no", "n3": "no"})
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n1", "n2", "n3", "n4")]
    reply(play, "a", failed=dict.fromkeys(("n1", "n2", "n3", "n4"), "no"))
    assert message_of(play, "a") == "0/4 nodes are available: 4 no."


def test_what_happened_meanwhile_is_not_missed() -> None:
    """A change between question and answer wakes the pod that the answer rejects."""
    play = begin()
    play.see(make_pod("other", cpu="1", node="n1"))
    assert play.commands == []
    reply(play, "a", failed=dict.fromkeys(("n1", "n2", "n3"), "no"))
    assert [ask.pod.name for ask in play.of(AskExtenders)] == ["a"]


def test_a_stray_answer_changes_nothing() -> None:
    """Nobody asked."""
    play = begin()
    play.handle(ExtendersAnswered("default/a", ("n1",), token=play.asked["default/a"] + 1))
    assert play.commands == []
    play.handle(PreemptionAnswered("default/a", token=play.asked["default/a"]))
    assert play.commands == []
    reply(play, "a", "n1")
    assert play.binds == {"a": "n1"}


def test_the_extender_binds() -> None:
    """The command names it; the outcome is handled as that of any bind."""
    play = begin(Extender("http://b", bind_verb="bind"))
    assert [(bind.pod.name, bind.extender) for bind in play.of(Bind)] == [("a", 0)]
    play.answer("a", BindOutcome.FAILED, message="not today")
    assert play.reasons == [("a", "FailedScheduling")]
    assert play.note("a") == "binding rejected: not today"


# --- preemption ---


LOW = make_pod("low", cpu="4", node="n1")
HIGH = make_pod("high", cpu="4", priority=100)


def full(*extenders: Extender, pods: tuple[Pod, ...] = (HIGH,)) -> Play:
    """Two nodes, each full with pods of low priority."""
    play = play_with(*extenders, plugins=(DefaultPreemption(),))
    here = (make_pod("x", cpu="2", node="n2"), make_pod("y", cpu="2", node="n2"))
    play.see(make_node("n1", cpu="4"), make_node("n2", cpu="4"), LOW, *here, *pods)
    return play


def refs(*names: str) -> tuple[PodRef, ...]:
    return tuple(PodRef("default", name, f"default/{name}") for name in names)


def test_evictions_are_asked_about_before_they_are_ordered() -> None:
    """All candidates, best first; nothing is deleted and nothing is said yet."""
    play = full(PREEMPT)
    offers = (Victims("n1", refs("low"), 0), Victims("n2", refs("x", "y"), 0))
    assert play.commands == [AskPreemption(refs("high")[0], offers, (0,), token=play.asked["default/high"])]
    play.handle(PreemptionAnswered("default/high", offers[1:], token=play.asked["default/high"]))
    assert sorted(play.deletions) == ["x", "y"]
    assert [patch.nominated_node for patch in play.patches] == ["n2"]
    assert message_of(play, "high") == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n2, preempting 2 victims"
    )


def test_the_best_of_what_is_left_is_taken() -> None:
    """By the usual order, whatever the order of the answer."""
    play = full(PREEMPT)
    play.handle(
        PreemptionAnswered(
            "default/high",
            (Victims("n2", refs("x", "y"), 0), Victims("n1", refs("low"), 0)),
            token=play.asked["default/high"],
        )
    )
    assert play.deletions == ["low"]


@pytest.mark.parametrize(
    ("answer", "tail"),
    [
        pytest.param({"error": "no idea"}, "no idea", id="an error"),
        pytest.param({}, "no candidate node for preemption", id="nothing left"),
        pytest.param(
            {"candidates": (Victims("n9", refs("low"), 0),)}, "no candidate node for preemption", id="an unknown node"
        ),
        pytest.param(
            {"candidates": (Victims("n1", refs("x"), 0),)},
            "no candidate node for preemption",
            id="a pod of another node",
        ),
    ],
)
def test_without_a_candidate_nobody_is_evicted(answer: dict[str, Any], tail: str) -> None:
    """The message says so, and the pod waits."""
    play = full(PREEMPT)
    play.handle(PreemptionAnswered("default/high", **answer, token=play.asked["default/high"]))
    assert play.deletions == []
    assert message_of(play, "high") == f"0/2 nodes are available: 2 Insufficient cpu. preemption: {tail}"
    assert play.place("high") is Place.UNSCHEDULABLE


def test_a_victim_that_left_meanwhile() -> None:
    """Its node is no candidate any more; the pod is tried again since the victim is gone."""
    play = full(PREEMPT)
    play.pod_gone("low")
    play.handle(PreemptionAnswered("default/high", (Victims("n1", refs("low"), 0),), token=play.asked["default/high"]))
    assert play.deletions == []
    assert play.binds == {"high": "n1"}


def test_the_promised_node_is_asked_about_alone() -> None:
    """Kept, it is taken; an error or a no leads to all nodes."""
    play = full(FILTER)
    assert play.deletions == ["low"]
    play.handle(DeleteDone("default/low", ok=True), PodGone("default/low"))
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n1",)]
    reply(play, "high", "n1")
    assert play.binds == {"high": "n1"}


@pytest.mark.parametrize("answer", [{"error": "down"}, {"failed": {"n1": "no"}}], ids=["an error", "a no"])
def test_without_the_promised_node_all_are_asked_about(answer: dict[str, Any]) -> None:
    """The attempt goes on as if nothing had been promised."""
    play = full(FILTER)
    play.handle(DeleteDone("default/low", ok=True), PodGone("default/low"))
    play.see(make_node("n3", cpu="4"))
    reply(play, "high", **answer)
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n1", "n3")]
    reply(play, "high", "n3")
    assert play.binds == {"high": "n3"}


@pytest.mark.parametrize(
    ("answer", "tail"),
    [
        pytest.param(
            {"failed": {"n1": "no"}}, 'expected at least one victim pod on node "n1"', id="that evictions might change"
        ),
        pytest.param(
            {"unresolvable": {"n1": "no"}},
            "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="that nothing changes",
        ),
        pytest.param({}, "0/1 nodes are available: 1 Preemption is not helpful for scheduling.", id="in silence"),
    ],
)
def test_rejections_count_in_preemption(answer: dict[str, Any], tail: str) -> None:
    """The node has room, so nobody is evicted; the message ends as kube-scheduler's."""
    play = play_with(FILTER, plugins=(DefaultPreemption(),))
    play.see(make_node("n1", cpu="4"), make_pod("low", cpu="1", node="n1"), make_pod("high", cpu="1", priority=9))
    reply(play, "high", **answer)
    assert play.deletions == []
    assert message_of(play, "high").endswith(f"preemption: {tail}")
