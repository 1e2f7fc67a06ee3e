"""Who is evicted for whom, on which node, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from moorage.core.arrays import Rows
from moorage.core.nodes import Node
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import Reason, Rejections, Status, unschedulable
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.testing import make_node, make_pod
from tests.plugins.preempting import Cluster, best_nodes, budget, preempt, preempt_on

HIGH = make_pod("high", cpu="2", priority=100)


def node(name: str = "n1", cpu: str = "4", **fields: Any) -> Node:
    return make_node(name, cpu=cpu, **fields)


def pod(name: str, cpu: str = "1", on: str = "n1", started_s: float | None = 0.0, **fields: Any) -> Pod:
    return replace(make_pod(name, cpu=cpu, node=on, **fields), started_s=started_s)


def big(name: str, on: str, priority: int, started_s: float | None = 0.0, **fields: Any) -> Pod:
    return pod(name, "4", on, started_s, priority=priority, **fields)


class Local(Plugin):
    """Reads the pods of a node and passes all: forces the search node by node."""

    name: ClassVar[str] = "Local"
    reads: ClassVar[Reads] = Reads.PODS

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        return None


class Avoids(Plugin):
    """Reads the cluster: nowhere while a pod with the label `loud` runs anywhere; counted in PreFilter."""

    name: ClassVar[str] = "Avoids"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        records = cycle.state.records()
        cycle.memo[self.name] = [record.row for record in records if "loud" in record.pod.template.labels]
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        loud = cycle.memo[self.name]
        return Rejections(np.isin(rows, loud).astype(np.int64), (Reason("too loud"),))


class Refuses(Plugin):
    """PreFilter refuses the pod as a whole while anything of lower priority runs."""

    name: ClassVar[str] = "Refuses"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        lower = any(r.pod.template.priority < cycle.template.priority for r in cycle.state.records())
        return unschedulable("somebody lesser runs") if lower else None


WAYS = [pytest.param((), id="all nodes at once"), pytest.param((Local(),), id="node by node")]

VICTIMS = [
    pytest.param(
        [pod("mid", priority=20), pod("a", priority=10), pod("b", priority=10), pod("c", priority=10)],
        [],
        ["b", "c"],
        id="the most important ones are let back in first; among equal ones by name",
    ),
    pytest.param(
        [
            pod("old", started_s=1.0),
            pod("new", started_s=9.0),
            pod("unborn", started_s=None),
            pod("mid", "1", priority=9),
        ],
        [],
        ["new", "unborn"],
        id="among equal priorities the younger ones go, those not started before all",
    ),
    pytest.param(
        [pod("large", "3", priority=50), pod("small", "1", priority=0)],
        [],
        ["large"],
        id="a less important pod stays if a more important one has to go and is enough",
    ),
    pytest.param(
        [pod("guarded", "2", labels={"app": "a"}), pod("free", "2", priority=50)],
        [budget("b", 0, app="a")],
        ["free"],
        id="a budget protects a pod before priority does",
    ),
    pytest.param(
        [pod("guarded", "2", labels={"app": "a"}), pod("free", "2", priority=50)],
        [budget("b", 1, app="a")],
        ["guarded"],
        id="a budget that allows a disruption protects nobody",
    ),
    pytest.param(
        [pod("guarded", "2", labels={"app": "a"}), pod("free", "2", priority=50)],
        [budget("b", 0, ["guarded"], app="a")],
        ["guarded"],
        id="a pod that the budget counts as disrupted is not protected",
    ),
    pytest.param(
        [pod("guarded", "2", labels={"app": "a"}), pod("free", "2", priority=50)],
        [PodDisruptionBudget("default", "b")],
        ["guarded"],
        id="a budget without selector protects nobody",
    ),
    pytest.param(
        [pod("guarded", "2", labels={"app": "a"}), pod("free", "2", priority=50)],
        [replace(budget("b", 0, app="a"), namespace="elsewhere")],
        ["guarded"],
        id="nor does one of another namespace",
    ),
    pytest.param(
        [
            pod("x", "1", labels={"app": "a"}, priority=5),
            pod("y", "1", labels={"app": "a"}, priority=4),
            pod("z", "1", labels={"app": "a"}, priority=3),
            pod("free", "1", priority=50),
        ],
        [budget("b", 2, app="a")],
        ["x", "y"],
        id="the budget is used up by the most important ones, so the last one breaks it and stays",
    ),
    pytest.param(
        [pod("peer", "2", priority=100), pod("low", "2")], [], ["low"], id="only strictly lower priorities are evicted"
    ),
]


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(("pods", "budgets", "want_victims"), VICTIMS)
def test_victims_on_a_node(
    pods: list[Pod], budgets: list[PodDisruptionBudget], want_victims: list[str], plugins: Sequence[Plugin]
) -> None:
    """As few as needed, the least important ones, budgets respected as far as possible."""
    found = preempt(Cluster([node()], pods, HIGH, budgets), *plugins)
    assert (found.node, sorted(found.victims)) == ("n1", sorted(want_victims))


CHOICES = [
    pytest.param(
        [big("a", "n1", 10, labels={"app": "a"}), big("b", "n2", 90)],
        [budget("b", 0, app="a")],
        "n2",
        id="fewest broken budgets",
    ),
    pytest.param([big("a", "n1", 20), big("b", "n2", 10)], [], "n2", id="then the lowest top priority"),
    pytest.param(
        [
            *(pod("a1", "3", "n1", priority=20), pod("a2", "1", "n1", priority=15)),
            *(pod("b1", "3", "n2", priority=20), pod("b2", "1", "n2", priority=10)),
        ],
        [],
        "n2",
        id="then the lowest sum of priorities",
    ),
    pytest.param(
        [pod("a1", "2", "n1", priority=-5), pod("a2", "2", "n1", priority=-5), big("b", "n2", -5)],
        [],
        "n2",
        id="negative priorities do not make more victims better",
    ),
    pytest.param([big("a", "n1", 10, 5.0), big("b", "n2", 10, 9.0)], [], "n2", id="then the latest start"),
    pytest.param([big("a", "n1", 10, 5.0), big("b", "n2", 10, None)], [], "n2", id="not started is the latest of all"),
    pytest.param(
        [
            *(pod("a1", "2", "n1", 5.0, priority=10), pod("a2", "2", "n1", 50.0, priority=9)),
            *(pod("b1", "2", "n2", 6.0, priority=10), pod("b2", "2", "n2", 1.0, priority=9)),
        ],
        [],
        "n2",
        id="only victims of the highest priority count for the start",
    ),
]


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(("pods", "budgets", "want_node"), CHOICES)
def test_choice_between_nodes(
    pods: list[Pod], budgets: list[PodDisruptionBudget], want_node: str, plugins: Sequence[Plugin]
) -> None:
    """kube-scheduler's order of criteria, each deciding only among the nodes that the ones before left over."""
    everything = make_pod("everything", cpu="4", priority=100)
    assert preempt(Cluster([node("n1"), node("n2")], pods, everything, budgets), *plugins).node == want_node


