"""Workloads with a rule: the order of removal, repairs and their guards, lost nodes, and the status of policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.annotations import TERM_ANNOTATION
from moorage.core.commands import ClearNode, EvictPod, PatchObject, RecordEvent
from moorage.core.disruption.ledger import DO_NOT_DISRUPT, SAFE_TO_EVICT
from moorage.core.events import (
    EvictDone,
    EvictOutcome,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
    WebhookAsked,
)
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import Workload
from moorage.core.pods import Owner, Pod
from moorage.core.strategy import RULE_STAMP, parse_strategy, restamped, targets
from moorage.engine.keeping.deletion_costs import COST, MOST_UNANSWERED
from moorage.engine.keeping.placers import FRESH_S
from moorage.testing import make_node, make_pod
from moorage.wire.policy_rules import read_rules
from tests.engine.harbour import ANSWERS, STRATEGY, Harbour, fleet, nodes, owner, policy, statuses
from tests.engine.keeping import budget, member, replica_set

PARSED = parse_strategy(STRATEGY)
GUARD_S = 600.0


def stamped(pods: Iterable[Pod]) -> list[Pod]:
    """As a webhook would have made them for the stock scheduler."""
    found = []
    for pod in pods:
        rule, kind = (0, "od") if pod.name.startswith("o") else (1, "spot")
        template = replace(
            pod.template,
            annotations=FrozenDict({RULE_STAMP: str(rule + 1)}),
            node_selector=FrozenDict({"kind": kind}),
            scheduler_name="default-scheduler",
        )
        found.append(replace(pod, template=template))
    return found


def split(shore: Harbour) -> tuple[int, int]:
    """How many pods stand on nodes of each rule."""
    where = [pod.node or "" for pod in shore.pods.values() if pod.deleted_s is None]
    return sum(node.startswith("od") for node in where), sum(node.startswith("spot") for node in where)


# --- the order of removal ---


def test_whatever_is_removed_what_is_left_is_the_strategy() -> None:
    """For every smaller number, and with the pods of a rule spread over its nodes."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(7, 13))
    shore.tell(owner(20))
    shore.write()
    order = shore.removal()
    for left in range(20):
        names = order[20 - left :]
        od = sum(name.startswith("o") for name in names)
        assert (od, left - od) == targets(PARSED, left)
    last = [shore.pods[f"default/{name}"].node for name in order if name.startswith("s")][-3:]
    assert len(set(last)) == 3


def test_nothing_is_written_while_the_order_stays() -> None:
    """Pods that come at the end are written, those before them are not; one that goes from the end changes nothing."""
    shore = Harbour()
    shore.tell(owner(6))
    shore.see(*nodes(), *fleet(3, 3))
    shore.write()
    before = shore.costs()
    assert len(before) == 6
    shore.tell(owner(8))
    shore.see(*fleet(3, 5, created_s=100.0)[6:])
    assert sorted(command.name for command in shore.of(PatchObject)) == ["s3", "s4"]
    shore.write()
    assert before.items() <= shore.costs().items()
    shore.tell(PodGone(f"default/{shore.removal()[0]}"))
    assert shore.wait(30) == []


def test_a_write_without_effect_is_repeated() -> None:
    """After a while, not at once."""
    shore = Harbour()
    shore.tell(owner(1))
    shore.see(*nodes(), member("o0", "od0"))
    (command,) = shore.of(PatchObject)
    shore.wait(60)
    assert len(shore.of(PatchObject)) == 1, "it may still stand in a line"
    shore.tell(PatchDone(command, ok=False, message="no"))
    shore.wait(5)
    assert len(shore.of(PatchObject)) == 1
    shore.wait(7)
    assert len(shore.of(PatchObject)) == 2


def test_writes_on_their_way_are_bounded() -> None:
    """More follow as they are answered; in the end everybody has a cost."""
    shore = Harbour()
    shore.see(*nodes())
    for number in range(100):
        shore.tell(owner(1, f"app{number}"))
        shore.see(member(f"p{number}", "od0", f"app{number}", cpu="10m"))
    assert len(shore.of(PatchObject)) == MOST_UNANSWERED
    shore.write()
    shore.write()
    shore.write()
    assert len(shore.costs()) == 100


