"""Plans that empty nodes or make room: what may move, what must not, the bound, and that the state stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.affinity import SpreadConstraint
from moorage.core.budgets import Budgets
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.objects import PodDisruptionBudget, Workload
from moorage.core.pods import Owner, Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.engine.engine import Engine
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.advice import moves_for
from moorage.engine.repacking.bound import bound
from moorage.engine.repacking.census import take_census
from moorage.engine.repacking.emptying import Emptying, EmptyingAims
from moorage.engine.repacking.plans import EmptyingPlan, RoomPlan
from moorage.engine.repacking.room import RoomMaking, waiting_units
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod

NOW = 10_000.0


def running(name: str, node: str | None, app: str = "web", **fields: Any) -> Pod:
    """A pod of a ReplicaSet, which runs if it has a node."""
    given = {"cpu": "1", "labels": {"app": app}, "owner": app, **fields}
    return make_pod(name, node=node, **given)


def budget(allowed: int, app: str = "web") -> ObjectSeen:
    """A disruption budget that allows so much just now."""
    selector = Selector((Requirement("app", Operator.IN, (app,)),))
    value = PodDisruptionBudget("default", app, selector, allowed)
    return ObjectSeen("PodDisruptionBudget", value.key, value)


def world(nodes: Iterable[Node], pods: Iterable[Pod], *others: Event, plugins: tuple[str, ...] = ()) -> Engine:
    """A cluster on the default profile, with these plugins besides."""
    profile = ProfileConfiguration(multi_point=PluginSet(tuple(map(EnabledPlugin, plugins))))
    engine = Engine(build_profiles(Configuration(profiles=(profile,)), Registry(BUILTIN)), answers_to_all=True)
    engine.handle([*map(NodeSeen, nodes), *others, *map(PodSeen, pods)], NOW, budget=0)
    return engine


def emptying(engine: Engine, **aims: Any) -> EmptyingPlan:
    """The plan; afterwards nothing may have changed."""
    state = engine.state
    before = {record.pod.uid: record.node for record in state.records()}
    budgets = Budgets(state.objects.get("PodDisruptionBudget", {}).values())
    plan = Emptying(Proofs(engine), take_census(state, budgets), NOW, EmptyingAims(**aims)).plan()
    assert {record.pod.uid: record.node for record in state.records()} == before
    assert not state.unschedulable.any()
    check_invariants(state)
    return plan


def room(engine: Engine, most_moves: int = 50) -> RoomPlan | None:
    """The plan for what waits first."""
    state = engine.state
    budgets = Budgets(state.objects.get("PodDisruptionBudget", {}).values())
    making = RoomMaking(engine, Proofs(engine), take_census(state, budgets), NOW, most_moves=most_moves)
    plan = making.plan(next(waiting_units(engine)))
    assert not state.unschedulable.any()
    check_invariants(state)
    return plan


def nodes(number: int, **fields: Any) -> list[Node]:
    """Equal nodes n0, n1, ... with 4 cpus."""
    return [make_node(f"n{i}", **fields) for i in range(number)]


def scattered(number: int, **fields: Any) -> list[Pod]:
    """One pod of 1 cpu on each node."""
    return [running(f"p{i}", f"n{i}", **fields) for i in range(number)]


def test_pods_scattered_over_nodes_are_packed_as_tightly_as_the_bound_allows() -> None:
    """Eight pods that take a quarter of a node each need two nodes: six become empty, with six moves."""
    plan = emptying(world(nodes(8), scattered(8)))
    assert (len(plan.nodes), plan.bound, len(plan.moves), plan.in_use) == (6, 6, 6, 8)
    assert {move.source for move in plan.moves} == {*plan.nodes}
    assert not {move.target for move in plan.moves} & {*plan.nodes}


def test_a_node_that_is_empty_is_not_filled_to_empty_another() -> None:
    """Of three nodes with one pod, and one without, two can be emptied; the empty one stays empty."""
    plan = emptying(world(nodes(4), scattered(3)))
    assert (plan.gained, plan.filled, plan.bound) == (2, (), 2)
    assert "n3" not in {move.target for move in plan.moves}


@pytest.mark.parametrize(
    "fields",
    [
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"owner": None},
        {"owner": Owner("Job", "work", "default/work", "batch/v1")},
    ],
    ids=["safe-to-evict", "do-not-disrupt", "no controller", "pod of a Job"],
)
def test_pods_that_opt_out_or_would_be_lost_stay(fields: dict[str, Any]) -> None:
    """Their nodes are not emptied, and take the pods of the others."""
    plan = emptying(world(nodes(4), [*scattered(3), running("stays", "n3", app="other", **fields)]))
    assert "stays" not in {move.pod.name for move in plan.moves}
    assert "n3" not in plan.nodes
    assert len(plan.nodes) == 3


def test_nodes_that_opt_out_are_not_emptied() -> None:
    """The annotations of Cluster Autoscaler and Karpenter on nodes count."""
    kept = [replace(node, annotations=_notes(i)) for i, node in enumerate(nodes(4))]
    assert {*emptying(world(kept, scattered(4))).nodes} <= {"n2", "n3"}


def _notes(number: int) -> Any:
    keys = {0: "cluster-autoscaler.kubernetes.io/scale-down-disabled", 1: "karpenter.sh/do-not-disrupt"}
    return make_node("x", annotations={keys[number]: "true"} if number in keys else {}).annotations


def test_a_budget_that_allows_nothing_keeps_its_pods_where_they_are() -> None:
    """Pods of `web` must not be disrupted; those of `free` may."""
    pods = [*scattered(3), running("q", "n3", app="free")]
    plan = emptying(world(nodes(4), pods, budget(0)))
    assert [move.pod.name for move in plan.moves] == ["q"]


def test_hard_spread_holds_for_every_move() -> None:
    """Pods that must be on different hosts stay on as many."""
    alike = Selector((Requirement("app", Operator.IN, ("web",)),))
    spread = (SpreadConstraint(1, "kubernetes.io/hostname", True, alike),)
    labelled = [make_node(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(6)]
    apart = [running(f"p{i}", f"n{i}", spread=spread) for i in range(3)]
    others = [running(f"q{i}", f"n{i}", app="free") for i in range(3, 6)]
    plan = emptying(world(labelled, [*apart, *others]))
    at = {f"p{i}": f"n{i}" for i in range(3)} | {move.pod.name: move.target for move in plan.moves}
    assert len({at[f"p{i}"] for i in range(3)}) == 3
    assert len(plan.nodes) == 3


@pytest.mark.parametrize(("replicas", "want"), [(2, {"spot-1"}), (1, {"steady-1"})], ids=["several", "single"])
def test_pods_are_not_moved_off_the_capacity_where_they_belong(replicas: int, want: set[str]) -> None:
    """A node is emptied only to another one of its kind; the keeper would bring the pods back otherwise."""
    kinds = {"spot": "spot", "steady": "on-demand"}
    labelled = [
        make_node(f"{name}-{i}", cpu="4", labels={"node.kubernetes.io/capacity": kind})
        for name, kind in kinds.items()
        for i in (0, 1)
    ]
    home, away = ("spot", "steady") if replicas > 1 else ("steady", "spot")
    full = running("full", f"{home}-0", app="full", cpu="3500m")
    pods = [running("lonely", f"{home}-1"), full, running("other", f"{away}-0", app="other", owner=None)]
    sets = [Workload("ReplicaSet", "default", app, uid=f"default/{app}", replicas=replicas) for app in ("web", "full")]
    events = [ObjectSeen(each.kind, each.key, each) for each in sets]
    engine = world(labelled, pods, *events, plugins=("SpotPlacement",))
    plan = emptying(engine)
    assert {move.source for move in plan.moves} & want == set()


def test_a_plan_that_gains_too_little_has_no_moves() -> None:
    """One of four nodes can be emptied: a quarter."""
    full = [running(f"big{i}", f"n{i}", cpu="3") for i in range(3)]
    engine = world(nodes(4), [*full, running("small", "n3")])
    assert len(emptying(engine, least_gain=0.25).nodes) == 1
    plan = emptying(engine, least_gain=0.3)
    assert (plan.nodes, plan.moves, plan.bound) == ((), (), 1)


def test_a_plan_empties_no_more_nodes_than_it_may() -> None:
    """The nodes with the fewest moves are emptied."""
    plan = emptying(world(nodes(8), scattered(8)), most_nodes=2)
    assert (len(plan.nodes), len(plan.moves)) == (2, 2)


def test_the_search_ends_at_its_limit() -> None:
    """Whatever it found until then is proven, or nothing."""
    plan = emptying(world(nodes(8), scattered(8)), most_steps=3)
    assert plan.steps <= 3
    assert not plan.finished


def test_the_bound_counts_every_resource() -> None:
    """Of cpu four nodes could be emptied, of memory only two."""
    pods = [running(f"p{i}", f"n{i}", cpu="500m", memory="8Gi") for i in range(6)]
    engine = world(nodes(6), pods)
    found = bound(engine.state, take_census(engine.state, Budgets()))
    assert found.most == 3
    assert len(emptying(engine).nodes) == 3


def test_a_pod_that_fits_nowhere_gets_room_by_one_move() -> None:
    """Every node has 3 of 4 cpus left; a pod of 4 cpus needs one to be empty."""
    engine = world(nodes(3), [*scattered(3), running("wide", None, app="wide", cpu="4")])
    plan = room(engine)
    assert plan is not None
    assert len(plan.moves) == 1
    assert plan.nodes == (plan.moves[0].source,) == tuple(plan.places.values())


def test_no_pod_is_moved_for_one_that_is_less_important() -> None:
    """The pods that stand have a higher priority."""
    pods = [running(f"p{i}", f"n{i}", priority=100) for i in range(3)]
    assert room(world(nodes(3), [*pods, running("wide", None, app="wide", cpu="4")])) is None


def test_moves_that_would_leave_a_pod_without_a_place_are_not_planned() -> None:
    """There is room for the waiting pod, or for those that stand there, but not for both."""
    pods = [running(f"p{i}", f"n{i}", cpu="3") for i in range(3)]
    assert room(world(nodes(3), [*pods, running("wide", None, app="wide", cpu="4")])) is None


def test_a_gang_of_whole_nodes_gets_room_by_moves_only() -> None:
    """Eight members want a node each; sixteen nodes have a pod each that can go together with others."""
    terms = {"pod-group": "train", "moorage.dev/pod-group-min-available": "8"}
    gang = [make_pod(f"g{i}", cpu="4", annotations=terms, owner="crew") for i in range(8)]
    engine = world(nodes(12), [*scattered(12), *gang])
    plan = room(engine)
    assert plan is not None
    assert len(plan.moves) == 8
    assert len({*plan.places.values()}) == 8
    assert not {move.target for move in plan.moves} & {*plan.nodes}


def test_a_plan_moves_no_more_pods_than_it_may() -> None:
    """Two pods would have to move."""
    pods = [running(f"p{i}", f"n{i // 2}") for i in range(4)]
    engine = world(nodes(2), [*pods, running("wide", None, app="wide", cpu="4")])
    assert room(engine, most_moves=1) is None
    found = room(engine)
    assert found is not None
    assert len(found.moves) == 2


def test_an_explanation_has_the_moves_for_one_pod_and_for_its_whole_gang() -> None:
    """A pod in the middle of the queue, a member of a gang, and a pod that no move helps."""
    terms = {"pod-group": "train", "moorage.dev/pod-group-min-available": "3"}
    gang = [make_pod(f"g{i}", cpu="4", annotations=terms, owner="crew") for i in range(3)]
    alone, huge = running("wide", None, app="wide", cpu="4"), running("huge", None, app="huge", cpu="64", priority=9)
    engine = world(nodes(6), [*scattered(6), *gang, alone, huge])
    (move,) = moves_for(engine, alone, NOW)
    assert move.text == f"default/{move.pod.name} from {move.source} to {move.target}"
    assert len(moves_for(engine, gang[1], NOW)) == 3
    assert moves_for(engine, huge, NOW) == ()
    assert moves_for(engine, running("unknown", None), NOW) == ()
    assert moves_for(engine, alone, NOW, [budget(0).value]) == ()
    check_invariants(engine.state)
