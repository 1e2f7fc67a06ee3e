"""Nodes that go away: which notices count, which pods move, in which order, and what holds pods back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.commands import DeletePod, EvictPod, PatchNode, PatchPodStatus, RecordEvent
from moorage.core.disruption.ledger import DO_NOT_DISRUPT, MIRROR, SAFE_TO_EVICT
from moorage.core.events import EvictDone, EvictOutcome, NodeGone, NodeSeen, PodGone, PodSeen
from moorage.core.nodes import Node
from moorage.core.pods import Condition, Owner, Pod
from moorage.core.taints import Taint
from moorage.engine.keeping import marks
from moorage.engine.keeping.moves import Cause
from moorage.engine.keeping.signals import BUILT_IN, Signals
from moorage.framework.keeping import AtDeadline, NodeSignal, SignalKind
from moorage.plugins.spot_placement import SingleReplica, SpotPlacementArgs
from moorage.testing import make_node
from tests.engine.keeping import NOTICE, Shore, budget, member, on_demand, replica_set, spot


def _condition(kind: str, message: str = "") -> tuple[Condition, ...]:
    return (Condition(kind, "True", "Because", message),)


# --- notices ---


@pytest.mark.parametrize("signal", BUILT_IN, ids=lambda signal: f"{signal.kind} {signal.key} {signal.text}".strip())
def test_every_built_in_signal_is_understood(signal: NodeSignal) -> None:
    """As a cloud or an autoscaler would give it; a node that says nothing stays."""
    fields: dict[SignalKind, dict[str, Any]] = {
        SignalKind.TAINT: {"taints": [Taint(signal.key, "x", "NoSchedule")]},
        SignalKind.CONDITION: {"conditions": _condition(signal.key, f"{signal.text} Scheduled: soon")},
        SignalKind.CORDON: {"labels": {signal.key: "x"}, "unschedulable": True},
    }
    (notice,) = Signals((), 120.0).notices(make_node("n", **fields[signal.kind]))
    assert notice.words == f"{signal.kind} {signal.key}"
    assert notice.notice_s == (signal.notice_s or 120.0)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(make_node("n"), id="a plain node"),
        pytest.param(make_node("n", unschedulable=True), id="cordoned without a reason"),
        pytest.param(make_node("n", annotations={"moorage.dev/leaving": "soon"}), id="a reason without a cordon"),
        pytest.param(make_node("n", conditions=_condition("VMEventScheduled", "Freeze Scheduled")), id="a freeze"),
        pytest.param(
            make_node("n", taints=["DeletionCandidateOfClusterAutoscaler:PreferNoSchedule"]), id="only a candidate"
        ),
        pytest.param(make_node("n", labels={"kubernetes.azure.com/scalesetpriority": "spot"}), id="a spot label"),
    ],
)
def test_what_is_no_notice(node: Node) -> None:
    """Nothing of this says that the node goes."""
    assert Signals((), 120.0).notices(node) == []


def test_signals_of_a_configuration() -> None:
    """They add to the built-in ones, replace those of the same key, and can take them back."""
    own = (
        NodeSignal(SignalKind.TAINT, "example.com/bye", "soon", 60.0),
        NodeSignal(SignalKind.TAINT, "karpenter.sh/disrupted", ignored=True),
    )
    signals = Signals(own, 90.0)
    assert signals.notices(make_node("n", taints=["example.com/bye=soon:NoSchedule"]))[0].notice_s == 60.0
    assert not signals.notices(make_node("n", taints=["example.com/bye=later:NoSchedule"]))
    assert not signals.notices(make_node("n", taints=["karpenter.sh/disrupted:NoSchedule"]))
    assert signals.notices(make_node("n", deleting=True))[0].notice_s == 90.0


# --- cordon and marks ---


def test_a_node_that_goes_is_cordoned_and_marked_once() -> None:
    """One write, with the uid as precondition, also when the same is said twice and in two ways."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"))
    shore.see(replace(shore.nodes["s1"], taints=(NOTICE,)))
    (command,) = shore.of(PatchNode)
    assert (command.node, command.uid, command.unschedulable) == ("s1", "node/s1", True)
    assert command.annotations[marks.CORDONED] == "true"
    assert command.annotations[marks.NOTICE] == "taint aws-node-termination-handler/spot-itn"
    shore.write()
    shore.see(shore.nodes["s1"])
    twice = replace(shore.nodes["s1"], taints=(NOTICE, Taint("karpenter.sh/disrupted", "", "NoSchedule")))
    shore.see(twice)
    assert shore.wait(30) == []


