"""Room for a pod, and how full a node gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from moorage.core.limits import AMOUNT
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.changes import Change, What
from moorage.framework.status import MAX_REASONS
from moorage.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.builders import Quantities

GPU = "example.com/gpu"

LEAST: dict[str, Any] = {}
MOST: dict[str, Any] = {"scoringStrategy": {"type": "MostAllocated"}}
RATIO: dict[str, Any] = {
    "scoringStrategy": {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 5}],
        "requestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 0}, {"utilization": 40, "score": 8}, {"utilization": 100, "score": 3}]
        },
    }
}
WEIGHTED: dict[str, Any] = {
    "ignoredResources": [GPU],
    "scoringStrategy": {
        "type": "LeastAllocated",
        "resources": [{"name": "cpu", "weight": 2}, {"name": GPU, "weight": 3}, {"name": "ephemeral-storage"}],
    },
}


def fit(args: dict[str, Any] | None = None) -> NodeResourcesFit:
    return NodeResourcesFit(NodeResourcesFitArgs.model_validate(args or {}))


@pytest.mark.parametrize(
    ("requests", "standing", "want"),
    [
        pytest.param({"cpu": "1"}, [], [], id="fits"),
        pytest.param({"cpu": "2"}, [], [], id="fits exactly"),
        pytest.param({"cpu": "1500m"}, [{"cpu": "501m"}], [("Insufficient cpu", True)], id="cpu in use"),
        pytest.param({"cpu": "2001m"}, [], [("Insufficient cpu", False)], id="more cpu than the node has"),
        pytest.param({"memory": "1Gi"}, [{"memory": "4Gi"}], [("Insufficient memory", True)], id="memory in use"),
        pytest.param(
            {"cpu": "3", "memory": "1Gi"},
            [{"memory": "4Gi"}],
            [("Insufficient cpu", False), ("Insufficient memory", True)],
            id="all reasons are given",
        ),
        pytest.param({}, [{"cpu": "2", "memory": "4Gi"}], [], id="a pod without requests fits a full node"),
        pytest.param(
            {"memory": "1Gi"}, [{"cpu": "9"}], [], id="overcommitted cpu does not matter to a pod without cpu"
        ),
        pytest.param({"cpu": "1"}, [{}, {}, {}], [("Too many pods", True)], id="too many pods"),
        pytest.param(
            {"cpu": "5"}, [{}, {}, {}], [("Too many pods", True), ("Insufficient cpu", False)], id="pods and cpu"
        ),
        pytest.param(
            {"ephemeral-storage": "101Gi"}, [], [("Insufficient ephemeral-storage", False)], id="ephemeral storage"
        ),
        pytest.param({GPU: 1}, [{GPU: 1}], [(f"Insufficient {GPU}", True)], id="extended resource in use"),
        pytest.param({"example.com/fpga": 1}, [], [("Insufficient example.com/fpga", False)], id="unknown resource"),
        pytest.param({"hugepages-2Mi": "2Mi"}, [], [("Insufficient hugepages-2Mi", False)], id="huge pages"),
        pytest.param({"storage": "1Gi"}, [], [], id="a name that is no node resource is not looked at"),
    ],
)
def test_filter(requests: Quantities, standing: list[Quantities], want: list[tuple[str, bool]]) -> None:
    """Every resource that falls short is a reason; one that the node never has is beyond the help of preemption."""
    node = make_node("n", cpu="2", memory="4Gi", pods=3, resources={GPU: 1})
    pods = [make_pod(f"p{number}", requests=each, node="n") for number, each in enumerate(standing)]
    answer = ask(fit(), make_state([node], pods), make_pod("a", requests=requests))
    assert list(answer.reasons["n"]) == want


@pytest.mark.parametrize(
    ("args", "want_reasons"),
    [
        pytest.param({}, {GPU, "other.io/x", "cpu"}, id="nothing ignored"),
        pytest.param({"ignoredResources": [GPU, "cpu"]}, {"other.io/x", "cpu"}, id="only extended ones can be ignored"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, {"other.io/x", "cpu"}, id="by group"),
        pytest.param(
            {"ignoredResourceGroups": ["example"]}, {GPU, "other.io/x", "cpu"}, id="a group is a whole prefix"
        ),
    ],
)
def test_ignored_resources(args: dict[str, Any], want_reasons: set[str]) -> None:
    """Ignored extended resources are left to somebody else, usually an extender."""
    pod = make_pod("a", requests={GPU: 1, "other.io/x": 1, "cpu": "9"})
    reasons = ask(fit(args), make_state([make_node("n")]), pod).reasons["n"]
    assert {text.removeprefix("Insufficient ") for text, _ in reasons} == want_reasons


def test_a_pod_with_very_many_resources_gets_merged_reasons() -> None:
    """Reasons fit into an int64; those beyond share one that names them all."""
    requests = {f"example.com/r{number:02}": 1 for number in range(40)}
    state = make_state([make_node("none"), make_node("all", resources=requests)])
    reasons = ask(fit(), state, make_pod("a", requests=requests)).reasons
    assert reasons["all"] == ()
    assert len(reasons["none"]) < MAX_REASONS
    assert reasons["none"][-1][0].startswith("Insufficient example.com/r29, example.com/r30")
    assert not any(resolvable for _, resolvable in reasons["none"])


def score(args: dict[str, Any], node: Node, standing: list[Quantities], requests: Quantities) -> int:
    pods = [make_pod(f"p{number}", requests=each, node=node.name) for number, each in enumerate(standing)]
    return ask(fit(args), make_state([node], pods), make_pod("a", requests=requests)).scores[node.name]


HALF = {"cpu": "2", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("args", "node", "standing", "requests", "want"),
    [
        pytest.param(LEAST, {}, [], HALF, 50, id="least: half of each"),
        pytest.param(LEAST, {}, [{"cpu": "1", "memory": "2Gi"}], HALF, 31, id="least: (25 + 37) / 2, rounded down"),
        pytest.param(LEAST, {}, [], {}, 97, id="least: no requests count as 100m and 200Mi, (97 + 98) / 2"),
        pytest.param(LEAST, {}, [{}, {}], {}, 94, id="least: so do those of standing pods, (92 + 96) / 2"),
        pytest.param(LEAST, {"cpu": "1"}, [], {"cpu": "2", "memory": "8Gi"}, 25, id="least: overcommitted is 0"),
        pytest.param(
            LEAST, {"cpu": "0"}, [], {"memory": "4Gi"}, 75, id="least: a resource that is not there is left out"
        ),
        pytest.param(LEAST, {"cpu": "0", "memory": "0"}, [], HALF, 0, id="least: nothing is there"),
        pytest.param(MOST, {}, [], HALF, 50, id="most: half of each"),
        pytest.param(MOST, {}, [{"cpu": "1", "memory": "2Gi"}], HALF, 68, id="most: (75 + 62) / 2, rounded down"),
        pytest.param(MOST, {"cpu": "1"}, [], {"cpu": "2", "memory": "8Gi"}, 75, id="most: overcommitted is full"),
        pytest.param(WEIGHTED, {"resources": {GPU: 4}}, [], {"cpu": "1", GPU: 1}, 79, id="weights: (2*75+3*75+100)/6"),
        pytest.param(WEIGHTED, {"resources": {GPU: 4}}, [], {"cpu": "1"}, 83, id="weights: unrequested gpu left out"),
        pytest.param(WEIGHTED, {}, [], {"cpu": "1", GPU: 1}, 83, id="weights: gpu that the node lacks left out"),
        pytest.param(RATIO, {}, [], {"cpu": "800m", "memory": "8Gi"}, 48, id="ratio: (3*40 + 72) / 4"),
        pytest.param(RATIO, {}, [], {"cpu": "10m", "memory": "8Gi"}, 72, id="ratio: what scores 0 does not count"),
        pytest.param(
            RATIO, {}, [], {"cpu": "3", "memory": "8704Mi"}, 56, id="ratio: falling part, (3*51 + 70) / 4 rounded"
        ),
        pytest.param(RATIO, {"cpu": "1"}, [], {"cpu": "9", "memory": "16Gi"}, 30, id="ratio: beyond 100 is 100"),
    ],
)
def test_score(
    args: dict[str, Any], node: dict[str, Any], standing: list[Quantities], requests: Quantities, want: int
) -> None:
    """kube-scheduler's integers on a node of 4 cpus and 16 GiB, unless said otherwise."""
    assert score(args, make_node("n", **node), standing, requests) == want


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize("size", ["80Ti", "82Ti", "510Ti"])
def test_percentages_of_huge_amounts_stay_sensible(strategy: str, size: str) -> None:
    """Beyond what floats can carry, integers take over without a jump."""
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "ephemeral-storage", "weight": 1}]}}
    half = {"80Ti": "40Ti", "82Ti": "41Ti", "510Ti": "255Ti"}[size]
    node = make_node("n", resources={"ephemeral-storage": size})
    assert score(args, node, [], {"ephemeral-storage": half}) == 50