def test_writes_of_one_namespace_that_hang_hold_up_no_other() -> None:
    """However many pods its workload has."""
    shore = Harbour()
    shore.tell(owner(400, "big", namespace="evil"))
    shore.see(*nodes(), *(member(f"b{n}", "od0", "big", namespace="evil", cpu="1m") for n in range(400)))
    shore.tell(owner(1))
    shore.see(member("p", "od0"))
    assert "p" in {command.pod.name for command in shore.of(PatchObject)}


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        pytest.param(owner(6, text=None), fleet(3, 3), id="no strategy"),
        pytest.param(owner(6, text="weight=x"), fleet(3, 3), id="a strategy that cannot be read"),
        pytest.param(owner(6, template_annotations=FrozenDict({COST: "5"})), fleet(3, 3), id="costs of its own"),
        pytest.param(owner(6), fleet(3, 3, owner=Owner("StatefulSet", "web", "u", "apps/v1")), id="no ReplicaSet"),
    ],
)
def test_who_is_left_alone(workload: ObjectSeen, pods: list[Pod]) -> None:
    """No cost is written where nobody asked for it, or nobody reads it."""
    shore = Harbour()
    shore.see(*nodes(), *pods)
    shore.tell(workload)
    assert not [command for command in shore.wait(15) if isinstance(command, PatchObject)]


def test_one_pod_on_each_host_stays() -> None:
    """Where ControllerSpread wants two hosts and pods stand doubled, two pods are marked, and no other."""
    shore = Harbour(spread=True)
    shore.see(*nodes(), *fleet(6, 0))
    shore.tell(owner(6, text=None))
    shore.write()
    marked = shore.costs()
    assert len(marked) == 2
    assert {shore.pods[f"default/{name}"].node for name in marked} == {"od0", "od1"}
    gone = next(iter(marked))
    shore.tell(PodGone(f"default/{gone}"))
    shore.write()
    assert len({shore.pods[f"default/{name}"].node for name in shore.costs() if name != gone}) == 2


# --- repairs ---


@pytest.mark.parametrize("webhook", [False, True], ids=["the plugin places", "a webhook places"])
def test_pods_move_until_the_split_is_right(webhook: bool) -> None:
    """One at a time, each with a proven place in the rule that lacks pods."""
    shore = Harbour(plugin=not webhook, webhook=ANSWERS if webhook else None)
    pods = fleet(7, 3)
    shore.see(*nodes(), *(stamped(pods) if webhook else pods))
    shore.tell(owner(10))
    shore.wait(4)
    assert shore.evicted == []
    if not webhook:
        assert [name[:4] for name in shore.gather()] == ["spot"] * 3
        assert split(shore) == targets(PARSED, 10)
        return
    shore.wait(4)
    (command,) = shore.of(EvictPod)
    assert (command.pod.name[0], (command.place or "")[:4], command.cause) == ("o", "spot", "repair")
    notes = [event.note for event in shore.of(RecordEvent) if event.reason == "PlacementRepair"]
    assert notes == [
        f"The rules of its placement strategy have 7/3 pods, and should have 4/6; there is room on node {command.place}"
    ]


def test_pods_where_no_rule_wants_them_move_first() -> None:
    """They count for no rule."""
    shore = Harbour()
    shore.see(*nodes(), make_node("else", cpu="8"), *fleet(2, 1), member("x", "else"))
    shore.tell(owner(4))
    shore.wait(8)
    assert shore.evicted == ["x"]


def _cordoned(found: list[Node]) -> list[Node]:
    return [replace(node, unschedulable=node.name.startswith("spot")) for node in found]


def _candidates(found: list[Node]) -> list[Node]:
    taint = make_node("t", taints=["DeletionCandidateOfClusterAutoscaler:PreferNoSchedule"]).taints
    return [replace(node, taints=taint if node.name.startswith("spot") else ()) for node in found]