def test_a_second_notice_may_bring_the_end_nearer_but_never_puts_it_off() -> None:
    """A rebalance recommendation first, then the machine goes in half a minute."""
    shore = Shore()
    shore.see(spot("s1"))
    shore.notice("s1")
    departure = shore.keeper.departures.get("s1")
    assert departure is not None
    first_s = departure.until_s
    shore.see(replace(shore.nodes["s1"], conditions=_condition("PreemptScheduled")))
    assert departure.until_s < first_s
    nearer_s = departure.until_s
    shore.wait(5)
    shore.see(replace(shore.nodes["s1"], taints=(NOTICE, Taint("karpenter.sh/disrupted", "", "NoSchedule"))))
    assert departure.until_s == nearer_s


@pytest.mark.parametrize("restarted", [False, True], ids=["the same keeper", "another one"])
def test_a_withdrawn_notice_frees_the_node_and_stops_the_moves(restarted: bool) -> None:
    """What the keeper cordoned it uncordons, and the marks go; pods that are still there stay."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("a", "s1"), member("b", "s1"))
    shore.tell(replica_set(2), budget(1))
    shore.notice("s1")
    shore.wait(1)
    assert len(shore.evicted) == 1
    if restarted:
        shore.ordered.clear()
        shore.restart()
        assert not shore.of(PatchNode), "it is marked already"
    shore.ordered.clear()
    shore.withdraw("s1")
    assert not shore.nodes["s1"].unschedulable
    assert not marks.is_marked(shore.nodes["s1"])
    shore.tell(budget(1))
    assert shore.wait(5) == []


def test_what_somebody_else_cordoned_stays_cordoned() -> None:
    """The mark says whose cordon it is."""
    shore = Shore()
    shore.see(spot("s1", unschedulable=True))
    shore.notice("s1")
    assert marks.CORDONED not in shore.nodes["s1"].annotations
    shore.withdraw("s1")
    assert shore.nodes["s1"].unschedulable
    assert not marks.is_marked(shore.nodes["s1"])


def test_a_cordon_of_the_keepers_own_is_no_notice() -> None:
    """Or a node that carries a reason for some other cordon would never be freed again."""
    shore = Shore()
    shore.see(make_node("s1", labels={"moorage.dev/leaving": "at some time"}))
    shore.notice("s1")
    assert marks.CORDONED in shore.nodes["s1"].annotations
    shore.withdraw("s1")
    assert not shore.nodes["s1"].unschedulable
    assert not marks.is_marked(shore.nodes["s1"])


def test_a_node_that_is_opened_again_is_emptied_once() -> None:
    """Who comes to it although the notice stands is not sent away again and again."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("a", "s1"))
    shore.notice("s1")
    shore.see(replace(shore.nodes["s1"], unschedulable=False))
    shore.wait(4)
    assert shore.evicted == ["a"]
    shore.move("a", "s1")
    shore.wait(150)
    assert shore.evicted == []
    assert not shore.nodes["s1"].unschedulable


def test_the_deadline_survives_a_restart() -> None:
    """What the keeper before wrote on the node holds."""
    shore = Shore()
    shore.see(spot("s1"))
    shore.notice("s1")
    before = shore.keeper.departures.get("s1")
    shore.wait(60)
    shore.restart()
    after = shore.keeper.departures.get("s1")
    assert before is not None
    assert after is not None
    assert after.until_s == pytest.approx(before.until_s, abs=1.0)
    assert after.since_s == pytest.approx(before.since_s, abs=1.0)


# --- who moves ---


def test_pods_leave_most_important_first_and_on_demand_comes_first() -> None:
    """By priority, then by age; each with a proven place, which is on-demand while there is some."""
    shore = Shore()
    shore.see(spot("s1", cpu="8"), spot("s2", cpu="8"), on_demand("d1", cpu="2"))
    shore.see(
        member("low", "s1", "low", priority=-5),
        replace(member("young", "s1", "young"), started_s=900.0),
        replace(member("old", "s1", "old"), started_s=100.0),
        member("high", "s1", "high", priority=100),
    )
    shore.notice("s1")
    shore.wait(1)
    assert shore.evicted == ["high", "old", "young", "low"]
    assert shore.places == {"high": "d1", "old": "d1", "young": "s2", "low": "s2"}
    notes = [event.note for event in shore.of(RecordEvent) if event.pod.name == "high"]
    assert notes == [
        "Node s1 is about to go away (taint aws-node-termination-handler/spot-itn); there is room on node d1"
    ]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(member("p", "s1", owner=Owner("DaemonSet", "ds", "u")), id="of a DaemonSet"),
        pytest.param(member("p", "s1", owner=Owner("Node", "s1", "u")), id="of the node"),
        pytest.param(member("p", "s1", annotations={MIRROR: "x"}), id="mirror"),
        pytest.param(member("p", "s1", owner=None), id="nobody would make it again"),
        pytest.param(replace(member("p", "s1"), deleted_s=1.0), id="on its way out"),
        pytest.param(replace(member("p", "s1"), phase="Succeeded"), id="finished"),
    ],
)
def test_pods_that_are_left_alone(pod: Pod) -> None:
    """Nobody gains anything by their eviction."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), pod)
    shore.notice("s1")
    shore.wait(125)
    assert shore.evicted == []


@pytest.mark.parametrize("annotation", [{SAFE_TO_EVICT: "false"}, {DO_NOT_DISRUPT: "true"}], ids=str)
def test_a_node_that_goes_asks_nobody_whether_it_suits(annotation: dict[str, str]) -> None:
    """These annotations are about moves that could wait."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("p", "s1", annotations=annotation))
    shore.notice("s1")
    shore.wait(1)
    assert shore.evicted == ["p"]