@pytest.mark.parametrize("plugins", WAYS)
def test_ties_do_not_depend_on_the_order_of_the_nodes(plugins: Sequence[Plugin]) -> None:
    """Equal nodes are told apart by a hash of pod and node: same input, same victims."""
    names = [f"n{number}" for number in range(7)]
    pods = [big(f"p-{name}", name, 10) for name in names]
    chosen = {
        preempt(Cluster([node(name) for name in order], pods, HIGH), *plugins).node
        for order in (names, names[::-1], names[3:] + names[:3])
    }
    assert len(chosen) == 1
    others = {
        preempt(Cluster([node(n) for n in names], pods, make_pod(f"h{i}", cpu="2", priority=50))).node for i in range(9)
    }
    assert len(others) > 1


NEVER = replace(HIGH, template=replace(HIGH.template, preemption_policy="Never"))
LEAVING = replace(big("low", "n1", 0), deleted_s=5.0, preempted=True)

TAILS = [
    pytest.param(
        Cluster([node()], [big("low", "n1", 0)], HIGH),
        "found a potential placement for pod on node n1, preempting 1 victims",
        True,
        id="found",
    ),
    pytest.param(
        Cluster([node()], [big("low", "n1", 0)], NEVER),
        "not eligible due to preemptionPolicy=Never.",
        False,
        id="the pod must not preempt",
    ),
    pytest.param(
        Cluster([node()], [LEAVING], replace(HIGH, nominated_node="n1")),
        "not eligible due to a terminating pod on the nominated node.",
        False,
        id="a victim is still leaving",
    ),
    pytest.param(
        Cluster([node()], [replace(LEAVING, preempted=False)], replace(HIGH, nominated_node="n1")),
        "found a potential placement for pod on node n1, preempting 1 victims",
        True,
        id="a pod that leaves for other reasons is no obstacle",
    ),
    pytest.param(
        Cluster([node(), node("n2")], [LEAVING, big("low2", "n2", -1)], replace(HIGH, nominated_node="n2")),
        "found a potential placement for pod on node n2, preempting 1 victims",
        True,
        id="what happens on other nodes than the nominated one does not count",
    ),
    pytest.param(
        Cluster(
            [node(taints=["a=b:NoSchedule"]), node("n2")],
            [LEAVING, big("low2", "n2", 0)],
            replace(HIGH, nominated_node="n1"),
        ),
        "found a potential placement for pod on node n2, preempting 1 victims",
        True,
        id="a nominated node that became hopeless does not bind the pod",
    ),
    pytest.param(
        Cluster([node()], [big("peer", "n1", 100)], HIGH),
        "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        True,
        id="nobody is less important",
    ),
    pytest.param(
        Cluster([node(cpu="1")], [pod("low", "1")], HIGH),
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        True,
        id="larger than the node",
    ),
    pytest.param(
        Cluster([node()], [pod("peer", "3", priority=100), pod("low", "1")], HIGH),
        "0/1 nodes are available: 1 Insufficient cpu.",
        True,
        id="not enough even without all lesser pods",
    ),
    pytest.param(
        Cluster(
            [node(), node("n2", taints=["a=b:NoSchedule"]), node("n3"), node("n4", "1")],
            [pod("peer", "3", priority=100), pod("low", "1"), big("peer3", "n3", 100)],
            HIGH,
        ),
        "0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling.",
        True,
        id="every node counts once",
    ),
]


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(("cluster", "want", "nominates"), TAILS)
def test_tail_of_the_message(cluster: Cluster, want: str, nominates: bool, plugins: Sequence[Plugin]) -> None:
    """The words and the full stops are kube-scheduler's; a pod that is not eligible keeps its nomination."""
    found = preempt(cluster, *plugins)
    assert (found.message, found.nominates) == (f"preemption: {want}", nominates)


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(
    ("priority", "want"),
    [
        pytest.param(99, ["a", "b"], id="a lesser pod's nomination does not count"),
        pytest.param(100, ["a", "b", "c", "d"], id="an equal pod's nomination counts"),
    ],
)
def test_nominated_pods_are_respected(priority: int, want: list[str], plugins: Sequence[Plugin]) -> None:
    """Pods of equal or higher priority that wait for the node count as present."""
    waiting = make_pod("waiting", cpu="2", priority=priority)
    cluster = Cluster([node()], [pod(name) for name in "abcd"], HIGH, nominated={"n1": [waiting]})
    found = preempt(cluster, *plugins)
    assert len(found.victims) == len(want)


