"""Pods that leave in a what-if: what goes with them, what comes back, and that nothing else takes pods from nodes."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import moorage
from moorage.core.claims import ClaimConsumer, ResourceClaim
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.disruption.away import GONE, MOVED, Away, Future
from moorage.core.pods import Owner, Pod, as_pending
from moorage.core.state import ClusterState, PodRecord
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import make_allocation, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

TRULY = {
    "core/disruption/away.py",
    "core/state.py",
    "core/follow.py",
    "engine/engine.py",
}
"""Where pods truly go, and the one place that takes them away in what-ifs."""


def test_what_ifs_take_pods_away_in_one_place() -> None:
    """Whoever takes a pod from its node in another way forgets what goes with it."""
    source = Path(moorage.__file__).parent
    callers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "remove_pod"
    }
    assert callers == TRULY


def on_node(name: str, *claims: str, node: str = "n") -> Pod:
    return make_pod(name, node=node, claims=claims)


def held(name: str, device: str, *users: Pod, owner: Pod | None = None) -> ResourceClaim:
    consumers = tuple(ClaimConsumer("pods", each.name, each.uid) for each in users)
    found = make_resource_claim(name, allocation=make_allocation(f"n/{device}"), reserved_for=consumers)
    return found if owner is None else replace(found, owner=Owner("Pod", owner.name, owner.uid, "v1"))


def record_of(state: ClusterState, pod: Pod) -> PodRecord:
    record = state.record(pod.uid)
    assert record is not None
    return record


def claim_of(state: ClusterState, name: str) -> ResourceClaim:
    found: ResourceClaim = state.objects[RESOURCE_CLAIM][f"default/{name}"]
    return found


A, B = on_node("a", "shared", "own"), on_node("b", "shared")


@pytest.mark.parametrize(
    ("leaving", "future", "shared", "own"),
    [
        pytest.param([A], GONE, True, False, id="gone"),
        pytest.param([A], MOVED, True, False, id="moved"),
        pytest.param([A, B], GONE, False, False, id="both gone"),
        pytest.param([A, B], MOVED, True, False, id="both moved"),
        pytest.param([B], GONE, True, True, id="the other one gone"),
    ],
)
def test_claims_are_free_once_nobody_uses_them(leaving: list[Pod], future: Future, shared: bool, own: bool) -> None:
    """A pod that moves chooses anew for a claim that was made for it; another one keeps its devices where they are."""
    state = make_state([make_node("n")], [A, B])
    put(state, make_device_class("gpu"), make_slice("n", node="n", devices=("g0", "g1")))
    put(state, held("shared", "g0", A, B), held("own", "g1", A, owner=A))
    before, told = dict(state.objects[RESOURCE_CLAIM]), state.objects_told
    with state.statement():
        away = Away(state)
        away.take([record_of(state, pod) for pod in leaving], future)
        assert (claim_of(state, "shared").allocation is not None) is shared
        assert (claim_of(state, "own").allocation is not None) is own
        for record in away.records:
            assert away.could_return(record)
            away.put_back(record)
            assert away.stays(record.pod.uid)
        assert {k: replace(c, reserved_for=()) for k, c in state.objects[RESOURCE_CLAIM].items()} == {
            k: replace(c, reserved_for=()) for k, c in before.items()
        }
    assert state.objects[RESOURCE_CLAIM] == before
    assert state.objects_told == told


def test_a_pod_cannot_return_to_devices_that_another_one_has() -> None:
    """Neither to the device of a claim nor to a share of one."""
    state = make_state([make_node("n", resources={"nvidia.com/gpu": 1})], [A, B])
    sharer = make_pod("sharer", node="n", annotations={"gpu-fraction": "0.6"})
    state.observe_pod(sharer)
    put(state, make_device_class("gpu"), make_slice("n", node="n", devices=("g0",)), held("own", "g0", A, owner=A))
    state.shares()
    with state.statement():
        away = Away(state)
        away.take([record_of(state, A), record_of(state, sharer)], MOVED)
        assert all(map(away.could_return, away.records))
        state.devices.reserve(B.uid, {"default/theirs": make_allocation("n/g0")})
        state.assume(make_pod("other", annotations={"gpu-fraction": "0.6"}), 0)
        assert not any(map(away.could_return, away.records))
        state.devices.release(B.uid)


def test_shares_come_back_on_the_devices_where_they_were() -> None:
    """The very record stands again, although another device would be chosen for a new one."""
    state = make_state([make_node("n", resources={"nvidia.com/gpu": 2})])
    pods = [make_pod(f"p{i}", node="n", annotations={"gpu-fraction": f"0.{i + 3}"}) for i in range(4)]
    for pod in pods:
        state.observe_pod(pod)
    state.shares()
    records = [record_of(state, pod) for pod in pods]
    before = [record.devices for record in records]
    with state.statement():
        away = Away(state)
        away.take(records, GONE)
        for record in reversed(records):
            away.put_back(record)
        assert [state.record(pod.uid) for pod in pods] == records
        assert [record.devices for record in records] == before


def test_what_is_reserved_for_a_pod_on_its_way_leaves_and_comes_back_with_it() -> None:
    """As if the pod had been bound already."""
    pod = as_pending(A)
    state = make_state([make_node("n")])
    put(state, make_device_class("gpu"), make_slice("n", node="n", devices=("g0",)), make_resource_claim("own"))
    record = state.assume(pod, 0)
    taken = {"default/own": make_allocation("n/g0")}
    state.devices.reserve(pod.uid, taken)
    with state.statement():
        away = Away(state)
        away.take((record,), GONE)
        assert state.devices.allocation("default/own") is None
        away.put_back(record)
        assert state.devices.reservation(pod.uid) == taken
        away.take((record,), GONE)
    assert (state.record(pod.uid), state.devices.reservation(pod.uid)) == (record, taken)