def test_nobody_is_moved_from_one_leaving_node_to_the_next() -> None:
    """Notices that come together are all read before any pod moves."""
    shore = Shore()
    shore.see(spot("s1"), spot("s2"), on_demand("d1"), member("a", "s1"), member("b", "s2", "db"))
    shore.notice("s1")
    assert shore.evicted == []
    shore.notice("s2")
    shore.wait(1)
    assert set(shore.places.values()) == {"d1"}


def test_one_place_is_promised_once() -> None:
    """Three pods, room for one: one leaves; the next when there is more room; places on their way stay taken."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1", cpu="1"), *(member(name, "s1", name) for name in "abc"))
    shore.notice("s1")
    shore.wait(3)
    assert shore.evicted == ["a"]
    assert len(shore.keeper.fallback.without_place) == 2
    shore.move("a", "d1")
    shore.see(on_demand("d2", cpu="1"))
    shore.wait(2)
    assert shore.places == {"b": "d2"}


def test_the_rule_of_the_profile_decides_what_a_place_is() -> None:
    """A single replica that demands on-demand does not go to another spot node, however empty."""
    shore = Shore(rule=SpotPlacementArgs(single_replica=SingleReplica.REQUIRE))
    shore.see(spot("s1"), spot("s2"), member("p", "s1"))
    shore.tell(replica_set(1))
    shore.notice("s1")
    shore.wait(5)
    assert shore.evicted == []
    shore.see(on_demand("d1"))
    shore.wait(2)
    assert shore.places == {"p": "d1"}


# --- what holds pods back ---


def test_budgets_are_asked_before_the_server_is() -> None:
    """Nothing while the budget allows nothing; one when it allows one; what is unanswered counts."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), *(member(name, "s1") for name in "abc"))
    shore.tell(budget(0))
    shore.notice("s1")
    shore.wait(5)
    assert shore.evicted == []
    shore.tell(budget(1))
    shore.wait(5)
    assert shore.evicted == ["a"]


def test_an_eviction_counts_until_the_budget_shows_it() -> None:
    """Its answer alone does not let the next pod go: the status of the budget comes later."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), *(member(name, "s1") for name in "abc"))
    shore.tell(budget(1))
    shore.notice("s1")
    shore.wait(5)
    gone = shore.pods["default/a"]
    shore.tell(EvictDone(gone.uid, EvictOutcome.EVICTED), PodSeen(replace(gone, deleted_s=shore.now)))
    shore.tell(PodGone(gone.uid))
    shore.wait(5)
    assert shore.evicted == ["a"]
    shore.tell(budget(0))
    shore.tell(budget(1))
    shore.wait(5)
    assert shore.evicted == ["a", "b"]


@pytest.mark.parametrize(("spares", "want"), [(True, ["a", "b"]), (False, ["b"])], ids=["spares them", "does not"])
def test_who_is_not_ready_may_leave_where_the_budget_spares_them(spares: bool, want: list[str]) -> None:
    """They are nobody's loss, and use nothing up; pods that are ready wait for the budget."""
    shore = Shore()
    broken = replace(member("a", "s1"), ready=False)
    shore.see(spot("s1"), on_demand("d1"), broken, member("b", "s1"), member("c", "s1"))
    shore.tell(budget(0, spares_unready=spares))
    shore.notice("s1")
    shore.wait(5)
    assert shore.evicted == (["a"] if spares else [])
    shore.see(replace(broken, ready=True, deleted_s=shore.now))
    shore.tell(budget(1, spares_unready=spares))
    shore.wait(5)
    assert shore.evicted == want


def test_every_cause_of_a_move_has_a_concern_that_is_told_of_refusals() -> None:
    """A new cause: name its concern, in the order of the causes."""
    assert [*Shore().keeper._concerns] == [*Cause]


