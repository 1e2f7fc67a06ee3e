"""The keeper's proofs for pods with devices: a successor gets devices of its own, and shared claims stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moorage.core.claims import Allocation, ClaimConsumer
from moorage.core.pods import Owner
from moorage.engine.keeping.proofs import Proofs
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.testing.builders import make_node, make_node_term, make_pod
from moorage.testing.devices import make_allocation, make_device_class, make_resource_claim, make_slice
from tests.engine.play import Play

POD = make_pod("p", node="a", claims=("c",))


def world(owner: str, *devices: str) -> Play:
    """`p` runs on `a` with its one device; the claim was made for `owner`."""
    play = Play(DynamicResources())
    play.see(make_node("a"), make_node("b"), POD)
    allocation = Allocation(make_allocation("a/g").devices, node_terms=(make_node_term("metadata.name In a"),))
    claim = make_resource_claim(
        "c",
        allocation=allocation,
        reserved_for=(ClaimConsumer("pods", "p", POD.uid),),
        owner=Owner("Pod", "p", owner, "v1"),
    )
    objects: list[Any] = [make_device_class("gpu"), claim, *(make_slice(n, node=n, devices=["g"]) for n in devices)]
    for each in objects:
        play.object_seen(type(each).__name__, each.key, each)
    return play


@pytest.mark.parametrize(
    ("owner", "devices", "want"),
    [
        pytest.param(POD.uid, "ab", "b", id="a device elsewhere"),
        pytest.param(POD.uid, "a", None, id="none elsewhere"),
        pytest.param("another", "ab", None, id="a claim that others share stays"),
    ],
)
def test_where_the_successor_could_run(owner: str, devices: str, want: str | None) -> None:
    """Outside of `a`, which has to be left; what is tried leaves nothing behind."""
    play = world(owner, *devices)
    proofs, state = Proofs(play.engine), play.engine.state
    leaving = np.zeros(state.capacity, dtype=np.bool_)
    leaving[state.row_of("a") or 0] = True
    before = dict(state.objects["ResourceClaim"])
    with proofs.session(()):
        assert proofs.fallback(POD, play.now, leaving) == want
    assert state.objects["ResourceClaim"] == before
    assert not state.devices.reservations
    assert proofs.take_faults() == []
    play.check()