def test_new_resources_and_nodes_are_taken_in() -> None:
    """What is kept per request and per column follows the state, and another state starts anew."""
    plugin, pod = fit(WEIGHTED), make_pod("a", cpu="1", requests={"example.com/late": 1})
    state = make_state([make_node("n1")])
    assert ask(plugin, state, pod).reasons["n1"] == (("Insufficient example.com/late", False),)
    state.upsert_node(make_node("n2", cpu="8", resources={"example.com/late": 1}))
    answer = ask(plugin, state, pod)
    assert answer.reasons["n2"] == ()
    assert answer.scores == {"n1": 83, "n2": 91}
    other = make_state([make_node("n1", cpu="8", resources={"example.com/late": 2})])
    assert ask(plugin, other, pod).scores == {"n1": 91}


@pytest.mark.parametrize(
    ("args", "want_place"),
    [
        pytest.param({"unknown": 1}, "unknown", id="unknown field"),
        pytest.param({"ignoredResources": ["/x"]}, "ignoredResources", id="bad resource name"),
        pytest.param({"ignoredResourceGroups": ["a.b/c"]}, "ignoredResourceGroups", id="a group with a slash"),
        pytest.param({"scoringStrategy": {"type": "Fullest"}}, "scoringStrategy.type", id="unknown type"),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources.0.weight",
            id="weight above 100",
        ),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": -1}]}},
            "scoringStrategy.resources.0.weight",
            id="negative weight",
        ),
        pytest.param({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "scoringStrategy", id="shape missing"),
        pytest.param(
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]}}},
            "scoringStrategy",
            id="shape without the type",
        ),
    ],
)
def test_bad_arguments(args: dict[str, Any], want_place: str) -> None:
    """The error names the field as the configuration writes it."""
    with pytest.raises(ValidationError) as refusal:
        fit(args)
    assert want_place in {".".join(map(str, error["loc"])) for error in refusal.value.errors()}


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param([], id="empty"),
        pytest.param([(50, 1), (50, 2)], id="not rising"),
        pytest.param([(-1, 1)], id="utilization below 0"),
        pytest.param([(101, 1)], id="utilization above 100"),
        pytest.param([(0, 11)], id="score above 10"),
        pytest.param([(0, -1)], id="score below 0"),
    ],
)
def test_bad_shapes(shape: list[tuple[int, int]]) -> None:
    """A shape has rising utilizations of 0..100 and scores of 0..10."""
    points = [{"utilization": utilization, "score": points} for utilization, points in shape]
    ratio = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    with pytest.raises(ValidationError):
        fit({"scoringStrategy": ratio})


