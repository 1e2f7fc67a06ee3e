"""The webhook among others of its kind, and rules of which no node could take the pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.arrivals import NODE_CLAIM, PATIENCE_S, NodeClaim
from moorage.core.commands import RecordEvent
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Owner, Pod
from moorage.core.resources import make_requests
from moorage.core.taints import Taint, Toleration
from moorage.engine.admission import Admission, Asked, Outcome, Verdict
from moorage.engine.roster import PLACED_BY
from moorage.testing.builders import make_node, make_pod
from tests.engine.admitting import KEY, admission, born, decide, deployment, template

SPOT_ONLY = "weight=1,nodeSelector=node-type:spot"
FALLBACK_S = 60.0
SPOT = NodeSeen(make_node("s", labels={"node-type": "spot"}))
OTHER = NodeSeen(make_node("o", labels={"node-type": "ondemand"}))


def test_a_follower_leaves_pods_that_get_a_rule_to_another_replica() -> None:
    """Nothing is counted here; what needs no count is answered at once."""
    subject = admission(me="b")
    subject.peers, subject.follows = 1, True
    assert decide(subject).outcome is Outcome.ELSEWHERE
    assert decide(subject, dry_run=True).outcome is Outcome.ELSEWHERE
    assert subject.roster.ledger_count == 0
    assert decide(subject, template(owner=None)).outcome is Outcome.NONE
    here = subject.decide(Asked(template(), here=True), 0.0)
    assert isinstance(here, Verdict)
    assert (here.outcome, here.annotations[PLACED_BY]) == (Outcome.PLACED, "b")


def test_the_only_one_that_decides_does_not_wait() -> None:
    """All others follow, so that its ledger is complete: a burst is decided at once."""
    subject = admission(me="a")
    subject.peers, subject.sole = 1, True
    assert [decide(subject).outcome for _ in range(6)] == [Outcome.PLACED] * 6


@pytest.mark.parametrize("others", [(), (OTHER,)], ids=["no node at all", "nodes of other rules"])
def test_a_rule_without_nodes_falls_back_to_default_scheduling(others: tuple[NodeSeen, ...]) -> None:
    """For a while pods are sent there, as an autoscaler may act; later ones go through unchanged, with an event."""
    subject = admission(*deployment(SPOT_ONLY))
    for event in others:
        subject.handle(event)
    assert decide(subject, now_s=-FALLBACK_S, dry_run=True).outcome is Outcome.PLACED
    assert decide(subject, now_s=0.0).outcome is Outcome.PLACED
    assert decide(subject, now_s=FALLBACK_S - 0.1).outcome is Outcome.PLACED
    verdict = decide(subject, now_s=FALLBACK_S)
    assert (verdict.outcome, verdict.node_selector, verdict.annotations) == (Outcome.FAILED, {}, {})
    assert "no node has the labels node-type:spot of rule 1" in verdict.warning
    subject.handle(PodSeen(Pod("p", "p", template())))
    (command,) = subject.take_commands()
    assert isinstance(command, RecordEvent)
    assert (command.type, command.reason) == ("Warning", "StrategyFallback")


def test_a_node_ends_the_fallback() -> None:
    """And the time begins anew when it is gone."""
    subject = admission(*deployment(SPOT_ONLY))
    decide(subject, now_s=0.0)
    subject.handle(SPOT)
    subject.handle(NodeGone("s"))
    assert decide(subject, now_s=FALLBACK_S).outcome is Outcome.PLACED
    assert decide(subject, now_s=2 * FALLBACK_S).outcome is Outcome.FAILED
    subject.handle(SPOT)
    assert decide(subject, now_s=3 * FALLBACK_S).outcome is Outcome.PLACED


FULL = make_node("s", cpu="1", labels={"node-type": "spot"})
BIG = template(requests=make_requests({"cpu": 1000}, 1000, 0))
TAKEN = PodSeen(make_pod("hog", node="s", cpu="1"))


def _without(**changes: Any) -> NodeSeen:
    return NodeSeen(replace(FULL, **changes))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (_without(unschedulable=True), "no node with the labels node-type:spot of rule 1 is ready and open to the pod"),
        (_without(ready=False), "is ready and open to the pod"),
        (_without(taints=(Taint("spot", "", "NoSchedule"),)), "is ready and open to the pod"),
    ],
    ids=["cordoned", "not ready", "a taint that the pod does not tolerate"],
)
def test_nodes_that_cannot_take_the_pod_do_not_count(node: NodeSeen, words: str) -> None:
    """Though they have the labels; what is seen of them again changes nothing, and uncordoned they count."""
    subject = admission(*deployment(SPOT_ONLY))
    subject.handle(node)
    assert decide(subject, BIG, now_s=0.0).outcome is Outcome.PLACED
    subject.handle(node)
    verdict = decide(subject, BIG, now_s=FALLBACK_S)
    assert verdict.outcome is Outcome.FAILED
    assert words in verdict.warning
    tolerating = replace(BIG, tolerations=(Toleration(operator="Exists"),))
    assert decide(subject, tolerating, now_s=FALLBACK_S).outcome is Outcome.PLACED
    assert (decide(subject, tolerating, now_s=2 * FALLBACK_S).outcome is Outcome.PLACED) == node.node.ready
    subject.handle(NodeSeen(FULL))
    assert decide(subject, BIG, now_s=2 * FALLBACK_S).outcome is Outcome.PLACED


def _full() -> Admission:
    subject = admission(*deployment(SPOT_ONLY))
    for event in (NodeSeen(FULL), TAKEN):
        subject.handle(event)
    return subject


def test_full_nodes_count_until_a_pod_has_waited() -> None:
    """Also when that pod was replaced meanwhile; with room again they count, as for pods that need less."""
    subject = _full()
    assert decide(subject, BIG, now_s=0.0).outcome is Outcome.PLACED
    assert decide(subject, BIG, now_s=10 * FALLBACK_S).outcome is Outcome.PLACED
    waiting = born(decide(subject, BIG, now_s=1000.0), "w", BIG, created_s=1000.0)
    subject.handle(PodSeen(waiting))
    assert decide(subject, BIG, now_s=1000.0 + FALLBACK_S - 1).outcome is Outcome.PLACED
    verdict = decide(subject, BIG, now_s=1000.0 + FALLBACK_S)
    assert verdict.outcome is Outcome.FAILED
    assert "no node with the labels node-type:spot of rule 1 has room for the pod" in verdict.warning
    subject.handle(PodGone("w"))
    assert decide(subject, BIG, now_s=1001.0 + FALLBACK_S).outcome is Outcome.FAILED
    others = template(owner=Owner("Job", "j", "j"), annotations=FrozenDict({KEY: SPOT_ONLY}), requests=BIG.requests)
    assert decide(subject, others, now_s=1001.0 + FALLBACK_S).outcome is Outcome.PLACED
    subject.handle(PodGone("default/hog"))
    assert decide(subject, BIG, now_s=1002.0 + FALLBACK_S).outcome is Outcome.PLACED
    subject.handle(TAKEN)
    assert decide(subject, BIG, now_s=1003.0 + FALLBACK_S).outcome is Outcome.PLACED


def test_a_pod_that_did_not_wait_for_long_tells_nothing() -> None:
    """One that was scaled down at once, or got its node."""
    subject = _full()
    for uid, ending in (("a", PodGone("a")), ("b", None)):
        waiting = born(decide(subject, BIG, now_s=0.0), uid, BIG)
        subject.handle(PodSeen(waiting))
        subject.expire(FALLBACK_S - 1 if ending is not None else FALLBACK_S + 1)
        subject.handle(ending if ending is not None else PodSeen(replace(waiting, node="s")))
        assert decide(subject, BIG, now_s=3 * FALLBACK_S).outcome is Outcome.PLACED


COMING = make_node("new", cpu="4", labels={"node-type": "spot"}, taints=["node.kubernetes.io/not-ready:NoSchedule"])


@pytest.mark.parametrize(
    "coming",
    [
        NodeSeen(replace(COMING, created_s=1000.0, ready=False)),
        ObjectSeen(
            NODE_CLAIM,
            "new",
            NodeClaim("new", COMING.labels, allocatable=COMING.allocatable, node="new", created_s=1000.0),
        ),
    ],
    ids=["a node that comes up", "a NodeClaim"],
)
def test_a_node_on_its_way_is_waited_for(coming: Event) -> None:
    """For a quarter of an hour at most; one that could not take the pod is not."""
    subject = _full()
    subject.handle(PodSeen(born(decide(subject, BIG, now_s=1000.0), "w", BIG, created_s=1000.0)))
    subject.handle(coming)
    assert decide(subject, BIG, now_s=1000.0 + FALLBACK_S).outcome is Outcome.PLACED
    huge = replace(BIG, requests=make_requests({"cpu": 5000}, 5000, 0))
    assert decide(subject, huge, now_s=1000.0 + FALLBACK_S).outcome is Outcome.FAILED
    assert decide(subject, BIG, now_s=1000.0 + PATIENCE_S).outcome is Outcome.FAILED
