"""Which nodes can serve claims is kept, with the devices that were found there."""

from __future__ import annotations

import numpy as np
import pytest

from moorage.core import deviceanswers
from moorage.core.allocated import Pick, allocations_of, unnamed
from moorage.core.allocating import Search
from moorage.core.claims import DeviceChoice, DeviceConfig, DeviceRequest, ResourceClaim
from moorage.core.deviceanswers import FITS, NONE, DeviceAnswers
from moorage.core.devicefit import DeviceFit
from moorage.core.deviceindex import DEVICE_CLASS
from moorage.core.deviceselectors import Looks
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

FAST, SLOW = DeviceChoice("fast", "fast"), DeviceChoice("slow", "gpu")


def cluster() -> ClusterState:
    """Nodes `a` and `b` have two devices of their own each; both can use `card` of the network."""
    state = make_state([make_node("a"), make_node("b")])
    fast = make_device_class("fast", 'device.attributes["gpu.example.com"].fast')
    config = DeviceConfig("gpu.example.com", '{"mode":"shared"}')
    put(state, make_device_class("gpu", config=(config,)), fast, make_slice("net", pool="net", devices=["card"]))
    return put(
        state,
        *(
            make_slice(name, node=name, devices=[make_device("d0", fast=False), make_device("d1", fast=True)])
            for name in ("a", "b")
        ),
    )


def rows(state: ClusterState) -> list[int]:
    found = [state.row_of("a"), state.row_of("b")]
    assert None not in found
    return [each for each in found if each is not None]


def asked(answers: DeviceAnswers, state: ClusterState, *claims: ResourceClaim) -> list[int]:
    found = answers.get(state, claims, np.array(rows(state), dtype=np.intp), lambda search: search.run(1 << 20))
    assert found is not None
    answer: list[int] = found.tolist()
    return answer


def names(picks: tuple[Pick, ...] | None) -> list[str] | None:
    return None if picks is None else [f"{each.candidate.id.pool}/{each.candidate.id.device}" for each in picks]


def test_what_was_found_is_kept_until_something_else_of_it_is_in_use() -> None:
    """For every claim that asks for the same."""
    state, answers = cluster(), DeviceAnswers()
    one, other = (make_resource_claim(name) for name in ("one", "other"))
    a, b = rows(state)
    assert answers.picks(state, (one,), a) is None
    assert asked(answers, state, one) == [FITS, FITS]
    assert names(answers.picks(state, (other,), a)) == ["a/d0"]
    assert names(answers.picks(state, (other,), b)) == ["b/d0"]
    put(state, make_resource_claim("third", allocation=make_allocation("a/d0")))
    assert answers.picks(state, (other,), a) is None
    assert names(answers.picks(state, (other,), b)) == ["b/d0"]
    assert asked(answers, state, other) == [FITS, FITS]
    assert names(answers.picks(state, (one,), a)) == ["a/d1"]


def kept(answers: DeviceAnswers) -> int:
    """Of how many searches it is known what they found."""
    return sum(len(column.picks) for column in answers._columns.values())


def test_what_was_found_goes_with_what_the_node_sees() -> None:
    """Nodes and their slices that are gone leave nothing behind."""
    state, answers = cluster(), DeviceAnswers()
    assert asked(answers, state, make_resource_claim("one")) == [FITS, FITS]
    assert kept(answers) == 2
    state.remove_object("ResourceSlice", "b")
    state.remove_node("b")
    only = np.array([state.row_of("a")], dtype=np.intp)
    answers.get(state, (make_resource_claim("one"),), only, lambda search: search.run(1 << 20))
    assert kept(answers) == 1


def test_what_was_found_is_kept_of_the_latest_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were asked for longest ago nothing is left, and the answers stay."""
    monkeypatch.setattr(deviceanswers, "_KEPT_PICKS", 4)
    state, answers = cluster(), DeviceAnswers()
    sorts = [make_resource_claim("one", DeviceChoice(device_class="gpu", count=count)) for count in (1, 2, 3)]
    for claim in sorts:
        assert asked(answers, state, claim) == [FITS, FITS]
        assert kept(answers) <= 4
    a, b = rows(state)
    assert [answers.picks(state, (sorts[0],), row) for row in (a, b)] == [None, None]
    assert names(answers.picks(state, (sorts[2],), a)) == ["a/d0", "a/d1", "net/card"]
    assert asked(answers, state, sorts[0]) == [FITS, FITS]


def test_nothing_is_kept_where_nothing_was_found() -> None:
    state, answers = cluster(), DeviceAnswers()
    greedy = make_resource_claim("greedy", DeviceChoice(device_class="gpu", count=4))
    assert asked(answers, state, greedy) == [NONE, NONE]
    assert answers.picks(state, (greedy,), rows(state)[0]) is None


def test_other_classes_are_other_questions() -> None:
    """Although the same claims ask."""
    state, answers = cluster(), DeviceAnswers()
    claims = (make_resource_claim("one"),)
    a, _ = rows(state)
    answers.get(state, claims, np.array([a], dtype=np.intp), lambda search: search.run(1 << 20))
    assert names(answers.picks(state, claims, a)) == ["a/d0"]
    put(state, make_device_class("gpu", 'device.attributes["gpu.example.com"].fast'))
    assert answers.picks(state, claims, a) is None


def test_what_was_found_becomes_what_a_search_would_give() -> None:
    """Alternatives, several claims, configuration of classes, and the node."""
    state, answers = cluster(), DeviceAnswers()
    either = make_resource_claim("either", requests=(DeviceRequest("r0", alternatives=(FAST, SLOW)),))
    pair = make_resource_claim("pair", DeviceChoice(device_class="gpu"), DeviceChoice(device_class="gpu"))
    assert asked(answers, state, either, pair) == [FITS, FITS]
    node = make_node("b")
    classes = state.objects[DEVICE_CLASS]
    picks = answers.picks(state, (either, pair), rows(state)[1])
    assert picks is not None
    assert names(picks) == ["b/d1", "b/d0", "net/card"]
    fit = DeviceFit(node, classes, Looks(1 << 20))
    search = Search(node, state.devices.pools(node), (either, pair), classes, state.devices)
    assert search.run(1 << 20)
    assert allocations_of(picks, (either, pair), fit, "b", unnamed) == search.allocations()
    assert [each.request for each in search.allocations()[0].devices] == ["r0/fast"]
    assert search.allocations()[1].config[0].source == "FromClass"


def test_a_node_that_comes_back_gets_no_answer_from_before() -> None:
    """What it shares with others was taken while it was gone; its row and what it sees are the same as before."""
    state, answers, one = cluster(), DeviceAnswers(), make_resource_claim("one")
    for name in ("a", "b"):
        state.remove_object("ResourceSlice", name)
    assert asked(answers, state, one) == [FITS, FITS]
    a, b = rows(state)
    state.remove_node("a")
    put(state, make_resource_claim("other", allocation=make_allocation("net/card")))
    found = answers.get(state, (one,), np.array([b], dtype=np.intp), lambda search: search.run(1 << 20))
    assert found is not None
    assert found.tolist() == [NONE]
    state.upsert_node(make_node("a"))
    assert rows(state) == [a, b]
    assert asked(answers, state, one) == [NONE, NONE]
