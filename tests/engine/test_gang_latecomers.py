"""Members that come late, and records that go early: what the random histories of gangs found, told one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.events import BindOutcome, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import STARTED, GangRecord
from moorage.core.objects import REPLICA_SET, PodGroup, Workload
from moorage.core.pods import Pod
from moorage.engine.units import Place
from moorage.testing.builders import make_pod
from tests.engine.gangplays import gang_play
from tests.engine.play import Play

MIN = "moorage.dev/pod-group-min-available"


@pytest.fixture
def play() -> Play:
    """Two nodes with room for two members each."""
    return gang_play()


def member(name: str, size: int | None = 3, **fields: object) -> Pod:
    annotations = {"pod-group": "g"} | ({MIN: str(size)} if size else {})
    return make_pod(name, cpu="1", annotations=annotations, **{"owner": "crew", **fields})  # type: ignore[arg-type]


def test_a_latecomer_waits_until_the_others_are_on_record(play: Play) -> None:
    """Bound before them it would stand alone if they never start."""
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder()
    play.see(member("d"))
    assert (play.binds, play.place("d")) == ({}, Place.GATED)
    play.recorded(who)
    assert set(play.binds) == {"a", "b", "c", "d"}


def test_a_latecomer_does_not_make_a_gang_complete_whose_binds_fail(play: Play) -> None:
    """Only the late fourth of a gang of three was bound, and the others' room is gone: it is released."""
    play.see(member("a"), member("b"), member("c"))
    play.recorded()
    play.see(member("d"))
    play.bound("d")
    play.confirm("d")
    taken = [make_pod(f"thief-{name}", cpu="1", node=play.node_of(name)) for name in "abc"]
    for name in "abc":
        play.answer(name, BindOutcome.FAILED, message="no")
    play.see(*taken)
    play.wait(5)
    play.wait(10)
    assert play.deletions == ["d"]


def test_a_start_whose_record_is_lost_is_still_a_start(play: Play) -> None:
    """The member with the record goes while the others are being bound; its successor finds no room."""
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder()
    play.recorded(who)
    rest = sorted({"default/a", "default/b", "default/c"} - {who})
    node = play.node_of(who.removeprefix("default/"))
    fills = [make_pod(f"fill-{each}", cpu="1", node=each) for each in ("n1", "n2")]
    free = [pod for pod in fills if play.used_cpu(str(pod.node)) < 2000]
    play.handle(PodGone(who), PodSeen(make_pod("thief", cpu="1", node=node)), *map(PodSeen, free))
    for uid in rest:
        name = uid.removeprefix("default/")
        play.bound(name)
        play.see(replace(play.pods[uid], node=play.node_of(name), phase="Running", scheduled_s=play.now))
    play.see(member("d", created_s=play.now + 1))
    play.wait(11)
    assert {f"default/{name}" for name in play.deletions} == set(rest)


def test_controllers_that_are_seen_one_after_another_make_one_gang(play: Play) -> None:
    """A pod of a Deployment of one replica is not a gang of one: others may follow within a second."""
    for number, name in enumerate("abc"):
        workload = Workload(REPLICA_SET, "default", name, replicas=1)
        play.handle(ObjectSeen(REPLICA_SET, f"default/{name}", workload), at=1000.0 + number * 0.3)
        play.see(member(f"{name}-0", None, owner=name))
        assert [patch for patch in play.patches if patch.token] == []
    play.wait(1.0)
    play.recorded()
    assert set(play.binds) == {"a-0", "b-0", "c-0"}


def test_a_controller_without_a_pod_counts(play: Play) -> None:
    """One of two was released, and its successor is not there yet: the other is no gang of one meanwhile."""
    named = FrozenDict({"pod-group": "g"})
    for name in "ab":
        workload = Workload(REPLICA_SET, "default", name, replicas=1, template_annotations=named)
        play.handle(ObjectSeen(REPLICA_SET, f"default/{name}", workload))
    play.see(member("a-0", None, owner="a"))
    play.wait(60)
    assert [patch for patch in play.patches if patch.token] == []
    play.see(member("b-0", None, owner="b"))
    play.wait(1.0)
    play.recorded()
    assert set(play.binds) == {"a-0", "b-0"}


def test_promises_of_a_gang_are_not_in_its_own_way(play: Play) -> None:
    """Three members were promised a node that has room for two by now; two are enough."""
    play.node_gone("n1")
    pods = [replace(member(name, 2), nominated_node="n2") for name in "abc"]
    play.see(*pods)
    play.recorded()
    assert len(play.binds) == 2


def test_a_group_that_was_scheduled_once_may_be_started_in_part_later(play: Play) -> None:
    """The group's condition never turns back; a member that waits and is older than the others' binds tells more."""
    group = PodGroup("default", "g", uid="u", min_count=3, scheduled=True)
    bound = make_pod("a", cpu="1", group="g", owner="crew", created_s=500.0)
    bound = replace(bound, node="n1", phase="Running", scheduled_s=600.0)
    waiting = [make_pod(name, cpu="2", group="g", created_s=500.0) for name in "bc"]
    play.handle(ObjectSeen("PodGroup", "default/g", group), budget=0)
    play.see(bound, *waiting, budget=0)
    play.handle()
    play.wait(11)
    assert play.deletions == ["a"]


def marks(play: Play) -> list[tuple[str, GangRecord]]:
    """The records that the last call wrote, each with its pod."""
    return [(patch.pod.name, patch.gang_record) for patch in play.patches if patch.gang_record is not None]


def test_a_complete_start_is_marked_though_the_watch_has_not_shown_the_record(play: Play) -> None:
    """A record that stays `Binding` would make the next leader take a running gang for one that was started in part."""
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder().removeprefix("default/")
    play.recorded(f"default/{who}")
    for name in "abc":
        play.bound(name)
    assert marks(play) == [(who, STARTED)]


def test_the_record_of_a_running_gang_outlives_the_member_that_carries_it(play: Play) -> None:
    """Another member takes it over."""
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder().removeprefix("default/")
    play.recorded(f"default/{who}")
    for name in "abc":
        play.bound(name)
        play.confirm(name)
    play.pod_gone(who)
    [(other, said)] = marks(play)
    assert (other in {"a", "b", "c"} - {who}, said) == (True, STARTED)
    play.wait(60)
    assert marks(play) == []


def test_an_eviction_that_broke_off_is_brought_to_its_end(play: Play) -> None:
    """One of three members is being evicted and the next leader finds the others: there is no room for a new third."""
    bound = [replace(member(name, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0) for name in "ab"]
    leaving = replace(member("c", created_s=500.0), node="n2", deleted_s=900.0, preempted=True, scheduled_s=600.0)
    play.see(make_pod("high", cpu="1", node="n2"), *bound, leaving, member("d", created_s=901.0), budget=0)
    play.handle()
    play.handle(PodGone("default/c"), PodSeen(make_pod("higher", cpu="1", node="n2")))
    play.wait(11)
    assert set(play.deletions) == {"a", "b"}


def test_a_gang_that_ran_before_a_restart_is_remembered(play: Play) -> None:
    """Two of three are left; the next leader reads so on one of them, and then that one is lost too."""
    bound = [replace(member(name, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0) for name in "ab"]
    play.see(replace(bound[0], gang_record=STARTED), bound[1], budget=0)
    play.handle()
    play.handle(PodGone("default/a"), PodSeen(member("d", created_s=600.0)))
    assert (set(play.binds), marks(play)) == ({"d"}, [("b", STARTED)])
    play.wait(60)
    assert play.deletions == []
