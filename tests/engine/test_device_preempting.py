"""The way of a pod that preempts others for their devices."""

from __future__ import annotations

from typing import Any

from moorage.core.claims import ClaimConsumer, ResourceClaim
from moorage.core.pods import Pod
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_node, make_pod
from moorage.testing.devices import make_allocation, make_device_class, make_resource_claim, make_slice
from tests.engine.play import Play

LOW, LOWER = make_pod("low", node="n", priority=5, claims=("c-low",)), make_pod("lower", node="n", claims=("c-lower",))
URGENT = make_pod("urgent", priority=10, claims=("c-urgent",))


def held(pod: Pod, device: str) -> ResourceClaim:
    user = ClaimConsumer("pods", pod.name, pod.uid)
    return make_resource_claim(f"c-{pod.name}", allocation=make_allocation(f"n/{device}"), reserved_for=(user,))


def show(play: Play, *objects: Any) -> None:
    for each in objects:
        play.object_seen(type(each).__name__, each.key, each)


def reserved(play: Play) -> list[str]:
    """The devices that the preemptor has taken."""
    return [str(each.id) for a in play.engine.state.devices.reservation(URGENT.uid).values() for each in a.devices]


def test_one_victim_and_its_device() -> None:
    """Between the end of the victim and that of its claim, nobody else is evicted and the nomination holds."""
    play = Play(DynamicResources(DynamicResourcesArgs(preempt_devices=True)), DefaultPreemption())
    play.see(make_node("n"), LOW, LOWER)
    show(play, make_device_class("gpu"), make_slice("n", node="n", devices=["g0", "g1"]))
    show(play, held(LOW, "g0"), held(LOWER, "g1"), make_resource_claim("c-urgent"))
    play.see(URGENT)
    assert play.deletions == ["lower"]
    play.pod_gone("lower")
    # Whatever wakes the pod meanwhile: another slice.
    play.wait(60)
    show(play, make_slice("m", node="m", devices=["g2"]))
    assert "waiting until the claims of preempted pods give their devices back" in play.note("urgent")
    assert play.deletions == []
    assert play.engine.state.nominations.node_of(URGENT.uid) == "n"
    assert reserved(play) == []
    play.wait(60)
    show(play, make_resource_claim("c-lower"))
    assert reserved(play) == [str(each.id) for each in make_allocation("n/g1").devices]
    assert play.deletions == []


def test_a_gang_keeps_its_nominations_while_devices_come_back_one_by_one() -> None:
    """Its members get devices of different pods; between the first and the last of them nobody else is evicted."""
    play = Play(DynamicResources(DynamicResourcesArgs(preempt_devices=True)), GangScheduling(), DefaultPreemption())
    third = make_pod("third", node="n", claims=("c-third",))
    play.see(make_node("n"), LOW, LOWER, third)
    show(play, make_device_class("gpu"), make_slice("n", node="n", devices=["g0", "g1", "g2"]))
    show(play, held(LOW, "g0"), held(LOWER, "g1"), held(third, "g2"))
    show(play, make_resource_claim("c-m0"), make_resource_claim("c-m1"))
    gang = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    play.see(*(make_pod(f"m{i}", priority=10, claims=(f"c-m{i}",), annotations=gang) for i in range(2)))
    assert sorted(play.deletions) == ["lower", "third"]
    for name in ("lower", "third"):
        play.pod_gone(name)
        play.wait(60)
        assert play.deletions == []
    for number, name in enumerate(("lower", "third")):
        show(play, make_resource_claim(f"c-{name}"))
        play.wait(60)
        assert play.deletions == []
        taken = [play.engine.state.devices.reservation(f"default/m{i}") for i in range(2)]
        assert all(taken) is bool(number)
