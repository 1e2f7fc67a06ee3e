"""SharedDevices: shares lie on one device, whole devices are idle, and what was chosen is written with the bind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from moorage.core.extendedclaims import container_asks
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.requests import ContainerResources, PodResources, effective_requests
from moorage.core.shareasks import share_ask
from moorage.core.sharewriting import taken_devices
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.details import Detail, NearMiss
from moorage.plugins.shared_devices import SharedDevices
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.clusters import GeneratedCluster
from tests.plugins.controlled import NOW_S, reasons_for, scores_for

GPU = "nvidia.com/gpu"
MIB = {"nvidia.com/gpu.memory": "16000"}


def gpu_node(name: str, devices: int, **labels: str) -> Node:
    return make_node(name, cpu="64", resources={GPU: devices}, labels={**MIB, **labels})


def share(name: str, fraction: str, **more: Any) -> Pod:
    return make_pod(name, annotations={"gpu-fraction": fraction}, **more)


def reference(pod: Pod, node: Node, pods: list[Pod], _: GeneratedCluster) -> list[str]:
    """First come, first served: each pod on the fullest device that holds it; then the one in question."""
    ask = pod.template.share
    if ask is None:
        return []
    count = node.allocatable.get(GPU, 0)
    if not count:
        return ["no devices"]
    memory = int(node.labels.get("nvidia.com/gpu.memory", "0"))
    left = [[1000, memory or 1000] for _ in range(count)]

    def needs(asker: Pod) -> tuple[int, int, int]:
        wish = asker.template.share
        assert wish is not None
        if wish.memory_mib:
            return wish.count, wish.milli, wish.memory_mib if memory else 10**9
        return wish.count, wish.milli, -(-wish.memory_milli * (memory or 1000) // 1000)

    def fitting(number: int, milli: int, size: int) -> list[list[int]]:
        large = [device for device in left if device[0] >= milli and device[1] >= size]
        return sorted(large, key=lambda device: min(device[0], device[1] * 1000 // (memory or 1000)))[:number]

    for other in pods:
        if other.template.share is not None:
            number, milli, size = needs(other)
            taken = fitting(number, milli, size)
            crowded = [device for device in left if device not in taken] if len(taken) < number else []
            if crowded:
                return _crowded(node, pods, pod)
            for device in taken:
                device[0] -= milli
                device[1] -= size
    number, milli, size = needs(pod)
    return [] if len(fitting(number, milli, size)) >= number else ["no room"]


def _crowded(node: Node, pods: list[Pod], pod: Pod) -> list[str]:
    """Pods that do not fit stand there nevertheless: the columns say what is left."""
    state = make_state([node], pods)
    ask = pod.template.share
    return [] if ask is None or state.shares().fits_row(ask, 0) else ["no room"]


def test_conformance() -> None:
    check_plugin(SharedDevices, seeds=range(40))


def test_random_clusters_are_judged_as_by_a_reference() -> None:
    """Whether a node passes, not in which words."""
    from moorage.testing.clusters import generate_cluster  # noqa: PLC0415 - used here alone

    for seed in range(60):
        cluster = generate_cluster(seed)
        state = cluster.state()
        for pod in cluster.pending:
            rejected = reasons_for(SharedDevices(), state, pod)
            for node in cluster.nodes:
                want = bool(reference(pod, node, cluster.pods_on(node.name), cluster))
                assert (node.name in rejected) is want, (seed, pod.name, node.name)


REJECTED: list[tuple[str, Pod, Mapping[str, list[str]]]] = [
    ("a share that no single device holds", share("p", "0.6"), {
        "none": ["node(s) had no devices that can be shared"],
        "halves": ["Insufficient devices with 600m compute left"],
    }),
    ("whole devices", make_pod("p", requests={GPU: 2}), {
        "none": ["node(s) had no devices that can be shared"],
        "halves": ["Insufficient idle devices"],
        "one": ["node(s) had fewer than 2 device(s) that are large enough"],
    }),
    ("memory", make_pod("p", annotations={"gpu-memory": "9000"}), {
        "none": ["node(s) had no devices that can be shared"],
        "halves": ["Insufficient devices with 9000Mi memory left"],
    }),
    ("more memory than a device has", make_pod("p", annotations={"gpu-memory": "17000"}), {
        "none": ["node(s) had no devices that can be shared"],
        **{key: ["node(s) had fewer than 1 device(s) that are large enough"] for key in ("halves", "one")},
    }),
    ("a model", make_pod("p", annotations={"alibabacloud.com/gpu-milli": "10", "alibabacloud.com/gpu-card-model": "A"}),
     {"none": ["node(s) had no devices that can be shared"], "halves": ["node(s) had devices of another model"],
      "one": ["node(s) had devices of another model"]}),
    ("no device at all", make_pod("p", cpu="1"), {}),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "want"), [case[1:] for case in REJECTED], ids=[case[0] for case in REJECTED])
def test_why_nodes_are_rejected(pod: Pod, want: Mapping[str, list[str]]) -> None:
    nodes = [make_node("none"), gpu_node("halves", 2), gpu_node("one", 1)]
    state = make_state(nodes, [share("a", "0.5", node="halves"), share("b", "0.6", node="halves")])
    assert reasons_for(SharedDevices(), state, pod) == want


def test_a_wish_that_cannot_be_understood_is_refused() -> None:
    pod = share("p", "a lot")
    refusal = SharedDevices().pre_filter(Cycle(pod, make_state([gpu_node("n", 1)]), NOW_S))
    assert refusal is not None
    assert "gpu-fraction is 'a lot'" in refusal.message


def test_devices_in_use_are_preferred() -> None:
    state = make_state([gpu_node("idle", 2), gpu_node("used", 2)], [share("a", "0.5", node="used")])
    scores = scores_for(SharedDevices(), state, share("p", "0.25"))
    assert scores["used"] > scores["idle"]


def test_what_was_chosen_is_written() -> None:
    state = make_state([gpu_node("n", 2)], [share("a", "0.9", node="n")])
    plugin, pod = SharedDevices(), make_pod("p", annotations={"alibabacloud.com/gpu-milli": "500"})
    state.shares()
    state.assume(pod, 0)
    cycle = Cycle(pod, state, NOW_S)
    assert plugin.reserve(cycle, 0) is None
    words = plugin.binding_annotations(cycle, 0)
    assert words == {"moorage.dev/devices": "1", "alibabacloud.com/gpu-index": "1"}
    assert taken_devices(words) == (1,)


def explained(state: ClusterState, pod: Pod) -> list[Detail]:
    """What an explanation tells of each row."""
    plugin, cycle = SharedDevices(), Cycle(pod, state, NOW_S)
    rows = state.rows()
    assert plugin.filter(cycle, rows) is not None
    return [detail for row in rows.tolist() for detail in plugin.details(cycle, rows)[row]]


def test_an_explanation_names_the_device_that_fell_short() -> None:
    """The one that lacks the least first, and how much it lacks."""
    node = make_node("n", cpu="64", resources={GPU: 3}, labels=MIB, annotations={"moorage.dev/unhealthy-devices": "2"})
    state = make_state([node], [share("a", "0.9", node="n"), share("b", "0.7", node="n")])
    (detail,) = explained(state, share("p", "0.4"))
    assert detail.text == (
        "a request for 1 share of 400m compute: finds room on 0 of 3 devices, and needs 1; "
        "2 too little compute and memory left; 1 not healthy"
    )
    assert detail.nearest[0] == NearMiss("device 1", ("300m of 400m compute left", "4800Mi of 6400Mi memory left"))
    assert detail.nearest[1].name == "device 0"


def test_an_explanation_names_devices_as_their_agent_does() -> None:
    """HAMi registers UUIDs; a request for memory alone falls short of memory alone."""
    register = "GPU-a,10,8000,100,NVIDIA-T4,0,true:"
    node = make_node("n", cpu="64", resources={GPU: 10}, annotations={"hami.io/node-nvidia-register": register})
    taken = make_pod("a", requests={GPU: 1, "nvidia.com/gpumem": 6000}, node="n")
    (detail,) = explained(make_state([node], [taken]), make_pod("p", requests={GPU: 1, "nvidia.com/gpumem": 4000}))
    assert detail.nearest == (NearMiss("device 0 (GPU-a)", ("2000Mi of 4000Mi memory left",)),)


def test_an_explanation_says_which_models_would_do() -> None:
    wish = {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-card-model": "A10|V100"}
    state = make_state([gpu_node("n", 1, **{"nvidia.com/gpu.product": "T4"})])
    (detail,) = explained(state, make_pod("p", annotations=wish))
    assert detail.text == "a request for 1 whole device: accepts A10 or V100, and the model here is T4"


def test_init_containers_have_no_slot() -> None:
    """Sidecars neither."""
    sidecar, main = ContainerResources("s", {"cpu": 100}, restartable=True), ContainerResources("m", {GPU: 1})
    resources = PodResources((main,), (sidecar,))
    asked = share_ask({}, effective_requests(resources), container_asks(resources))
    assert asked is not None
    assert (asked.count, asked.slots) == (1, ())


def test_hami_finds_the_devices_of_each_container_in_its_place() -> None:
    """Containers without devices have an empty slot; init containers have none."""
    register = "".join(f"GPU-{name},10,8000,100,NVIDIA-T4,0,true:" for name in "abc")
    node = make_node("n", cpu="64", resources={GPU: 30}, annotations={"hami.io/node-nvidia-register": register})
    asked = {GPU: 1, "nvidia.com/gpumem": 1000}
    pod = make_pod("p", containers=[{"cpu": "1"}, {**asked, GPU: 2}, asked])
    state = make_state([node])
    state.shares()
    state.assume(pod, 0)
    words = SharedDevices().binding_annotations(Cycle(pod, state, NOW_S), 0)
    assert words["hami.io/vgpu-devices-to-allocate"] == (
        ";GPU-a,NVIDIA,1000,0:GPU-b,NVIDIA,1000,0:;GPU-c,NVIDIA,1000,0:;"
    )
