"""The chosen row becomes a Bind command."""

from __future__ import annotations

from moorage.core.commands import Bind, PodRef
from moorage.framework.cycle import Cycle
from moorage.plugins.default_binder import DefaultBinder
from moorage.testing import check_plugin, make_node, make_pod, make_state


def test_bind_names_the_pod_beyond_doubt_and_the_node_of_the_row() -> None:
    """Namespace, name and uid of the pod, the name of the node, and how many nodes were looked at and fitted."""
    state = make_state([make_node("n1"), make_node("n2")])
    row = state.row_of("n2")
    assert row is not None
    pod = make_pod("a", namespace="team-a", uid="u-1")
    cycle = Cycle(pod, state, 0.0)
    cycle.feasible = 1
    want_bind = Bind(PodRef("team-a", "a", "u-1"), "n2", evaluated=2, feasible=1)
    assert DefaultBinder().bind(cycle, row) == want_bind


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(DefaultBinder)
