"""Kept answers about devices are those of a fresh search, whatever happened in between."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moorage.core.claims import DeviceChoice, DeviceConstraint, DeviceRequest, ResourceClaim
from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE
from moorage.core.devices import Device, DeviceTaintRule, Reach, ResourceSlice
from moorage.core.deviceviews import DeviceViews
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.framework.cycle import Cycle, UnfinishedError
from moorage.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import (
    DEVICE_DRIVER,
    make_allocation,
    make_device,
    make_device_class,
    make_resource_claim,
    make_slice,
)
from moorage.testing.storage import put

BIG = f'device.attributes["{DEVICE_DRIVER}"].big'
CLASSES = (make_device_class("gpu"), make_device_class("big", BIG, extended_resource="example.com/big"))
ALTERNATIVES = (DeviceRequest("r0", alternatives=(DeviceChoice("first", "big"), DeviceChoice("second", "gpu"))),)
CLAIMS: tuple[tuple[ResourceClaim, ...], ...] = (
    (make_resource_claim("one"),),
    (make_resource_claim("big", DeviceChoice(device_class="big")),),
    (make_resource_claim("two", DeviceChoice(device_class="gpu", count=2)), make_resource_claim("more")),
    (make_resource_claim("either", requests=ALTERNATIVES),),
)
PODS = [make_pod(f"p{number}", claims=tuple(each.name for each in claims)) for number, claims in enumerate(CLAIMS)]
PODS.append(make_pod("backed", requests={"example.com/big": 1}))


def answers(plugin: DynamicResources, state: ClusterState, pod: Pod) -> tuple[list[int], list[int]]:
    """What Filter and Score say of every row."""
    cycle, rows = Cycle(pod, state, 0.0), state.rows()
    plugin.pre_filter(cycle)
    found = plugin.filter(cycle, rows)
    bits = np.zeros(len(rows), dtype=np.int64) if found is None else found.bits
    return bits.tolist(), plugin.score(cycle, rows[bits == 0]).tolist()


def device(chance: random.Random, number: int) -> Device:
    return make_device(f"d{number}", big=chance.random() < 0.5, counters={"m": "1"} if chance.random() < 0.3 else None)


def part(chance: random.Random, number: int) -> ResourceSlice:
    """A slice for one node, for a zone, for all nodes, or with devices that say that themselves."""
    devices = [device(chance, each) for each in range(chance.randrange(3))]
    where: dict[str, Any] = chance.choice([
        {"node": f"n{chance.randrange(6)}"}, {"node": f"n{chance.randrange(6)}"}, {"on": "zone In a"}, {}
    ])  # fmt: skip
    if chance.random() < 0.2:
        devices = [replace(each, reach=Reach(f"n{chance.randrange(6)}")) for each in devices]
        where = {"reach": None, "per_device": True}
    return make_slice(
        f"s{number}", pool=f"pool{number % 4}", generation=chance.randrange(1, 3),
        slice_count=chance.randrange(1, 3), devices=devices, **where,
    )  # fmt: skip


def held(chance: random.Random, number: int) -> ResourceClaim:
    return make_resource_claim(
        f"held{number}", allocation=make_allocation(f"pool{chance.randrange(4)}/d{chance.randrange(3)}")
    )


def happenings(chance: random.Random, state: ClusterState) -> list[Callable[[], Any]]:
    number = chance.randrange(6)
    zone = chance.choice("ab")
    offered: dict[str, str | int] = {"example.com/big": 1} if chance.random() < 0.3 else {}
    return [
        lambda: put(state, part(chance, number)),
        lambda: put(state, part(chance, number)),
        lambda: state.remove_object(RESOURCE_SLICE, f"s{number}"),
        lambda: put(state, held(chance, number)),
        lambda: put(state, held(chance, number)),
        lambda: state.remove_object(RESOURCE_CLAIM, f"default/held{number}"),
        lambda: state.upsert_node(make_node(f"n{number}", labels={"zone": zone}, resources=offered)),
        lambda: state.remove_node(f"n{number}"),
        lambda: put(state, DeviceTaintRule("rule", Taint("t"), True, pool=f"pool{number}")),
        lambda: state.remove_object("DeviceTaintRule", "rule"),
        lambda: put(state, make_device_class("big", *chance.choice([(BIG,), ("true",)]))),
        lambda: state.devices.reserve(f"uid{number}", {"default/x": make_allocation(f"pool{number % 4}/d0")}),
        lambda: state.devices.release(f"uid{number}"),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_kept_answers_are_those_of_a_fresh_search(seed: int) -> None:
    """After every event and every what-if that was taken back."""
    chance = random.Random(seed)
    nodes = [make_node(f"n{number}", labels={"zone": chance.choice("ab")}) for number in range(5)]
    state = put(make_state(nodes), *CLASSES, *(claim for claims in CLAIMS for claim in claims))
    kept = DynamicResources()
    for _ in range(150):
        chance.choice(happenings(chance, state))()
        if chance.random() < 0.2:
            with state.statement():
                put(state, held(chance, 9), part(chance, 9))
                answers(kept, state, PODS[0])
        pod = chance.choice(PODS)
        assert answers(kept, state, pod) == answers(DynamicResources(), state, pod)


def test_equal_claims_of_different_pods_share_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows of which something else is in use are searched again, and nodes without devices are one search."""
    nodes = [make_node(f"n{number}") for number in range(20)]
    state = put(make_state(nodes), *CLASSES)
    put(state, *(make_slice(f"s{number}", node=f"n{number}", devices=["a", "b"]) for number in range(10)))
    put(state, *(make_resource_claim(f"c{number}") for number in range(3)))
    looked: list[int] = []
    pools = DeviceViews.pools

    def noted(self: DeviceViews, view: int) -> Any:
        looked.append(view)
        return pools(self, view)

    monkeypatch.setattr(DeviceViews, "pools", noted)
    plugin = DynamicResources()

    def searched(pod: str) -> int:
        looked.clear()
        want = [0] * 10 + [1] * 10
        assert answers(plugin, state, make_pod(pod, claims=(pod,)))[0] == want
        return len(looked)

    assert searched("c0") == 11
    assert searched("c1") == 0
    put(state, make_resource_claim("other", allocation=make_allocation("n3/a"), namespace="elsewhere"))
    assert searched("c2") == 1