@pytest.mark.parametrize(
    ("changed", "pods", "more"),
    [
        pytest.param(_cordoned, fleet(7, 3), [owner(10)], id="no room where they belong"),
        pytest.param(_candidates, fleet(7, 3), [owner(10)], id="an autoscaler wants to remove these nodes"),
        pytest.param(None, fleet(7, 3), [owner(10), budget(0)], id="a budget allows nothing"),
        pytest.param(None, fleet(7, 3), [owner(11)], id="a pod is still to come"),
        pytest.param(None, [*fleet(7, 3), member("w", None)], [owner(11)], id="a pod waits for a node"),
        pytest.param(None, fleet(7, 3, annotations={SAFE_TO_EVICT: "false"}), [owner(10)], id="not safe to evict"),
        pytest.param(None, fleet(7, 3, annotations={DO_NOT_DISRUPT: "true"}), [owner(10)], id="do not disrupt"),
        pytest.param(None, fleet(7, 3, created_s=999.0), [owner(10)], id="made just before the keeper began"),
        pytest.param(None, fleet(7, 3, scheduler_name="other"), [owner(10)], id="nobody known places its successor"),
        pytest.param(None, fleet(7, 3, group="gang"), [owner(10)], id="members of a gang"),
        pytest.param(None, fleet(4, 6), [owner(10)], id="all is well"),
    ],
)
def test_who_is_not_moved(changed: Any, pods: list[Pod], more: list[ObjectSeen]) -> None:
    """Nothing is disturbed for nothing."""
    shore = Harbour()
    found = nodes()
    shore.see(*(found if changed is None else changed(found)), *pods)
    shore.tell(*more)
    shore.wait(60)
    assert shore.evicted == []


@pytest.mark.parametrize("webhook", [None, WebhookAsked("connection refused")], ids=["not asked yet", "no answer"])
def test_nothing_is_evicted_for_a_webhook_that_does_not_answer(webhook: WebhookAsked | None) -> None:
    """Its successor would get no rule. Once it answers, the repair goes on; a late answer is not believed for ever."""
    shore = Harbour(plugin=False, webhook=webhook)
    shore.see(*nodes(), *stamped(fleet(7, 3)))
    shore.tell(owner(10))
    assert not shore.keeper.wants_webhook(shore.now)
    shore.wait(30)
    assert shore.keeper.wants_webhook(shore.now)
    assert shore.evicted == []
    shore.webhook = ANSWERS
    shore.wait(3)
    assert len(shore.evicted) == 1


def test_an_answer_of_the_webhook_is_believed_for_a_moment_only() -> None:
    """It may have ended since."""
    shore = Harbour(plugin=False, webhook=ANSWERS, move_again_after_s=0.0)
    shore.see(*nodes(), *stamped(fleet(7, 3)))
    shore.tell(owner(10), budget(0))
    shore.wait(8)
    assert shore.evicted == []
    shore.webhook = None
    shore.wait(FRESH_S + 1)
    shore.tell(budget(9))
    shore.wait(30)
    assert shore.evicted == []


@pytest.mark.parametrize(
    ("asked", "want"),
    [(ANSWERS, 1), (WebhookAsked(excluded=frozenset({"default"})), 0), (WebhookAsked(), 0)],
    ids=["it is asked about them", "its namespace is excluded", "nobody knows whether it is asked about them"],
)
def test_pods_without_a_stamp_are_brought_back_if_the_webhook_will_stamp_their_successors(
    asked: WebhookAsked, want: int
) -> None:
    """All of a workload may have been placed by default while its rule had no nodes."""
    shore = Harbour(plugin=False, webhook=asked)
    shore.see(*nodes(), *fleet(7, 3, scheduler_name="default-scheduler"))
    shore.tell(owner(10))
    shore.wait(12)
    assert len(shore.evicted) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [((False, False), 0), ((True, True), 1), ((False, True), 1), ((True, False), 0)],
    ids=["a stock scheduler", "Moorage's", "Moorage's, lately", "a stock scheduler, lately"],
)
def test_a_profile_of_a_stock_scheduler_is_not_believed(terms: tuple[bool, bool], want: int) -> None:
    """`default-scheduler` names a profile, and whoever runs under that name: the latest pod that it bound tells."""
    shore = Harbour(scheduler="default-scheduler")
    notes = [{TERM_ANNOTATION: "1/a"} if ours else {} for ours in terms]
    fields: dict[str, Any] = {"scheduler_name": "default-scheduler"}
    old, new = fleet(7, 0, annotations=notes[0], **fields), fleet(0, 3, annotations=notes[1], **fields)
    late = [replace(pod, created_s=pod.created_s + 100) for pod in new]
    shore.see(*nodes(), *old, *late)
    shore.tell(owner(10))
    shore.wait(12)
    assert len(shore.evicted) == want


