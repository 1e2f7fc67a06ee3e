"""What a gang needs to start is asked in one way by all parts: when it is gated, placed, or room is made for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.gangneeds import GangNeeds
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import GangNomination, Status, unschedulable
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play


def group(count: int, **fields: object) -> ObjectSeen:
    value = PodGroup("default", "g", uid="g", min_count=count, **fields)  # type: ignore[arg-type]
    return ObjectSeen("PodGroup", "default/g", value)


def member(name: str, cpu: str = "1", **fields: object) -> Pod:
    return make_pod(name, cpu=cpu, group="g", **{"priority": 10, **fields})  # type: ignore[arg-type]


def running(pod: Pod) -> Pod:
    return replace(pod, phase="Running", scheduled_s=600.0, created_s=500.0)


@pytest.fixture
def play() -> Play:
    """One node with four cpus."""
    play = Play(GangScheduling(), DefaultPreemption())
    play.see(make_node("n1", cpu="4"))
    return play


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        pytest.param(
            10_000, " preemption: all nodes together have less than that, even without other pods.", id="beyond"
        ),
        pytest.param(3_000, " even then.", id="more than evictions for the members free"),
    ],
)
def test_nobody_goes_for_a_gang_whose_min_resources_are_not_met_then(play: Play, cpu: int, why: str) -> None:
    """The members would fit where the others were, and yet the gang could not start."""
    play.handle(group(2, min_resources=FrozenDict(cpu=cpu)))
    play.see(make_pod("low1", cpu="2", node="n1"), make_pod("low2", cpu="2", node="n1"))
    play.see(member("a"), member("b"))
    assert (play.deletions, play.binds) == ([], {})
    assert f"the cluster has less free cpu than the minResources of the pod group{why}" in play.note("a")


def test_evictions_that_meet_min_resources_are_made(play: Play) -> None:
    """What the members themselves take counts as free for them."""
    play.handle(group(2, min_resources=FrozenDict(cpu=2000)))
    play.see(make_pod("low1", cpu="2", node="n1"), make_pod("low2", cpu="2", node="n1"))
    play.see(member("a"), member("b"))
    [victim] = play.deletions
    play.pod_gone(victim)
    play.recorded()
    assert set(play.binds) == {"a", "b"}


def test_no_node_is_promised_where_only_min_resources_are_missing(play: Play) -> None:
    """The members fit as it is; nobody is evicted for the rest, and others may have the room."""
    play.handle(group(2, min_resources=FrozenDict(cpu=4000)))
    play.see(make_pod("peer", cpu="1", node="n1", priority=10))
    play.see(member("a"), member("b"))
    assert [patch.nominated_node for patch in play.patches if patch.nominated_node] == []
    assert "victims" not in play.note("a")
    play.see(make_pod("other", cpu="3", priority=10))
    assert set(play.binds) == {"other"}


def test_the_replacement_of_a_lost_member_is_not_held_back(play: Play) -> None:
    """Three of four run; what they have counts."""
    play.handle(group(4, min_resources=FrozenDict(cpu=4000), scheduled=True))
    play.see(*(running(member(name, node="n1")) for name in "abc"), member("d", created_s=900.0))
    assert play.binds == {"d": "n1"}


def test_the_rest_of_a_start_that_broke_off_is_credited_with_what_stands(play: Play) -> None:
    play.handle(group(4, min_resources=FrozenDict(cpu=4000)))
    play.see(running(member("a", node="n1")), *(member(name, created_s=500.0) for name in "bcd"), budget=0)
    play.handle()
    play.recorded()
    assert set(play.binds) == {"b", "c", "d"}


class Hasty(Plugin):
    """A stranger's plugin that makes room for some members of a gang and leaves the others to chance."""

    name: ClassVar[str] = "Hasty"

    def post_filter_gang(self, cycles: Sequence[Cycle], runner: Runner, needs: GangNeeds) -> GangNomination:  # noqa: ARG002
        """Clear the first node, for as many members as the label of the first one says."""
        served = cycles[: int(cycles[0].template.labels["served"])]
        victims = tuple(record.pod.uid for record in cycles[0].state.records_on(0))
        return GangNomination({cycle.pod.uid: "n1" for cycle in served}, victims, "preemption: hurry.")

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> None:
        """Nothing for single pods."""


