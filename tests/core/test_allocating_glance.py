"""A search for one device, made at once: it finds, raises and counts what it would part by part."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from moorage.core.allocated import Pick
from moorage.core.allocating import Search
from moorage.core.claims import DeviceChoice
from moorage.core.devicefit import AllocationError
from moorage.core.devices import Device
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.testing import make_node, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

NODE = make_node("n1")
BIG = 'device.attributes["gpu.example.com"].big'
MEMORY = 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi"))'
CLASSES = {"gpu": make_device_class("gpu", 'device.driver == "gpu.example.com"')}
CHOICES = [
    DeviceChoice(device_class="gpu"),
    DeviceChoice(device_class="gpu", selectors=(BIG,)),
    DeviceChoice(device_class="gpu", selectors=(BIG, MEMORY)),
    DeviceChoice(device_class="gpu", selectors=("1 +",)),
    DeviceChoice(device_class="absent"),
]


def device(random: Random, name: str) -> Device:
    """Mostly one of few sorts; some lack what selectors read, are tainted or shared."""
    memory = random.choice(["1Gi", "2Gi", "2Gi"])
    attributes: dict[str, Any] = {} if random.random() < 0.04 else {"big": random.random() < 0.5}
    taints = (Taint("ecc"),) if random.random() < 0.1 else ()
    return make_device(name, capacity={"memory": memory}, taints=taints, shared=random.random() < 0.1, **attributes)


def cluster(random: Random) -> ClusterState:
    """Two pools on one node, and claims that hold some of their devices."""
    state = make_state([NODE])
    for pool in ("a", "b"):
        devices = [device(random, f"d{number}") for number in range(random.randrange(6))]
        put(state, make_slice(pool, node="n1", pool=pool, devices=devices))
        held = [each.name for each in devices if random.random() < 0.4]
        put(
            state,
            *(make_resource_claim(f"{pool}-{name}", allocation=make_allocation(f"{pool}/{name}")) for name in held),
        )
    return state


def outcome(state: ClusterState, choice: DeviceChoice, work: int) -> tuple[object, tuple[Pick, ...], int, int]:
    """What a search finds or raises, and how many parts and devices it counts; it pauses after so much work."""
    search = Search(NODE, state.devices.pools(NODE), [make_resource_claim("c", choice)], CLASSES, state.devices)
    found: object = None
    try:
        while found is None:
            found = search.run(work)
    except AllocationError as error:
        return str(error), (), 0, 0
    return found, search.picks() if found else (), search.steps, search.looks - search.at_selectors


@pytest.mark.parametrize("work", [1_000, 4])
def test_a_glance_is_the_search(monkeypatch: pytest.MonkeyPatch, work: int) -> None:
    """Of devices that are new to selectors and of known ones, in the order of the pools."""
    seen = set[object]()
    for seed in range(300):
        choice = CHOICES[seed % len(CHOICES)]
        state, other = cluster(Random(seed)), cluster(Random(seed))
        at_once = [outcome(state, choice, work) for _ in range(2)]
        with monkeypatch.context() as parts:
            parts.setattr(Search, "_glance", lambda _: None)
            assert _plain([outcome(other, choice, work) for _ in range(2)]) == _plain(at_once), seed
        seen.add(at_once[0][0])
    assert {True, False} <= seen
    assert len(seen) > 3


def _plain(outcomes: list[tuple[object, tuple[Pick, ...], int, int]]) -> list[object]:
    """Candidates are equal only to themselves."""
    return [(found, [pick.candidate.id for pick in picks], *counts) for found, picks, *counts in outcomes]
