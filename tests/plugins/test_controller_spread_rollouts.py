"""ControllerSpread while a workload changes: rollouts at the limit of the nodes, scale steps, pauses, late numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.arrays import Ints, Rows
from moorage.core.frozen import FrozenDict
from moorage.core.objects import DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET, Workload
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Runner
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.testing import make_node, make_pod
from tests.framework import readers
from tests.plugins.controlled import NOW_S, make_workload, owner_of, reasons_for, state_with

MIN_HOSTS = "moorage.dev/min-hosts"
REVISION = "deployment.kubernetes.io/revision"


class Packs(Plugin):
    """Prefers the node with most pods, however many points that takes."""

    name: ClassVar[str] = "Packs"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.array([10 * len(cycle.state.records_on(int(row))) for row in rows], dtype=np.int64)


class Shape(NamedTuple):
    """A Deployment."""

    replicas: int
    hosts: int = 2
    surge: int = 1
    gap: int = 0


class Rollout:
    """A Deployment that is rolled out on nodes with room for so many pods each, as its controller does it."""

    def __init__(self, room: dict[str, int], shape: Shape, *plugins: Plugin) -> None:
        self.shape = shape
        self.state = state_with([make_node(name, cpu=str(number)) for name, number in room.items()])
        self.runner = Runner(
            readers.make_profile([NodeResourcesFit(), *plugins, Packs()], weights={"Packs": 99}), self.state
        )
        self.made = 0
        self.tell(1, {1: shape.replicas})

    def tell(self, revision: int, sets: dict[int, int], *, paused: bool = False) -> None:
        """The watch shows the Deployment and its ReplicaSets."""
        notes = {MIN_HOSTS: str(self.shape.hosts)}
        tell(self.state, deployment(self.shape, revision, notes, paused=paused))
        for number, replicas in sets.items():
            tell(self.state, replica_set(number, replicas))

    def create(self, revision: int) -> bool:
        """A new pod; whether it found a node."""
        self.made += 1
        pod = pod_of_revision(revision, self.made)
        row = self.runner.decide(Cycle(pod, self.state, NOW_S))
        if row == NOWHERE:
            return False
        self.state.observe_pod(replace(pod, node=self.state.node(row).name))
        return True

    def pods(self, revision: int) -> list[Pod]:
        return [r.pod for r in self.state.records() if r.pod.template.labels["pod-template-hash"] == f"r{revision}"]

    def hosts(self, revision: int) -> set[str]:
        return {str(pod.node) for pod in self.pods(revision)}

    def fill(self) -> bool:
        """The first revision finds its nodes."""
        return all(self.create(1) for _ in range(self.shape.replicas))

    def run(self) -> bool:
        """Roll out; whether it ends."""
        shape = self.shape
        for _ in range(6 * shape.replicas):
            old, new = self.pods(1), self.pods(2)
            if not old and len(new) == shape.replicas:
                return True
            wanted = min(shape.replicas, len(new) + shape.replicas + shape.surge - len(old) - len(new))
            self.tell(2, {1: len(old), 2: wanted})
            started = [self.create(2) for _ in range(wanted - len(new))]
            removable = len(self.pods(1)) + len(self.pods(2)) - (shape.replicas - shape.gap)
            for pod in self.first_to_go()[: max(removable, 0)]:
                self.state.remove_pod(pod.uid)
            if removable <= 0 and not any(started):
                return False
        return False

    def first_to_go(self) -> list[Pod]:
        """Old pods, those with most of the Deployment beside them first."""
        return sorted(self.pods(1), key=lambda pod: (-self.company(pod), pod.name))

    def company(self, pod: Pod) -> int:
        return sum(each.node == pod.node for each in (*self.pods(1), *self.pods(2)))


def deployment(shape: Shape, revision: int, notes: dict[str, str], *, paused: bool = False) -> Workload:
    annotations = {**notes, REVISION: str(revision)}
    return make_workload(
        DEPLOYMENT, "web", shape.replicas, annotations=annotations, paused=paused, max_unavailable=shape.gap
    )


def replica_set(revision: int, replicas: int) -> Workload:
    owner = owner_of(DEPLOYMENT, "web")
    return make_workload(REPLICA_SET, f"web-r{revision}", replicas, owner=owner, annotations={REVISION: str(revision)})


def pod_of_revision(revision: int, number: int, node: str | None = None) -> Pod:
    owner = owner_of(REPLICA_SET, f"web-r{revision}")
    labels = {"pod-template-hash": f"r{revision}"}
    return make_pod(f"web-r{revision}-{number}", cpu="1", owner=owner, labels=labels, node=node)


def tell(state: ClusterState, workload: Workload) -> None:
    state.put_object(workload.kind, workload.key, workload)


ROLLOUTS = {
    "two free places": ({"a": 2, "b": 1, "c": 1}, Shape(3)),
    "all on one host in between": ({"a": 3, "b": 1}, Shape(3)),
    "hosts = replicas": ({"a": 2, "b": 1, "c": 1}, Shape(3, hosts=3)),
    "a pair": ({"a": 2, "b": 1}, Shape(2)),
    "no surge": ({"a": 2, "b": 1}, Shape(3, surge=0, gap=1)),
    "all at once": ({"a": 5, "b": 1}, Shape(3, surge=3)),
}


@pytest.mark.parametrize(("room", "shape"), ROLLOUTS.values(), ids=ROLLOUTS.keys())
def test_a_rollout_at_the_limit_ends(room: dict[str, int], shape: Shape) -> None:
    """As it does without the rule."""
    rollout = Rollout(room, shape, ControllerSpread())
    assert rollout.fill()
    assert rollout.run()


@settings(max_examples=150, deadline=None)
@given(
    room=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    replicas=st.integers(1, 5),
    hosts=st.integers(1, 5),
    surge=st.integers(0, 2),
    gap=st.integers(0, 2),
)
def test_a_rollout_ends_wherever_it_would_without_the_rule(
    room: list[int], replicas: int, hosts: int, surge: int, gap: int
) -> None:
    """If the nodes could hold the workload as the rule wants it; and where nodes have plenty of room, it ends so."""
    shape = Shape(replicas, hosts, surge, gap if surge or gap else 1)
    nodes = {f"n{number}": places for number, places in enumerate(room)}
    stock, rollout = Rollout(nodes, shape), Rollout(nodes, shape, ControllerSpread())
    needed = min(replicas, hosts)
    if sum(places > 0 for places in room) < needed or not stock.fill() or not rollout.fill():
        return
    assert len(rollout.hosts(1)) >= needed
    if stock.run():
        assert rollout.run()
        if all(places >= replicas + surge for places in room):
            assert len(rollout.hosts(2)) >= needed


@pytest.mark.parametrize(("nodes", "want"), [(3, 5), (2, 4), (1, 3)])
def test_as_many_run_as_leave_the_hosts_in_reach(nodes: int, want: int) -> None:
    """Five replicas on three hosts."""
    rollout = Rollout({f"n{number}": 9 for number in range(nodes)}, Shape(5, hosts=3), ControllerSpread())
    assert sum(rollout.create(1) for _ in range(5)) == want
    assert len(rollout.hosts(1)) == nodes


def test_new_hosts_come_first_whatever_the_scores_are() -> None:
    """The profile packs with all its weight; beyond the required hosts it may."""
    rollout = Rollout({f"n{number}": 9 for number in range(5)}, Shape(6, hosts=3), ControllerSpread())
    assert rollout.fill()
    company = sorted(rollout.company(pod) for pod in rollout.pods(1))
    assert company == [1, 1, 4, 4, 4, 4]


def beside(state: ClusterState, pod: Pod) -> set[str]:
    return {*reasons_for(ControllerSpread(), state, pod)}


def test_pods_that_a_paused_rollout_will_not_make_are_not_to_come() -> None:
    """Two of three on one host are a start, unless the rollout stops there; then the old revision counts, too."""
    rollout = Rollout({"a": 9, "b": 9}, Shape(3), ControllerSpread())
    rollout.tell(2, {1: 1, 2: 2})
    for pod in (pod_of_revision(1, 1, "a"), pod_of_revision(2, 1, "a")):
        rollout.state.observe_pod(pod)
    assert beside(rollout.state, pod_of_revision(2, 2)) == set()
    rollout.tell(2, {1: 1, 2: 2}, paused=True)
    assert beside(rollout.state, pod_of_revision(2, 2)) == {"a"}
    rollout.state.observe_pod(pod_of_revision(1, 2, "b"))
    assert beside(rollout.state, pod_of_revision(2, 2)) == set()


def test_an_older_revision_makes_no_more_than_its_replica_set_wants() -> None:
    """Its last pod cannot count on the rest of the Deployment."""
    rollout = Rollout({"a": 9, "b": 9}, Shape(5), ControllerSpread())
    rollout.tell(2, {1: 2, 2: 4})
    rollout.state.observe_pod(pod_of_revision(1, 1, "a"))
    assert beside(rollout.state, pod_of_revision(1, 2)) == {"a"}
    rollout.state.observe_pod(pod_of_revision(2, 1, "b"))
    assert beside(rollout.state, pod_of_revision(1, 2)) == set(), "the new revision stands on another host"


def test_the_old_revision_helps_only_while_it_has_to_run() -> None:
    """More pods run than the rollout needs: an old one is about to go, and its place is worth waiting for."""
    rollout = Rollout({"a": 9, "b": 1}, Shape(2, surge=0, gap=1), ControllerSpread())
    rollout.tell(2, {1: 1, 2: 2})
    for pod in (pod_of_revision(1, 1, "b"), pod_of_revision(2, 1, "a")):
        rollout.state.observe_pod(pod)
    assert beside(rollout.state, pod_of_revision(2, 2)) == {"a"}
    tell(rollout.state, deployment(Shape(2), 2, {}))
    assert beside(rollout.state, pod_of_revision(2, 2)) == set()


@pytest.mark.parametrize("kind", [REPLICA_SET, STATEFUL_SET, JOB])
def test_a_pod_proves_that_an_old_number_is_too_low(kind: str) -> None:
    """Scaled from 1 to 2 while the watch of the controller is late."""
    pods = [make_pod(f"p{number}", owner=owner_of(kind, "web"), node=node) for number, node in ((1, "a"), (2, None))]
    state = state_with([make_node("a"), make_node("b")], pods[:1], [make_workload(kind, "web", 1)])
    assert ControllerSpread().concerns(pods[1].template, state)
    assert beside(state, pods[1]) == {"a"}


def test_a_surge_pod_of_a_deployment_of_one_proves_nothing() -> None:
    """The old revision's pod stands beside it for a moment, wherever that is."""
    rollout = Rollout({"a": 2}, Shape(1), ControllerSpread())
    assert rollout.fill()
    assert rollout.run()


def test_where_deployments_cannot_be_read_their_replica_sets_tell_the_size() -> None:
    """The controller writes it on them."""
    notes = FrozenDict({"deployment.kubernetes.io/desired-replicas": "3"})
    state = state_with([make_node("a"), make_node("b")], [pod_of_revision(2, 1, "a")])
    tell(state, replace(replica_set(2, 2), annotations=notes))
    assert beside(state, pod_of_revision(2, 2)) == set()
    state.observe_pod(pod_of_revision(2, 2, "a"))
    assert beside(state, pod_of_revision(2, 3)) == {"a"}
