"""What waiting gangs are woken by: their own objects and members by name, room by the plugins that lacked it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.objects import PodGroup, Workload
from moorage.core.pods import Owner, Pod
from moorage.engine.units import Place
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

MIN = "moorage.dev/pod-group-min-available"


def member(name: str, size: int | None = 3, gang: str = "g", owner: str | None = None, node: str | None = None) -> Pod:
    annotations = {"pod-group": gang} | ({MIN: str(size)} if size else {})
    pod = make_pod(name, cpu="1", annotations=annotations, node=node)
    if owner is None:
        return pod
    return replace(pod, template=replace(pod.template, owner=Owner("ReplicaSet", owner, owner, "apps/v1")))


def replica_set(name: str, replicas: int) -> ObjectSeen:
    return ObjectSeen("ReplicaSet", f"default/{name}", Workload("ReplicaSet", "default", name, replicas=replicas))


def group(count: int, name: str = "g") -> ObjectSeen:
    return ObjectSeen("PodGroup", f"default/{name}", PodGroup("default", name, uid=name, min_count=count))


@pytest.fixture
def play() -> Play:
    """One node with room for two members."""
    play = Play(GangScheduling())
    play.see(make_node("n1", cpu="2"))
    return play


def attempts(play: Play, name: str) -> int:
    """How often a pod was tried."""
    entry = play.engine.queue.get(f"default/{name}")
    assert entry is not None
    return entry.attempts


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(PodSeen(make_pod("other", cpu="0", node="n1")), id="a pod that came"),
        pytest.param(PodSeen(member("x", gang="h", node="n1")), id="a member of another gang"),
        pytest.param(replica_set("other", 3), id="a controller of others"),
        pytest.param(group(1, "h"), id="the group of others"),
        pytest.param(NodeSeen(make_node("n1", cpu="2")), id="a node that is as it was"),
    ],
)
def test_what_concerns_others_is_no_reason_to_try_again(play: Play, event: Event) -> None:
    """A gang that lacks room, or members, waits on."""
    play.see(*(member(name) for name in "abc"), member("d", gang="i"))
    play.handle(event, at=play.now + 30)
    assert [play.place(name) for name in "abc"] == [Place.UNSCHEDULABLE] * 3
    assert [attempts(play, name) for name in "abcd"] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(replica_set("rs", 3), replica_set("rs", 2), id="by its controller"),
        pytest.param(group(3), group(2), id="by its group"),
    ],
)
def test_a_gang_that_needs_fewer_members_is_tried_again(play: Play, first: Event, then: Event) -> None:
    """Of three that must stand together two fit; when two are enough, they start."""
    play.handle(first)
    play.see(*(member(name, None, owner="rs") for name in "abc"))
    play.wait(2)
    assert [play.place(name) for name in "abc"] == [Place.UNSCHEDULABLE] * 3
    play.handle(then, at=play.now + 30)
    play.recorded()
    assert len(play.binds) == 2


def test_a_gang_of_which_a_member_was_bound_by_somebody_else_is_tried_again(play: Play) -> None:
    """Two of three fit; the third one is put elsewhere."""
    play.see(*(member(name) for name in "abc"))
    assert play.place("a") is Place.UNSCHEDULABLE
    play.see(make_node("n2", cpu="2", taints=["kept:NoSchedule"]), at=play.now + 30)
    play.see(replace(member("c"), node="n2"), at=play.now + 30)
    play.recorded()
    assert set(play.binds) == {"a", "b"}


def test_members_that_come_while_nothing_is_decided_are_looked_at_afterwards(play: Play) -> None:
    """With no budget the engine asks to be called again at once."""
    play.see(member("a", 2), member("b", 2), budget=0)
    assert play.wakeup == play.now
    play.handle()
    assert any(patch.token for patch in play.patches)


def test_a_start_that_could_not_be_recorded_does_not_wake_its_own_gang(play: Play) -> None:
    """What became of its own attempt is no news: the gang sits its backoff out."""
    play.see(member("a", 2), member("b", 2))
    play.recorded(ok=False, message="try again")
    assert [play.place(name) for name in "ab"] == [Place.BACKOFF] * 2
    play.handle(PodGone("default/nobody"))
    assert [attempts(play, name) for name in "ab"] == [1, 1]
