"""HyperNodes: which domains a node is in."""

from __future__ import annotations

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.topology import HYPER_NODE, HyperNode, Levels, NodeMatch, tier_level
from moorage.core.topologytree import hyper_paths
from tests.queues.teams import Teams

LEVELS = Levels((tier_level(2), tier_level(1)), hyper=True)
BY_NAME, BY_PATTERN = NodeMatch(True, name="n0"), NodeMatch(True, pattern="^n")


@pytest.mark.parametrize(
    ("first", "second"), [(BY_NAME, BY_PATTERN), (BY_PATTERN, BY_NAME)], ids=["by name first", "by pattern first"]
)
def test_the_first_one_that_has_a_node_counts(first: NodeMatch, second: NodeMatch) -> None:
    """In the order of tiers, then names, however the node is matched; a HyperNode is in one of a higher tier only."""
    teams = Teams(nodes=(1,))
    for each in (
        HyperNode("b", 1, members=(second,)),
        HyperNode("a", 1, members=(first, NodeMatch(False, name="a"))),
        HyperNode("top", 2, members=(NodeMatch(False, name="a"), NodeMatch(False, pattern="top"))),
    ):
        teams.play([ObjectSeen(HYPER_NODE, each.name, each)])
    state = teams.engine.state
    node = state.node(int(state.rows()[0]))
    assert hyper_paths(state, LEVELS)(node) == ("top", "a")
