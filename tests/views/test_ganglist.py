"""The list of gangs: who runs, who waits, and in how many domains."""

from __future__ import annotations

from moorage.core.gangs import COSCHEDULING_KIND
from moorage.core.membership import GROUP_LABEL
from moorage.core.objects import PodGroup
from moorage.core.state import ClusterState
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import TopologyAsk
from moorage.testing.builders import make_node, make_pod
from moorage.views.ganglist import GangLine, gang_lines


def test_a_gang_with_its_domains() -> None:
    """Two members run in two racks of one block, one waits; a gang with a mistake says so."""
    state = ClusterState()
    for number, rack in enumerate(("r1", "r2", "r2")):
        state.upsert_node(make_node(f"n{number}", labels={"block": "b", "rack": rack}))
    state.put_object(TOPOLOGY, "t", Topology("t", ("block", "rack")))
    for name, level in (("g", "block"), ("h", "row")):
        group = PodGroup("default", name, min_count=3, topology=TopologyAsk(required=level))
        state.put_object(COSCHEDULING_KIND, group.key, group)
    for number in range(2):
        state.observe_pod(make_pod(f"g-{number}", node=f"n{number}", labels={GROUP_LABEL: "g"}))
    waiting = [make_pod("g-2", labels={GROUP_LABEL: "g"}), make_pod("h-0", labels={GROUP_LABEL: "h"})]
    assert gang_lines(state, waiting) == [
        GangLine("default", "g", 2, 1, 3, (("block", 1), ("rack", 2))),
        GangLine("default", "h", 0, 1, 3, message='no Topology has the level "row"'),
    ]
    assert gang_lines(state, waiting, "other") == []