def test_defaults_are_those_of_kube_scheduler() -> None:
    """No resources means cpu and memory, a weight of 0 means 1."""
    empty = {"scoringStrategy": {"type": "LeastAllocated", "resources": []}}
    zero = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}, {"name": "memory"}]}}
    node, requests = make_node("n"), {"cpu": "1", "memory": "1Gi"}
    assert {score(args, node, [], requests) for args in ({}, empty, zero)} == {84}


@pytest.mark.parametrize(
    ("change", "want_helps"),
    [
        pytest.param(Change(What.NODE_ADDED, node=make_node("n", cpu="2")), True, id="a large enough node"),
        pytest.param(Change(What.NODE_ADDED, node=make_node("n", cpu="1")), False, id="a node that is too small"),
        pytest.param(Change(What.NODE_ALLOCATABLE, node=make_node("n", pods=0)), False, id="a node without pods"),
        pytest.param(Change(What.POD_REMOVED, pod=make_pod("b", node="n")), True, id="a pod leaves its place at least"),
        pytest.param(
            Change(What.POD_REMOVED, node=make_node("n", cpu="1"), pod=make_pod("b", cpu="1", node="n")),
            False,
            id="a pod leaves a node that is too small",
        ),
        pytest.param(Change(What.SELF), True, id="the pod was scaled down"),
    ],
)
def test_helps(change: Change, want_helps: bool) -> None:
    """What cannot make room for 1500m does not wake the pod."""
    assert fit().helps(make_pod("a", cpu="1500m").template, change) is want_helps