@pytest.mark.parametrize("ours", [True, False], ids=["Moorage's", "a stock scheduler's"])
def test_what_a_tenant_writes_tells_nothing_about_a_scheduler(ours: bool) -> None:
    """A pod that comes with a node, as `kubectl debug node/n` makes it, or with a term of its own."""
    shore = Harbour(scheduler="default-scheduler")
    shore.see(*nodes())
    fields: dict[str, Any] = {"scheduler_name": "default-scheduler"}
    for pod in fleet(7, 3, **fields):
        shore.see(replace(pod, node=None))
        bound = replace(pod.template, annotations=FrozenDict(pod.template.annotations | {TERM_ANNOTATION: "1/a"}))
        shore.see(replace(pod, template=bound) if ours else pod)
    forged = {} if ours else {TERM_ANNOTATION: "1/a"}
    stray = make_pod("debugger", node="od-0", annotations=forged, created_s=1e6, **fields)
    shore.see(stray)
    if not ours:
        shore.see(replace(stray, uid="late", name="late", node=None))
        shore.see(replace(stray, uid="late", name="late"))
    shore.tell(owner(10))
    shore.wait(12)
    assert len(shore.evicted) == int(ours)


def test_pods_of_jobs_are_not_moved() -> None:
    """They would lose their work."""
    shore = Harbour()
    job = Workload("Job", "default", "web", uid="u", annotations=owner(1).value.annotations, replicas=4)
    shore.see(*nodes(), *fleet(4, 0, owner=Owner("Job", "web", "u", "batch/v1")))
    shore.tell(ObjectSeen("Job", job.key, job))
    shore.wait(30)
    assert shore.evicted == []


def test_a_rollout_is_left_to_itself() -> None:
    """While two ReplicaSets of one Deployment have pods, their pods come and go anyway."""
    shore = Harbour()
    above = Owner("Deployment", "web", "d", "apps/v1")
    notes = owner(1).value.annotations
    top = Workload("Deployment", "default", "web", uid="d", annotations=notes, replicas=5)
    shore.tell(ObjectSeen("Deployment", top.key, top), owner(4, owner=above), owner(1, "new", owner=above))
    shore.see(*nodes(), *fleet(4, 0), member("n", "od0", "new"))
    shore.wait(30)
    assert shore.evicted == []
    shore.tell(PodGone("default/n"))
    shore.wait(12)
    assert len(shore.evicted) == 1


def test_a_successor_is_not_moved_again() -> None:
    """The loop guard, for moves of whatever cause."""
    shore = Harbour(move_again_after_s=GUARD_S)
    shore.see(*nodes(), *fleet(2, 1))
    shore.tell(owner(3, text="weight=1,nodeSelector=kind:od;weight=2,nodeSelector=kind:spot"))
    shore.wait(8)
    (command,) = shore.of(EvictPod)
    shore.arrive(command, command.place or "")
    assert split(shore) == (1, 2)
    for pod in [*shore.pods.values()]:
        if not pod.name.endswith("+"):
            shore.tell(PodGone(pod.uid))
    shore.tell(owner(1))
    shore.wait(GUARD_S - 60)
    assert shore.evicted == [], "the only one that is left stands wrong, and has just come"
    shore.wait(90)
    assert len(shore.evicted) == 1