def test_a_pod_whose_deletion_was_ordered_counts_as_leaving() -> None:
    """The watch may be late; nobody is evicted on top of those that go already."""
    cluster = Cluster([node()], [big("low", "n1", 0)], replace(HIGH, nominated_node="n1"))
    state = cluster.state()
    state.evictions.order("default/low", HIGH.uid)
    found = preempt_on(state, cluster.preemptor, DefaultPreemption())
    assert found.message.endswith("a terminating pod on the nominated node.")


def test_filters_that_read_the_whole_cluster_are_asked_again() -> None:
    """What PreFilter counted is counted again without the victims."""
    loud = pod("loud", "1", priority=50, labels={"loud": "yes"})
    found = preempt(Cluster([node()], [loud, pod("a"), pod("b"), pod("c")], HIGH), Avoids())
    assert (found.node, found.victims) == ("n1", ("loud", "c"))


def test_a_refusal_by_prefilter_can_be_resolved() -> None:
    """Then every node is a candidate."""
    found = preempt(Cluster([node(), node("n2")], [pod("low", "1")], HIGH), Refuses())
    assert (found.node, found.victims) == ("n1", ("low",))


def test_ports_are_freed() -> None:
    """The holder of the port goes, however important among the lesser ones."""
    holder = pod("holder", "1", priority=90, ports=[80])
    wants = make_pod("wants", cpu="1", priority=100, ports=[80])
    assert preempt(Cluster([node()], [holder, pod("low", "1")], wants)).victims == ("holder",)


def test_the_slow_search_ends_with_enough_candidates_and_starts_where_amounts_look_best() -> None:
    """With one candidate wanted it is the one that amounts rank first, so the answer is the same here."""
    nodes = [node(f"n{number}") for number in range(20)]
    pods = [big(f"p{number}", f"n{number}", 50 - number) for number in range(20)]
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=1)
    assert preempt(Cluster(nodes, pods, HIGH), Local(), args=args).node == "n19"


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "want"),
    [(10, 100, 50, 50), (10, 100, 500, 100), (10, 100, 5000, 500), (100, 0, 70, 70), (0, 1, 70, 1)],
)
def test_enough(percentage: int, absolute: int, nodes: int, want: int) -> None:
    """The larger of the share and the number, but never more than there are nodes."""
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)
    assert args.enough(nodes) == want


