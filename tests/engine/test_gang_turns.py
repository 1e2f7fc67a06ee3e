"""Room that is kept for a gang which has waited for long: for one at a time, for a while, and never in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from moorage.core.arrays import Rows
from moorage.core.pods import Pod
from moorage.framework.contract import Slack
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

ARGS = GangSchedulingArgs(reserve_after_seconds=60, reserve_for_seconds=300)


def gang(name: str, *cpus: str, **fields: object) -> list[Pod]:
    """A gang of so many members, which ask for so much; those that are alike share a template, as decoded ones do."""
    annotations = {"pod-group": name, "moorage.dev/pod-group-min-available": str(len(cpus))}
    like = {cpu: make_pod("like", cpu=cpu, annotations=annotations, **fields) for cpu in cpus}  # type: ignore[arg-type]
    return [replace(like[cpu], uid=f"{like[cpu].namespace}/{name}{i}", name=f"{name}{i}") for i, cpu in enumerate(cpus)]


def pass_time(play: Play, until_s: float) -> set[str]:
    """The engine is called whenever it wants to be; records are written. Who was bound meanwhile."""
    bound: set[str] = set()
    while True:
        for patch in [patch for patch in play.patches if patch.token]:
            play.recorded(patch.pod.uid)
            bound |= set(play.binds)
        if play.wakeup is None or play.wakeup > until_s:
            play.now = until_s
            return bound
        play.handle(at=max(play.wakeup, play.now + 0.5))
        bound |= set(play.binds)


@pytest.fixture
def play() -> Play:
    """One node of which half is taken for good."""
    play = Play(GangScheduling(ARGS))
    play.see(make_node("n1", cpu="4"), make_pod("full", cpu="4", node="n1"))
    return play


@pytest.mark.parametrize(
    "cpus",
    [
        pytest.param(("1", "64"), id="one member is larger than any node"),
        pytest.param(("3", "3"), id="together they are more than all nodes"),
    ],
)
def test_no_room_is_kept_for_a_gang_that_can_never_start(play: Play, cpus: tuple[str, ...]) -> None:
    """It came first, and the gang after it would wait for ever."""
    play.see(*gang("never", *cpus))
    play.see(*gang("four", "1", "1", "1", "1"), at=play.now + 1)
    pass_time(play, 1100.0)
    play.pod_gone("full")
    assert pass_time(play, 1110.0) == {"four0", "four1", "four2", "four3"}


def test_a_turn_ends_and_the_next_gang_has_its_own(play: Play) -> None:
    """The first gang waits for a pod that does not go; the second would fit beside that."""
    play.see(*gang("large", "1", "1", "1", "1"))
    play.see(*gang("small", "1", "2"), at=play.now + 1)
    pass_time(play, 1100.0)
    play.see(make_pod("stays", cpu="1", node="n1"))
    play.pod_gone("full")
    assert pass_time(play, 1200.0) == set(), "three places are kept for the first one"
    assert pass_time(play, 1400.0) == {"small0", "small1"}


def test_one_namespace_does_not_have_all_turns(play: Play) -> None:
    """However old and many its gangs are."""
    for number in range(3):
        play.see(*gang(f"old{number}", "1", "1", "1", "1", namespace="evil"), at=play.now + 1)
    play.see(*gang("late", "1", "2"), at=play.now + 1)
    pass_time(play, 1100.0)
    play.see(make_pod("stays", cpu="1", node="n1"))
    play.pod_gone("full")
    assert pass_time(play, 1100.0 + 2 * 300) == {"late0", "late1"}, "its namespace comes after one gang of the other"


@pytest.mark.parametrize("namespace", ["evil", "default"])
def test_two_gangs_do_not_hand_the_turn_to_each_other_for_ever(play: Play, namespace: str) -> None:
    """A gang has rested when the next one's turn ends; a third one comes before it, of whatever namespace that is."""
    for number in range(2):
        play.see(*gang(f"old{number}", "1", "1", "1", "1", namespace=namespace), at=play.now + 1)
    play.see(*gang("late", "1", "2"), at=play.now + 1)
    pass_time(play, 1100.0)
    play.see(make_pod("stays", cpu="1", node="n1"))
    play.pod_gone("full")
    assert pass_time(play, 1100.0 + 3 * 300) == {"late0", "late1"}


def test_smaller_work_has_a_chance_between_two_turns(play: Play) -> None:
    """A gang that is alone has its turn, rests, and has another one."""
    play.see(*gang("large", "1", "1", "1", "1"))
    pass_time(play, 1100.0)
    play.see(make_pod("stays", cpu="1", node="n1"))
    play.pod_gone("full")
    play.see(make_pod("one", cpu="3"))
    assert pass_time(play, 1300.0) == set()
    assert pass_time(play, 1400.0) == {"one"}
    play.bound("one")
    play.confirm("one")
    pass_time(play, 1700.0)
    play.pod_gone("one")
    play.see(make_pod("two", cpu="3"))
    assert pass_time(play, 1900.0) == set(), "its turn again"
    assert pass_time(play, 2100.0) == {"two"}


def test_a_more_important_gang_takes_over(play: Play) -> None:
    """And the other one goes on afterwards."""
    play.see(*gang("low", "1", "1", "1", "1"))
    pass_time(play, 1100.0)
    play.see(make_pod("stays", cpu="1", node="n1"))
    play.pod_gone("full")
    play.see(*gang("high", "2", "2", priority=5))
    pass_time(play, 1200.0)
    assert play.engine.gangs.turns.favoured == play.pods["default/high0"].template.gang
    play.pod_gone("stays")
    assert pass_time(play, 1250.0) == {"high0", "high1"}


def test_nothing_is_left_of_gangs_that_are_gone(play: Play) -> None:
    play.see(*gang("a", "1", "1", "1"), *gang("b", "2", "2"))
    pass_time(play, 1500.0)
    for uid in [uid for uid in play.pods if uid != "default/full"]:
        play.pod_gone(uid.removeprefix("default/"))
    turns = play.engine.gangs.turns
    assert (turns.favoured, turns._last, turns._in_line, turns._kept) == (None, {}, {}, {})


class Miscounting(Plugin):
    """Its filter works, but it cannot count."""

    name: ClassVar[str] = "Miscounting"
    reads: ClassVar[Reads] = Reads.AMOUNTS

    def filter(self, cycle: Cycle, rows: Rows) -> None:
        """All rows pass."""

    def slack(self, cycle: Cycle, rows: Rows) -> Slack:  # noqa: ARG002 - part of the interface
        raise ValueError("how many?")


def test_a_plugin_that_raises_when_room_is_to_be_kept_costs_no_more_than_that_room() -> None:
    """The gang starts when there is room, and everybody else goes on."""
    play = Play(GangScheduling(ARGS), Miscounting())
    play.see(make_node("n1", cpu="4"), make_pod("full", cpu="4", node="n1"), *gang("two", "1", "1"))
    pass_time(play, 1100.0)
    play.pod_gone("full")
    assert pass_time(play, 1110.0) == {"two0", "two1"}
