"""Which resources count between queues: those that they name, and of the others those that nodes offer."""

from __future__ import annotations

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.queueledger import QueueTerms
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue, ResourceShare
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state

GPU, NAMED = "nvidia.com/gpu", "example.com/named"
MADE_UP = {f"x.example.com/r{number}": "1" for number in range(40)}


@pytest.fixture
def state() -> ClusterState:
    """Two queues, one of which names a resource, and a node with GPUs."""
    state = make_state([make_node("n", cpu="64", resources={GPU: "16"})])
    state.queues.terms_of = lambda _: QueueTerms("", 100)
    for queue in (Queue("a"), Queue("b", resources=FrozenDict({NAMED: ResourceShare(2000)}))):
        state.put_object(QUEUE, queue.name, queue)
    return state


def asking(name: str, **requests: str) -> Pod:
    return make_pod(name, requests={"cpu": "1", **requests}, labels={QUEUE_LABEL: "a"})


def counted(state: ClusterState, pod: Pod) -> dict[str, int]:
    """Resource -> what counts of a pod."""
    tree = state.queues.settle(state)
    return {tree.resources[index]: amount for index, amount in state.queues.about(pod).demand.amounts}


def requested(state: ClusterState, name: str) -> int:
    """What queue `a` asks for of a resource; 0 if it does not count."""
    tree = state.queues.settle(state)
    return tree.nodes["a"].requested[tree.resources.index(name)] if name in tree.resources else 0


def test_names_that_pods_make_up_do_not_count(state: ClusterState) -> None:
    """A tenant must not keep another one's GPUs from counting, neither before nor after them."""
    state.queues.wait(asking("hostile", **MADE_UP))
    good = asking("good", **{GPU: "8", NAMED: "1"})
    state.queues.wait(good)
    assert counted(state, good) == {"cpu": 1000, GPU: 8000, NAMED: 1000}
    assert state.queues.settle(state).resources == ["cpu", "memory", NAMED, GPU]


def test_a_resource_counts_as_soon_as_a_node_offers_it_and_as_long_as_one_does(state: ClusterState) -> None:
    """Pods may wait for it before, and after."""
    pod = asking("p", **{"example.com/fpga": "2"})
    state.queues.wait(pod)
    assert counted(state, pod) == {"cpu": 1000}
    for _ in range(2):
        state.upsert_node(make_node("m", resources={"example.com/fpga": "4"}))
        assert counted(state, pod) == {"cpu": 1000, "example.com/fpga": 2000}
        assert requested(state, "example.com/fpga") == 2000
        state.remove_node("m")
        assert counted(state, pod) == {"cpu": 1000}
        assert requested(state, "example.com/fpga") == 0
    with state.statement():
        state.upsert_node(make_node("m", resources={"example.com/fpga": "4"}))
        assert requested(state, "example.com/fpga") == 2000
    assert requested(state, "example.com/fpga") == 0


@pytest.mark.parametrize("first", [True, False], ids=["asked for before", "asked for after"])
def test_places_of_resources_are_free_with_their_last_pod(state: ClusterState, first: bool) -> None:
    """Where nodes offer more than counts, too."""
    state.upsert_node(make_node("m", resources=MADE_UP))
    greedy, good = asking("greedy", **MADE_UP), asking("good", **{GPU: "8"})
    state.queues.wait(greedy)
    if first:
        state.queues.wait(good)
        assert counted(state, good) == {"cpu": 1000}
    assert len(counted(state, greedy)) == 33
    state.queues.unwait(greedy.uid)
    if not first:
        state.queues.wait(good)
    assert counted(state, good) == {"cpu": 1000, GPU: 8000}
    assert requested(state, GPU) == 8000


def test_what_counts_is_not_worked_out_again_for_nodes_that_change_nothing(state: ClusterState) -> None:
    """Neither for a resource that nobody asks for."""
    state.queues.wait(asking("p", **{GPU: "8"}))
    builds = state.queues.settle(state).builds
    state.upsert_node(make_node("m", resources={GPU: "16", "example.com/fpga": "4"}))
    state.remove_node("m")
    assert state.queues.settle(state).builds == builds
