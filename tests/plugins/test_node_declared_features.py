"""Pods go only to nodes that declare the features they need."""

from __future__ import annotations

import pytest

from moorage.framework.changes import Change, What
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

REASON = ("node(s) didn't match Pod's required features", False)


@pytest.mark.parametrize(
    ("wanted", "declared", "want_fit"),
    [
        pytest.param(("A",), ("A", "B"), True, id="declared"),
        pytest.param(("A", "B"), ("A",), False, id="one of two"),
        pytest.param(("A",), (), False, id="none"),
    ],
)
def test_filter(wanted: tuple[str, ...], declared: tuple[str, ...], want_fit: bool) -> None:
    """All features must be there; removing pods does not help."""
    node = make_node("n", features=declared)
    pod = make_pod("p", features=wanted)
    answer = ask(NodeDeclaredFeatures(), make_state([node]), pod)
    assert answer.reasons == {"n": () if want_fit else (REASON,)}
    assert NodeDeclaredFeatures().helps(pod.template, Change(What.NODE_OTHER, node=node)) is want_fit


def test_a_pod_that_needs_nothing_skips_the_plugin() -> None:
    """Most pods."""
    assert ask(NodeDeclaredFeatures(), make_state([make_node("n")]), make_pod("p")).filter_skipped


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(NodeDeclaredFeatures)
