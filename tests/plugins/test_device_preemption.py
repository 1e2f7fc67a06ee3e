"""Pods of lower priority are evicted for their devices, where the argument `preemptDevices` says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.claims import ClaimConsumer, DeviceChoice, ResourceClaim
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Nomination
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put
from tests.framework.readers import NOW_S, make_profile
from tests.plugins.preempting import Outcome, preempt_on

ATTRIBUTES = 'device.attributes["gpu.example.com"]'
P = make_pod("p", priority=10, claims=("mine",))


def pod(name: str, claims: str, priority: int = 0, **fields: Any) -> Pod:
    return make_pod(name, node="n", priority=priority, claims=tuple(claims.split()), **fields)


def held(name: str, device: str, *users: Pod, **device_fields: Any) -> ResourceClaim:
    consumers = tuple(ClaimConsumer("pods", each.name, each.uid) for each in users)
    allocation = make_allocation(f"n/{device}", **device_fields)
    return make_resource_claim(name, allocation=allocation, reserved_for=consumers)


def cluster(pods: list[Pod], *objects: Any, devices: tuple[str, ...] = ("g0", "g1"), wants: int = 1) -> ClusterState:
    """Node `n` has devices; node `m`, on which an idle pod stands, has none."""
    state = make_state([make_node("n"), make_node("m")], [*pods, make_pod("idle", node="m")])
    mine = make_resource_claim("mine", DeviceChoice(device_class="gpu", count=wants))
    return put(state, make_device_class("gpu"), make_slice("n", node="n", devices=devices), mine, *objects)


def preempt(state: ClusterState, preemptor: Pod = P, *, on: bool = True) -> Outcome:
    """What preemption says; claims and devices must be as before."""
    claims, in_use = dict(state.objects["ResourceClaim"]), dict(state.devices._holders)
    found = preempt_on(
        state, preemptor, DefaultPreemption(), DynamicResources(DynamicResourcesArgs(preempt_devices=on))
    )
    assert state.objects["ResourceClaim"] == claims
    assert state.devices._holders == in_use
    return found


A, B, HIGH = pod("a", "ca"), pod("b", "cb", 5), pod("high", "ch", 10)
AB = pod("a", "shared"), pod("b", "shared", 5)
PLAIN = pod("plain", "")
CASES = [
    pytest.param([A, B], [held("ca", "g0", A), held("cb", "g1", B)], 1, ("a",), id="the least important one"),
    pytest.param([A, B], [held("ca", "g0", A), held("cb", "g1", B)], 2, ("b", "a"), id="both devices"),
    pytest.param([A, PLAIN], [held("ca", "g0", A), held("x", "g1")], 1, ("a",), id="only pods with devices"),
    pytest.param([*AB], [held("shared", "g0", *AB), held("x", "g1")], 1, ("b", "a"), id="all users of a claim"),
    pytest.param(
        [AB[0], pod("high", "shared", 10)],
        [held("shared", "g0", AB[0], pod("high", "shared", 10)), held("x", "g1")],
        1,
        (),
        id="never a claim that others use",
    ),
    pytest.param([HIGH], [held("ch", "g0", HIGH), held("x", "g1")], 1, (), id="nobody of equal priority"),
    pytest.param(
        [A],
        [held("ca", "g0", A, admin_access=True), held("x", "g0"), held("y", "g1")],
        1,
        (),
        id="admin access takes nothing",
    ),
    pytest.param([A], [held("ca", "g0", A), held("x", "g1")], 2, (), id="not enough"),
]


@pytest.mark.parametrize(("pods", "claims", "wants", "want"), CASES)
def test_victims(pods: list[Pod], claims: list[ResourceClaim], wants: int, want: tuple[str, ...]) -> None:
    """No more pods than are needed, and none at all where that does not free the devices."""
    found = preempt(cluster(pods, *claims, wants=wants))
    assert (found.node, found.victims) == ("n" if want else None, want)


def test_off_by_default() -> None:
    """As in kube-scheduler."""
    state = cluster([A], held("ca", "g0", A), held("x", "g1"))
    found = preempt(state, on=False)
    want = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert (found.node, found.message) == (None, want)
    assert not DynamicResources().preempts_devices


def judged(state: ClusterState, each: Pod) -> list[str]:
    """The nodes that have devices for a pod."""
    plugin = DynamicResources(DynamicResourcesArgs(preempt_devices=True))
    runner = Runner(make_profile([PrioritySort(), plugin]), state)
    cycle = Cycle(each, state, NOW_S)
    names = [state.node(int(row)).name for row in runner.judge(cycle, state.rows()).passed]
    assert (runner.decide(cycle) >= 0) == bool(names)
    return names


@pytest.mark.parametrize(
    ("devices", "priority", "want"),
    [
        pytest.param(("g0",), 0, [], id="the only device is promised"),
        pytest.param(("g0", "g1"), 0, ["n"], id="one is left"),
        pytest.param(("g0",), 20, ["n"], id="a more important pod takes it"),
    ],
)
def test_devices_are_kept_for_nominated_pods(devices: tuple[str, ...], priority: int, want: list[str]) -> None:
    """From pods of lower priority; without the argument nobody keeps them."""
    state = cluster([], make_resource_claim("theirs"), devices=devices)
    state.nominations.set(P, "n")
    assert judged(state, make_pod("other", priority=priority, claims=("theirs",))) == want


def test_a_nominated_pod_keeps_the_device_that_only_it_cannot_do_without() -> None:
    """The other pod, which would take the first that it finds, gets another one."""
    big = make_resource_claim("mine", DeviceChoice(device_class="gpu", selectors=(f"{ATTRIBUTES}.big",)))
    devices = [make_device("g0", big=True), make_device("g1", big=False)]
    state = cluster([], big, make_resource_claim("theirs"), make_slice("n", node="n", devices=devices))
    plugin = DynamicResources(DynamicResourcesArgs(preempt_devices=True))
    other = make_pod("other", claims=("theirs",))
    for nominated, want in ((False, "g0"), (True, "g1")):
        if nominated:
            state.nominations.set(P, "n")
        cycle = Cycle(other, state, NOW_S)
        plugin.pre_filter(cycle)
        assert plugin.reserve(cycle, state.row_of("n") or 0) is None
        (allocation,) = state.devices.reservation(other.uid).values()
        assert [each.device for each in allocation.devices] == [want]
        plugin.unreserve(cycle, 0)


def test_no_more_pods_are_evicted_while_devices_come_back() -> None:
    """The victim is gone, its claim is not free yet: the pod keeps its nomination, and others keep their devices."""
    state = cluster([B], held("ca", "g0", A), held("cb", "g1", B))
    plugin = DynamicResources(DynamicResourcesArgs(preempt_devices=True))
    runner = Runner(make_profile([PrioritySort(), plugin, DefaultPreemption()]), state)

    def asked(cycle: Cycle) -> Any:
        return plugin.post_filter(cycle, runner, runner.judge(cycle, state.rows()))

    assert asked(Cycle(P, state, NOW_S)) is None
    state.nominations.set(P, "n")
    answer = asked(Cycle(P, state, NOW_S))
    assert isinstance(answer, Nomination)
    assert (answer.node, answer.victims) == ("n", ())
    put(state, replace(held("ca", "g0"), reserved_for=(ClaimConsumer("jobs", "j", "j", "batch"),)))
    assert asked(Cycle(P, state, NOW_S)) is None
