"""Turns of many gangs: what they keep from others is bounded, whoever waits; messages about it are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.events import PodGone, PodSeen, TermBegan
from moorage.core.membership import GangKey
from moorage.core.objects import DAEMON_SET
from moorage.core.pods import Owner, Pod
from moorage.core.taints import Taint
from moorage.core.times import minute_text
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play
from tests.engine.test_gang_turns import gang

FOR_S = 300.0
ARGS = GangSchedulingArgs(reserve_after_seconds=60, reserve_for_seconds=FOR_S)
EVERY_S, RUNS_S = 37.0, 20.0
EIGHT = ("4",) * 8
"""A gang that takes the whole node."""


class Harbour:
    """One node of 32 cpus of which a pod that does not end has 4; small pods of another tenant come, run and end."""

    def __init__(self) -> None:
        self.play = Play(GangScheduling(ARGS))
        self.play.see(make_node("n1", cpu="32"), make_pod("stays", cpu="4", node="n1"))
        self.waited: list[float] = []
        self.told: list[tuple[float, str]] = []
        """When a small pod was told that it fits nowhere, and what."""
        self.favoured: list[tuple[float, GangKey | None]] = []
        self._came: dict[str, float] = {}
        self._ends: dict[str, float] = {}

    def live(self, until_s: float, priority: int = 0) -> None:
        """Time passes, second by second."""
        play, number = self.play, len(self._came)
        begun_s = play.now
        while play.now < until_s:
            play.now += 1.0
            events: list[PodSeen | PodGone] = []
            if play.now >= begun_s + (number + 1) * EVERY_S:
                pod = make_pod(f"small{len(self._came)}", namespace="quiet", cpu="1", priority=priority)
                self._came[pod.uid] = play.now
                events.append(PodSeen(pod))
                number += 1
            events += [PodGone(uid) for uid, at_s in self._ends.items() if at_s <= play.now]
            self._ends = {uid: at_s for uid, at_s in self._ends.items() if at_s > play.now}
            play.handle(*events)
            self._note()

    def _note(self) -> None:
        play = self.play
        self.favoured.append((play.now, play.engine.gangs.turns.favoured))
        self.told += [
            (play.now, patch.condition.message)
            for patch in play.patches
            if patch.condition is not None and patch.pod.namespace == "quiet"
        ]
        for name, node in play.binds.items():
            uid = f"quiet/{name}"
            self.waited.append(play.now - self._came[uid])
            self._ends[uid] = play.now + RUNS_S
            play.see(replace(play.pods[uid], node=node, phase="Running"))

    @property
    def kept_share(self) -> float:
        return sum(key is not None for _, key in self.favoured) / len(self.favoured)

    @property
    def turns(self) -> list[GangKey]:
        """Who had turns, one after the other."""
        found: list[GangKey | None] = [None]
        for _, key in self.favoured:
            if key != found[-1]:
                found.append(key)
        return [key for key in found if key is not None]


@pytest.mark.parametrize("gangs", [1, 3, 30])
def test_small_pods_of_others_start_within_one_turn(gangs: int) -> None:
    """However many gangs of a tenant gather room, it is open for as long as it was kept."""
    harbour = Harbour()
    for number in range(gangs):
        harbour.play.see(*gang(f"train{number}", *EIGHT, namespace="team-a"))
    harbour.live(1000.0 + 20 * FOR_S)
    assert max(harbour.waited) <= FOR_S + 1.0
    assert len(harbour.waited) > 20 * FOR_S / EVERY_S - 10, "and none is left behind"
    assert harbour.kept_share <= 0.5
    assert len(harbour.turns) == 10
    assert len(set(harbour.turns)) == min(gangs, 10), "gangs take turns"
    assert all("Room is kept for gang team-a/train" in message for _, message in harbour.told)


def test_tenants_take_turns_however_many_gangs_they_have() -> None:
    harbour = Harbour()
    for number in range(5):
        harbour.play.see(*gang(f"train{number}", *EIGHT, namespace="team-a"))
    harbour.play.see(*gang("late", *EIGHT, namespace="team-b"), at=1030.0)
    harbour.live(1000.0 + 16 * FOR_S)
    namespaces = [key.namespace for key in harbour.turns]
    assert namespaces == ["team-a", "team-b"] * 4
    names = [key.name for key in harbour.turns if key.namespace == "team-a"]
    assert len(set(names)) == 4


def test_who_is_kept_out_is_told_for_whom_and_until_when() -> None:
    harbour = Harbour()
    play = harbour.play
    play.see(*gang("train", *EIGHT, namespace="team-a"))
    play.wait(61)
    assert "Free room is kept for it until 00:23." in play.note("train0"), "1361 s are 22 minutes and 41 seconds"
    play.see(make_pod("small", cpu="1"), make_pod("large", cpu="33"), make_pod("high", cpu="1", priority=1))
    said = "0/1 nodes are available: 1 Insufficient cpu. Room is kept for gang team-a/train until 00:23."
    assert play.note("small") == said
    assert play.note("large") == "0/1 nodes are available: 1 Insufficient cpu.", "which it would not fit into"
    assert set(play.binds) == {"high"}, "more important than the gang"
    play.see(*gang("other", "1", "1"))
    assert play.note("other0").endswith("Room is kept for gang team-a/train until 00:23.")


def test_a_gang_goes_on_while_it_keeps_out_less_important_pods_only() -> None:
    """Those are told the new time; the first of its own rank ends that."""
    harbour = Harbour()
    harbour.play.see(*gang("train", *EIGHT, namespace="team-a", priority=5))
    harbour.live(1000.0 + 5 * FOR_S)
    assert harbour.waited == [0.0], "before it has waited for long"
    assert harbour.kept_share > 0.9
    stale = [(at_s, message) for at_s, message in harbour.told if not _is_true(at_s, message)]
    assert not stale
    assert len({message for _, message in harbour.told}) == 5
    harbour.play.see(make_pod("equal", cpu="1", priority=5))
    assert harbour.play.binds == {}
    came_s = harbour.play.now
    while not harbour.play.binds:
        harbour.play.wait(1)
    assert harbour.play.now - came_s <= FOR_S
    assert harbour.play.engine.gangs.turns.favoured is None


def _is_true(at_s: float, message: str) -> bool:
    """Whether a turn that ends within its time is named."""
    until = message.rpartition("until ")[2].rstrip(".")
    return until in {minute_text(at_s + ahead_s) for ahead_s in range(int(FOR_S) + 1)}


def test_a_more_important_gang_need_not_wait_for_the_end_of_a_pause() -> None:
    """But its own pause is one for it, too."""
    harbour = Harbour()
    harbour.play.see(*gang("low", *EIGHT))
    harbour.live(1370.0)
    assert harbour.favoured[-1][1] is None
    harbour.play.see(*gang("high", *EIGHT, priority=5), make_pod("equal", cpu="64", priority=5))
    harbour.live(1440.0)
    assert harbour.turns[-1].name == "high"
    harbour.live(1430.0 + FOR_S + 30)
    assert harbour.favoured[-1][1] is None
    harbour.live(1430.0 + 2 * FOR_S + 30)
    assert [key.name for key in harbour.turns] == ["low", "high", "high"]


def test_a_leader_begins_with_a_pause() -> None:
    """Its predecessor may have kept the room until now: leaders that come and go keep it no longer than one does."""
    kept_s = lived_s = 0.0
    for life_s in (100.0, FOR_S, 1.5 * FOR_S, 2 * FOR_S, 100.0):
        harbour = Harbour()
        harbour.play.see(*gang("train", *EIGHT), budget=0)
        harbour.play.handle(TermBegan("b"), at=1000.0 + 2 * FOR_S)
        harbour.live(harbour.play.now + life_s)
        assert bool(harbour.turns) == (life_s >= FOR_S)
        kept_s, lived_s = kept_s + harbour.kept_share * life_s, lived_s + life_s
    assert 0 < kept_s <= lived_s / 2


# --- gangs that could not start ---


def of_a_daemon(name: str, cpu: str, node: str) -> Pod:
    return make_pod(name, cpu=cpu, node=node, priority=10, owner=Owner(DAEMON_SET, "agents", "agents-uid", "apps/v1"))


@pytest.mark.parametrize(
    ("cpus", "could"),
    [
        pytest.param(("2", "2"), True, id="beside the pods that stay"),
        pytest.param(("2", "3"), False, id="one only if a DaemonSet's pod ended"),
        pytest.param(("1",) * 5, False, id="one too many"),
    ],
)
def test_pods_that_stay_as_long_as_their_node_do_not_make_room(cpus: tuple[str, ...], could: bool) -> None:
    play = Play(GangScheduling(ARGS))
    play.see(make_node("n1", cpu="3"), make_node("n2", cpu="3"), make_pod("full", cpu="2", node="n2"))
    play.see(of_a_daemon("a", "1", "n1"), of_a_daemon("b", "1", "n2"), *gang("train", *cpus))
    play.wait(61)
    assert (play.engine.gangs.turns.favoured is not None) == could
    play.see(make_pod("small", cpu="1"))
    assert (play.binds == {}) == could


def test_members_that_fit_alone_may_not_fit_together() -> None:
    play = Play(GangScheduling(ARGS))
    play.see(make_node("n1", cpu="4"), make_pod("full", cpu="1", node="n1"), *gang("train", "3", "2"))
    play.wait(61)
    assert play.engine.gangs.turns.favoured is None


@pytest.mark.parametrize("how", ["cordoned", "gone", "smaller", "more members"])
def test_a_turn_ends_when_the_gang_could_not_start_any_more(how: str) -> None:
    play = Play(GangScheduling(ARGS))
    play.see(make_node("n1", cpu="2"), make_node("n2", cpu="2"), make_pod("full", cpu="1", node="n2"))
    play.see(*gang("train", "1", "1", "1", "1"))
    play.wait(61)
    play.see(make_pod("small", cpu="1"))
    assert play.binds == {}
    if how == "gone":
        play.node_gone("n2")
    elif how == "more members":
        play.see(gang("train", "1", "1", "1", "1", "1")[-1])
    else:
        taints = (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
        play.see(make_node("n2", cpu="1") if how == "smaller" else make_node("n2", cpu="2", taints=taints))
    assert set(play.binds) == {"small"}
    assert play.engine.gangs.turns.favoured is None


def test_nobody_is_evicted_for_room_that_is_kept_for_a_gang_that_cannot_start() -> None:
    """The important pod finds free room, and what it would have had to evict goes on running."""
    play = Play(GangScheduling(ARGS), DefaultPreemption())
    play.see(make_node("n1", cpu="4"), of_a_daemon("agent", "1", "n1"), make_pod("runs", cpu="1", node="n1"))
    play.see(*gang("train", "1", "1", "1", "1", priority=5))
    evicted = list(play.deletions)
    for number in range(2):
        play.wait(61)
        play.see(make_pod(f"important{number}", cpu="1", priority=5))
        assert set(play.binds) == {f"important{number}"}
        evicted += play.deletions
    assert evicted == []