@pytest.mark.parametrize(("percentage", "absolute"), [(-1, 1), (101, 1), (10, -1), (0, 0)])
def test_bad_arguments(percentage: int, absolute: int) -> None:
    """The limits are kube-scheduler's; both zero would find nothing."""
    with pytest.raises(ValidationError):
        DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)


def test_the_preemptor_is_held_while_its_victims_are_being_deleted() -> None:
    """PreEnqueue says no until the deletions were answered."""
    cluster = Cluster([node()], [big("low", "n1", 0)], HIGH)
    state, plugin = cluster.state(), DefaultPreemption()
    assert plugin.pre_enqueue(HIGH) is None
    preempt_on(state, HIGH, plugin)
    state.evictions.order("default/low", HIGH.uid)
    held = plugin.pre_enqueue(HIGH)
    assert held is not None
    assert held.message == "waiting for the preemption for this pod to be finished"
    assert plugin.pre_enqueue(make_pod("other")) is None
    state.evictions.answered("default/low", ok=True)
    assert plugin.pre_enqueue(HIGH) is None


# --- against the reference ---

LABELS = st.sampled_from([{}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}])
BUDGETS = st.lists(
    st.builds(
        lambda labels, allowed, gone: (labels, allowed, gone),
        st.sampled_from([{"app": "a"}, {"app": "b"}, {"tier": "x"}, {}]),
        st.integers(0, 3),
        st.lists(st.sampled_from(["p0", "p1", "p2"]), max_size=1),
    ),
    max_size=3,
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Small full clusters with few different numbers, so that ties and near misses are common."""
    cpus = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    nodes = [node(f"n{number}", str(cpu), pods=6) for number, cpu in enumerate(cpus)]
    pods: list[Pod] = []
    for number, cpu in enumerate(cpus):
        left = cpu
        while left > 0:
            size = draw(st.integers(1, left))
            left -= size
            pods.append(
                pod(
                    f"p{len(pods)}",
                    str(size),
                    f"n{number}",
                    draw(st.sampled_from([None, 1.0, 2.0])),
                    priority=draw(st.sampled_from([-5, 0, 10, 20, 100])),
                    labels=draw(LABELS),
                    ports=draw(st.sampled_from([(), (), (80,)])) if number % 2 else (),
                )
            )
    wanted = make_pod("wanted", cpu=str(draw(st.integers(1, 4))), priority=20, ports=draw(st.sampled_from([(), (80,)])))
    budgets = [budget(f"b{i}", allowed, gone, **labels) for i, (labels, allowed, gone) in enumerate(draw(BUDGETS))]
    nominated = {
        name: [make_pod(f"w{name}", cpu="1", priority=draw(st.sampled_from([10, 20, 30])))]
        for name in draw(st.sets(st.sampled_from([each.name for each in nodes]), max_size=2))
    }
    return Cluster(nodes, pods, wanted, budgets, nominated)


@settings(max_examples=300)
@given(cluster=clusters(), slowly=st.booleans())
def test_victims_equal_those_of_a_plain_search(cluster: Cluster, slowly: bool) -> None:
    """Both ways of searching find a best node of the reference, with exactly its victims."""
    found = preempt(cluster, *((Local(),) if slowly else ()))
    want = best_nodes(cluster)
    if found.node is None:
        assert not want
    else:
        assert want.get(found.node) == found.victims


@settings(max_examples=40)
@given(first=clusters(), gone=st.integers(0, 5), allowed=st.integers(0, 2))
def test_what_is_kept_between_searches_keeps_up_with_the_state(first: Cluster, gone: int, allowed: int) -> None:
    """A plugin that has searched before answers like a new one after pods left, started or came, and budgets moved."""
    state, plugin = first.state(), DefaultPreemption()
    preempt_on(state, first.preemptor, plugin)
    changed = []
    for number, each in enumerate(first.pods):
        if number == gone:
            state.remove_pod(each.uid)
            heir = replace(each, uid="heir", name="heir")
            state.observe_pod(heir)
            changed.append(heir)
        else:
            seen = replace(each, started_s=float(number % 3))
            state.observe_pod(seen)
            changed.append(seen)
    budgets = [replace(each, disruptions_allowed=allowed) for each in first.budgets]
    for each_budget in budgets:
        state.put_object("PodDisruptionBudget", each_budget.key, each_budget)
    found = preempt_on(state, first.preemptor, plugin)
    want = best_nodes(replace(first, pods=changed, budgets=budgets))
    assert (want.get(found.node) == found.victims) if found.node else not want
