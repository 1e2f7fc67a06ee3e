"""Pods that stand on the wrong capacity return to the right one, and those on the right one are removed last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.capacity import Capacity
from moorage.core.commands import EvictPod, PatchObject, RecordEvent
from moorage.core.disruption.ledger import DO_NOT_DISRUPT
from moorage.core.events import ObjectSeen
from moorage.core.objects import DEPLOYMENT, REPLICA_SET, Workload
from moorage.core.pods import Owner, Pod
from moorage.engine.keeping.deletion_costs import COST
from moorage.engine.keeping.removal import ABOVE, capacity_levels
from moorage.plugins.spot_placement import SpotPlacementArgs
from tests.engine.keeping import Shore, budget, member, on_demand, replica_set, spot

LONG_S, GUARD_S = 60.0, 30.0


def shore_with(*pods: Pod, replicas: int, rule: SpotPlacementArgs | None = None, **settings: Any) -> Shore:
    """One workload on a spot and an on-demand node with room for all."""
    shore = Shore(rule=rule, return_after_s=LONG_S, move_again_after_s=GUARD_S, **settings)
    shore.see(spot("s1", cpu="16"), on_demand("d1", cpu="16"))
    shore.tell(replica_set(replicas), budget(1))
    shore.see(*pods)
    return shore


def reasons(shore: Shore) -> list[str]:
    return [event.reason for event in shore.of(RecordEvent)]


# --- returning ---


def test_replicas_on_on_demand_nodes_return_to_spot_whatever_brought_them_there() -> None:
    """One after the other, once the rule has been the same for `returnAfter`; the ones on spot stay."""
    shore = shore_with(member("a", "s1"), member("b", "d1"), member("c", "d1"), replicas=3)
    shore.wait(LONG_S - 5)
    assert shore.evicted == []
    shore.wait(10)
    (moved,) = shore.of(EvictPod)
    assert (moved.pod.name in ("b", "c"), moved.cause, moved.place) == (True, "return", "s1")
    assert reasons(shore) == ["SpotReturn"]
    shore.move(moved.pod.name, "s1")
    shore.wait(GUARD_S)
    assert len(shore.evicted) == 1
    shore.move(shore.evicted[0], "s1")
    shore.ordered.clear()
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


def test_a_rule_that_changes_starts_the_clock_anew() -> None:
    """An autoscaler that goes up and down moves nobody."""
    shore = shore_with(member("a", "s1"), replicas=1, move_singles=True)
    for _ in range(4):
        shore.wait(LONG_S - 5)
        shore.tell(replica_set(2))
        shore.see(member("b", "s1"))
        shore.wait(LONG_S - 5)
        shore.see(replace(shore.pods["default/b"], deleted_s=shore.now))
        shore.tell(replica_set(1))
    assert shore.evicted == []


@pytest.mark.parametrize("allowed", [False, True])
def test_the_only_replica_is_moved_where_that_is_allowed(allowed: bool) -> None:
    """Single, then four, then a rollout, then one again: what is left stands on spot."""
    shore = shore_with(*(member(name, "s1") for name in "abcd"), replicas=4, move_singles=allowed)
    shore.wait(2 * LONG_S)
    assert shore.evicted == []
    shore.tell(replica_set(1))
    shore.see(*(replace(shore.pods[f"default/{name}"], deleted_s=shore.now) for name in "bcd"))
    shore.wait(LONG_S + 5)
    assert shore.places == ({"a": "d1"} if allowed else {})
    assert reasons(shore) == (["OnDemandReturn"] if allowed else [])


def test_a_base_that_nobody_holds_is_filled() -> None:
    """As after a rollout during which the old revision held it; the others stay on spot."""
    rule = SpotPlacementArgs(keep_on_demand=1)
    shore = shore_with(*(member(name, "s1") for name in "abc"), replicas=3, rule=rule)
    shore.wait(LONG_S + 5)
    assert list(shore.places.values()) == ["d1"]
    shore.move(shore.evicted[0], "d1")
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda shore: shore.see(replace(shore.nodes["s1"], ready=False)), id="no ready node"),
        pytest.param(lambda shore: shore.see(replace(shore.nodes["s1"], unschedulable=True)), id="cordoned"),
        pytest.param(lambda shore: shore.see(member("full", "s1", "x", cpu="15")), id="no room"),
        pytest.param(lambda shore: shore.tell(budget(0)), id="a budget"),
        pytest.param(lambda shore: shore.tell(replica_set(3)), id="a pod is to come"),
        pytest.param(lambda shore: shore.tell(replica_set(1)), id="a pod is to go"),
        pytest.param(lambda shore: shore.see(member("b", "d1", annotations={DO_NOT_DISRUPT: "true"})), id="opted out"),
        pytest.param(lambda shore: shore.see(member("b", "d1", created_s=shore.now + 40)), id="young"),
        pytest.param(lambda shore: shore.see(replace(shore.pods["default/b"], phase="Pending")), id="starting"),
    ],
)
def test_what_keeps_a_pod_where_it_is(change: Any) -> None:
    """As for every move that is not urgent."""
    shore = shore_with(member("a", "s1"), member("b", "d1"), replicas=2)
    change(shore)
    shore.wait(LONG_S + GUARD_S - 25)
    assert shore.evicted == []


def test_no_pods_return_where_none_may() -> None:
    """`returnsAtOnce: 0` turns it off."""
    shore = shore_with(member("a", "s1"), member("b", "d1"), replicas=2, returns_at_once=0)
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


def test_bare_pods_stay() -> None:
    """Nobody would make them again."""
    shore = shore_with(member("a", "s1", owner=None), replicas=1, move_singles=True)
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


def test_returns_are_bounded() -> None:
    """At most `returnsAtOnce`, and one of each workload."""
    shore = shore_with(replicas=2)
    for number in range(5):
        shore.tell(replica_set(2, f"x{number}"))
        shore.see(*(member(f"x{number}-{index}", "d1", f"x{number}") for index in range(2)))
    shore.wait(LONG_S + 5)
    assert len(shore.evicted) == 2
    assert len({name.partition("-")[0] for name in shore.evicted}) == 2


def test_a_workload_whose_pods_go_elsewhere_is_left_alone() -> None:
    """Its scheduler may not know the rule: no pod is evicted again and again."""
    shore = shore_with(member("a", "d1"), member("b", "d1"), replicas=2)
    shore.wait(LONG_S + 5)
    shore.move(shore.evicted[0], "d1")
    shore.tell()
    assert reasons(shore) == ["SpotReturn", "ReturnMissed"]
    assert shore.wait(2 * GUARD_S - 5) == []
    shore.wait(10)
    assert len(shore.evicted) == 1
    shore.move(shore.evicted[0], "d1")
    shore.ordered.clear()
    assert [each for each in shore.wait(4 * GUARD_S - 5) if isinstance(each, EvictPod)] == []


def revision_of(name: str, number: int, node: str, **fields: Any) -> Pod:
    """A pod of a ReplicaSet of the Deployment `web`."""
    owner = Owner(REPLICA_SET, f"web-{name}", f"default/web-{name}", "apps/v1")
    labels = {"app": "web", "pod-template-hash": name}
    return member(f"web-{name}-{number}", node, labels=labels, owner=owner, **fields)


def deployed(size: int, **replicas: int) -> list[ObjectSeen]:
    """The Deployment `web` and its ReplicaSets."""
    top = Workload(DEPLOYMENT, "default", "web", uid="default/web", replicas=size)
    owner = Owner(DEPLOYMENT, "web", "default/web", "apps/v1")
    sets = [
        Workload(REPLICA_SET, "default", f"web-{name}", uid=f"default/web-{name}", replicas=number, owner=owner)
        for name, number in replicas.items()
    ]
    return [ObjectSeen(each.kind, each.key, each) for each in (top, *sets)]


def test_nothing_returns_during_a_rollout_and_the_rule_is_that_of_the_deployment() -> None:
    """A new revision does not start the clock anew."""
    shore = Shore(return_after_s=LONG_S, move_again_after_s=GUARD_S)
    shore.see(spot("s1", cpu="16"), on_demand("d1", cpu="16"))
    shore.tell(*deployed(2, old=2), budget(1))
    shore.see(*(revision_of("old", number, "s1") for number in range(2)))
    shore.wait(LONG_S)
    shore.tell(*deployed(2, old=1, new=1))
    shore.see(replace(shore.pods["default/web-old-0"], deleted_s=shore.now))
    shore.see(revision_of("new", 0, "d1", created_s=shore.now))
    assert shore.wait(2 * LONG_S) == []
    shore.tell(*deployed(2, old=0, new=2))
    shore.see(replace(shore.pods["default/web-old-1"], deleted_s=shore.now))
    shore.see(revision_of("new", 1, "s1", created_s=shore.now))
    shore.wait(5)
    assert shore.places == {"web-new-0": "s1"}


# --- the order of removal ---

LEVELS: dict[str, tuple[str, str, int | None, list[int]]] = {
    "all on spot": ("sss", "   ", 1, [0, 0, 0]),
    "all on on-demand": ("ooo", "   ", 0, [0, 0, 0]),
    "one on on-demand": ("sos", "   ", 1, [0, 1, 0]),
    "more than are kept": ("oso", "   ", 1, [1, 0, -1]),
    "marks stay": ("oso", "  x", 1, [-1, 0, 1]),
    "none are kept": ("so?", "   ", 0, [0, -1, 0]),
    "all belong there": ("oso?", "    ", None, [1, 0, 1, 0]),
}
KINDS = {"s": Capacity.SPOT, "o": Capacity.ON_DEMAND, "?": Capacity.UNKNOWN}


@pytest.mark.parametrize(("kinds", "marked", "kept", "want"), LEVELS.values(), ids=LEVELS.keys())
def test_which_remain_longest(kinds: str, marked: str, kept: int | None, want: list[int]) -> None:
    """Those that are kept on on-demand nodes; first go those that are there without need."""
    pods = [(KINDS[kind], mark == "x") for kind, mark in zip(kinds, marked, strict=True)]
    assert capacity_levels(pods, kept) == want


def costs(shore: Shore) -> dict[str, str | None]:
    """What was written on the pods."""
    found = {each.name: each.patch["metadata"]["annotations"] for each in shore.of(PatchObject)}
    return {name: said[COST] for name, said in found.items() if COST in said}


def test_the_pod_on_an_on_demand_node_remains_when_the_workload_is_scaled_down_to_one() -> None:
    """It was there before the others came, and belongs there again; nothing else is written, nothing twice."""
    shore = shore_with(member("a", "d1"), *(member(name, "s1") for name in "bcd"), replicas=4)
    assert costs(shore) == {"a": str(ABOVE)}
    shore.write()
    shore.ordered.clear()
    shore.wait(30)
    assert costs(shore) == {}


def test_a_pod_that_is_on_on_demand_without_need_goes_first() -> None:
    """A workload that says it can always be lost needs none there."""
    rule = SpotPlacementArgs(replica_class_label="class")
    labels = {"app": "web", "class": "multiple"}
    pods = (member("a", "d1", labels=labels), member("b", "s1", labels=labels))
    assert costs(shore_with(*pods, replicas=2, rule=rule)) == {"a": str(-ABOVE)}


def test_costs_that_others_wrote_are_left_alone() -> None:
    """Except on the pods that the rule is about."""
    theirs = {COST: "7"}
    shore = shore_with(member("a", "d1"), member("b", "s1", annotations=theirs), member("c", "s1"), replicas=3)
    assert costs(shore) == {"a": str(ABOVE)}
