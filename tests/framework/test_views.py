"""Kept answers equal fresh ones after every random event: the promise that the speed rests on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moorage.core.affinity import PodAffinity, PodTerm, SpreadConstraint
from moorage.core.arrays import Ints, Rows
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.selectors import selector_from_labels
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.profiles import Profile
from moorage.framework.runner import Runner
from moorage.framework.status import Rejections
from moorage.plugins.fragmentation import Fragmentation
from moorage.plugins.shared_devices import SharedDevices
from moorage.testing import make_node, make_node_affinity, make_pod, make_state
from tests.framework import readers

NAMES = [f"n{'x' * (i % 3)}{i}" for i in range(22)]
NODES = st.sampled_from(NAMES)
PODS = st.sampled_from([f"p{i}" for i in range(24)])

GPUS = [{"nvidia.com/gpu": number} for number in (1, 2)]
WEB = selector_from_labels({"app": "web"})


def by_disk(*, hard: bool) -> SpreadConstraint:
    return SpreadConstraint(1, "disk", hard=hard, selector=WEB)


WAITING: tuple[Pod, ...] = (
    make_pod("plain", cpu="500m", memory="256Mi"),
    make_pod("twin", cpu="500m", memory="256Mi"),
    make_pod("nothing"),
    make_pod("large", cpu="3", memory="4Gi", labels={"app": "web"}, priority=10),
    make_pod("gpu", cpu="100m", requests={"example.com/gpu": 1}, labels={"app": "web", "calm": "yes"}),
    make_pod("other", cpu="100m", requests={"example.com/new": 1}),
    make_pod("spread", cpu="100m", labels={"app": "web"}, spread=(by_disk(hard=True), by_disk(hard=False))),
    make_pod(
        "apart", cpu="100m", labels={"app": "web"}, pod_anti_affinity=PodAffinity(required=(PodTerm(WEB, "disk"),))
    ),
    make_pod("picky", cpu="100m", node_selector={"disk": "ssd"}, labels={"loud": "yes"}),
    make_pod(
        "prefers",
        cpu="200m",
        node_affinity=make_node_affinity(preferred=[(10, ["disk In ssd"]), (60, ["gen Gt 2"])]),
        tolerations=["spot"],
    ),
    make_pod("named", cpu="100m", node_affinity=make_node_affinity(required=[["metadata.name In n0,nx1,nxx2"]])),
    make_pod("tolerant", cpu="100m", tolerations=["*"], priority=1000, labels={"only": "n0_nx4_nx7_n9"}),
    make_pod("porter", cpu="100m", ports=[8080], images=["app:v1", "big"]),
    make_pod("share", cpu="100m", annotations={"gpu-fraction": "0.4"}),
    make_pod("device", cpu="100m", annotations={"alibabacloud.com/gpu-count": "1"}),
    make_pod("porter-2", cpu="100m", ports=["10.0.0.1:8080"], labels={"calm": "yes"}),
)
"""What is asked after every event."""

PROFILES: dict[str, Callable[[], Profile]] = {
    "default": readers.default_profile,
    "plain": lambda: readers.make_profile([readers.PodsFilter(), readers.AmountsPlugin(), readers.PodsScore()]),
    "readers": lambda: readers.make_profile(
        [readers.NodeScore(), readers.NodeNormal(), readers.PodsFilter(), readers.PodsScore(), readers.AmountsPlugin()],
        weights={"NodeNormal": 3, "PodsScore": 2},
    ),
    "shares": lambda: readers.make_profile(
        [readers.PodsFilter(), SharedDevices(), Fragmentation(), readers.NodeNormal()], weights={"Fragmentation": 20}
    ),
    "packed": lambda: readers.make_profile([SharedDevices(), Fragmentation()], weights={"SharedDevices": 0}),
    "packed-by-amounts": lambda: readers.make_profile([Fragmentation(), readers.AmountsPlugin()]),
    "soft": lambda: readers.make_profile(
        [
            readers.PodsFilter(),
            readers.PodsSoft(),
            readers.NodeSoft(),
            readers.ClusterSoft(),
            readers.NodeNormal(),
            readers.PodsNormal(),
        ]
    ),
    "softly-kept": lambda: readers.make_profile([readers.PodsSoft(), readers.AmountsPlugin(), readers.PodsScore()]),
    "open": lambda: readers.make_profile(
        [
            readers.PodsFilter(),
            readers.ClusterFilter(),
            readers.PodsNormal(),
            readers.AmountsPlugin(),
            readers.ClusterNormal(),
            readers.NodeNormal(),
        ],
        weights={"ClusterNormal": 2},
    ),
}


@st.composite
def some_node(draw: st.DrawFn, names: st.SearchStrategy[str] = NODES) -> Node:
    return make_node(
        draw(names),
        cpu=draw(st.sampled_from(["2", "4"])),
        memory=draw(st.sampled_from(["2Gi", "8Gi"])),
        pods=draw(st.sampled_from([3, 110])),
        resources=draw(
            st.sampled_from([{}, {}, {"example.com/gpu": 2}, {"example.com/new": 2}, {"example.com/odd": 2}, *GPUS])
        ),
        labels=draw(st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd", "gen": "3"}, {"gen": "1"}])),
        taints=draw(st.sampled_from([(), (), ("spot:PreferNoSchedule",), ("broken:NoExecute",)])),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        images=draw(st.sampled_from([{}, {"app:v1": "700Mi"}, {"app:v1": "700Mi", "big": "3Gi"}])),
    )


@st.composite
def some_pod(draw: st.DrawFn, node: str | None = None) -> Pod:
    return make_pod(
        draw(PODS),
        node=node,
        cpu=draw(st.sampled_from(["100m", "500m", "1500m"])),
        requests=draw(st.sampled_from([{}, {}, {"example.com/gpu": 1}, {"example.com/odd": 1}])),
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "db"}])),
        annotations=draw(st.sampled_from([{}, {"gpu-fraction": "0.3"}, {"gpu-fraction": "0.7"}])),
        ports=draw(st.sampled_from([(), (8080,), ("10.0.0.1:8080",), ("10.0.0.2:8080",)])),
        priority=draw(st.sampled_from([0, 10, 2000])),
    )


class ViewsMachine(RuleBasedStateMachine):
    """Random events; all waiting pods are decided after each, by runners that keep answers and by new ones."""

    @initialize(nodes=st.lists(some_node(), max_size=12), seed=st.integers(0, 3))
    def begin(self, nodes: list[Node], seed: int) -> None:
        self.state = make_state(nodes, seed=seed)
        self.state.workload.follow(WAITING)
        self.state.workload.settle()
        self.kept = {name: Runner(make(), self.state) for name, make in PROFILES.items()}

    @rule(node=some_node())
    def node_seen(self, node: Node) -> None:
        self.state.upsert_node(node)

    @rule(nodes=st.lists(some_node(), min_size=6, max_size=22))
    def many_nodes_seen(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.state.upsert_node(node)

    @rule(name=NODES)
    def node_gone(self, name: str) -> None:
        self.state.remove_node(name)

    @rule(name=NODES, first=st.integers(0, 200), count=st.sampled_from([3, 70, 140]))
    def node_changes_again_and_again(self, name: str, first: int, count: int) -> None:
        """Label values and taints that nobody has any more are more than those in use: ids begin anew."""
        for number in range(first, first + count):
            labels, taints = {"disk": f"d{number % 150}"}, [f"candidate={number}:PreferNoSchedule"]
            self.state.upsert_node(make_node(name, labels=labels, taints=taints))

    @rule(name=NODES, to=NODES)
    def another_node_on_the_same_row(self, name: str, to: str) -> None:
        node = self.state.remove_node(name)
        if node is not None and self.state.row_of(to) is None:
            self.state.upsert_node(Node(to, allocatable=node.allocatable, labels=node.labels, images=node.images))

    @rule(data=st.data(), node=NODES)
    def pod_seen(self, data: st.DataObject, node: str) -> None:
        self.state.observe_pod(data.draw(some_pod(node)))

    @rule(pod=some_pod(), pick=st.integers(0, 30))
    def assumed(self, pod: Pod, pick: int) -> None:
        rows = self.state.rows()
        if len(rows) and self.state.record(pod.uid) is None:
            self.state.assume(pod, int(rows[pick % len(rows)]))

    @rule(name=PODS)
    def forgotten(self, name: str) -> None:
        self.state.forget(f"default/{name}")

    @rule(name=PODS)
    def pod_gone(self, name: str) -> None:
        self.state.remove_pod(f"default/{name}")

    @rule(pod=some_pod(), node=NODES)
    def nominated(self, pod: Pod, node: str) -> None:
        self.state.nominations.set(pod, node)

    @rule()
    def promises_kept(self) -> None:
        for name in self.state.nominations.nodes():
            for pod in self.state.nominations.on(name):
                self.state.nominations.clear(pod.uid)

    @rule(pods=st.lists(some_pod(), max_size=4), gone=st.lists(PODS, max_size=4), commit=st.booleans())
    def what_if(self, pods: list[Pod], gone: list[str], commit: bool) -> None:
        with self.state.statement() as what_if:
            for name in gone:
                self.state.remove_pod(f"default/{name}")
            rows = self.state.rows()
            for number, pod in enumerate(pods):
                if len(rows) and self.state.record(pod.uid) is None:
                    self.state.assume(pod, int(rows[number % len(rows)]))
            self.answers_equal_fresh_ones()
            if commit:
                what_if.commit()

    @rule(reserved=st.sampled_from([0, 500, 1500]))
    def epoch_moved(self, reserved: int) -> None:
        self.state.put_object("Reserve", "cpu", reserved)

    @rule(which=st.sampled_from(sorted(PROFILES)), count=st.integers(2, 9))
    def burst_of_equal_pods(self, which: str, count: int) -> None:
        """Each takes a row from the ties that the next one finds."""
        profile = PROFILES[which]()
        for number in range(count):
            pod = make_pod(f"burst-{number}", cpu="100m")
            want = readers.brute_force(profile, self.state, pod)
            row = readers.decide(self.kept[which], self.state, pod)
            assert row == want
            if row != NOWHERE:
                self.state.assume(pod, row)

    @invariant()
    def answers_equal_fresh_ones(self) -> None:
        if not hasattr(self, "kept"):
            return
        check_invariants(self.state)
        for name, kept in self.kept.items():
            profile = PROFILES[name]()
            fresh = Runner(profile, self.state)
            for pod in WAITING:
                found = readers.node_name(self.state, readers.decide(kept, self.state, pod))
                want = readers.node_name(self.state, readers.brute_force(profile, self.state, pod))
                assert found == want, f"{name}, pod {pod.name}: kept answers say {found}, fresh ones {want}"
                anew = readers.node_name(self.state, readers.decide(fresh, self.state, pod))
                assert anew == want, f"{name}, pod {pod.name}: a new runner says {anew}, plugin by plugin {want}"


ViewsMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=14, suppress_health_check=list(HealthCheck)
)
TestKeptAnswers = ViewsMachine.TestCase


class Moody(Plugin):
    """Raises when told to."""

    name: ClassVar[str] = "Moody"

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self.reads = reads  # type: ignore[misc] # one class stands for all kinds of readers here
        self.angry = False

    def sign(self, template: Any) -> None:  # noqa: ARG002 - part of the interface
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        if self.angry:
            raise RuntimeError("not today")
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        if self.angry:
            raise RuntimeError("not today")
        return np.array([len(cycle.state.node(int(row)).name) for row in rows], dtype=np.int64)


def grow(state: ClusterState) -> None:
    """One node more than the columns have room for."""
    state.upsert_node(make_node("x"))
    assert state.capacity == 32


def touch_all(state: ClusterState) -> None:
    for name in state.node_names():
        state.upsert_node(make_node(name, cpu="2"))


def fill_all(state: ClusterState) -> None:
    for number, name in enumerate(state.node_names()):
        state.observe_pod(make_pod(f"filler-{number}", cpu="1", node=name))


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.AMOUNTS, Reads.PODS, Reads.CLUSTER], ids=str)
@pytest.mark.parametrize("change", [grow, touch_all, fill_all], ids=["capacity grew", "nodes changed", "pods came"])
def test_answers_are_right_again_after_a_plugin_raised(reads: Reads, change: Callable[[ClusterState], None]) -> None:
    """A plugin that fails while a view is rebuilt must not leave a half-built one behind."""
    state = make_state(make_node(f"n{i}") for i in range(16))
    moody = Moody(reads)
    runner = Runner(readers.make_profile([moody]), state)
    pod = make_pod("p", cpu="100m")
    readers.decide(runner, state, pod)
    change(state)
    moody.angry = True
    with contextlib.suppress(RuntimeError):
        readers.decide(runner, state, pod)
    moody.angry = False
    state.observe_pod(make_pod("late", cpu="100m", node="n3"))
    want = readers.brute_force(readers.make_profile([Moody(reads)]), state, pod)
    assert readers.node_name(state, readers.decide(runner, state, pod)) == readers.node_name(state, want)


def test_ties_know_that_another_node_came_to_a_row() -> None:
    """It offers the same, so no rank moves; but it has another name, which decides between equals."""
    state = make_state(make_node(f"n{i}") for i in range(12))
    runner = Runner(PROFILES["plain"](), state)
    pods = [make_pod(f"p{i}", cpu="100m") for i in range(40)]
    for number in range(12):
        readers.decide(runner, state, pods[number])
        state.remove_node(f"n{number}")
        state.upsert_node(make_node(f"other-{number}"))
        for pod in pods:
            want = readers.brute_force(PROFILES["plain"](), state, pod)
            assert readers.node_name(state, readers.decide(runner, state, pod)) == readers.node_name(state, want)


def test_ranks_by_amounts_are_forgotten_when_the_epoch_moves() -> None:
    """Rows come to amounts again that were judged before the change."""
    state = make_state(make_node(f"n{i}", cpu="2") for i in range(20))
    runner = Runner(PROFILES["plain"](), state)
    pod, guest = make_pod("p", cpu="1"), make_pod("guest", cpu="500m", node="n3")
    assert feasible(runner, state, pod) == 20
    for reserved, want in [(0, 20), (800, 19), (0, 20)]:
        state.put_object("Reserve", "cpu", reserved)
        assert feasible(runner, state, pod) == 20
        state.observe_pod(guest)
        assert feasible(runner, state, pod) == want
        state.remove_pod(guest.uid)
        assert feasible(runner, state, pod) == 20


@pytest.mark.parametrize("count", [1, 9, 40], ids=["row by row", "a few at once", "rebuilt"])
def test_changed_rows_are_repaired_whatever_their_number(count: int) -> None:
    """Single rows, several rows and all rows take different ways to the same answer."""
    state = make_state(make_node(f"n{i}") for i in range(60))
    runner = Runner(readers.default_profile(), state)
    pod = make_pod("p", cpu="1")
    readers.decide(runner, state, pod)
    for number in range(count):
        state.observe_pod(make_pod(f"filler-{number}", cpu="3500m", node=f"n{number}"))
    want = readers.brute_force(readers.default_profile(), state, pod)
    assert readers.decide(runner, state, pod) == want
    assert len(runner.judge(Cycle(pod, state, 0.0), state.rows()).passed) == 60 - count


def feasible(runner: Runner, state: ClusterState, pod: Pod) -> int:
    cycle = Cycle(pod, state, 0.0)
    runner.decide(cycle)
    return cycle.feasible


def test_the_number_of_feasible_nodes_follows_every_change() -> None:
    """The log line of a bind tells it."""
    state = make_state(make_node(f"n{i}", cpu="1") for i in range(5))
    runner = Runner(readers.default_profile(), state)
    pod = make_pod("p", cpu="1")
    assert feasible(runner, state, pod) == 5
    state.observe_pod(make_pod("a", cpu="1", node="n1"))
    assert feasible(runner, state, pod) == 4
    state.remove_node("n2")
    assert feasible(runner, state, pod) == 3
    state.remove_pod("default/a")
    assert feasible(runner, state, pod) == 4


def test_classes_that_look_equal_to_node_readers_share_their_answers() -> None:
    """Pods that differ in requests only are judged once by plugins that read nodes only."""
    asked: list[int] = []

    class Counting(readers.NodeScore):
        name: ClassVar[str] = "Counting"

        def score(self, cycle: Cycle, rows: Rows) -> Ints:
            asked.append(len(rows))
            return super().score(cycle, rows)

    state = make_state(make_node(f"n{i}") for i in range(8))
    runner = Runner(readers.make_profile([Counting(), readers.AmountsPlugin()]), state)
    for cpu in range(100, 1100, 100):
        readers.decide(runner, state, make_pod(f"p{cpu}", cpu=f"{cpu}m"))
    assert asked == [8]
