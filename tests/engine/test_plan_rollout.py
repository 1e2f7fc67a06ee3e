"""A running gang of a planned profile when its Deployment is rolled out or scaled, and other units want its nodes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.objects import DEPLOYMENT, REPLICA_SET, Workload
from moorage.core.pods import Owner, Pod
from moorage.testing.builders import make_node, make_pod
from tests.engine.plan_histories import SCHEDULER, make_engine
from tests.engine.world import Habits, Unit, World

QUIET_S = 12.0
LABEL = "pod-template-hash"


class Stage:
    """A cluster with controllers; the gang `g` of a Deployment runs on it."""

    def __init__(self, nodes: int, size: int = 3) -> None:
        self.world = World(make_engine, Random(5), Habits())
        for number in range(nodes):
            self.world.put_node(make_node(f"n{number}", labels={"disk": "ssd" if number == 0 else "hdd"}))
        self.size = 0
        self.gang = Unit("g", {"g-old": 0, "g-new": 0}, self._member, size)
        self.world.units["g"] = self.gang
        self.want(size, {"g-old": size})
        self.settle()

    def _member(self, pod: str, owner: str, created_s: float) -> Pod:
        about = {"pod-group": "g", "priority": "50"}
        return make_pod(pod, owner=owner, created_s=created_s, annotations=about, scheduler_name=SCHEDULER)

    def want(self, replicas: int, sets: dict[str, int]) -> None:
        """The Deployment wants so many replicas, and has made its ReplicaSets want these."""
        self.size = replicas
        self.world.put_object(DEPLOYMENT, "default/g", Workload(DEPLOYMENT, "default", "g", replicas=replicas))
        for name, wanted in sets.items():
            made = Workload(
                REPLICA_SET,
                "default",
                name,
                replicas=wanted,
                owner=Owner("Deployment", "g", "d"),
                template_annotations=FrozenDict({"pod-group": "g"}),
            )
            self.world.put_object(REPLICA_SET, f"default/{name}", made)
            self.world.scale(self.gang, name, wanted)

    def add(self, name: str, priority: int, **about: object) -> None:
        """A Deployment of one."""

        def make(pod: str, owner: str, created_s: float) -> Pod:
            said = {"priority": str(priority)}
            return make_pod(pod, owner=owner, created_s=created_s, annotations=said, scheduler_name=SCHEDULER, **about)  # type: ignore[arg-type]

        self.world.units[name] = Unit(name, {name: 1}, make)

    def settle(self) -> None:
        self.world.settle(QUIET_S)
        self.world.now += 60.0

    def standing(self, unit: str = "g") -> list[str]:
        """The controllers of the pods of a unit that have a node."""
        return sorted(pod.template.owner.name for pod in self.world.standing(unit) if pod.template.owner is not None)

    def evicted(self) -> list[str]:
        return [order.pod.name for order in self.world.deletions]

    def message(self, owner: str) -> str:
        [entry] = [each for each in self.world.engine.queue.entries() if each.pod.name.startswith(owner)]
        return entry.message

    def roll(self, surge: int, unavailable: int) -> None:
        """What the Deployment's controller does, until it is done or can do nothing."""
        for _ in range(4 * self.size):
            old, new = self.gang.owners["g-old"], self.gang.owners["g-new"]
            standing = self.standing()
            if (old, standing) == (0, ["g-new"] * self.size):
                return
            if old and len(standing) - ("g-old" in standing) >= self.size - unavailable:
                old -= 1
            elif new < self.size and old + new < self.size + surge:
                new += 1
            else:
                return
            self.want(self.size, {"g-old": old, "g-new": new})
            self.settle()


STRATEGIES = {
    "surge on exactly full nodes": (3, 1, 0, ["g-old"] * 3),
    "surge beside a free node": (4, 1, 0, ["g-new"] * 3),
    "one by one on exactly full nodes": (3, 0, 1, ["g-new"] * 3),
    "both": (3, 1, 1, ["g-new"] * 3),
}


@pytest.mark.parametrize(("nodes", "surge", "unavailable", "want"), STRATEGIES.values(), ids=STRATEGIES.keys())
@pytest.mark.parametrize("beside", [None, "high", "equal", "low"])
def test_a_rollout_evicts_nobody_of_the_gang(
    nodes: int, surge: int, unavailable: int, want: list[str], beside: str | None
) -> None:
    """It ends if there is a node for the surge, or none is wanted; otherwise the gang runs as before."""
    stage = Stage(nodes + (beside == "high"))
    if beside is not None:
        stage.add(beside, {"high": 100, "equal": 50, "low": 1}[beside])
        stage.settle()
    if nodes == 4 and beside == "equal":
        want = ["g-old"] * 3  # it has the free node
    stage.world.deletions.clear()
    stage.roll(surge, unavailable)
    assert stage.standing() == want
    assert not [name for name in stage.evicted() if not name.startswith("low")]