def test_a_refusal_is_tried_again_after_a_second() -> None:
    """The server has the last word; a pod that is gone is not asked for again."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("a", "s1"))
    shore.notice("s1")
    shore.wait(1)
    shore.answer("a", EvictOutcome.REFUSED)
    assert shore.evicted == []
    shore.wait(1.2)
    assert shore.evicted == ["a"]
    assert shore.keeper.evictions["fallback", "refused"] == 1


def test_a_workload_without_a_budget_loses_a_quarter_at_a_time() -> None:
    """Until half of the notice is over; then time matters more."""
    shore = Shore()
    shore.see(spot("s1", cpu="16"), on_demand("d1", cpu="16"), *(member(f"p{n}", "s1") for n in range(8)))
    shore.tell(replica_set(8))
    shore.notice("s1")
    shore.wait(30)
    assert len(shore.evicted) == 2
    shore.move("p0", "d1")
    shore.wait(1)
    assert len(shore.evicted) == 2
    shore.wait(30)
    assert len(shore.evicted) == 7


def test_a_pod_without_a_place_runs_as_long_as_it_can() -> None:
    """It is evicted at the last chance only, with a warning."""
    shore = Shore()
    shore.see(spot("s1"), member("p", "s1"))
    shore.notice("s1")
    shore.wait(105)
    assert shore.evicted == []
    shore.wait(10)
    assert shore.places == {"p": None}
    (event,) = shore.of(RecordEvent)
    assert event.type == "Warning"
    assert event.note.endswith("no node has room for its successor")


@pytest.mark.parametrize("policy", AtDeadline, ids=str)
def test_a_budget_is_broken_only_where_the_configuration_says_so(policy: AtDeadline) -> None:
    """And then at the last chance only, by deletion."""
    shore = Shore(at_deadline=policy)
    shore.see(spot("s1"), on_demand("d1"), member("p", "s1"))
    shore.tell(budget(0))
    shore.notice("s1")
    shore.wait(105)
    assert not shore.of(DeletePod)
    shore.wait(30)
    assert shore.evicted == []
    assert [command.pod.name for command in shore.of(DeletePod)] == (["p"] if policy is AtDeadline.DELETE else [])


def test_moves_on_their_way_are_bounded() -> None:
    """So many at once, and more as they arrive."""
    shore = Shore(moves_at_once=2)
    shore.see(spot("s1"), on_demand("d1"), *(member(name, "s1", name) for name in "abcd"))
    shore.notice("s1")
    shore.wait(3)
    assert shore.evicted == ["a", "b"]
    shore.move("a", "d1")
    shore.wait(1)
    assert shore.evicted == ["b", "c"]


def test_pods_of_one_namespace_that_do_not_come_to_run_keep_nobody_on_a_node_that_goes() -> None:
    """They are evicted first, as they are older, and their successors never start."""
    shore = Shore(moves_at_once=2)
    first = [member(f"a{number}", "s1", f"a{number}", namespace="evil", created_s=1.0) for number in range(9)]
    shore.see(spot("s1"), on_demand("d1"), *first, member("p", "s1"))
    shore.notice("s1")
    shore.wait(60)
    assert sorted(shore.evicted) == ["a0", "a1", "p"]


def test_a_standby_only_watches() -> None:
    """It knows everything and orders nothing."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("p", "s1"))
    leaving = replace(shore.nodes["s1"], taints=(NOTICE,), unschedulable=True)
    shore.tell(NodeSeen(leaving), acting=False)
    shore.now += 60
    shore.tell(acting=False)
    assert (shore.ordered, shore.wakeup) == ([], None)
    shore.tell()
    assert shore.evicted == ["p"], "it acts at once when it is its turn"


def test_a_node_that_is_gone_is_forgotten() -> None:
    """And nothing is written on it."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"))
    shore.notice("s1")
    shore.tell(NodeGone("s1"))
    shore.ordered.clear()
    assert shore.wait(5) == []
    assert shore.wakeup is None


# --- successors that wait ---


@pytest.mark.parametrize(
    ("scheduler", "want"), [("moorage", ["d1"]), ("default-scheduler", [])], ids=["a profile", "somebody else's"]
)
def test_a_successor_that_waits_gets_its_place_promised(scheduler: str, want: list[str]) -> None:
    """Where the scheduler is known to honour it, and only to pods that were not bound at once."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("p", "s1", scheduler_name=scheduler))
    shore.notice("s1")
    shore.wait(1)
    shore.move("p", None)
    assert not shore.of(PatchPodStatus)
    shore.wait(2)
    assert [command.nominated_node for command in shore.of(PatchPodStatus)] == want


def test_commands_name_pods_beyond_doubt() -> None:
    """By namespace, name and uid, with the node that they leave."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("p", "s1"))
    shore.notice("s1")
    shore.wait(1)
    (command,) = shore.of(EvictPod)
    assert (command.pod, command.node, command.cause) == (("default", "p", "default/p"), "s1", "fallback")
