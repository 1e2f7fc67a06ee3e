"""Pods go where they even out the use of a node's resources."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from moorage.core.limits import AMOUNT
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.builders import Quantities

GPU = "example.com/gpu"
THREE: dict[str, Any] = {"resources": [{"name": "cpu"}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 1}]}


def balanced(args: dict[str, Any] | None = None) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs.model_validate(args or {}))


@pytest.mark.parametrize(
    ("args", "node", "standing", "requests", "want"),
    [
        pytest.param({}, {}, [], {"cpu": "1", "memory": "4Gi"}, 75, id="even before and after"),
        pytest.param({}, {}, [], {"cpu": "2"}, 62, id="uneven after: 75 against 100"),
        pytest.param({}, {}, [{"memory": "8Gi"}], {"cpu": "2"}, 87, id="evened out: 100 against 75"),
        pytest.param({}, {}, [{"memory": "16Gi"}], {"cpu": "4"}, 100, id="the best case"),
        pytest.param({}, {}, [], {"cpu": "4"}, 50, id="the worst case"),
        pytest.param({}, {}, [{}, {}], {"cpu": "4"}, 50, id="pods without requests count nothing here"),
        pytest.param({}, {"cpu": "0"}, [], {"memory": "8Gi"}, 75, id="one resource is always in balance"),
        pytest.param({}, {"cpu": "0", "memory": "0"}, [], {"memory": "8Gi"}, 75, id="no resource too"),
        pytest.param({}, {"cpu": "1"}, [{"cpu": "9"}], {"memory": "16Gi"}, 100, id="use is capped at the whole"),
        pytest.param(THREE, {"resources": {GPU: 2}}, [], {"cpu": "2", "memory": "8Gi", GPU: 1}, 75, id="three, even"),
        pytest.param(THREE, {"resources": {GPU: 1}}, [], {GPU: 1}, 51, id="three, one used: 52 against 100"),
        pytest.param(THREE, {}, [], {"cpu": "2", GPU: 1}, 62, id="gpu that the node lacks left out"),
        pytest.param(THREE, {"resources": {GPU: 1}}, [{GPU: 1}], {"cpu": "2"}, 62, id="unrequested gpu left out"),
    ],
)
def test_score(
    args: dict[str, Any], node: dict[str, Any], standing: list[Quantities], requests: Quantities, want: int
) -> None:
    """50 + (50 + balance with the pod - balance without it) / 2; 4 cpus and 16 GiB unless said otherwise."""
    pods = [make_pod(f"p{number}", requests=each, node="n") for number, each in enumerate(standing)]
    answer = ask(balanced(args), make_state([make_node("n", **node)], pods), make_pod("a", requests=requests))
    assert answer.scores == {"n": want}


def test_a_pod_that_requests_nothing_is_not_scored() -> None:
    """Such pods would all end up on the node that is balanced best."""
    state = make_state([make_node("n")])
    assert ask(balanced(), state, make_pod("a")).score_skipped
    assert ask(balanced(), state, make_pod("a", requests={GPU: 1})).score_skipped
    assert not ask(balanced(THREE), state, make_pod("a", requests={GPU: 1})).score_skipped


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"resources": [{"name": "cpu", "weight": 2}]}, id="weight other than 1"),
        pytest.param({"resources": [{"name": "cpu"}, {"name": "cpu"}]}, id="resource named twice"),
        pytest.param({"weights": []}, id="unknown field"),
    ],
)
def test_bad_arguments(args: dict[str, Any]) -> None:
    """What kube-scheduler refuses is refused."""
    with pytest.raises(ValidationError):
        balanced(args)


def balance(pods: list[Pod], node: Node, names: list[str]) -> int:
    shares = [
        min(1.0, float(sum(pod.requests.get(name) for pod in pods)) / float(node.allocatable[name]))
        for name in names
        if node.allocatable.get(name)
    ]
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    mean = ((shares[0] + shares[1]) + shares[2]) / 3
    squares = [(share - mean) * (share - mean) for share in shares]
    return int((1 - math.sqrt(((squares[0] + squares[1]) + squares[2]) / 3)) * 100)


def reference_for(resources: list[str]) -> Any:
    def reference(pod: Pod, node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> int:
        names = [name for name in resources if name != GPU or pod.requests.get(GPU)]
        gain = balance([*pods, pod], node, names) - balance(pods, node, names)
        return 50 + int(Fraction(50 + gain, 2))

    return reference


@pytest.mark.parametrize(
    ("args", "resources"),
    [pytest.param({}, ["cpu", "memory"], id="two resources"), pytest.param(THREE, ["cpu", "memory", GPU], id="three")],
)
def test_conformance(args: dict[str, Any], resources: list[str]) -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(NodeResourcesBalancedAllocation, args, seeds=range(40), reference_score=reference_for(resources))


amounts = st.integers(0, AMOUNT - 1)


@settings(max_examples=300, deadline=None)
@given(cpu=amounts, memory=amounts, used_cpu=amounts, used_memory=amounts, asked=st.integers(1, AMOUNT))
def test_vector_and_scalar_paths_agree_to_the_last_bit(
    cpu: int, memory: int, used_cpu: int, used_memory: int, asked: int
) -> None:
    """Scores are integers cut from floats, so a different last bit would show; amounts up to the largest that count."""
    node = make_node("n", cpu=f"{cpu}m", memory=memory)
    standing = make_pod("p", cpu=f"{used_cpu}m", memory=used_memory, node="n")
    pod = make_pod("a", cpu=f"{asked}m", memory=asked)
    state = make_state([node], [standing])
    cluster = GeneratedCluster(0, (node,), (standing,), (pod,))
    want = reference_for(["cpu", "memory"])(pod, node, [standing], cluster)
    assert ask(balanced(), state, pod).scores["n"] == want