@pytest.mark.parametrize(
    ("served", "cpu", "gone"),
    [("2", 4000, ["low"]), ("1", 4000, []), ("2", 5000, [])],
    ids=["enough", "too-few-members", "too-little-for-min-resources"],
)
def test_nobody_goes_for_a_nomination_with_which_the_gang_could_not_start(
    served: str, cpu: int, gone: list[str]
) -> None:
    """Whichever plugin says so: what a gang needs is not for it to judge."""
    play = Play(GangScheduling(), Hasty())
    play.see(make_node("n1", cpu="4"), make_node("n2", cpu="4"), make_pod("low", cpu="3", node="n1"))
    play.see(make_pod("high", cpu="4", node="n2", priority=100))
    play.handle(group(2, min_resources=FrozenDict(cpu=cpu)))
    labels = {"served": served}
    play.see(member("a", "2", labels=labels), member("b", "2", labels=labels))
    assert play.deletions == gone
    assert ("the nodes that Hasty nominated are too few" in play.note("a")) == (not gone)


def test_room_that_another_order_finds_is_used_at_once() -> None:
    """The small member is placed first and takes the place of the large one; no eviction is needed to mend that."""
    play = Play(GangScheduling(), DefaultPreemption())
    play.see(make_node("n1", cpu="3"), make_node("n2", cpu="1"))
    play.handle(group(2))
    play.see(member("a", "1", created_s=1.0), member("b", "3", created_s=2.0))
    play.recorded()
    assert play.binds == {"a": "n2", "b": "n1"}


class Ledger(Plugin):
    """A stranger's plugin whose Reserve lets so many pods onto a node, and counts what is held."""

    name: ClassVar[str] = "Ledger"
    places: ClassVar[dict[str, int]] = {}

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self.held: dict[str, str] = {}

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        """Refuse a pod for which the node has no place."""
        node = cycle.state.node(row).name
        if [*self.held.values()].count(node) >= self.places[node]:
            return unschedulable(f"no place is left on {node}")
        self.held[cycle.pod.uid] = node
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002 - part of the interface
        """Give the place back."""
        self.held.pop(cycle.pod.uid, None)


@pytest.mark.parametrize(
    ("places", "needed", "gone"),
    [(2, 2, ["low"]), (0, 2, []), (1, 2, []), (1, 1, ["low"])],
    ids=["all", "none", "too-few", "as-many-as-are-needed"],
)
def test_nobody_goes_for_members_that_could_not_reserve_their_node(
    monkeypatch: pytest.MonkeyPatch, places: int, needed: int, gone: list[str]
) -> None:
    """Filters accept the only node once it is empty, but Reserve has the last word; nothing stays held."""
    monkeypatch.setattr(Ledger, "places", {"n1": places})
    play = Play(GangScheduling(), DefaultPreemption(), Ledger())
    play.see(make_node("n1", cpu="4"), make_pod("low", cpu="4", node="n1"))
    play.handle(group(needed))
    play.see(member("a", "2"), member("b", "2"))
    assert play.deletions == gone
    refused = "the nodes that DefaultPreemption nominated are too few: no place is left on n1."
    assert (refused in play.note("a")) == (not gone)
    [runner] = play.engine.runners.values()
    instance = runner.plugins.get("Ledger")
    assert instance is not None
    assert isinstance(instance.plugin, Ledger)
    assert instance.plugin.held == {}


def test_evictions_that_are_not_ordered_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nomination that Reserve refuses leaves the one eviction that is allowed per minute to others."""
    monkeypatch.setattr(Ledger, "places", {"n1": 1})
    play = Play(GangScheduling(), DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_minute=1)), Ledger())
    play.see(make_node("n1", cpu="4"), make_pod("low", cpu="4", node="n1"))
    play.handle(group(2))
    play.see(member("a", "2"), member("b", "2"))
    assert play.deletions == []
    play.see(make_pod("single", cpu="4", priority=5))
    assert play.deletions == ["low"]
