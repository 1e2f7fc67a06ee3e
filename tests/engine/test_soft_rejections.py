"""Soft rejections wherever the engine asks: a node that is passed over is no reason to wait, to evict or to give up."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from moorage.cli.explain_report import ranked, sentence
from moorage.core.arrays import Rows
from moorage.core.commands import AskExtenders
from moorage.core.events import ExtendersAnswered, NodeSeen, PodSeen
from moorage.engine.backoff import Backoff
from moorage.engine.counterfactual import runner_up
from moorage.engine.engine import Engine
from moorage.engine.explain import explain
from moorage.engine.extending import Extending, Filtered
from moorage.engine.opinion import Opinion
from moorage.engine.settings import EngineSettings
from moorage.engine.shadowing.comparing import compared
from moorage.engine.shadowing.verdicts import ShadowVerdict
from moorage.framework.configuration import Extender
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Runner
from moorage.framework.status import Reason, Rejections
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.sim.explanations import node_explanation, nodes_document
from moorage.testing import make_node, make_pod, make_state
from tests.engine.play import Play, small_profile

NODES = [make_node("n1", cpu="4"), make_node("n2", cpu="2"), make_node("n3", cpu="1")]
LARGEST = "n1"


class AvoidsLargest(Plugin):
    """Takes n1, which scores best, only if there is no other."""

    name: ClassVar[str] = "AvoidsLargest"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - it rejects softly only
        return None

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        bits = [int(cycle.state.node(int(row)).name == LARGEST) for row in rows]
        return Rejections(np.array(bits, dtype=np.int64), (Reason("too good"),))


def test_an_attempt_takes_it_only_if_there_is_no_other() -> None:
    """The largest node scores best; two pods go elsewhere, the third has no other."""
    play = Play(AvoidsLargest(), DefaultPreemption())
    play.see(*NODES, *(make_pod(f"p{number}", cpu="1") for number in range(4)))
    assert sorted(play.binds.values()) == ["n1", "n2", "n2", "n3"]


def test_nobody_is_evicted_for_a_node_that_is_not_passed_over() -> None:
    """A node that fits, though passed over, comes before preemption."""
    play = Play(AvoidsLargest(), DefaultPreemption())
    play.see(*NODES, make_pod("low-2", cpu="2", node="n2"), make_pod("low-3", cpu="1", node="n3"))
    play.see(make_pod("high", cpu="1", priority=100))
    assert play.binds == {"high": "n1"}
    assert play.deletions == []


def test_a_gang_starts_on_nodes_that_are_passed_over() -> None:
    """Seven members need all the room that there is."""
    play = Play(AvoidsLargest(), GangScheduling(), DefaultPreemption())
    annotations = {"pod-group": "g", "moorage.dev/pod-group-min-available": "7"}
    members = [make_pod(f"m{number}", cpu="1", annotations=annotations, owner="crew") for number in range(7)]
    play.see(*NODES, *members)
    play.recorded()
    assert sorted(play.binds.values()) == ["n1"] * 4 + ["n2"] * 2 + ["n3"]


def test_explain_shows_it_as_fitting_but_passed_over() -> None:
    """With reasons and without scores; the others are scored among themselves; JSON and table say the same."""
    state = make_state(NODES)
    pod = make_pod("p", cpu="1")
    found = explain(Runner(small_profile(AvoidsLargest()), state), state, pod, 0.0)
    assert found["n1"].passed_over == {"AvoidsLargest": ["too good"]}
    assert not found["n1"].scores
    assert not found["n1"].rejected
    assert found["n2"].competes
    assert found["n3"].competes
    document = nodes_document(found)
    assert document["n1"] == {"passedOver": {"AvoidsLargest": ["too good"]}}
    assert {name: node_explanation(each) for name, each in document.items()} == found
    opinion = Opinion("default", "p", "default-scheduler", node="n2", nodes=found)
    assert [name for name, _ in ranked(opinion)] == ["n2", "n3", "n1"]
    assert "the best of 2 nodes that fit (3 nodes in all)" in sentence(opinion)
    second = runner_up(opinion)
    assert second is not None
    assert second.node == "n3"
    standing = Opinion("default", "p", "default-scheduler", node="n2", nodes=found, stands_on="n1")
    assert "would be taken only if no other node fits (AvoidsLargest: too good); n2 would be chosen now" in sentence(
        standing
    )


def test_explain_shows_no_soft_rejection_that_is_dropped() -> None:
    """A large pod fits the largest node alone."""
    state = make_state(NODES)
    found = explain(Runner(small_profile(AvoidsLargest()), state), state, make_pod("p", cpu="4"), 0.0)
    assert found["n1"].competes
    assert found["n1"].scores


def test_the_extender_decides_over_the_nodes_that_were_sent() -> None:
    """Passed over: no node to evict somebody from. If it is all that was sent, it is kept."""
    extending = Extending(small_profile(AvoidsLargest()), certified=True)
    pod = make_pod("p", cpu="1")
    for node in NODES:
        extending.handle(NodeSeen(node))
    extending.handle(PodSeen(pod))
    assert extending.filter(pod, ["n1", "n2", "n3"], 0.0) == Filtered((1, 2), {}, {"n1": "too good"})
    assert extending.filter(pod, ["n1"], 0.0) == Filtered((0,))
    assert extending.preempt(pod, {"n1": []}, 0.0) == ["n1"]


def test_extenders_are_asked_first() -> None:
    """They hear of all nodes that fit, since the others may be theirs to reject."""
    play = Play()
    extender = Extender("http://f", filter_verb="filter")
    play.engine = Engine([small_profile(AvoidsLargest())], EngineSettings(Backoff(), extenders=(extender,)))
    play.see(*NODES, make_pod("a", cpu="1"), make_pod("b", cpu="1"))
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n1", "n2", "n3")]
    play.handle(ExtendersAnswered("default/a", ("n1", "n3"), scores={"n1": 1000}, token=play.asked["default/a"]))
    assert play.binds == {"a": "n3"}
    assert [ask.nodes for ask in play.of(AskExtenders)] == [("n1", "n2")]
    play.handle(ExtendersAnswered("default/b", ("n1",), token=play.asked["default/b"]))
    assert play.binds == {"b": "n1"}


def test_the_shadow_names_the_plugin_that_passes_a_node_over() -> None:
    """The other scheduler's node fits, but here it would have come last."""
    engine = Engine([small_profile(AvoidsLargest())], EngineSettings(Backoff()))
    engine.handle([NodeSeen(node) for node in NODES], 0.0, budget=0)
    finding = compared(engine, make_pod("p", cpu="1"), "n1", 0.0)
    assert finding.verdict is ShadowVerdict.DIFFERENT
    assert dict(finding.rejected) == {"AvoidsLargest": ("too good",)}
