"""What is left of shared devices follows pods and nodes, what-ifs and restarts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moorage.core.assignments import Assignment
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.pods import Pod, on_node
from moorage.core.state import ClusterState
from moorage.testing.builders import make_node, make_pod, make_state

GPU = "nvidia.com/gpu"


def gpu_node(name: str, devices: int = 2, *, memory: str = "16000", **more: str) -> Node:
    labels = {"nvidia.com/gpu.memory": memory} if memory else {}
    return make_node(name, cpu="64", memory="512Gi", resources={GPU: devices}, labels={**labels, **more})


def share(name: str, fraction: str, node: str | None = None, devices: tuple[int, ...] = ()) -> Pod:
    return replace(make_pod(name, annotations={"gpu-fraction": fraction}, node=node), devices=devices)


def assigned(pod: Pod, node: str, *devices: int) -> Pod:
    """The pod as it is once it was bound with these devices."""
    assert pod.template.share is not None
    return replace(on_node(pod, node), assigned=Assignment(node, devices, pod.template.share))


def left(state: ClusterState, row: int = 0) -> list[int]:
    return [int(milli) for milli in state.shares().milli[:, row]]


def test_a_share_goes_to_the_fullest_device_that_holds_it() -> None:
    state = make_state([gpu_node("n1", 3)])
    for name, fraction in (("a", "0.5"), ("b", "0.7"), ("c", "0.3"), ("d", "0.4")):
        state.shares()
        state.assume(share(name, fraction), 0)
    assert left(state) == [100, 0, 1000]
    check_invariants(state)


def test_whole_devices_are_idle_ones() -> None:
    state = make_state([gpu_node("n1", 3)], [share("a", "0.1", "n1")])
    assert left(state) == [900, 1000, 1000]
    record = state.assume(make_pod("w", requests={GPU: 2}), 0)
    assert record.devices == (1, 2)


def test_written_devices_count_whatever_would_be_chosen() -> None:
    """A new leader learns what is taken from what is written."""
    state = make_state([gpu_node("n1")], [share("a", "0.5", "n1", (1,)), share("b", "0.5", "n1", (1,))])
    assert left(state) == [1000, 0]


def test_the_watch_confirms_what_was_assumed() -> None:
    state = make_state([gpu_node("n1")])
    state.shares()
    pod = share("a", "0.5")
    devices = state.assume(pod, 0).devices
    for device, want in ((devices[0], [500, 1000]), (1, [1000, 500])):
        state.observe_pod(assigned(pod, "n1", device))
        assert left(state) == want
    check_invariants(state)


def test_what_ifs_leave_no_trace() -> None:
    """A pod that is removed in a what-if has the same devices afterwards, also one that no annotation shows yet."""
    state = make_state([gpu_node("n1")])
    state.shares()
    state.assume(share("a", "0.6"), 0)
    second = state.assume(share("b", "0.6"), 0)
    before = left(state)
    with state.statement():
        state.remove_pod(share("a", "0.6").uid)
        state.remove_pod(share("b", "0.6").uid)
        state.assume(make_pod("w", requests={GPU: 2}), 0)
        state.upsert_node(gpu_node("n1", 1))
    assert left(state) == before
    assert second.devices == (1,)
    check_invariants(state)


def test_memory_is_a_limit_of_its_own() -> None:
    state = make_state([gpu_node("n1", 1)])
    shares = state.shares()
    state.assume(make_pod("a", requests={GPU: 1, "nvidia.com/gpumem": 12000, "nvidia.com/gpucores": 10}), 0)
    ask = make_pod("b", requests={GPU: 1, "nvidia.com/gpumem": 5000}).template.share
    assert ask is not None
    assert not shares.fits_row(ask, 0)
    assert (int(shares.milli[0, 0]), int(shares.memory[0, 0])) == (900, 4000)


def test_memory_in_mib_needs_to_know_how_much_there_is() -> None:
    state = make_state([gpu_node("n1", 1, memory="")])
    asks = [make_pod("p", annotations=said).template.share for said in ({"gpu-memory": "1"}, {"gpu-fraction": "0.1"})]
    assert [ask is not None and state.shares().fits_row(ask, 0) for ask in asks] == [False, True]


def test_devices_that_fail_are_taken_out_and_come_back() -> None:
    state = make_state([gpu_node("n1")], [share("a", "0.5", "n1", (0,))])
    assert left(state) == [500, 1000]
    node = gpu_node("n1")
    state.upsert_node(replace(node, annotations=type(node.annotations)({"moorage.dev/unhealthy-devices": "0"})))
    assert left(state) == [-1, 1000]
    state.upsert_node(node)
    assert left(state) == [500, 1000]
    check_invariants(state)


@pytest.mark.parametrize(
    ("resources", "labels", "want"),
    [
        ({GPU: 8}, {}, 8),
        ({GPU: 80}, {"nvidia.com/gpu.count": "8"}, 8),
        ({"koordinator.sh/gpu-core": 400}, {}, 4),
        ({"alibabacloud.com/gpu-count": 2}, {}, 2),
        ({GPU: 1000}, {}, 64),
        ({}, {"nvidia.com/gpu.count": "8"}, 0),
    ],
    ids=str,
)
def test_how_many_devices_a_node_has(resources: dict[str, int], labels: dict[str, str], want: int) -> None:
    state = make_state([make_node("n1", resources=resources, labels=labels)])
    assert int(state.shares().count[0]) == want


@pytest.mark.parametrize("seed", range(6))
def test_columns_equal_a_recount_after_anything(seed: int) -> None:
    random = Random(seed)
    state = make_state([gpu_node(f"n{number}", random.choice((1, 2, 4))) for number in range(3)])
    state.shares()
    for step in range(120):
        pod = share(f"p{random.randrange(20)}", random.choice(("0.2", "0.5", "0.9")))
        row = random.randrange(3)
        match random.randrange(6):
            case 0:
                state.assume(pod, row)
            case 1:
                state.remove_pod(pod.uid)
            case 2:
                state.observe_pod(assigned(pod, f"n{row}", random.randrange(4)))
            case 4 if random.random() < 0.5:
                state.observe_pod(replace(on_node(pod, f"n{row}"), devices=(random.randrange(4),)))
            case 3:
                state.upsert_node(gpu_node(f"n{row}", random.choice((1, 2, 4))))
            case 4 if state.node_count > 1:
                state.remove_node(f"n{row}")
                state.upsert_node(gpu_node(f"n{row}", 2))
            case _:
                with state.statement():
                    state.remove_pod(pod.uid)
                    state.assume(share(f"q{step}", "0.5"), row)
        check_invariants(state)


def test_pods_that_were_there_before_the_devices_take_their_shares_of_them() -> None:
    state = make_state([make_node("n1")])
    state.shares()
    state.observe_pod(share("a", "0.5", node="n1"))
    state.upsert_node(gpu_node("n1", 2))
    assert left(state) == [500, 1000]
    check_invariants(state)
