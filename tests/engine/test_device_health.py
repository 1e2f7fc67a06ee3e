"""Devices in use that are not well any more are told of: with an event for each pod, once, and a count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.claims import ClaimConsumer, DeviceToleration
from moorage.core.commands import RecordEvent
from moorage.core.devices import DeviceTaintRule
from moorage.core.events import ObjectGone
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.taints import Taint
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.shared_devices import SharedDevices
from moorage.testing.builders import make_node, make_pod
from moorage.testing.devices import make_allocation, make_device, make_resource_claim, make_slice
from tests.engine.play import Play

GPU = "nvidia.com/gpu"
BROKEN = Taint("broken", "yes", "NoExecute")
USERS = (ClaimConsumer("pods", "a", "uid-a"), ClaimConsumer("pods", "b", "uid-b"))


@pytest.fixture
def play() -> Iterator[Play]:
    """Two pods share a claim that holds `g0` of node `n`; `g1` is free."""
    play = Play(DynamicResources())
    play.see(make_node("n"))
    shown(play, slice_of("g0", "g1"))
    shown(play, claim())
    yield play
    play.check()


def shown(play: Play, value: Any) -> None:
    """The watch shows an object."""
    play.object_seen(type(value).__name__, value.key, value)


def slice_of(*devices: str, generation: int = 1, slice_count: int = 1, **tainted: Taint) -> Any:
    parts = [make_device(name, taints=(tainted[name],) if name in tainted else ()) for name in devices]
    return make_slice("s", node="n", pool="n", devices=parts, generation=generation, slice_count=slice_count)


def claim(**fields: Any) -> Any:
    return make_resource_claim("c", allocation=make_allocation("n/g0", **fields), reserved_for=USERS)


def told(play: Play) -> list[tuple[str, str]]:
    return [(event.pod.name, event.note) for event in play.of(RecordEvent) if event.reason == "DeviceUnhealthy"]


GONE = "Device gpu.example.com/n/g0 of claim default/c is not offered by its driver any more"
TAINTED = (
    "Device gpu.example.com/n/g0 of claim default/c has the taint broken=yes:NoExecute, "
    "which the claim does not tolerate"
)


def test_a_device_that_is_no_longer_published(play: Play) -> None:
    """Every pod that uses it hears of it, once."""
    shown(play, slice_of("g1"))
    assert told(play) == [("a", GONE), ("b", GONE)]
    assert play.engine.device_health.unhealthy == 1
    shown(play, slice_of("g1", generation=2))
    assert told(play) == []


def test_a_slice_that_is_deleted(play: Play) -> None:
    """With all of its devices."""
    play.handle(ObjectGone("ResourceSlice", "s"))
    assert told(play) == [("a", GONE), ("b", GONE)]


def test_a_taint_of_the_device(play: Play) -> None:
    """Also if it comes with other changes; a tolerated one, or one of a device that nobody uses, is no news."""
    shown(play, slice_of("g0", "g1", g1=BROKEN))
    assert told(play) == []
    shown(play, slice_of("g0", "g1", "g2", g0=BROKEN))
    assert told(play) == [("a", TAINTED), ("b", TAINTED)]
    shown(play, slice_of("g0", "g1"))
    shown(play, claim(tolerations=(DeviceToleration("broken", "Exists"),)))
    shown(play, slice_of("g0", g0=BROKEN))
    assert told(play) == []


def test_a_taint_rule(play: Play) -> None:
    """For the devices that it selects."""
    rule = DeviceTaintRule("r", BROKEN, selects=True, device="g1")
    shown(play, rule)
    assert told(play) == []
    shown(play, replace(rule, device="g0"))
    assert told(play) == [("a", TAINTED), ("b", TAINTED)]


def test_a_pool_that_is_being_published_says_nothing(play: Play) -> None:
    """Slices of a new generation come one by one."""
    shown(play, slice_of("g1", generation=2, slice_count=2))
    assert told(play) == []


@pytest.fixture
def sharing() -> Iterator[Play]:
    """A node of two devices that pods share; `a` and `b` have halves of the first, `c` has the second."""
    play = Play(SharedDevices())
    play.see(gpus())
    halves = [make_pod(name, node="n", annotations={"gpu-fraction": "0.5"}) for name in ("a", "b")]
    play.see(*(replace(pod, devices=(0,)) for pod in halves))
    play.see(replace(make_pod("c", node="n", requests={GPU: 1}), devices=(1,)))
    play.engine.state.shares()
    yield play
    play.check()


def gpus(failed: str = "") -> Node:
    notes = {"moorage.dev/unhealthy-devices": failed} if failed else {}
    return make_node("n", resources={GPU: 2}, annotations=notes)


def test_a_shared_device_that_fails(sharing: Play) -> None:
    """The pods that have shares of it hear of it, once."""
    sharing.see(gpus("0"))
    note = "Device 0 of node n is not healthy any more"
    assert told(sharing) == [("a", note), ("b", note)]
    assert sharing.engine.device_health.unhealthy == 1
    sharing.see(replace(gpus("0"), labels=FrozenDict({"other": "label"})))
    assert told(sharing) == []


def test_a_shared_device_that_is_back_is_used(sharing: Play) -> None:
    """A pod that waits for it is tried again, though nothing but an annotation has changed."""
    sharing.see(gpus("0"))
    sharing.pod_gone("a")
    sharing.see(make_pod("d", annotations={"gpu-fraction": "0.5"}))
    assert sharing.node_of("d") is None
    sharing.see(gpus())
    sharing.wait(30)
    assert sharing.node_of("d") == "n"
