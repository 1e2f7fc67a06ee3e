"""What a pod counts for in queues: its requests, fractions of devices, and the devices of its claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.claims import ALL, ClaimConsumer, DeviceChoice, DeviceRequest, ResourceClaim
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.pods import Pod
from moorage.core.queueledger import QueueTerms
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue, ResourceShare
from moorage.core.shareasks import NVIDIA_GPU
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NAMED = FrozenDict({name: ResourceShare(1000) for name in (NVIDIA_GPU, IMPLICIT, "example.com/gpu")})
GPUS = [make_device(f"gpu-{number}", capacity={"memory": "80Gi"}, shared=True) for number in range(4)]


@pytest.fixture
def state() -> ClusterState:
    """Two queues, and a node for which a driver publishes four GPUs, of a class without another name."""
    found = make_state([make_node("n", cpu="64", resources={NVIDIA_GPU: 8}, labels={"nvidia.com/gpu.memory": "40000"})])
    found.queues.terms_of = lambda _: QueueTerms("", 100)
    found.amounts.gives_fractions = lambda name: name != "plain"
    put(found, make_slice("s", node="n", devices=GPUS), make_device_class("gpu"))
    for name in "ab":
        found.put_object(QUEUE, name, Queue(name, resources=NAMED))
    return found


def pod(name: str, queue: str = "a", **fields: Any) -> Pod:
    return make_pod(name, labels={QUEUE_LABEL: queue}, **fields)


def counts(state: ClusterState, of: Pod) -> dict[str, int]:
    """Resource -> what counts of a pod."""
    tree = state.queues.settle(state)
    check_invariants(state)
    return {tree.resources[index]: amount for index, amount in state.queues.about(of).demand.amounts}


def needs(state: ClusterState, *pods: Pod) -> dict[str, int]:
    """Resource -> what pods need together."""
    tree = state.queues.settle(state)
    return {tree.resources[index]: amount for index, amount in state.queues.need(pods)}


def has(state: ClusterState, queue: str, resource: str = IMPLICIT) -> int:
    tree = state.queues.settle(state)
    check_invariants(state)
    return tree.nodes[queue].allocated[tree.resources.index(resource)]


FRACTIONS: dict[str, tuple[dict[str, str], dict[str, int], int]] = {
    "KAI": ({"gpu-fraction": "0.5"}, {}, 500),
    "KAI, of two devices": ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, {}, 500),
    "KAI, in MiB": ({"gpu-memory": "10000"}, {}, 250),
    "KAI, more MiB than there are": ({"gpu-memory": "50000"}, {}, 1000),
    "Alibaba": ({"alibabacloud.com/gpu-milli": "300", "alibabacloud.com/gpu-count": "2"}, {}, 600),
    "HAMi": ({}, {NVIDIA_GPU: 2, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 10}, 1000),
    "HAMi, in MiB": ({}, {NVIDIA_GPU: 1, "nvidia.com/gpumem": 4000}, 100),
    "Koordinator": ({}, {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 80}, 800),
    "Koordinator, whole": ({}, {"koordinator.sh/gpu": 200}, 2000),
    "requests alone": ({}, {NVIDIA_GPU: 3}, 3000),
    "a fraction beside whole devices": ({"gpu-fraction": "0.1"}, {NVIDIA_GPU: 2}, 2000),
    "whole devices within a fraction": ({"gpu-fraction": "1", "gpu-fraction-num-devices": "4"}, {NVIDIA_GPU: 1}, 4000),
    "a fraction of 0": ({"gpu-fraction": "0"}, {NVIDIA_GPU: 1}, 1000),
    "a fraction that cannot be read": ({"gpu-fraction": "half"}, {}, 0),
}


@pytest.mark.parametrize(("annotations", "requests", "want"), FRACTIONS.values(), ids=FRACTIONS)
def test_a_fraction_counts_in_thousandths(
    state: ClusterState, annotations: dict[str, str], requests: dict[str, int], want: int
) -> None:
    """Whoever asks for it in whichever words, waiting or running; no annotation lowers what is requested."""
    asking = pod("p", annotations=annotations, requests=requests)
    state.queues.wait(asking)
    assert counts(state, asking).get(NVIDIA_GPU, 0) == want
    state.assume(asking, 0)
    assert has(state, "a", NVIDIA_GPU) == want
    state.forget(asking.uid)
    assert has(state, "a", NVIDIA_GPU) == 0


def test_a_fraction_counts_for_nothing_where_no_profile_gives_it(state: ClusterState) -> None:
    """Then the annotation is one like any other, and requests count."""
    fraction = {"gpu-fraction": "0.5"}
    asking = pod("p", annotations=fraction, requests={NVIDIA_GPU: 2}, scheduler_name="plain")
    state.queues.wait(asking)
    assert counts(state, asking)[NVIDIA_GPU] == 2000
    assert NVIDIA_GPU not in counts(state, pod("q", annotations=fraction, scheduler_name="plain"))


def test_a_fraction_in_mib_is_a_part_of_the_devices_of_its_node(state: ClusterState) -> None:
    """While the pod waits, of the smallest that would do; so a limit holds wherever it goes."""
    state.upsert_node(make_node("large", resources={NVIDIA_GPU: 4}, labels={"nvidia.com/gpu.memory": "80000"}))
    asking = pod("p", annotations={"gpu-memory": "20000"})
    state.queues.wait(asking)
    assert counts(state, asking)[NVIDIA_GPU] == 500
    row = state.row_of("large")
    assert row is not None
    with state.statement():
        state.assume(asking, row)
        assert has(state, "a", NVIDIA_GPU) == 250
    assert counts(state, asking)[NVIDIA_GPU] == 500
    state.upsert_node(make_node("n", resources={NVIDIA_GPU: 8}, labels={"nvidia.com/gpu.memory": "25000"}))
    assert counts(state, asking)[NVIDIA_GPU] == 800
    state.remove_node("n")
    assert counts(state, asking)[NVIDIA_GPU] == 250


def _choice(count: int = 1, **fields: Any) -> DeviceChoice:
    return DeviceChoice(device_class=fields.pop("device_class", "gpu"), count=count, **fields)


ALTERNATIVES = (DeviceRequest("r0", alternatives=(_choice(3, name="many"), _choice(2, name="few"))),)
DIFFERENT = (DeviceRequest("r0", alternatives=(_choice(2, name="one"), _choice(1, name="two", device_class="other"))),)
REQUESTED: dict[str, tuple[ResourceClaim, int]] = {
    "one": (make_resource_claim("c"), 1000),
    "several, in several requests": (make_resource_claim("c", _choice(2), _choice(1)), 3000),
    "all of a node": (make_resource_claim("c", _choice(0, mode=ALL)), 4000),
    "the least alternative": (make_resource_claim("c", requests=ALTERNATIVES), 2000),
    "alternatives of different classes": (make_resource_claim("c", requests=DIFFERENT), 0),
    "a look at one": (make_resource_claim("c", _choice(admin_access=True)), 0),
    "a part of one": (make_resource_claim("c", _choice(2, capacity=FrozenDict({"memory": "20Gi"}))), 500),
    "more than there can be": (make_resource_claim("c", _choice(10**15)), 32_000),
}


@pytest.mark.parametrize(("claim", "want"), REQUESTED.values(), ids=REQUESTED)
def test_a_claim_counts_for_the_least_that_it_requests(state: ClusterState, claim: ResourceClaim, want: int) -> None:
    asking = pod("p", claims=("c",))
    state.queues.wait(asking)
    assert IMPLICIT not in counts(state, asking)
    put(state, claim)
    assert counts(state, asking).get(IMPLICIT, 0) == want


def test_a_claim_counts_for_what_it_holds(state: ClusterState) -> None:
    """As soon as devices are reserved for it, until it is given up; what-ifs take it back."""
    asking = pod("p", claims=("c",))
    put(state, make_resource_claim("c", requests=ALTERNATIVES))
    state.assume(asking, 0)
    assert has(state, "a") == 2000
    taken = make_allocation("n/gpu-0", "n/gpu-1", "n/gpu-2", request="r0/many")
    with state.statement():
        put(state, make_resource_claim("c", requests=ALTERNATIVES, allocation=taken))
        assert has(state, "a") == 3000
    assert has(state, "a") == 2000
    state.devices.reserve(asking.uid, {"default/c": taken})
    assert has(state, "a") == 3000
    state.devices.release(asking.uid)
    assert has(state, "a") == 2000
    state.remove_object("ResourceClaim", "default/c")
    assert has(state, "a") == 0


def test_a_share_of_a_device_counts_as_its_part_of_it(state: ClusterState) -> None:
    """Of the device that it is on, whose capacity may turn out to be another one."""
    consumed = FrozenDict({"memory": "20Gi"})
    put(state, make_resource_claim("c", allocation=make_allocation("n/gpu-0", share_id="x", consumed=consumed)))
    state.assume(pod("p", claims=("c",)), 0)
    assert has(state, "a") == 250
    small = [make_device(f"gpu-{number}", capacity={"memory": "40Gi"}, shared=True) for number in range(4)]
    put(state, make_slice("s", node="n", devices=small))
    assert has(state, "a") == 500


def test_a_class_is_named_by_its_extended_resource(state: ClusterState) -> None:
    """From when it has one to when it has none; whoever requests it by the name of the class counts there, too."""
    put(state, make_resource_claim("c"))
    state.assume(pod("p", claims=("c",)), 0)
    state.assume(pod("q", requests={IMPLICIT: 2}), 0)
    assert has(state, "a") == 3000
    for name in ("example.com/gpu", NVIDIA_GPU):
        put(state, make_device_class("gpu", extended_resource=name))
        assert (has(state, "a"), has(state, "a", name)) == (0, 3000)
    put(state, make_device_class("gpu"))
    assert (has(state, "a"), has(state, "a", NVIDIA_GPU)) == (3000, 0)


def test_a_claim_of_several_pods_counts_once(state: ClusterState) -> None:
    """For the first pod that has it, which is the one that it is reserved for first; then for the next."""
    one, two = pod("one", "a", claims=("c",), created_s=5.0), pod("two", "b", claims=("c",), created_s=1.0)
    put(state, make_resource_claim("c"))
    for each in (one, two):
        state.queues.wait(each)
    assert needs(state, one) == needs(state, two) == needs(state, one, two) == {IMPLICIT: 1000}
    reserved = tuple(ClaimConsumer("pods", each.name, each.uid) for each in (one, two))
    state.assume(one, 0)
    put(state, make_resource_claim("c", allocation=make_allocation("n/gpu-0"), reserved_for=reserved[:1]))
    assert (has(state, "a"), has(state, "b"), needs(state, two)) == (1000, 0, {})
    with state.statement():
        state.remove_pod(one.uid)
        assert needs(state, two) == {IMPLICIT: 1000}
    state.assume(two, 0)
    put(state, make_resource_claim("c", allocation=make_allocation("n/gpu-0"), reserved_for=reserved))
    assert (has(state, "a"), has(state, "b")) == (1000, 0)
    with state.statement():
        state.remove_pod(one.uid)
        assert (has(state, "a"), has(state, "b")) == (0, 1000)
    assert (has(state, "a"), has(state, "b")) == (1000, 0)
    state.observe_pod(replace(one, node="n", deleted_s=9.0))
    assert (has(state, "a"), has(state, "b")) == (0, 1000)


def test_published_devices_are_divided(state: ClusterState) -> None:
    """Those of all ready nodes, by class; what pods without a queue hold of them is not."""
    tree = state.queues.settle(state)
    index = tree.resources.index(IMPLICIT)
    assert tree.total[index] == 4000
    put(state, make_resource_claim("c", namespace="other"))
    state.assume(make_pod("outside", namespace="other", claims=("c",)), 0)
    assert state.queues.settle(state).total[index] == 3000
    state.upsert_node(make_node("n", taints=["node.kubernetes.io/not-ready:NoExecute"]))
    assert state.queues.settle(state).total[index] == 0
    state.upsert_node(make_node("n"))
    put(state, make_device_class("gpu", 'device.capacity["gpu.example.com"].memory.compareTo(quantity("90Gi")) > 0'))
    assert state.queues.settle(state).total[index] == 0


def test_a_claim_that_counts_for_a_queue_is_not_needed_again(state: ClusterState) -> None:
    """Whichever of its pods comes first; a pod that may not be evicted needs it as part of the quota."""
    old, new = pod("old", claims=("c",), created_s=1.0), pod("new", claims=("c",), created_s=2.0)
    put(state, make_resource_claim("c"))
    state.assume(new, 0)
    assert (needs(state, old), has(state, "a")) == ({}, 1000)
    assert needs(state, pod("fixed", claims=("c",), created_s=1.0, priority=100)) == {IMPLICIT: 1000}
    assert needs(state, pod("late", claims=("c",), created_s=3.0, priority=100)) == {}
    state.assume(old, 0)
    assert has(state, "a") == 1000
