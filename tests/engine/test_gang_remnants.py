"""What a gang may leave behind: members of a start that broke off, deadlines, promised room."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace

import pytest

from moorage.core.events import BindOutcome, ObjectGone, ObjectSeen
from moorage.core.gangrecords import STARTED, GangRecord
from moorage.core.objects import REPLICA_SET, PodGroup, Workload
from moorage.core.pods import Pod
from moorage.framework.status import Hold
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.actors import Permitter
from tests.engine.gangplays import gang_play
from tests.engine.play import Play

MIN = "moorage.dev/pod-group-min-available"
BROKEN_OFF = GangRecord(done=False, term="1", nodes={"a": "n1", "b": "n1", "c": "n2"})


@pytest.fixture
def play() -> Play:
    """Two nodes with room for two members each."""
    return gang_play()


def member(name: str, size: int | None = None, **fields: object) -> Pod:
    annotations = {"pod-group": "g"} | ({MIN: str(size)} if size else {})
    return make_pod(name, cpu="1", annotations=annotations, **{"owner": "crew", **fields})  # type: ignore[arg-type]


def standing(pod: Pod, record: GangRecord | None = None) -> Pod:
    return replace(pod, node="n1", phase="Running", scheduled_s=600.0, gang_record=record)


def broken_off(play: Play, *others: Pod) -> None:
    """The next leader finds one of three members bound, of a gang whose size only its record tells."""
    first = standing(member("a", created_s=500.0), BROKEN_OFF)
    play.see(first, member("b", created_s=500.0), member("c", created_s=500.0), *others, budget=0)
    play.handle()
    play.wait(1)


def test_the_record_tells_the_size_that_nobody_else_gives(play: Play) -> None:
    """There is room for one of the two that wait: neither is bound, and the one that stands is released."""
    broken_off(play, make_pod("thief", cpu="2", node="n2"))
    assert play.binds == {}
    play.wait(10)
    assert play.deletions == ["a"]


def test_a_start_of_unknown_size_is_completed_and_marked(play: Play) -> None:
    """It is known to run from then on, and nothing is released when it loses members later."""
    broken_off(play)
    assert play.binds == {"b": "n1", "c": "n2"}
    play.bound("b")
    play.bound("c")
    assert [(p.pod.name, p.gang_record) for p in play.patches if p.gang_record is not None] == [("a", STARTED)]
    play.wait(60)
    assert play.deletions == []


def test_members_of_unknown_number_are_released_when_the_rest_cannot_be_bound(play: Play) -> None:
    play.see(member("a"), member("b"), member("c"))
    play.wait(1)
    [patch] = [patch for patch in play.patches if patch.token]
    play.recorded(patch.pod.uid)
    play.see(replace(play.pods[patch.pod.uid], gang_record=patch.gang_record))
    for name in "ab":
        play.bound(name)
        play.confirm(name)
    where = play.node_of("c")
    free = [node for node in ("n1", "n2") for _ in range(2 - play.used_cpu(node) // 1000)]
    play.see(*(make_pod(f"thief{i}", cpu="1", node=node) for i, node in enumerate([*free, where])))
    play.answer("c", BindOutcome.FAILED, message="no")
    play.wait(11)
    assert set(play.deletions) == {"a", "b"}


def test_a_group_that_is_deleted_leaves_no_deadline(play: Play) -> None:
    """Its time would come again and again, and nothing could be done about it."""
    play.handle(ObjectSeen("PodGroup", "default/g", PodGroup("default", "g", uid="u", min_count=3)))
    pods = [make_pod(name, cpu="1", group="g", created_s=500.0) for name in "abc"]
    play.see(standing(pods[0]), *pods[1:], make_pod("thief", cpu="2", node="n2"))
    play.handle(ObjectGone("PodGroup", "default/g"))
    play.wait(60)
    assert play.deletions == []
    assert play.wakeup is None or play.wakeup > play.now


def promised(play: Play) -> None:
    """A gang of four has evicted what was there, and lost a member before it could start."""
    play.see(make_pod("x", cpu="2", node="n1", priority=0), make_pod("y", cpu="2", node="n2", priority=0))
    play.see(*(member(name, 4, priority=10) for name in "abcd"))
    assert set(play.deletions) == {"x", "y"}
    play.pod_gone("a")
    play.pod_gone("x")
    play.pod_gone("y")


def test_a_gang_that_stays_incomplete_gives_back_what_it_was_promised(play: Play) -> None:
    """It could not start for want of a member, and would keep others of its importance out for ever."""
    promised(play)
    play.see(make_pod("other", cpu="2", priority=10))
    assert play.binds == {}
    play.wait(31)
    assert set(play.binds) == {"other"}
    assert {patch.pod.name for patch in play.patches if patch.nominated_node == ""} == {"b", "c", "d"}


def test_a_member_that_is_replaced_soon_finds_the_promised_room(play: Play) -> None:
    promised(play)
    play.see(make_pod("other", cpu="2", priority=10))
    play.wait(20)
    play.see(member("e", 4, priority=10))
    [patch] = [patch for patch in play.patches if patch.token]
    play.recorded(patch.pod.uid)
    assert set(play.binds) == {"b", "c", "d", "e"}


def test_a_deadline_that_passes_while_the_rest_is_on_its_way_does_not_come_again_and_again() -> None:
    """The others wait in Permit: what comes of that is looked at when it has come."""
    play = Play(GangScheduling(), Permitter(lambda _: Hold(5000.0)))
    play.see(make_node("n1", cpu="2"), make_node("n2", cpu="2"), make_pod("thief", cpu="2", node="n2"))
    pods = [member(name, 2, created_s=500.0) for name in "ab"]
    play.see(standing(pods[0], BROKEN_OFF), pods[1], make_pod("thief2", cpu="1", node="n1"))
    play.pod_gone("thief")
    assert play.node_of("b") == "n2"
    play.wait(60)
    assert play.wakeup is not None
    assert play.wakeup > play.now
    play.handle(at=5001.0)
    assert play.wakeup is not None
    play.handle(at=max(play.wakeup, play.now))
    assert play.deletions == ["a"]


def test_controllers_of_gangs_that_are_gone_are_forgotten(play: Play) -> None:
    """A controller mostly goes before its pods, and thousands of jobs a day must not add up."""
    play.handle(ObjectSeen(REPLICA_SET, "default/w", Workload(REPLICA_SET, "default", "w", replicas=2)))
    play.see(member("a", owner="w"), member("b", owner="w"))
    play.handle(ObjectGone(REPLICA_SET, "default/w"))
    assert len(play.engine.gangs.ruled_by(REPLICA_SET, "default/w")) == 1
    play.pod_gone("a")
    play.pod_gone("b")
    assert not play.engine.gangs._controlled
    assert not play.engine.gangs._controllers


@pytest.mark.parametrize("node", [None, "n1"], ids=["waiting", "standing"])
def test_a_pod_that_changes_its_gang_leaves_nothing_of_the_old_ones(play: Play, node: str | None) -> None:
    """Annotations can be changed at any time: what was known of a gang goes with its last member."""
    for number in range(50):
        annotations = {"pod-group": f"g{number}"} | ({MIN: "1"} if node else {})
        pod = make_pod("a", cpu="64", annotations=annotations, owner="crew")
        play.see(replace(pod, node=node, phase="Running", scheduled_s=600.0) if node else pod)
        play.wait(2)
    gangs, recovery = play.engine.gangs, play.engine.gangs.recovery
    kept: list[Sized] = [gangs._controllers, gangs._controlled, recovery._running, recovery._carriers, recovery._told]
    assert max(map(len, kept)) <= 1
    play.pod_gone("a")
    assert not any(kept)


def test_a_member_of_another_scheduler_leaves_nothing_of_the_gang(play: Play) -> None:
    """It is none of ours to place, but as long as it stands there is a gang."""
    play.see(member("a"), replace(standing(member("b")), template=member("b", scheduler_name="other").template))
    play.wait(2)
    play.pod_gone("a")
    play.pod_gone("b")
    assert not play.engine.gangs._controllers
