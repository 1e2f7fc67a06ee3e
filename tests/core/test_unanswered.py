"""Devices stay taken while a write may still give them to a claim, and the end of a claim is ordered once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moorage.core import claimwrites
from moorage.core.claims import Allocation, ResourceClaim
from moorage.core.commands import PatchObject
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.devices import DeviceId
from moorage.core.events import PatchDone
from moorage.core.extendedclaims import remove
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import DEVICE_DRIVER, make_allocation, make_resource_claim
from moorage.testing.storage import put

KEY, POD, MINE = "default/c", make_pod("p", claims=("c",)), make_allocation("p/a")
DEVICE = DeviceId(DEVICE_DRIVER, "p", "a")


def shown(state: ClusterState, version: int, allocation: Allocation | None = None) -> None:
    """The watch shows the claim."""
    put(state, make_resource_claim("c", allocation=allocation, resource_version=str(version)))


def allocating() -> tuple[ClusterState, PatchObject]:
    """A pod has reserved a device, and the write is out."""
    state = make_state([make_node("n1")])
    shown(state, 5)
    state.devices.reserve(POD.uid, {KEY: MINE})
    command = claimwrites.reserve(POD, state.objects[RESOURCE_CLAIM][KEY], MINE)
    state.devices.ordered([command])
    return state, command


def kept(state: ClusterState) -> bool:
    """Whether the device is taken."""
    return state.devices.held(DEVICE)


def test_a_pod_that_gives_up_keeps_its_device_until_the_write_is_refused() -> None:
    """The refusal says that something is free again."""
    state, command = allocating()
    state.devices.release(POD.uid)
    assert kept(state)
    assert state.devices.pending(KEY) == MINE
    assert state.devices.answered(PatchDone(command, ok=False))
    assert not kept(state)
    assert not state.devices.reservations


def test_a_write_that_worked_counts_until_it_is_seen() -> None:
    """The watch may show an older version first."""
    state, command = allocating()
    state.devices.release(POD.uid)
    assert not state.devices.answered(PatchDone(command, ok=True, version="7"))
    shown(state, 6)
    assert kept(state)
    assert state.devices.reservations
    shown(state, 7, MINE)
    assert kept(state)
    assert not state.devices.reservations
    shown(state, 8)
    assert not kept(state)


def test_a_claim_that_was_deallocated_before_anybody_looked() -> None:
    """Nothing is left of the reservation, whether the pod has given up or not."""
    state, command = allocating()
    shown(state, 8)
    state.devices.answered(PatchDone(command, ok=True, version="7"))
    assert not kept(state)
    assert not state.devices.reservations


@pytest.mark.parametrize("happened", [True, False])
def test_a_write_without_an_answer_counts_until_its_version_is_seen(happened: bool) -> None:
    """Nobody knows whether it happened; the version that the claim has afterwards tells."""
    state, command = allocating()
    assert not state.devices.answered(PatchDone(command, ok=False, version="7"))
    state.devices.release(POD.uid)
    shown(state, 6)
    assert kept(state)
    shown(state, 7, MINE if happened else None)
    assert kept(state) == happened
    assert state.devices.freed == ("" if happened else KEY)
    assert not state.devices.reservations
    assert not state.devices.writes.allocating


def test_a_write_without_an_answer_whose_version_was_seen_before() -> None:
    """It did not happen: the device is free at once."""
    state, command = allocating()
    shown(state, 7)
    assert state.devices.answered(PatchDone(command, ok=False, version="7"))
    assert not kept(state)


def test_the_answer_to_an_earlier_write_is_not_this_one() -> None:
    """The finalizer was written before."""
    state, _ = allocating()
    protection = claimwrites.protect(POD, state.objects[RESOURCE_CLAIM][KEY])
    shown(state, 6)
    assert not state.devices.answered(PatchDone(protection, ok=True, version="6"))
    assert kept(state)
    assert state.devices.reservation(POD.uid) == {KEY: MINE}


def test_the_usual_way() -> None:
    """The watch shows the devices, the pod needs its reservation no more, the answer comes last."""
    state, command = allocating()
    shown(state, 7, MINE)
    state.devices.release(POD.uid)
    state.devices.answered(PatchDone(command, ok=True, version="7"))
    assert kept(state)
    assert not state.devices.reservations


def test_an_answer_without_a_version_is_believed() -> None:
    """As in dry runs, where no watch shows anything: the pod keeps its reservation until it gives up."""
    state, command = allocating()
    assert not state.devices.answered(PatchDone(command, ok=True))
    assert kept(state)
    state.devices.release(POD.uid)
    assert not kept(state)


def test_a_claim_that_is_gone_holds_nothing() -> None:
    """The write finds nothing to write to."""
    state, command = allocating()
    state.devices.release(POD.uid)
    state.remove_object(RESOURCE_CLAIM, KEY)
    assert kept(state)
    state.devices.answered(PatchDone(command, ok=False))
    assert not kept(state)


@pytest.mark.parametrize("end", [claimwrites.deallocate, remove], ids=["deallocated", "deleted"])
def test_the_end_of_a_claim_is_ordered_once(end: Callable[[Pod, ResourceClaim], PatchObject]) -> None:
    """Until it is refused, which pods hear of that waited for it, or the claim changes."""
    state = make_state([make_node("n1")])
    shown(state, 5, MINE)
    command = end(POD, state.objects[RESOURCE_CLAIM][KEY])
    assert not state.devices.writes.ends(KEY, "5")
    state.devices.ordered([command])
    assert state.devices.writes.ends(KEY, "5")
    assert state.devices.answered(PatchDone(command, ok=False))
    assert not state.devices.writes.ends(KEY, "5")
    state.devices.ordered([command])
    shown(state, 6)
    assert not state.devices.writes.ending


def test_deallocation_is_for_the_version_that_was_looked_at() -> None:
    """A consumer that came in the meantime keeps the devices."""
    claim = make_resource_claim("c", allocation=MINE, resource_version="5")
    assert claimwrites.deallocate(POD, claim).resource_version == "5"


def test_the_answer_to_an_allocation_says_nothing_about_a_reservation_that_is_taken_back() -> None:
    """Both writes of a pod that gave up are on their way: each is known by its own answer."""
    state, command = allocating()
    state.devices.release(POD.uid)
    shown(state, 7, MINE)
    back = claimwrites.unreserve(POD, state.objects[RESOURCE_CLAIM][KEY])
    state.devices.ordered([back])
    state.devices.answered(PatchDone(command, ok=True, version="7"))
    assert state.devices.writes.leaving == {KEY: {POD.uid: ""}}
    assert not state.devices.writes.allocating
    assert not state.devices.reservations
    assert state.devices.answered(PatchDone(back, ok=False))
    assert not state.devices.writes.leaving
