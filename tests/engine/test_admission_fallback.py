"""The webhook among others of its kind, and rules that no node matches."""

from __future__ import annotations

import pytest

from moorage.core.commands import RecordEvent
from moorage.core.events import NodeGone, NodeSeen, PodSeen
from moorage.core.pods import Pod
from moorage.engine.admission import Asked, Outcome, Verdict
from moorage.engine.roster import PLACED_BY
from moorage.testing.builders import make_node
from tests.engine.admitting import admission, decide, deployment, template

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
    assert "no node has had the labels node-type:spot of rule 1" in verdict.warning
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