def test_the_surge_says_what_it_needs() -> None:
    stage = Stage(3)
    stage.roll(1, 0)
    assert "Pod group default/g runs with 3 members" in stage.message("g-new")
    assert "a rollout needs a free node or maxSurge 0" in stage.message("g-new")


def test_a_gang_that_grows_beside_a_higher_pod_stays() -> None:
    """What it is to grow by waits; a lower pod does not get the gang's nodes, and goes for the new member."""
    stage = Stage(5)
    stage.add("high", 100)
    stage.add("low", 10)
    stage.settle()
    stage.world.deletions.clear()
    stage.want(4, {"g-old": 4})
    stage.settle()
    assert (len(stage.standing()), stage.standing("low"), stage.standing("high")) == (4, [], ["high"])
    stage.want(5, {"g-old": 5})
    stage.settle()
    assert (len(stage.standing()), stage.standing("high")) == (4, ["high"])
    assert {name.split("-")[0] for name in stage.evicted()} == {"low"}


def test_a_gang_that_shrinks_leaves_its_node_to_others() -> None:
    stage = Stage(3)
    stage.add("low", 10)
    stage.settle()
    stage.want(2, {"g-old": 2})
    stage.settle()
    assert (stage.standing(), stage.standing("low"), stage.evicted()) == (["g-old"] * 2, ["low"], [])


def test_a_gang_that_is_recreated_starts_as_a_whole() -> None:
    """All old pods go before the first new one comes; a lower pod has the nodes meanwhile."""
    stage = Stage(3)
    stage.add("low", 10)
    stage.want(3, {"g-old": 0})
    stage.settle()
    assert stage.standing("low") == ["low"]
    stage.want(3, {"g-new": 3})
    stage.settle()
    assert (stage.standing(), stage.standing("low")) == (["g-new"] * 3, [])


def lose_node(stage: Stage) -> None:
    stage.world.drop_node("n2")


def cordon_all(stage: Stage) -> None:
    for name in list(stage.world.nodes):
        stage.world.put_node(make_node(name, labels=dict(stage.world.nodes[name].labels), unschedulable=True))


@pytest.mark.parametrize(("happens", "left"), [(lose_node, 2), (cordon_all, 3)], ids=["a node is lost", "cordoned"])
def test_a_gang_goes_on_without_a_node_that_nobody_took(happens: Callable[[Stage], None], left: int) -> None:
    """Nothing more important has its node; when there is one again, it is complete."""
    stage = Stage(3)
    happens(stage)
    stage.settle()
    assert (len(stage.standing()), stage.evicted()) == (left, [])
    stage.world.put_node(make_node("n9"))
    stage.settle()
    assert (len(stage.standing()), stage.evicted()) == (3, [])


def test_a_leader_that_finds_a_rollout_evicts_nobody() -> None:
    stage = Stage(3)
    stage.roll(1, 0)
    stage.world.restart()
    stage.settle()
    assert (stage.standing(), stage.evicted()) == (["g-old"] * 3, [])


def test_a_gang_of_which_one_node_is_wanted_goes_whole_or_moves_one_member() -> None:
    """A more important pod needs the only ssd, which a member has: that member moves if another node is free."""
    stage = Stage(4)
    assert "n0" in {pod.node for pod in stage.world.standing("g")}
    stage.add("high", 100, node_selector={"disk": "ssd"})
    stage.settle()
    assert (len(stage.standing()), stage.standing("high"), len(stage.evicted())) == (3, ["high"], 1)


def test_a_gang_without_another_node_goes_whole() -> None:
    stage = Stage(3)
    stage.add("high", 100, node_selector={"disk": "ssd"})
    stage.settle()
    assert (stage.standing(), stage.standing("high"), len(stage.evicted())) == ([], ["high"], 3)


def test_what_loses_the_node_that_another_needs_gets_a_free_one() -> None:
    """A pod of low priority has the only ssd, and two other nodes are free."""
    stage = Stage(3, size=1)
    stage.world.units.clear()
    for pod in list(stage.world.pods.values()):
        stage.world.delete_pod(pod.uid)
    stage.add("low", 1, node_selector={})
    for name in ("n1", "n2"):
        stage.world.put_node(make_node(name, unschedulable=True))
    stage.settle()
    assert [pod.node for pod in stage.world.standing("low")] == ["n0"]
    for name in ("n1", "n2"):
        stage.world.put_node(make_node(name))
    stage.add("high", 100, node_selector={"disk": "ssd"})
    stage.settle()
    assert [pod.node for pod in stage.world.standing("high")] == ["n0"]
    assert stage.standing("low") == ["low"]
    assert len(stage.evicted()) == 1
