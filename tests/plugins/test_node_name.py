"""A pod that names its node is judged on that node alone."""

from __future__ import annotations

from moorage.framework.cycle import Cycle
from moorage.plugins.node_name import NodeName
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask, filter_reasons

REASON = "node(s) didn't match the requested node name"


def test_a_pod_without_a_node_skips_the_plugin() -> None:
    """Nothing is named, nothing is asked."""
    answer = ask(NodeName(), make_state([make_node("n1")]), make_pod("a"))
    assert answer.filter_skipped


def test_only_the_named_node_is_looked_at() -> None:
    """PreFilter narrows to it, Filter rejects the others for good."""
    state = make_state([make_node("n1"), make_node("n2")])
    pod = make_pod("a", node="n2")
    assert ask(NodeName(), state, pod).only == frozenset({"n2"})
    reasons = filter_reasons(NodeName(), Cycle(pod, state, 0.0), state.rows())
    assert reasons == {"n1": ((REASON, False),), "n2": ()}


def test_a_node_that_does_not_exist_rejects_all() -> None:
    """No row has that name."""
    state = make_state([make_node("n1")])
    assert filter_reasons(NodeName(), Cycle(make_pod("a", node="gone"), state, 0.0), state.rows())["n1"]


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(NodeName)
