"""Running gangs in a topology that lose nodes, grow and shrink: what stands stays, and what comes goes beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import SliceAsk
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.topology_placement import TopologyPlacement
from tests.engine.play import Play
from tests.engine.test_gang_topology import LEVELS, group, member, node, rack, start

HOST = "kubernetes.io/hostname"
LAYERS = (SliceAsk("rack", 4), SliceAsk(HOST, 2))


@pytest.fixture
def play() -> Play:
    """Give an engine with two blocks of three racks with three nodes each, two cpu a node."""
    play = Play(GangScheduling(), TopologyPlacement(), DefaultPreemption())
    play.object_seen(TOPOLOGY, "t", Topology("t", LEVELS))
    play.see(*(node(b, r, n) for b in (1, 2) for r in (1, 2, 3) for n in (1, 2, 3)))
    return play


def lose(play: Play, where: dict[str, str], *lost: str) -> dict[str, str]:
    """Nodes go with the members on them; where the members are that come for them."""
    gone = sorted(name for name, place in where.items() if place in lost)
    for name in lost:
        play.node_gone(name)
    for name in gone:
        play.pod_gone(name)
    again = [replace(member(int(name[-2:])), uid=f"default/{name}x", name=f"{name}x", created_s=2000) for name in gone]
    play.see(*again)
    return {name: play.node_of(f"{name}x") or "" for name in gone}


def slice_homes(homes: dict[str, str], size: int) -> list[set[str]]:
    ranks = [homes[f"g-{rank:02}"] for rank in range(len(homes))]
    return [set(ranks[first : first + size]) for first in range(0, len(ranks), size)]


def test_a_node_with_an_inner_slice_is_replaced_in_the_rack_of_the_outer_one(play: Play) -> None:
    """Two layers: four per rack, two per node; the third node of the rack takes both members of the lost one."""
    group(play, size=8, required="block", slices=LAYERS)
    where = start(play, *(member(rank) for rank in range(8)))
    again = lose(play, where, where["g-04"])
    assert sorted(again) == ["g-04", "g-05"]
    homes = {**where, **again}
    assert all(len(places) == 1 for places in slice_homes(homes, 2))
    assert all(len({rack(place) for place in places}) == 1 for places in slice_homes(homes, 4))
    assert play.deletions == []


def test_one_lost_member_of_an_inner_slice_goes_back_to_its_node(play: Play) -> None:
    """The innermost layer that broke decides, though the rack has a free node."""
    group(play, size=8, required="block", slices=LAYERS)
    where = start(play, *(member(rank) for rank in range(8)))
    play.pod_gone("g-05")
    play.see(replace(member(5), uid="default/again", name="again", created_s=2000))
    assert play.node_of("again") == where["g-04"]


def test_three_nodes_of_three_slices_are_lost_at_once(play: Play) -> None:
    """Each member goes back to the rack of its slice, and the others are not touched."""
    group(play, size=12, required="block", slices=(SliceAsk("rack", 4),))
    where = start(play, *(member(rank) for rank in range(12)))
    lost = sorted({where["g-00"], where["g-06"], where["g-08"]})
    assert len({rack(place) for place in lost}) == 3
    again = lose(play, where, *lost)
    assert {name: rack(place) for name, place in again.items()} == {name: rack(where[name]) for name in again}
    assert not set(again.values()) & set(lost)
    assert play.deletions == []


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        pytest.param({"required": "rack"}, [6, 0], id="required: no more than its rack holds"),
        pytest.param({"preferred": "rack"}, [6, 2], id="preferred: its rack first, then the same block"),
        pytest.param({"required": "block", "preferred": "rack"}, [6, 2], id="both"),
    ],
)
def test_growth_fills_the_rack_and_goes_on_as_far_as_it_may(play: Play, ask: dict[str, Any], want: list[int]) -> None:
    """A gang of four grows to eight; its rack has room for six."""
    group(play, size=4, **ask)
    where = start(play, *(member(rank) for rank in range(4)))
    home = rack(where["g-00"])
    for rank in range(4, 8):
        play.see(replace(member(rank), created_s=2000))
    places = [place for rank in range(8) if (place := play.node_of(f"g-{rank:02}")) is not None]
    assert [sum(rack(place) == home for place in places), sum(rack(place) != home for place in places)] == want
    assert {place[:2] for place in places} == {home[:2]}
    assert play.deletions == []


@pytest.mark.parametrize("ask", [{"required": "rack"}, {"preferred": "rack"}])
def test_shrinking_moves_nothing_and_what_comes_again_goes_beside_the_rest(play: Play, ask: dict[str, Any]) -> None:
    """The last two go and come back."""
    group(play, size=2, **ask)
    where = start(play, *(member(rank) for rank in range(2)))
    for rank in (2, 3):
        play.see(replace(member(rank), created_s=2000))
    for name in ("g-03", "g-02"):
        play.pod_gone(name)
    play.wait(600)
    assert (play.binds, play.deletions) == ({}, [])
    play.see(replace(member(2), uid="default/again", name="again", created_s=3000))
    assert rack(play.node_of("again") or "") == rack(where["g-00"])


def test_relabelled_under_a_running_gang_new_members_follow_the_labels(play: Play) -> None:
    """Half of the gang is in another rack by name now: nothing moves, and what comes may go to either."""
    group(play, size=4, required="rack")
    where = start(play, *(member(rank) for rank in range(4)))
    moved = where["g-00"]
    play.see(replace(node(1, 3, 9), name=moved))
    play.wait(400)
    assert play.deletions == []
    play.see(replace(member(4), created_s=2000))
    assert (play.node_of("g-04") or "")[:2] == moved[:2]
    assert play.deletions == []