def reference_filter(pod: Pod, node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    reasons = ["Too many pods"] if len(pods) + 1 > node.allocatable.get("pods", 0) else []
    for name, amount in pod.requests.amounts:
        used = sum(each.requests.get(name) for each in pods)
        if amount > node.allocatable.get(name, 0) - used:
            reasons.append(f"Insufficient {name}")
    return reasons


def used_with(pod: Pod, pods: list[Pod], name: str) -> int:
    if name == "cpu":
        return sum(each.requests.score_cpu_milli for each in (*pods, pod))
    if name == "memory":
        return sum(each.requests.score_memory_bytes for each in (*pods, pod))
    return sum(each.requests.get(name) for each in (*pods, pod))


def reference_least(pod: Pod, node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> int:
    scores = []
    for name in ("cpu", "memory"):
        whole = node.allocatable.get(name, 0)
        if whole:
            scores.append(max(whole - used_with(pod, pods, name), 0) * 100 // whole)
    return sum(scores) // len(scores) if scores else 0


def reference_most(pod: Pod, node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> int:
    scores = []
    for name in ("cpu", "memory"):
        whole = node.allocatable.get(name, 0)
        if whole:
            scores.append(min(used_with(pod, pods, name), whole) * 100 // whole)
    return sum(scores) // len(scores) if scores else 0


def reference_ratio(pod: Pod, node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> int:
    total = weights = 0
    for name, weight in (("cpu", 3), ("memory", 1), (GPU, 5)):
        whole = node.allocatable.get(name, 0)
        if not whole or (name == GPU and not pod.requests.get(GPU)):
            continue
        used = min(used_with(pod, pods, name) * 100 // whole, 100)
        points = 2 * used if used <= 40 else 80 - (used - 40) * 50 // 60
        if points:
            total += weight * points
            weights += weight
    return int(total / weights + 0.5) if weights else 0


@pytest.mark.parametrize(
    ("args", "reference"),
    [
        pytest.param(LEAST, reference_least, id="LeastAllocated"),
        pytest.param(MOST, reference_most, id="MostAllocated"),
        pytest.param(RATIO, reference_ratio, id="RequestedToCapacityRatio"),
    ],
)
def test_conformance(args: dict[str, Any], reference: Any) -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(NodeResourcesFit, args, seeds=range(30), reference_filter=reference_filter, reference_score=reference)


def test_conformance_with_weights() -> None:
    """The promises hold with other arguments too."""
    check_plugin(NodeResourcesFit, WEIGHTED)


@settings(max_examples=300, deadline=None)
@given(whole=st.integers(1, AMOUNT - 1), used=st.integers(0, 2**62), asked=st.integers(1, 2**61))
@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_vector_and_scalar_paths_agree_on_any_amount(strategy: str, whole: int, used: int, asked: int) -> None:
    """Also where floating point cannot carry the amounts."""
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "ephemeral-storage", "weight": 1}]}}
    plugin = fit(args)
    node = make_node("n", resources={"ephemeral-storage": whole})
    state = make_state([node], [make_pod("p", requests={"ephemeral-storage": used}, node="n")])
    pod = make_pod("a", requests={"ephemeral-storage": asked})
    found = ask(plugin, state, pod).scores["n"]
    full = min(used + asked, whole)
    exact = (whole - full if strategy == "LeastAllocated" else full) * 100 // whole
    assert found == exact
