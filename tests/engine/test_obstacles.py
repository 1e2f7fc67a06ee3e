"""The last look before a bind goes out: a decision that does not hold any more is not carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from moorage.core.arrays import Rows
from moorage.core.commands import Bind
from moorage.core.events import BindDone, BindOutcome, NodeGone, NodeSeen, PodGone, PodSeen
from moorage.core.taints import Taint, Toleration
from moorage.engine.obstacles import obstacle
from moorage.framework.cycle import Cycle
from moorage.framework.status import Rejections
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.testing import make_node, make_pod
from tests.engine.play import Play

NODE = make_node("n1", uid="node-1")
TAINT = Taint("maintenance", "now", "NoSchedule")
POD = make_pod("p", cpu="1")
TOLERANT = make_pod("p", cpu="1", tolerations=(Toleration("maintenance", "Exists"),))

Happens = Callable[[Play], object]
CASES: dict[str, tuple[Happens, str]] = {
    "nothing": (lambda _: None, ""),
    "a heartbeat": (lambda play: play.see(replace(NODE, resource_version="2")), ""),
    "another node is cordoned": (lambda play: play.see(make_node("n2", unschedulable=True)), ""),
    "the node is cordoned": (lambda play: play.see(replace(NODE, unschedulable=True)), "n1 has changed"),
    "the node is tainted": (lambda play: play.see(replace(NODE, taints=(TAINT,))), "n1 has changed"),
    "the node is deleted": (lambda play: play.handle(NodeGone("n1")), "n1 was deleted"),
    "the node is replaced": (
        lambda play: play.handle(NodeGone("n1"), NodeSeen(replace(NODE, uid="node-2"))),
        "n1 was deleted",
    ),
    "its replacement is seen only": (lambda play: play.see(replace(NODE, uid="node-2")), "n1 was deleted"),
    "the pod is deleted": (lambda play: play.handle(PodGone("default/p")), "does not wait"),
    "the pod is being deleted": (lambda play: play.see(replace(POD, deleted_s=1000.0)), "does not wait"),
}


@pytest.mark.parametrize(("happens", "want"), CASES.values(), ids=CASES)
def test_what_comes_between_a_decision_and_its_bind(happens: Happens, want: str) -> None:
    """Nodes that went, changed or were replaced, and pods that went; not what does not matter to the pod."""
    play = Play(NodeUnschedulable())
    (bind,) = (command for command in play.see(NODE, POD) if isinstance(command, Bind))
    happens(play)
    found = obstacle(play.engine.state, play.engine.bindings, bind)
    assert (want in found) if want else not found
    assert obstacle(play.engine.state, play.engine.bindings, bind) == found


def test_a_taint_that_the_pod_tolerates_is_no_obstacle() -> None:
    """Nor is one that goes again."""
    play = Play(NodeUnschedulable())
    (bind,) = (command for command in play.see(NODE, TOLERANT) if isinstance(command, Bind))
    play.see(replace(NODE, taints=(TAINT,)))
    assert not obstacle(play.engine.state, play.engine.bindings, bind)
    play.see(replace(NODE, unschedulable=True))
    assert obstacle(play.engine.state, play.engine.bindings, bind)
    play.see(NODE)
    assert not obstacle(play.engine.state, play.engine.bindings, bind)


def test_a_bind_that_was_kept_back_is_decided_anew() -> None:
    """On another node, after the backoff of an error."""
    play = Play(NodeUnschedulable())
    play.see(NODE, POD)
    play.see(replace(NODE, unschedulable=True), make_node("n2"))
    play.handle(BindDone("default/p", BindOutcome.FAILED, "n1", "node n1 has changed"))
    play.wait(1.0)
    assert play.binds == {"p": "n2"}


def test_looking_costs_nothing_while_no_node_changes() -> None:
    """The filters are not asked again."""
    asked: list[int] = []

    class Counting(NodeUnschedulable):
        def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
            asked.append(len(rows))
            return super().filter(cycle, rows)

    play = Play(Counting())
    (bind,) = (command for command in play.see(NODE, POD) if isinstance(command, Bind))
    play.see(make_node("n2"))
    before = len(asked)
    for _ in range(100):
        assert not obstacle(play.engine.state, play.engine.bindings, bind)
    assert len(asked) == before
    play.handle(PodSeen(replace(POD, node="n1", phase="Running")))