def test_a_successor_counts_for_the_rule_that_it_was_given() -> None:
    """Also on a node that a more specific rule names: nothing was missed."""
    text = "weight=1,nodeSelector=kind:od;weight=1,nodeSelector=kind:spot;weight=1,nodeSelector=kind:spot,disk:ssd"
    strategy = parse_strategy(text)
    shore = Harbour(plugin=False, webhook=ANSWERS)
    ssd = make_node("ssd", cpu="8", labels={"kind": "spot", "disk": "ssd"})
    shore.see(*nodes(), ssd, *stamped(fleet(3, 0)))
    shore.tell(owner(3, text=text))
    shore.wait(8)
    (command,) = shore.of(EvictPod)
    old = shore.pods[command.pod.uid]
    new = replace(old, uid="new", name="new", template=restamped(old.template, strategy, 1), node="ssd")
    shore.tell(EvictDone(old.uid, EvictOutcome.EVICTED), PodSeen(replace(old, deleted_s=shore.now)))
    shore.tell(PodGone(old.uid), PodSeen(replace(new, created_s=shore.now)))
    assert {event.reason for event in shore.of(RecordEvent)} == {"PlacementRepair"}
    (counted,) = shore.keeper.upkeep.splits
    assert counted.actual == (2, 1, 0)


def test_a_workload_whose_successor_went_elsewhere_is_left_alone() -> None:
    """The scheduler of its pods does not follow the rule: say so once, and do not go on."""
    shore = Harbour(plugin=False, webhook=ANSWERS, move_again_after_s=GUARD_S)
    shore.see(*nodes(), *stamped(fleet(7, 3)))
    shore.tell(owner(10))
    shore.wait(8)
    (command,) = shore.of(EvictPod)
    shore.arrive(command, "od1")
    assert [event.reason for event in shore.of(RecordEvent)] == ["PlacementRepair", "RepairMissed"]
    shore.wait(GUARD_S - 30)
    assert shore.evicted == []
    shore.wait(60)
    assert len(shore.evicted) == 1


def test_repairs_are_bounded() -> None:
    """So many at once over all workloads, one of each; 0 turns them off."""
    for most in (0, 2):
        shore = Harbour(repairs_at_once=most)
        shore.see(*nodes())
        for app in ("a", "b", "c"):
            shore.see(*(member(f"{app}{i}", "od0", app, cpu="1", created_s=1.0) for i in range(2)))
            shore.tell(owner(2, app))
        shore.wait(30)
        assert len(shore.evicted) == most
        assert len({name[0] for name in shore.evicted}) == most


def test_workloads_of_one_namespace_whose_pods_do_not_start_keep_no_other_from_being_repaired() -> None:
    """They were out of order first."""
    shore = Harbour(repairs_at_once=1)
    shore.see(*nodes())
    for app, namespace in (("a", "evil"), ("b", "evil"), ("c", "default")):
        shore.see(*(member(f"{app}{i}", "od0", app, namespace=namespace, cpu="1", created_s=1.0) for i in range(2)))
        shore.tell(owner(2, app, namespace=namespace))
    shore.wait(30)
    assert sorted(name[0] for name in shore.evicted) == ["a", "c"]


