"""Pods that wait for nodes which do not exist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.arrivals import PATIENCE_S
from moorage.core.commands import EvictPod, RecordEvent
from moorage.core.events import EvictOutcome, NodeGone
from moorage.core.nodes import Node
from moorage.core.pods import RUNNING, Pod
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS
from moorage.engine.keeping.unplaced import SLACK_S
from moorage.testing import make_node
from tests.engine.keeping import Shore, member, replica_set

RULE = {STRATEGY_ANNOTATIONS[0]: "weight=1,nodeSelector=node-type:spot", RULE_STAMP: "1"}
AFTER_S = 60.0
FALLBACK_S = AFTER_S + SLACK_S


def waiting(name: str, created_s: float, app: str = "web", **fields: Any) -> Pod:
    """A pod that the webhook has sent to spot nodes."""
    given = {"annotations": RULE, "node_selector": {"node-type": "spot"}, "created_s": created_s, **fields}
    return member(name, None, app, **given)


def replaced(shore: Shore) -> list[str]:
    return [command.pod.name for command in shore.ordered if isinstance(command, EvictPod)]


def test_they_are_replaced_after_the_configured_time() -> None:
    """All of a workload when the first has waited long enough, each with an event; not before."""
    shore = Shore(fallback_s=AFTER_S)
    shore.tell(replica_set(3))
    shore.see(make_node("n"), waiting("a", shore.now), waiting("b", shore.now), waiting("c", shore.now + 30))
    shore.wait(FALLBACK_S - 5)
    assert replaced(shore) == []
    assert shore.wakeup is not None
    shore.wait(10)
    assert replaced(shore) == ["a", "b", "c"]
    (note, *_) = [command for command in shore.ordered if isinstance(command, RecordEvent)]
    assert (note.type, note.reason) == ("Warning", "StrategyFallback")
    assert note.note == "No node has the labels node-type:spot of its rule: default scheduling places the next pod"


def test_a_workload_is_helped_once_in_a_while() -> None:
    """If its pods are sent there again, they are not replaced over and over."""
    shore = Shore(fallback_s=AFTER_S, move_again_after_s=600.0)
    shore.tell(replica_set(1))
    shore.see(make_node("n"), waiting("a", shore.now))
    shore.wait(FALLBACK_S + 1)
    shore.see(waiting("b", shore.now))
    shore.wait(300)
    assert replaced(shore) == ["a"]
    shore.wait(300)
    assert replaced(shore) == ["a", "b"]


def test_others_are_left_alone() -> None:
    """Pods whose nodes have room, pods without a rule, pods that run, and pods that nobody would create again."""
    shore = Shore(fallback_s=AFTER_S)
    spot = make_node("s", labels={"node-type": "spot"})
    shore.see(spot, make_node("n"), waiting("slow", shore.now))
    shore.see(member("plain", None, created_s=shore.now), waiting("bare", shore.now, owner=None))
    shore.see(member("runs", "n", annotations=RULE, created_s=shore.now))
    shore.wait(2 * FALLBACK_S)
    assert replaced(shore) == []
    shore.tell(NodeGone("s"))
    shore.wait(1)
    assert replaced(shore) == ["slow"]


SPOT = make_node("s", cpu="1", labels={"node-type": "spot"})


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (replace(SPOT, unschedulable=True), "is ready and open to the pod"),
        (replace(SPOT, ready=False), "is ready and open to the pod"),
        (SPOT, "has room for the pod"),
    ],
    ids=["cordoned", "not ready", "full"],
)
def test_nodes_that_cannot_take_them_are_no_nodes(node: Node, words: str) -> None:
    """A pod that stands there has all of the full one; with room, nobody is replaced."""
    shore = Shore(fallback_s=AFTER_S)
    shore.tell(replica_set(1))
    shore.see(node, make_node("n"), member("hog", "s", "db"), waiting("a", shore.now))
    shore.wait(FALLBACK_S - 1)
    assert replaced(shore) == []
    shore.wait(2)
    assert replaced(shore) == ["a"]
    (told,) = [command.note for command in shore.ordered if isinstance(command, RecordEvent)]
    assert told == f"No node with the labels node-type:spot of its rule {words}: default scheduling places the next pod"


def test_a_node_on_its_way_is_waited_for() -> None:
    """As long as it may still come up."""
    shore = Shore(fallback_s=AFTER_S)
    shore.tell(replica_set(1))
    coming = replace(make_node("s", labels={"node-type": "spot"}, taints=["node.kubernetes.io/not-ready:NoSchedule"]))
    shore.see(replace(coming, created_s=shore.now), make_node("n"), waiting("a", shore.now))
    shore.wait(PATIENCE_S - 5)
    assert replaced(shore) == []
    shore.wait(10)
    assert replaced(shore) == ["a"]


def test_a_late_answer_is_not_taken_for_that_to_a_later_move() -> None:
    """A pod that gets a node after all, which is about to go, is moved when its first eviction was answered."""
    shore = Shore(fallback_s=AFTER_S)
    shore.tell(replica_set(1))
    shore.see(make_node("n"), make_node("other"), waiting("a", shore.now))
    shore.wait(FALLBACK_S + 1)
    assert replaced(shore) == ["a"]
    shore.see(replace(shore.pods["default/a"], node="n", phase=RUNNING))
    shore.notice("n")
    shore.wait(10)
    assert replaced(shore) == ["a"]
    shore.answer("a", EvictOutcome.FAILED)
    shore.wait(10)
    assert [command.cause for command in shore.of(EvictPod)] == ["fallback"]
    assert len(shore.keeper.moves) == 1
