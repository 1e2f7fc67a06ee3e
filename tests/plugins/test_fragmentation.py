"""Fragmentation: what is left stays of use to the pods that this cluster has."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pydantic import ValidationError

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.plugins.fragmentation import Fragmentation, FragmentationArgs
from moorage.testing import check_plugin, make_node, make_node_affinity, make_pod, make_state
from tests.plugins.controlled import NOW_S

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


def gpu_node(name: str, devices: int, cpu: str = "32", model: str = "T4") -> Node:
    return make_node(name, cpu=cpu, memory="512Gi", resources={GPU: devices}, labels={PRODUCT: model})


def share(name: str, fraction: str, node: str | None = None, cpu: str = "1", models: str = "") -> Pod:
    affinity = make_node_affinity(required=[[f"{PRODUCT} In {models}"]]) if models else None
    return make_pod(name, cpu=cpu, annotations={"gpu-fraction": fraction}, node=node, node_affinity=affinity)


def whole(name: str, devices: int, node: str | None = None) -> Pod:
    return make_pod(name, cpu="1", requests={GPU: devices}, node=node)


def learned(nodes: Iterable[Node], pods: Iterable[Pod], typical: Iterable[Pod]) -> ClusterState:
    state = make_state(nodes, pods)
    state.workload.follow(typical)
    state.workload.settle()
    return state


def best(state: ClusterState, pod: Pod, **args: object) -> set[str]:
    """The nodes with 100 points."""
    plugin, cycle = Fragmentation(FragmentationArgs.model_validate(args)), Cycle(pod, state, NOW_S)
    points = plugin.normalize(cycle, plugin.score(cycle, state.rows()))
    assert 0 <= points.min() <= points.max() == 100
    return {state.node(int(row)).name for row, point in zip(state.rows(), points, strict=True) if point == 100}


def test_conformance() -> None:
    check_plugin(Fragmentation, seeds=range(20))


def test_a_share_fills_a_hole_that_nothing_typical_fits() -> None:
    """Pods ask for halves: what is left of 0.6 is of use to nobody but a small one."""
    typical = [share(f"t{number}", "0.5") for number in range(9)]
    state = learned(
        [gpu_node("hole", 1), gpu_node("half", 1)], [share("a", "0.6", "hole"), share("b", "0.5", "half")], typical
    )
    assert best(state, share("p", "0.3")) == {"hole"}


def test_whole_devices_stay_whole_for_pods_that_want_them() -> None:
    typical = [whole(f"t{number}", 1) for number in range(9)]
    state = learned([gpu_node("idle", 2), gpu_node("begun", 2)], [share("a", "0.2", "begun")], typical)
    assert best(state, share("p", "0.5")) == {"begun"}


def test_cpu_is_left_where_devices_need_it() -> None:
    """A pod without devices goes where it strands no device."""
    typical = [*(whole(f"t{number}", 1) for number in range(5)), make_pod("c", cpu="4")]
    state = learned([gpu_node("devices", 8, cpu="8"), make_node("plain", cpu="8", memory="512Gi")], [], typical)
    assert best(state, make_pod("p", cpu="8")) == {"plain"}


def test_ties_go_to_the_fuller_node() -> None:
    typical = [share(f"t{number}", "0.5") for number in range(9)]
    state = learned([gpu_node("empty", 2), gpu_node("fuller", 2)], [make_pod("a", cpu="2", node="fuller")], typical)
    assert best(state, share("p", "0.5")) == {"fuller"}


def test_models_that_others_insist_on_are_spared() -> None:
    nodes = [gpu_node("scarce", 1, model="V100"), gpu_node("common", 4), gpu_node("common-2", 4)]
    typical = [share(f"t{number}", "0.5", models="V100" if number < 2 else "") for number in range(20)]
    state = learned(nodes, [share("a", "0.5", "scarce")], typical)
    assert "scarce" not in best(state, share("p", "0.5"))
    assert best(state, share("p", "0.5"), spare=False) == {"scarce"}


def test_pods_without_devices_are_not_kept_from_models() -> None:
    nodes = [gpu_node("scarce", 1, model="V100"), gpu_node("common", 1, cpu="31")]
    state = learned(nodes, [], [share("c", "0.5", models="V100"), share("any", "0.5")])
    assert best(state, make_pod("p", cpu="1")) == {"common"}


def test_cpu_and_memory_alone() -> None:
    """Where memory is nearly gone, a pod that needs little of it uses the cpu that would be stranded."""
    typical = [make_pod(f"t{number}", cpu="2", memory="4Gi") for number in range(9)]
    nodes = [make_node("bound", cpu="16", memory="32Gi"), make_node("free", cpu="16", memory="32Gi")]
    state = learned(nodes, [make_pod("a", cpu="2", memory="30Gi", node="bound")], typical)
    assert best(state, make_pod("p", cpu="4", memory="1Gi")) == {"bound"}


def test_without_any_typical_pod_the_fuller_node_wins() -> None:
    state = make_state([gpu_node("empty", 2), gpu_node("fuller", 2)], [make_pod("a", cpu="2", node="fuller")])
    assert best(state, share("p", "0.5")) == {"fuller"}


def test_pieces_of_devices_that_nothing_typical_fits_are_idle_and_unusable() -> None:
    """Pods ask for halves: of what is left, the 0.4 beside a share of 0.6 are of no use."""
    state = learned([gpu_node("n", 2)], [share("a", "0.6", "n")], [share(f"t{number}", "0.5") for number in range(9)])
    found = Fragmentation().idle(state)
    assert found["devices"].amount == pytest.approx(1.4)
    assert found["devices"].unusable == pytest.approx(0.4)
    assert found["cpu"] == (31.0, 0.0)


def test_stranded_cpu_is_idle_and_unusable() -> None:
    """One node has no memory left for typical pods; the other one has, and half of them need more cpu than it has."""
    nodes = [make_node("full", cpu="8", memory="4Gi"), make_node("free", cpu="4", memory="64Gi")]
    small, large = (
        [make_pod(f"{name}{number}", cpu=cpu, memory="2Gi") for number in range(4)]
        for name, cpu in (("s", "1"), ("l", "6"))
    )
    state = learned(nodes, [make_pod("a", cpu="2", memory="3Gi", node="full")], [*small, *large])
    found = Fragmentation().idle(state)
    assert found["cpu"].amount == pytest.approx(6 + 4)
    assert found["cpu"].unusable == pytest.approx(6 + 2)
    assert found["devices"] == (0.0, 0.0)


def test_nothing_is_called_unusable_while_no_request_is_known() -> None:
    state = learned([gpu_node("n", 2)], [], [])
    assert all(each.unusable == 0.0 for each in Fragmentation().idle(state).values())


def test_typical_requests_can_be_given() -> None:
    """They count instead of what the pods show: here pods ask for halves, and the configuration knows of 0.4."""
    nodes, pods = [gpu_node("hole", 1), gpu_node("half", 1)], [share("a", "0.6", "hole"), share("b", "0.5", "half")]
    state = learned(nodes, pods, [share(f"t{number}", "0.5") for number in range(9)])
    assert best(state, share("p", "0.3")) == {"hole"}
    given = [{"cpu": 1, "memory": "1Gi", "devices": 1, "milli": 400, "weight": 3}, {"cpu": "100m", "weight": 1}]
    assert best(state, share("p", "0.1"), workload=given) == {"half"}


@pytest.mark.parametrize(
    "wrong",
    [{"cpu": "much"}, {"cpu": "-1"}, {"cpu": True}, {"milli": 0}, {"devices": -1}, {"weight": 0}, {"gpu": 1}],
    ids=str,
)
def test_typical_requests_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FragmentationArgs.model_validate({"workload": [wrong]})
