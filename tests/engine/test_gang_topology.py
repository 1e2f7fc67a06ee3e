"""Gangs in a topology over time: started, broken, grown, in each other's way, under changing labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.events import ObjectGone
from moorage.core.gangs import COSCHEDULING_KIND, VOLCANO_KIND
from moorage.core.membership import GROUP_LABEL, VOLCANO_ANNOTATIONS
from moorage.core.nodes import Node
from moorage.core.objects import VOLCANO_GROUPS, PodGroup
from moorage.core.pods import Pod
from moorage.core.topology import HYPER_NODE, TOPOLOGY, HyperNode, NodeMatch, Topology
from moorage.core.topologyasks import SliceAsk, SubGroup, TopologyAsk
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.topology_placement import TopologyPlacement
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

LEVELS = ("block", "rack", "kubernetes.io/hostname")
INDEX = "batch.kubernetes.io/job-completion-index"


def node(block: int, rack: int, number: int, cpu: int = 2) -> Node:
    return make_node(f"b{block}r{rack}n{number}", cpu=cpu, labels={"block": f"b{block}", "rack": f"r{rack}"})


def member(rank: int, gang: str = "g", cpu: int = 1, **more: Any) -> Pod:
    labels = {GROUP_LABEL: gang, INDEX: str(rank)}
    return make_pod(f"{gang}-{rank:02}", cpu=cpu, labels=labels, owner=f"job-{gang}", **more)


def group(play: Play, name: str = "g", size: int = 4, subgroups: tuple[SubGroup, ...] = (), **ask: Any) -> None:
    value = PodGroup("default", name, uid=name, min_count=size, topology=TopologyAsk(**ask), subgroups=subgroups)
    play.object_seen(COSCHEDULING_KIND, value.key, value)


@pytest.fixture
def play() -> Play:
    """Give an engine with two blocks of two racks with three nodes each, two cpu a node."""
    play = Play(GangScheduling(), TopologyPlacement(), DefaultPreemption(), NodePorts())
    play.object_seen(TOPOLOGY, "t", Topology("t", LEVELS))
    play.see(*(node(b, r, n) for b in (1, 2) for r in (1, 2) for n in (1, 2, 3)))
    return play


def start(play: Play, *pods: Pod) -> dict[str, str]:
    """The members are seen, bound and running; where they are, nothing if the gang waits."""
    play.see(*pods)
    if not any(patch.token for patch in play.patches):
        return {}
    play.recorded()
    binds = play.binds
    for name in binds:
        play.bound(name)
        play.confirm(name)
    return binds


def rack(place: str) -> str:
    return place[:4]


def test_three_lost_nodes_are_replaced_in_the_rack_and_the_others_stay(play: Play) -> None:
    """All of a rack is used, then three of its nodes go, and three others come."""
    play.see(node(1, 1, 4), node(1, 1, 5), node(1, 1, 6))
    group(play, size=12, required="rack")
    where = start(play, *(member(rank) for rank in range(12)))
    assert {rack(place) for place in where.values()} == {"b1r1"}
    lost = ("b1r1n1", "b1r1n3", "b1r1n6")
    gone = [name for name, place in where.items() if place in lost]
    for name in lost:
        play.node_gone(name)
    for name in gone:
        play.pod_gone(name)
    again = [replace(member(int(name[-2:])), uid=f"default/{name}x", name=f"{name}x", created_s=2000) for name in gone]
    play.see(*again)
    assert play.binds == {}
    assert play.deletions == []
    play.wait(20)
    play.see(node(1, 1, 7), node(1, 1, 8), node(1, 1, 9))
    play.wait(20)
    assert {pod.name: rack(play.node_of(pod.name) or "") for pod in again} == {pod.name: "b1r1" for pod in again}
    assert play.deletions == []


def test_a_lost_slice_member_goes_back_to_its_slice(play: Play) -> None:
    """There is room in the rack of the other slice, too."""
    play.see(node(1, 1, 4), node(1, 2, 4))
    group(play, size=8, required="block", slices=(SliceAsk("rack", 4),))
    where = start(play, *(member(rank) for rank in range(8)))
    racks = [rack(where[f"g-{rank:02}"]) for rank in range(8)]
    assert len(set(racks[:4])) == 1
    assert len(set(racks[4:])) == 1
    play.pod_gone("g-05")
    play.see(replace(member(5), uid="default/again", name="again", created_s=2000))
    assert rack(play.node_of("again") or "") == racks[4]


@pytest.mark.parametrize("bound", [(0, 7), (7,), (3, 4), (0, 5, 6)])
def test_an_interrupted_start_keeps_ranks_in_their_slices(play: Play, bound: tuple[int, ...]) -> None:
    """Some members were bound before a crash; the others go to the racks of their slices, not beside the next rank."""
    group(play, size=8, required="block", slices=(SliceAsk("rack", 4),))
    where = start(play, *(member(rank) for rank in range(8)))
    again = Play(GangScheduling(), TopologyPlacement(), DefaultPreemption(), NodePorts())
    again.object_seen(TOPOLOGY, "t", Topology("t", LEVELS))
    again.see(*(node(b, r, n) for b in (1, 2) for r in (1, 2) for n in (1, 2, 3)))
    group(again, size=8, required="block", slices=(SliceAsk("rack", 4),))
    pods = [member(rank) for rank in range(8)]
    again.see(*(replace(pod, node=where[pod.name]) if rank in bound else pod for rank, pod in enumerate(pods)))
    again.recorded()
    homes = {**{pods[rank].name: where[pods[rank].name] for rank in bound}, **again.binds}
    assert len(homes) == 8
    for number in range(2):
        assert len({rack(homes[pods[rank].name]) for rank in range(4 * number, 4 * number + 4)}) == 1


def test_without_room_in_the_rack_the_gang_moves_as_a_whole_after_a_while(play: Play) -> None:
    """It waits first, and is released only because another rack is known to hold all of it."""
    group(play, size=6, required="rack")
    where = start(play, *(member(rank) for rank in range(6)))
    lost = where["g-00"]
    play.node_gone(lost)
    gone = [name for name, place in where.items() if place == lost]
    for name in gone:
        play.pod_gone(name)
    play.see(*(replace(member(9 + n), created_s=2000) for n, _ in enumerate(gone)))
    assert play.binds == {}
    assert play.deletions == []
    play.wait(100)
    assert play.deletions == []
    play.wait(250)
    assert sorted(play.deletions) == sorted(set(where) - set(gone))


def test_where_nothing_else_holds_it_the_gang_waits_for_ever(play: Play) -> None:
    """The proof fails, so nothing is released."""
    play.see(
        make_pod("a", cpu=2, node="b1r2n1"), make_pod("b", cpu=2, node="b2r1n1"), make_pod("c", cpu=2, node="b2r2n1")
    )
    group(play, size=6, required="rack")
    where = start(play, *(member(rank) for rank in range(6)))
    lost = where["g-00"]
    play.node_gone(lost)
    for name in [name for name, place in where.items() if place == lost]:
        play.pod_gone(name)
    play.see(replace(member(9), created_s=2000))
    for _ in range(4):
        play.wait(300)
        assert play.deletions == []
        assert play.binds == {}


def test_growth_stays_in_the_required_domain(play: Play) -> None:
    """More members than the minimum come later."""
    group(play, size=2, required="rack")
    where = start(play, member(0), member(1))
    play.see(replace(member(2), created_s=2000), replace(member(3), created_s=2000))
    places = {rack(play.node_of(name) or "") for name in ("g-02", "g-03")}
    assert places == {rack(where["g-00"])}


def test_preemption_frees_the_cheapest_domain_and_nothing_else(play: Play) -> None:
    """Every rack is full; one has a single victim that is enough, the others need three."""
    for b, r in ((1, 1), (1, 2), (2, 1)):
        play.see(*(make_pod(f"old-b{b}r{r}n{n}", cpu=2, node=f"b{b}r{r}n{n}") for n in (1, 2, 3)))
    play.see(make_pod("cheap", cpu=2, node="b2r2n2"))
    group(play, size=6, required="rack")
    play.see(*(member(rank, priority=10) for rank in range(6)))
    assert play.deletions == ["cheap"]
    play.pod_gone("cheap")
    play.recorded()
    assert {rack(place) for place in play.binds.values()} == {"b2r2"}


def test_nothing_is_evicted_for_a_gang_that_would_not_fit(play: Play) -> None:
    """No rack holds seven members, however empty."""
    play.see(make_pod("old", cpu=2, node="b1r1n1"))
    group(play, size=7, required="rack")
    play.see(*(member(rank, priority=10) for rank in range(7)))
    assert play.deletions == []
    assert "has room for 6 of 7 pods" in play.note("g-00")


@pytest.mark.parametrize("change", ["deleted", "level added", "relabelled"])
def test_changes_of_the_topology_evict_nothing(play: Play, change: str) -> None:
    """Running gangs stay as they are; new decisions follow."""
    group(play, size=4, required="rack")
    where = start(play, *(member(rank) for rank in range(4)))
    if change == "deleted":
        play.handle(ObjectGone(TOPOLOGY, "t"))
    elif change == "level added":
        play.object_seen(TOPOLOGY, "t", Topology("t", ("zone", *LEVELS)))
    else:
        one = next(iter(where.values()))
        play.see(make_node(one, cpu=2, labels={"block": "b1", "rack": "other"}))
    assert play.deletions == []
    for _ in range(3):
        play.wait(200)
        assert play.deletions == []
    group(play, "h", size=2, required="rack")
    play.see(member(0, "h"), member(1, "h"))
    if change == "relabelled":
        play.recorded()
        assert len(play.binds) == 2
    else:
        assert play.binds == {}
        said = 'no Topology has the level "rack"' if change == "deleted" else "12 node(s) lack a level's label"
        assert said in play.note("h-00")


def test_members_that_refuse_to_share_a_node_are_planned_again(play: Play) -> None:
    """Amounts would let two of them on one node; their port does not."""
    group(play, size=3, required="rack")
    play.see(*(member(rank, ports=[8080]) for rank in range(3)))
    play.recorded()
    assert len(set(play.binds.values())) == 3
    assert len({rack(place) for place in play.binds.values()}) == 1


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        ({"required": "row"}, 'no Topology has the level "row"'),
        ({"required": "x" * 100_000}, f'no Topology has the level "{"x" * 100}'),
        ({"required": "rack", "slices": (SliceAsk("block", 2),)}, 'slices of level "block" lie above'),
        ({"required": "block", "slices": (SliceAsk("rack", None),)}, 'slices of level "rack" have no size'),
        (
            {"required": "block", "slices": (SliceAsk("rack", 4), SliceAsk("kubernetes.io/hostname", 3))},
            "do not divide",
        ),
        ({"required": "rack", "unconstrained": True}, "is unconstrained and asks for rack"),
        ({"required": "rack", "topology": "other"}, 'there is no Topology "other"'),
        ({"mistake": "annotation x: nonsense"}, "annotation x: nonsense"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_value(play: Play, ask: dict[str, Any], want: str) -> None:
    """The gang waits, and its members say why."""
    group(play, size=4, **ask)
    play.see(*(member(rank) for rank in range(4)))
    assert play.binds == {}
    assert want in play.note("g-00")
    assert len(play.note("g-00")) < 1000


@pytest.mark.parametrize(
    ("subgroups", "want"),
    [
        ([("a", "b"), ("b", "a")], "sub-group a is part of itself: a in b in a"),
        ([("a", "a")], "sub-group a is part of itself: a in a"),
        ([("x", "a"), ("a", "b"), ("b", "a")], "sub-group a is part of itself: a in b in a"),
        ([("a", "b"), ("b", "gone")], "sub-group b is part of gone, which does not exist"),
        ([("a", ""), ("a", "")], "there are two sub-groups a"),
    ],
)
def test_sub_groups_that_cannot_be_meant_are_refused(play: Play, subgroups: list[tuple[str, str]], want: str) -> None:
    """Circles, parents that do not exist, and names that stand twice."""
    group(play, size=2, subgroups=tuple(SubGroup(name, parent) for name, parent in subgroups))
    play.see(member(0), member(1))
    assert play.binds == {}
    assert want in play.note("g-00")


def test_two_topologies_with_the_level_have_to_be_told_apart(play: Play) -> None:
    """Their names are in the message; with one of them the gang starts."""
    play.object_seen(TOPOLOGY, "u", Topology("u", ("rack",)))
    group(play, size=2, required="rack")
    play.see(member(0), member(1))
    assert "several Topologies (t, u)" in play.note("g-00")
    group(play, size=2, required="rack", topology="t")
    play.recorded()
    assert len(play.binds) == 2


def test_hyper_nodes_of_volcano_are_levels(play: Play) -> None:
    """Hard up to tier 2: tier 1 holds no three nodes, tier 2 does; the node outside gets nothing."""
    play.handle(ObjectGone(TOPOLOGY, "t"))
    leaves = {"s0": ("b1r1n1", "b1r1n2"), "s1": ("b1r2n1", "b1r2n2"), "s2": ("b2r1n1", "b2r1n2")}
    for name, nodes in leaves.items():
        matches = tuple(NodeMatch(nodes=True, name=each) for each in nodes)
        play.object_seen(HYPER_NODE, name, HyperNode(name, 1, members=matches))
    top = (NodeMatch(nodes=False, name="s0"), NodeMatch(nodes=False, pattern="^s1$"))
    play.object_seen(HYPER_NODE, "top", HyperNode("top", 2, "spine", top))
    ask = TopologyAsk(required="spine", slices=(SliceAsk("volcano.sh/tier-1", 2),))
    value = PodGroup("default", "v", uid="v", api_group=VOLCANO_GROUPS, min_count=6, topology=ask)
    play.object_seen(VOLCANO_KIND, value.key, value)
    note = {VOLCANO_ANNOTATIONS[0]: "v"}
    play.see(*(make_pod(f"v-{rank}", cpu=1, annotations=note, labels={INDEX: str(rank)}) for rank in range(6)))
    play.recorded()
    binds = play.binds
    assert set(binds.values()) <= {*leaves["s0"], *leaves["s1"]}
    assert len(binds) == 6
    per_leaf = [sum(place in nodes for place in binds.values()) for nodes in leaves.values()]
    assert all(count % 2 == 0 for count in per_leaf)


def test_a_plan_is_remembered_with_its_bound(play: Play) -> None:
    """For metrics, until the gang is gone."""
    group(play, size=4, required="rack")
    where = start(play, *(member(rank) for rank in range(4)))
    [(key, plan)] = play.engine.gangs.plans.items()
    assert key.name == "g"
    assert plan.value[:4] == (0, 1, 1, 2)
    assert plan.told == "1 of block, 1 of rack, 2 of kubernetes.io/hostname (optimal)"
    for name in where:
        play.pod_gone(name)
    assert play.engine.gangs.plans == {}


@pytest.mark.parametrize(("size", "want"), [(10, [4, 4, 2]), (9, [4, 4, 1]), (8, [4, 4]), (3, [3])])
def test_the_last_segment_may_be_smaller(play: Play, size: int, want: list[int]) -> None:
    """KAI cuts a role into segments by index; each lies in one rack, whatever is left over, too."""
    group(play, size=size, required="block", slices=(SliceAsk("rack", 4, uneven=True),))
    play.see(*(node(1, 3, n) for n in (1, 2, 3)))
    where = start(play, *(member(rank) for rank in range(size)))
    racks = [rack(where[f"g-{rank:02}"]) for rank in range(size)]
    segments = [racks[first : first + 4] for first in range(0, size, 4)]
    assert [len(each) for each in segments] == want
    assert all(len(set(each)) == 1 for each in segments)


@pytest.mark.parametrize("lost", [1, 8, 9])
def test_a_lost_member_of_any_segment_goes_back_to_it(play: Play, lost: int) -> None:
    """The smaller one at the end, too."""
    group(play, size=11, required="block", slices=(SliceAsk("rack", 4, uneven=True),))
    play.see(*(node(1, 3, n) for n in (1, 2, 3)))
    where = start(play, *(member(rank) for rank in range(11)))
    play.pod_gone(f"g-{lost:02}")
    play.see(replace(member(lost), uid="default/again", name="again", created_s=2000))
    mate = next(rank for rank in range(11) if rank // 4 == lost // 4 and rank != lost)
    assert rack(play.node_of("again") or "") == rack(where[f"g-{mate:02}"])


@pytest.mark.parametrize(
    ("level", "size", "racks_per_slice"),
    [
        pytest.param("kubernetes.io/hostname", 2, 1, id="there is room"),
        pytest.param("kubernetes.io/hostname", 4, 1, id="no node holds four, a rack does"),
        pytest.param("rack", 8, 2, id="no rack holds eight, the block does"),
    ],
)
def test_preferred_segments_fall_back_level_by_level(play: Play, level: str, size: int, racks_per_slice: int) -> None:
    """What is only preferred keeps no gang waiting, and is kept together as far as there is room."""
    group(play, size=8, required="block", slices=(SliceAsk(level, size, soft=True),))
    where = start(play, *(member(rank) for rank in range(8)))
    slices = [{rack(where[f"g-{rank:02}"]) for rank in range(first, first + size)} for first in range(0, 8, size)]
    assert {len(each) for each in slices} == {racks_per_slice}


def test_a_slice_without_a_size_is_one_job_of_a_job_set(play: Play) -> None:
    """Three jobs of two pods: each on one node; a plain Job has no such size, and is refused (above)."""
    group(play, size=6, required="rack", slices=(SliceAsk("kubernetes.io/hostname", None),))
    pods = [
        make_pod(f"g-{job}-{index}", cpu=1, labels={
            GROUP_LABEL: "g", "jobset.sigs.k8s.io/job-index": str(job), INDEX: str(index)})
        for job in range(3) for index in range(2)
    ]  # fmt: skip
    where = start(play, *pods)
    assert len(where) == 6
    for job in range(3):
        assert where[f"g-{job}-0"] == where[f"g-{job}-1"]


def test_ranks_that_begin_later_are_cut_into_slices_from_there(play: Play) -> None:
    """Kueue's annotation says where the indices of a role begin: a lost member of 2 to 5 is no part of 6 to 9."""
    group(play, size=8, required="block", slices=(SliceAsk("rack", 4),))
    offset = {"kueue.x-k8s.io/pod-index-offset": "2"}
    where = start(play, *(member(rank, annotations=offset) for rank in range(2, 10)))
    play.pod_gone("g-05")
    play.see(replace(member(5, annotations=offset), uid="default/again", name="again", created_s=2000))
    assert rack(play.node_of("again") or "") == rack(where["g-02"])
    assert rack(where["g-02"]) != rack(where["g-06"])


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        pytest.param({"required": "volcano.sh/tier-1"}, None, id="no such tier, and none below it"),
        pytest.param({"required": "volcano.sh/tier-2"}, "leaves", id="the tier itself"),
        pytest.param({"required": "volcano.sh/tier-3"}, "leaves", id="no such tier: the next below"),
        pytest.param({"required": "volcano.sh/tier-4"}, "all", id="the widest"),
        pytest.param({"required": "volcano.sh/tier-9"}, "all", id="above all of them: the whole cluster"),
        pytest.param({"preferred": "volcano.sh/tier-1"}, "all", id="as close as possible"),
    ],
)
@pytest.mark.parametrize("size", [4, 6, 10])
def test_a_tier_of_hyper_nodes_that_there_is_none_of(
    play: Play, ask: dict[str, Any], want: str | None, size: int
) -> None:
    """Two leaves of tier 2 below one of tier 4, another outside: hard means at most that tier, soft never waits."""
    play.handle(ObjectGone(TOPOLOGY, "t"))
    leaves = ("b1r1", "b1r2", "b2r1")
    for name in leaves:
        play.object_seen(HYPER_NODE, name, HyperNode(name, 2, members=(NodeMatch(nodes=True, pattern=f"^{name}"),)))
    for top, below in (("top", ("b1r1", "b1r2")), ("other", ("b2r1",))):
        matches = tuple(NodeMatch(nodes=False, name=name) for name in below)
        play.object_seen(HYPER_NODE, top, HyperNode(top, 4, members=matches))
    group(play, size=size, **ask)
    where = start(play, *(member(rank) for rank in range(size)))
    used = {rack(place) for place in where.values()}
    fits = {None: 0, "leaves": 6, "all": 12}[want]
    if size > fits:
        assert where == {}
    else:
        assert len(where) == size
        assert len(used) == -(-size // 6)
        assert used <= {*leaves}


def test_tasks_have_slices_of_their_own(play: Play) -> None:
    """Workers by twos on a node, actors by threes in a rack; a soft tier without HyperNodes means nothing."""
    roles = {"worker": SliceAsk("kubernetes.io/hostname", 2), "actor": SliceAsk("rack", 3)}
    tasks = tuple(SubGroup(name, ask=TopologyAsk(slices=(each,))) for name, each in roles.items())
    soft = SubGroup("extra", ask=TopologyAsk(slices=(SliceAsk("volcano.sh/tier-1", 2, soft=True),)))
    group(play, size=12, subgroups=(*tasks, soft), required="block")
    pods = []
    for rank, role in enumerate(["worker"] * 4 + ["actor"] * 6 + ["extra"] * 2):
        labels = {GROUP_LABEL: "g", INDEX: str(rank), "volcano.sh/task-spec": role}
        pods.append(make_pod(f"{role}-{rank:02}", cpu=1, labels=labels))
    where = start(play, *pods)
    assert len(where) == 12
    assert where["worker-00"] == where["worker-01"]
    assert where["worker-02"] == where["worker-03"]
    assert all(len({rack(where[f"actor-{rank:02}"]) for rank in range(a, a + 3)}) == 1 for a in (4, 7))


@pytest.mark.parametrize("kind", ["preferred", "required"])
def test_soft_constraints_of_volcano_mean_nothing_without_hyper_nodes(play: Play, kind: str) -> None:
    """Hard ones do."""
    ask: dict[str, Any] = {kind: "volcano.sh/tier-1"}
    group(play, size=2, **ask)
    assert len(start(play, member(0), member(1))) == (2 if kind == "preferred" else 0)
