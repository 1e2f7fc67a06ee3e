"""Pods with claims for devices in the engine: when they are tried, how long, and what is taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.claims import ClaimConsumer, DeviceChoice, ResourceClaim
from moorage.core.commands import Bind, Command, PatchObject
from moorage.core.devices import DeviceId
from moorage.core.events import Event, NodeSeen, ObjectSeen, PatchDone, PodSeen
from moorage.core.pods import UNRESOLVED_CLAIM, Owner, Pod
from moorage.engine.engine import Engine
from moorage.engine.lifecycle import ACTIVE, GATED
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod
from moorage.testing.devices import DEVICE_DRIVER, make_device, make_device_class, make_resource_claim, make_slice


def shown(*objects: Any) -> list[Event]:
    return [ObjectSeen(type(each).__name__, each.key, each) for each in objects]


def engine_with(*devices: Any) -> Engine:
    """One node has these devices."""
    engine = Engine(build_profiles(Configuration(), Registry(BUILTIN)), answers_to_all=True)
    slices = make_slice("s", node="n", devices=devices)
    engine.handle([NodeSeen(make_node("n")), *shown(make_device_class("gpu"), slices)], 0.0)
    return engine


def writes(commands: Iterable[Command]) -> list[PatchObject]:
    return [each for each in commands if isinstance(each, PatchObject)]


CLAIM = make_resource_claim("c")
OWNER = Owner("Pod", "p", make_pod("p").uid)
WAITS = [
    pytest.param(make_pod("p", claims=("c",)), [], CLAIM, id="missing"),
    pytest.param(make_pod("p", claims=("c",)), [replace(CLAIM, deleting=True)], CLAIM, id="being deleted"),
    pytest.param(
        make_pod("p", claims=("c",), made_claims=("c",)), [CLAIM], replace(CLAIM, owner=OWNER), id="of another pod"
    ),
]


@pytest.mark.parametrize(("pod", "before", "after"), WAITS)
def test_a_pod_whose_claim_is_not_ready_waits_in_silence(
    pod: Pod, before: list[ResourceClaim], after: ResourceClaim
) -> None:
    """Without condition and event; it is tried once its claim is there, and other claims do not concern it."""
    engine = engine_with("gpu-0")
    assert engine.handle([*shown(*before), PodSeen(pod)], 1.0)[0] == []
    assert engine.handle(shown(make_resource_claim("other")), 2.0)[0] == []
    entry = engine.queue.get(pod.uid)
    assert entry is not None
    assert (entry.state, entry.attempts) == (GATED, 0)
    (written,) = writes(engine.handle(shown(after), 3.0)[0])
    assert "finalizers" in written.patch["metadata"]


def test_a_pod_is_tried_once_its_status_names_its_claim() -> None:
    """The claim may have been there before."""
    engine = engine_with("gpu-0")
    pod = make_pod("p", claims=(UNRESOLVED_CLAIM + "c",))
    assert engine.handle([PodSeen(pod), *shown(replace(CLAIM, owner=OWNER))], 1.0)[0] == []
    named = replace(pod, template=replace(pod.template, claims=("c",), made_claims=("c",)))
    assert len(writes(engine.handle([PodSeen(named)], 2.0)[0])) == 1


def follow(engine: Engine, commands: Iterable[Command], claim: ResourceClaim, now: float) -> ResourceClaim:
    """Let the writes to the claim happen, and show it."""
    for command in writes(commands):
        if "metadata" in command.patch:
            claim = replace(claim, protected=True)
        else:
            consumers = (ClaimConsumer("pods", command.pod.name, command.pod.uid),)
            claim = replace(claim, allocation=engine.state.devices.pending(claim.key), reserved_for=consumers)
        more, _ = engine.handle([PatchDone(command, ok=True), *shown(claim)], now)
        claim = follow(engine, more, claim, now)
    return claim


def test_a_pod_that_goes_back_gives_its_reservation_up_first() -> None:
    """The next attempt begins when that is done, so that a bound pod always has its reservation."""
    engine = engine_with(make_device("gpu-0", binding_conditions=("ready",)))
    pod = make_pod("p", claims=("c",))
    commands, _ = engine.handle([*shown(CLAIM), PodSeen(pod)], 1.0)
    claim = follow(engine, commands, CLAIM, 1.0)
    assert claim.reserved_for_uid(pod.uid)
    (written,) = writes(engine.handle([], 700.0)[0])
    assert written.patch == {"status": {"reservedFor": ({"$patch": "delete", "uid": pod.uid},)}}
    entry = engine.queue.get(pod.uid)
    assert entry is not None
    assert engine.handle(shown(make_slice("t", node="n", pool="t", devices=["gpu-1"])), 800.0)[0] == []
    assert entry.state is GATED
    engine.handle([*shown(replace(claim, reserved_for=())), PatchDone(written, ok=True)], 801.0)
    assert entry.state is not GATED
    assert not engine.state.devices.writes.leaving


@pytest.mark.parametrize(("devices", "want"), [(("gpu-0",), 0), (("gpu-0", "gpu-1"), 2)])
def test_a_gang_gets_all_of_its_devices_or_none(devices: tuple[str, ...], want: int) -> None:
    """What one member has taken in the trial is not there for the next."""
    engine = engine_with(*devices)
    said = {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    pods = [make_pod(f"p{number}", claims=(f"c{number}",), annotations=said) for number in range(2)]
    claims = [make_resource_claim(f"c{number}") for number in range(2)]
    commands, _ = engine.handle([*shown(*claims), *map(PodSeen, pods)], 1.0)
    assert len(engine.state.devices.reservations) == want
    assert len(writes(commands)) == want
    assert engine.state.devices.held(DeviceId(DEVICE_DRIVER, "n", "gpu-0")) == bool(want)


def test_a_long_search_lets_other_pods_go_first() -> None:
    """It goes on where it was, call after call, and ends with the same answer as in one go."""
    engine = engine_with(*(f"gpu-{number:02}" for number in range(12)))
    hard = make_resource_claim("hard", *(DeviceChoice(device_class="gpu", count=count) for count in (6, 6, 1)))
    long, other = make_pod("long", claims=("hard",), priority=9), make_pod("other")
    commands, again_s = engine.handle([*shown(hard), PodSeen(long), PodSeen(other)], 1.0)
    assert [each.pod.name for each in commands if isinstance(each, Bind)] == ["other"]
    entry, calls = engine.queue.get(long.uid), 1
    assert entry is not None
    while entry.state is ACTIVE and calls < 50:
        assert again_s == 1.0
        _, again_s = engine.handle([], 1.0)
        calls += 1
    assert "cannot allocate all claims" in entry.message
    assert calls > 2
