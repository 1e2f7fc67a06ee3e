"""Nodes that are promised to pods (status.nominatedNodeName): also by other schedulers, and until the node is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from moorage.core.pods import Pod
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play


@pytest.fixture
def play() -> Iterator[Play]:
    """A scheduler that preempts, on a node of two cpus."""
    play = Play(DefaultPreemption())
    play.see(make_node("n0", cpu="2"))
    yield play
    play.check()


def of_another(name: str, node: str | None, priority: int = 10, cpu: str = "2") -> Pod:
    """A pod of another scheduler that waits for room on a node."""
    pod = make_pod(name, cpu=cpu, priority=priority, scheduler_name="another-scheduler")
    return replace(pod, nominated_node=node)


def test_room_that_another_scheduler_has_promised_is_not_taken(play: Play) -> None:
    """The other one has just emptied the node for its pod; ours of lower priority waits, ours of higher does not."""
    play.see(of_another("theirs", "n0"))
    play.see(make_pod("ours", cpu="1", priority=1))
    assert play.binds == {}
    play.see(make_pod("important", cpu="1", priority=20))
    assert play.binds == {"important": "n0"}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda play: play.see(of_another("theirs", None)), id="withdrawn"),
        pytest.param(lambda play: play.see(of_another("theirs", "n1")), id="another node"),
        pytest.param(lambda play: play.pod_gone("theirs"), id="deleted"),
        pytest.param(
            lambda play: play.see(make_node("n1"), replace(of_another("theirs", "n0"), node="n1")), id="bound elsewhere"
        ),
    ],
)
def test_their_promise_ends_when_they_say_so(play: Play, end: object) -> None:
    """Pods of ours that it kept out are tried again."""
    play.see(of_another("theirs", "n0"))
    play.see(make_pod("ours", cpu="1", priority=1))
    end(play)  # type: ignore[operator]
    play.wait(60)
    assert play.node_of("ours") == "n0"


def test_a_promise_of_theirs_is_not_ours_to_withdraw(play: Play) -> None:
    """A pod of ours that preempts on the same node writes nothing about the other scheduler's pod."""
    play.see(make_pod("low", cpu="2", priority=0, node="n0"), of_another("theirs", "n0", priority=1))
    play.see(make_pod("ours", cpu="2", priority=20))
    assert play.deletions == ["low"]
    assert [patch.pod.name for patch in play.patches if patch.nominated_node == ""] == []


def test_a_nomination_ends_with_its_node(play: Play) -> None:
    """The status of the preemptor names the node no longer, and the preemptor looks elsewhere."""
    play.see(make_pod("low", cpu="2", node="n0"))
    play.see(make_pod("ours", cpu="2", priority=20))
    assert [patch.nominated_node for patch in play.patches] == ["n0"]
    play.see(replace(play.pods["default/ours"], nominated_node="n0"))
    play.node_gone("n0")
    assert next(patch.nominated_node for patch in play.patches if patch.pod.name == "ours") == ""
    assert not play.engine.state.nominations
    play.pod_gone("low")
    play.see(make_node("n1", cpu="2"))
    play.wait(60)
    assert play.node_of("ours") == "n1"


def test_a_nomination_to_a_node_that_was_gone_before_the_start_is_cleared(play: Play) -> None:
    """A new leader reads it from the pod and has never seen the node."""
    play.see(make_pod("low", cpu="2", node="n0", priority=50))
    play.see(replace(make_pod("ours", cpu="2", priority=20, preemption_policy="Never"), nominated_node="old"))
    assert [patch.nominated_node for patch in play.patches] == [""]
    assert not play.engine.state.nominations