def test_a_refused_eviction_is_tried_again() -> None:
    """The server has the last word."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(7, 3))
    shore.tell(owner(10))
    shore.wait(8)
    shore.answer(shore.evicted[0], EvictOutcome.REFUSED)
    shore.wait(15)
    assert len(shore.evicted) == 1
    assert shore.keeper.evictions["repair", "refused"] == 1


def test_pods_that_share_a_host_are_parted() -> None:
    """Once there is another host; ControllerSpread wants two."""
    shore = Harbour(spread=True)
    shore.see(make_node("h1", cpu="8"), *(member(f"p{i}", "h1", created_s=float(i)) for i in range(3)))
    shore.tell(owner(3, text=None))
    shore.wait(30)
    assert shore.evicted == []
    shore.see(make_node("h2", cpu="8"))
    assert shore.gather() == ["h2"]


def test_pods_are_parted_once_the_old_revision_is_gone() -> None:
    """While a rollout goes on, nobody is moved for a host: the old revision may leave one."""
    shore = Harbour(spread=True)
    old = member("old", "h2", "web-r1", labels={"pod-template-hash": "r1"})
    new: dict[str, Any] = {"app": "web-r2", "labels": {"pod-template-hash": "r2"}}
    shore.see(make_node("h1", cpu="8"), make_node("h2", cpu="8"), old)
    shore.see(*(member(f"p{i}", "h1", created_s=float(i), **new) for i in range(3)))
    shore.tell(replica_set(1, "web-r1"), replica_set(3, "web-r2"))
    shore.wait(60)
    assert shore.evicted == []
    shore.tell(PodGone(old.uid))
    assert shore.gather() == ["h2"]


def test_a_right_split_may_still_lack_hosts() -> None:
    """Both rules are kept, the split first."""
    shore = Harbour(spread=True)
    text = "weight=1,nodeSelector=kind:od"
    shore.see(*nodes(od=2, spot=0), *(member(f"p{i}", "od0", created_s=1.0) for i in range(3)))
    shore.tell(owner(3, text=text))
    assert shore.gather() == ["od1"]


# --- lost nodes ---


def test_what_a_lost_node_leaves_is_deleted_at_once() -> None:
    """Pods of ReplicaSets that have a rule, if the node does not come back within a moment."""
    shore = Harbour()
    others = member("other", "spot0", "other", scheduler_name="else")
    shore.see(*nodes(), *fleet(3, 3), others)
    shore.tell(owner(6))
    shore.write()
    shore.tell(NodeGone("spot0"))
    assert not shore.of(ClearNode)
    shore.wait(3)
    (command,) = shore.of(ClearNode)
    assert (command.node, [pod.name for pod in command.pods]) == ("spot0", ["s0"])
    shore.tell(PodGone("default/s0"))
    shore.write()
    shore.ordered.clear()
    assert shore.wait(30) == []


def test_a_node_that_comes_back_was_not_lost() -> None:
    """Deleted and made again under the same name."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(3, 3))
    shore.tell(owner(6))
    lost = shore.nodes["spot0"]
    shore.tell(NodeGone("spot0"))
    shore.see(lost)
    shore.wait(10)
    assert not shore.of(ClearNode)


def test_a_keeper_that_begins_later_finds_what_lost_nodes_left() -> None:
    """Pods of nodes that it has never seen."""
    shore = Harbour()
    shore.tell(owner(6), *map(NodeSeen, nodes(spot=0)), *map(PodSeen, fleet(3, 1)), acting=False)
    shore.wait(3)
    assert [command.node for command in shore.of(ClearNode)] == ["spot0"]


# --- policies ---


def test_a_policy_tells_target_and_actual() -> None:
    """Summed over its workloads, and written only when it changes."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(3, 2))
    shore.tell(policy(), owner(6, text=None))
    shore.wait(1)
    (status,) = statuses(shore.ordered)
    assert (status["target"], status["actual"], status["workloads"], status["observedGeneration"]) == (
        "3/3",
        "3/2",
        1,
        3,
    )
    assert status["rules"] == (
        {"nodeSelector": "kind:od", "target": 3, "actual": 3},
        {"nodeSelector": "kind:spot", "target": 3, "actual": 2},
    )
    assert statuses(shore.wait(30)) == []
    shore.ordered.clear()
    shore.see(member("s2", "spot2"))
    shore.wait(5)
    assert [status["actual"] for status in statuses(shore.ordered)] == ["3/3"]


def test_a_policy_that_cannot_be_read_says_why() -> None:
    """In its message; nothing is split by it."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(3, 2))
    shore.tell(policy(rules=read_rules([{"weight": 1}])), owner(5, text=None))
    shore.wait(1)
    (status,) = statuses(shore.ordered)
    assert "spec.rules[0].nodeSelector" in status["message"]
    assert (status["target"], status["rules"]) == ("", ())
