"""A gang with a required level takes back a share: one whole domain is freed, the cheapest, if the gang then fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.events import NodeSeen, ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import SliceAsk, TopologyAsk
from moorage.testing import make_node
from tests.queues.teams import GPU, Teams, make_queue, team_pod
from tests.queues.test_reclaiming_gangs import gang

RACKS, NODES, GPUS = 4, 2, 4
LEVELS = ("rack", "kubernetes.io/hostname")


def racks(free: int = 0, fixed: tuple[str, ...] = ()) -> Teams:
    """Four racks of two nodes with four GPUs; pods of queue b use all but some of rack 2; half of it is their share.

    The youngest of them, which give first, are one in each rack in turn; those of `fixed` racks cannot be evicted.
    """
    total = RACKS * NODES * GPUS
    teams = Teams(make_queue("a", total // 2), make_queue("b", total // 2), nodes=())
    teams.play([ObjectSeen(TOPOLOGY, "t", Topology("t", LEVELS))])
    names = [f"r{rack}n{node}" for rack in range(RACKS) for node in range(NODES)]
    nodes = [
        make_node(name, cpu="64", memory="64Gi", labels={"rack": name[:2]}, resources={GPU: GPUS}) for name in names
    ]
    teams.play([NodeSeen(node) for node in nodes])
    pods = [
        team_pod(f"{name}-{gpu}", "b", node=name, created_s=float(gpu), preemptible=name[:2] not in fixed)
        for name in names
        for gpu in range(GPUS)
    ]
    left = [pod for pod in pods if pod.node is None or not pod.node.startswith("r2")]
    teams.see(*left, *[pod for pod in pods if pod not in left][free:])
    return teams


def asking(pods: list[Pod], **ask: object) -> list[Pod]:
    said = TopologyAsk(**ask)  # type: ignore[arg-type]
    return [replace(pod, template=replace(pod.template, topology=said)) for pod in pods]


def places(teams: Teams, prefix: str) -> list[str]:
    found = [record.node for record in teams.engine.state.records() if record.pod.name.startswith(prefix)]
    return sorted(found)


def evicted_racks(teams: Teams) -> list[str]:
    return [pod.name[:2] for pod in teams.evicted]


@pytest.mark.parametrize("size", [6, 8, 4])
def test_one_rack_is_freed_and_nothing_else(size: int) -> None:
    """The order of victims alone would take one pod of each rack in turn."""
    teams = racks()
    teams.see(*asking(gang("g", "a", size), required="rack"))
    assert {place[:2] for place in places(teams, "g-")} == set(evicted_racks(teams))
    assert len(set(evicted_racks(teams))) == 1
    assert (len(places(teams, "g-")), len(teams.evicted)) == (size, size)


def test_the_cheapest_rack_is_freed() -> None:
    """Rack 2 has room for three of eight."""
    teams = racks(free=3)
    teams.see(*asking(gang("g", "a", 8), required="rack"))
    assert {place[:2] for place in places(teams, "g-")} == {"r2"}
    assert evicted_racks(teams) == ["r2"] * 5


def test_racks_whose_pods_may_not_be_taken_are_left_alone() -> None:
    """Only rack 3 can be freed."""
    teams = racks(fixed=("r0", "r1", "r2"))
    teams.see(*asking(gang("g", "a", 8), required="rack"))
    assert {place[:2] for place in places(teams, "g-")} == {"r3"}


@pytest.mark.parametrize(
    ("size", "ask"),
    [
        pytest.param(9, {"required": "rack"}, id="no rack is large enough"),
        pytest.param(6, {"required": "rack", "slices": (SliceAsk("kubernetes.io/hostname", 6),)}, id="no node is"),
        pytest.param(4, {"required": "row"}, id="there is no such level"),
    ],
)
def test_nothing_is_evicted_for_a_gang_that_would_not_fit(size: int, ask: dict[str, object]) -> None:
    """Its share is large enough."""
    teams = racks()
    teams.see(*asking(gang("g", "a", size), **ask))
    assert (places(teams, "g-"), teams.evicted) == ([], [])


def test_members_that_come_later_free_room_in_the_rack_of_the_others() -> None:
    """An elastic gang of four grows by two."""
    teams = racks()
    members = asking(gang("g", "a", 6, least=4), required="rack")
    teams.see(*members[:4])
    home = {place[:2] for place in places(teams, "g-")}
    assert len(home) == 1
    teams.see(*members[4:])
    assert {place[:2] for place in places(teams, "g-")} == home
    assert set(evicted_racks(teams)) == home
    assert (len(places(teams, "g-")), len(teams.evicted)) == (6, 6)


def test_slices_without_a_level_of_their_own_are_freed_too() -> None:
    """Four members on one node, twice, wherever that is."""
    teams = racks()
    teams.see(*asking(gang("g", "a", 8), slices=(SliceAsk("kubernetes.io/hostname", 4),)))
    found = places(teams, "g-")
    assert len(found) == 8
    assert {found.count(place) for place in found} == {4}


def test_pods_are_moved_out_of_one_rack_where_that_is_enough() -> None:
    """Every rack has two GPUs free, so that all pods of one find a place in the others."""
    teams = Teams(make_queue("a", 16), make_queue("b", 16), nodes=())
    teams.play([ObjectSeen(TOPOLOGY, "t", Topology("t", LEVELS))])
    for name in ("r0n0", "r1n0", "r2n0"):
        node = make_node(name, cpu="64", memory="64Gi", labels={"rack": name[:2]}, resources={GPU: GPUS})
        teams.play([NodeSeen(node)])
        teams.see(*(team_pod(f"{name}-{gpu}", "b", node=name, created_s=float(gpu)) for gpu in range(2)))
    teams.see(*asking(gang("g", "a", 4), required="rack"))
    home = {place[:2] for place in places(teams, "g-")}
    assert len(home) == 1
    assert evicted_racks(teams) == [*home] * 2
    teams.come_back()
    assert len(places(teams, "r")) == 6


def test_a_victim_is_not_promised_a_place_outside_of_its_rack() -> None:
    """A gang that needs one rack is no pod that could be moved to two others."""
    teams = Teams(make_queue("a", 8), make_queue("b", 8), nodes=())
    teams.play([ObjectSeen(TOPOLOGY, "t", Topology("t", LEVELS))])
    for name, gpus in (("r0n0", 4), ("r1n0", 2), ("r2n0", 2)):
        labels = FrozenDict({"rack": name[:2]})
        teams.play([NodeSeen(make_node(name, cpu="64", memory="64Gi", labels=labels, resources={GPU: gpus}))])
    teams.see(*asking(gang("v", "b", 4), required="rack"))
    assert places(teams, "v-") == ["r0n0"] * 4
    teams.see(*asking(gang("g", "a", 4), required="rack"))
    assert (places(teams, "g-"), teams.evicted) == ([], [])