def test_costly_selectors_do_not_hold_up_others() -> None:
    """What they cost is counted over all nodes, and the answers that were found are kept for the next attempt."""
    folds = "[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, [1, 2, 3, 4, 5].all(c, a + b + c < 0))) || "
    selector = f'{folds}device.attributes["{DEVICE_DRIVER}"].serial == 7'
    nodes = [make_node(f"n{number}") for number in range(8)]
    slices = [
        make_slice(f"s{number}", node=f"n{number}", pool=f"n{number}", devices=[make_device("d", serial=number)])
        for number in range(8)
    ]
    claim = make_resource_claim("c", DeviceChoice(device_class="gpu", selectors=(selector,)))
    state, plugin = put(make_state(nodes), *CLASSES, *slices, claim), DynamicResources()
    attempts, bits = 0, None
    while bits is None:
        attempts += 1
        cycle = Cycle(make_pod("p", claims=("c",)), state, 0.0)
        cycle.work = 1
        plugin.pre_filter(cycle)
        with contextlib.suppress(UnfinishedError):
            found = plugin.filter(cycle, state.rows())
            bits = None if found is None else found.bits
    assert [int(row) for row in state.rows()[bits == 0]] == [state.row_of("n7")]
    assert attempts == 8


def test_a_search_that_took_too_long_is_not_repeated() -> None:
    """For claims that ask for the same, until something else is in use."""
    devices = [make_device(f"d{number}", numa=number % 3) for number in range(24)]
    apart = (DeviceConstraint(distinct=f"{DEVICE_DRIVER}/numa"),)
    names = [make_resource_claim(name, DeviceChoice(device_class="gpu", count=4), constraints=apart) for name in "ab"]
    slices = make_slice("s", node="n", pool="pool", devices=devices)
    state = put(make_state([make_node("n")]), *CLASSES, slices, *names)
    plugin = DynamicResources(DynamicResourcesArgs.model_validate({"filterTimeout": "10ms"}))
    searches = []
    for name in "ab":
        cycle = Cycle(make_pod("p", claims=(name,)), state, 0.0)
        plugin.pre_filter(cycle)
        found = plugin.filter(cycle, state.rows())
        assert found is not None
        assert found.reasons[0].text == "node n: timed out trying to allocate devices"
        searches.append(plugin.counts.searches.total())
        if name == "a":
            (told,) = plugin.details(cycle, state.rows())[0]
            assert told.subject == "claim default/a"
    assert searches == [1, 1]
    put(state, make_resource_claim("other", allocation=make_allocation("pool/d0")))
    plugin.filter(cycle, state.rows())
    assert plugin.counts.searches.total() == 2
