"""Gangs in the engine: together or not at all, through crashes and failed binds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.commands import Bind, DeletePod, PatchObject, PatchPodStatus
from moorage.core.events import BindOutcome, ObjectSeen, PodSeen, TermBegan
from moorage.core.gangrecords import STARTED, GangRecord
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.engine.units import Place
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.actors import Raiser
from tests.engine.gangplays import gang_play
from tests.engine.play import Play

MIN = "moorage.dev/pod-group-min-available"


def member(name: str, size: int | None = 3, gang: str = "g", cpu: str = "1", **fields: object) -> Pod:
    annotations = {"pod-group": gang} | ({MIN: str(size)} if size else {})
    return make_pod(name, cpu=cpu, annotations=annotations, **{"owner": "crew", **fields})  # type: ignore[arg-type]


def group(name: str = "g", **fields: object) -> ObjectSeen:
    value = PodGroup("default", name, uid=f"uid-{name}", **fields)  # type: ignore[arg-type]
    return ObjectSeen("PodGroup", f"default/{name}", value)


@pytest.fixture
def play() -> Play:
    """Two nodes with room for two members each."""
    return gang_play()


def test_members_wait_for_each_other_and_start_together(play: Play) -> None:
    """Nothing is bound before the last member is there, and nothing before the start is on record."""
    play.see(member("a"), member("b"))
    assert (play.binds, play.place("a"), play.place("b")) == ({}, Place.GATED, Place.GATED)
    play.see(member("c"))
    assert play.binds == {}
    play.recorded()
    assert set(play.binds) == {"a", "b", "c"}


def test_the_record_names_members_and_nodes(play: Play) -> None:
    play.handle(TermBegan("7"))
    play.see(member("a"), member("b"), member("c"))
    [patch] = [patch for patch in play.patches if patch.token]
    assert patch.gang_record is not None
    assert (patch.gang_record.done, patch.gang_record.term) == (False, "7")
    assert "a" in patch.gang_record.nodes
    play.recorded()


def test_a_gang_that_does_not_fit_holds_nothing(play: Play) -> None:
    """Four fit, five do not: the others' pods get all of the room."""
    play.see(*(member(name, 5) for name in "abcde"))
    assert play.binds == {}
    assert [play.place(name) for name in "abcde"] == [Place.UNSCHEDULABLE] * 5
    assert play.note("a").startswith("pod group default/g: 4 of 5 members fit; 0/2 nodes are available")
    assert play.used_cpu("n1") == play.used_cpu("n2") == 0
    play.see(make_pod("other", cpu="2"))
    assert set(play.binds) == {"other"}


def test_a_fault_after_enough_members_found_a_node_starts_nothing() -> None:
    """What was placed before a plugin failed is taken back, however many members that were."""
    play = Play(GangScheduling(), Raiser())
    play.see(make_node("n1", cpu="2"))
    play.see(member("a", 1), member("b", 1, labels={"raises": "filter"}))
    assert (play.binds, play.used_cpu("n1")) == ({}, 0)
    assert "running plugins failed: ValueError: filter is broken" in play.note("a")


def test_room_that_appears_lets_the_whole_gang_in(play: Play) -> None:
    play.see(*(member(name, 5) for name in "abcde"))
    play.see(make_node("n3", cpu="1"))
    play.recorded()
    assert set(play.binds) == set("abcde")


def test_two_gangs_with_room_for_one_never_share_it(play: Play) -> None:
    names = [("a", "g"), ("x", "h"), ("b", "g"), ("y", "h"), ("c", "g"), ("z", "h")]
    play.see(*(member(name, 3, gang) for name, gang in names))
    play.recorded()
    assert set(play.binds) in ({"a", "b", "c"}, {"x", "y", "z"})


@pytest.mark.parametrize("by", ["spec", "label"])
def test_members_named_by_spec_or_label_wait_for_their_group(play: Play, by: str) -> None:
    """The group's object says how many there must be."""
    fields = {"group": "g"} if by == "spec" else {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    pods = [make_pod(name, cpu="1", **fields) for name in "ab"]
    play.see(*pods)
    assert play.place("a") is Place.GATED
    play.wait(2)
    assert play.note("a") == "waiting for PodGroup default/g"
    play.handle(group(min_count=2))
    play.recorded()
    assert set(play.binds) == {"a", "b"}


def test_a_gang_without_a_size_starts_when_no_member_has_come_for_a_second(play: Play) -> None:
    play.see(member("a", None))
    play.handle(PodSeen(member("b", None)), at=play.now + 0.9)
    play.wait(0.5)
    assert play.binds == {}
    play.wait(0.5)
    play.recorded()
    assert set(play.binds) == {"a", "b"}


def test_more_members_than_needed_get_what_is_there(play: Play) -> None:
    """Three of five are needed; four fit."""
    play.see(*(member(name, 3) for name in "abcde"))
    play.recorded()
    assert len(play.binds) == 4


def test_a_start_that_cannot_be_recorded_binds_nothing(play: Play) -> None:
    play.see(member("a"), member("b"), member("c"))
    play.recorded(ok=False, message="forbidden")
    assert play.binds == {}
    assert play.used_cpu("n1") == play.used_cpu("n2") == 0
    assert play.note("a").endswith("could not be recorded: forbidden")


def test_a_member_that_vanishes_before_the_start_stops_it(play: Play) -> None:
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder()
    play.pod_gone("b")
    play.recorded(who)
    assert play.binds == {}
    assert play.place("a") is Place.GATED
    play.see(member("d"))
    play.recorded()
    assert set(play.binds) == {"a", "c", "d"}


def test_a_node_that_vanishes_before_the_start_stops_it(play: Play) -> None:
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder()
    play.node_gone(play.node_of("a") or "")
    play.recorded(who)
    assert play.binds == {}


def run(play: Play, *names: str) -> None:
    """Start the gang and let every bind succeed."""
    play.recorded()
    for name in names:
        play.bound(name)
        play.confirm(name)


def test_a_complete_start_is_marked_on_the_record() -> None:
    play = Play(GangScheduling())
    play.see(make_node("n1", cpu="4"))
    play.see(member("a"), member("b"), member("c"))
    who = play.recorder()
    play.recorded()
    record = GangRecord(done=False)
    for name in "abc":
        pod = play.pods[f"default/{name}"]
        if pod.uid == who:
            play.pods[pod.uid] = replace(pod, gang_record=record)
        play.confirm(name)
        play.bound(name)
    marks = [(patch.pod.uid, patch.gang_record) for patch in play.patches if patch.gang_record is not None]
    assert marks == [(who, STARTED)]


def test_the_group_is_scheduled_only_after_the_last_bind() -> None:
    """Unlike kube-scheduler, which says so before binding."""
    play = Play(GangScheduling())
    play.see(make_node("n1", cpu="4"))
    play.handle(group(min_count=2))
    play.see(make_pod("a", cpu="1", group="g"), make_pod("b", cpu="1", group="g"))
    play.recorded()
    play.bound("a")
    assert play.of(PatchObject) == []
    play.bound("b")
    [patch] = play.of(PatchObject)
    [condition] = patch.patch["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "True")


def test_a_failed_bind_is_tried_again_and_completes_the_gang(play: Play) -> None:
    play.see(member("a"), member("b"), member("c"))
    play.recorded()
    play.bound("a")
    play.bound("b")
    play.answer("c", BindOutcome.FAILED, message="no")
    play.wait(2)
    assert set(play.binds) == {"c"}
    play.bound("c")
    assert play.wait(60) == []


def test_members_are_released_when_the_rest_cannot_be_bound(play: Play) -> None:
    """The last one's room is gone: after a while the others are deleted."""
    play.see(member("a"), member("b"), member("c"))
    play.recorded()
    for name in "ab":
        play.bound(name)
        play.confirm(name)
    free = [node for node in ("n1", "n2") for _ in range(2 - play.used_cpu(node) // 1000)]
    thieves = [make_pod(f"thief{i}", cpu="1", node=node) for i, node in enumerate(free)]
    thieves.append(make_pod("thief", cpu="1", node=play.node_of("c")))
    play.see(*thieves)
    play.answer("c", BindOutcome.FAILED, message="no")
    play.wait(5)
    assert play.deletions == []
    play.wait(6)
    assert set(play.deletions) == {"a", "b"}
    assert all(command.reason == "GangReleased" for command in play.of(DeletePod))


def half_started(play: Play, *, record: bool, taken: bool) -> None:
    """What the next leader sees after a crash: two of four members are bound."""
    said = GangRecord(done=False, term="1", nodes={"a": "n1", "b": "n1", "c": "n2", "d": "n2"}) if record else None
    bound = [
        replace(member("a", 4, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0, gang_record=said),
        replace(member("b", 4, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0),
    ]
    waiting = [member(name, 4, created_s=500.0) for name in "cd"]
    others = [make_pod("thief", cpu="1", node="n2")] if taken else []
    play.see(*bound, *waiting, *others, budget=0)


@pytest.mark.parametrize("record", [True, False], ids=["with record", "without record"])
def test_the_next_leader_completes_a_start_that_broke_off(play: Play, record: bool) -> None:
    half_started(play, record=record, taken=False)
    play.handle()
    if not record:
        play.recorded()
    assert play.binds == {"c": "n2", "d": "n2"}


@pytest.mark.parametrize("record", [True, False], ids=["with record", "without record"])
def test_the_next_leader_releases_what_it_cannot_complete(play: Play, record: bool) -> None:
    half_started(play, record=record, taken=True)
    play.handle()
    assert play.binds == {}
    play.wait(10)
    assert set(play.deletions) == {"a", "b"}


def test_a_standby_releases_nothing(play: Play) -> None:
    half_started(play, record=True, taken=True)
    play.handle(at=play.now + 100, budget=0)
    assert play.deletions == []


def test_lost_members_of_a_running_gang_are_replaced_one_by_one_and_first(play: Play) -> None:
    """Two of three are gone; their replacements come before older work of equal priority."""
    play.see(make_node("n3", cpu="2"), member("a"), member("b"), member("c"))
    run(play, "a", "b", "c")
    play.pod_gone("b")
    play.pod_gone("c")
    play.handle(PodSeen(make_pod("older", cpu="1")), PodSeen(member("d", created_s=play.now)), budget=1)
    assert set(play.binds) == {"d"}
    play.wait(100)
    assert play.deletions == []


def test_a_running_gang_that_lost_members_is_recognised_after_a_restart(play: Play) -> None:
    """The replacement is younger than the placement of the others: nothing is half-started here."""
    bound = [
        replace(member(name, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0) for name in ("a", "b")
    ]
    play.see(make_pod("full", cpu="2", node="n2"), *bound, member("d", created_s=700.0), budget=0)
    play.handle()
    play.wait(100)
    assert play.deletions == []


def test_a_replacement_of_the_same_second_is_no_broken_start(play: Play) -> None:
    """The API counts in seconds: a pod that came in the second of the others' placement may well have come after it."""
    bound = [
        replace(member(name, created_s=500.0), node="n1", phase="Running", scheduled_s=600.0) for name in ("a", "b")
    ]
    play.see(make_pod("full", cpu="2", node="n2"), *bound, member("d", created_s=600.0), budget=0)
    play.handle()
    play.wait(100)
    assert play.deletions == []


def test_freed_room_is_kept_for_a_gang_that_has_waited_long() -> None:
    """Without that, smaller work of equal priority would take every place that becomes free."""
    play = Play(GangScheduling(GangSchedulingArgs(reserve_after_seconds=30)))
    play.see(make_node("n1", cpu="2"), make_pod("x", cpu="1", node="n1"), make_pod("y", cpu="1", node="n1"))
    play.see(member("a", 2), member("b", 2))
    play.pod_gone("x")
    play.see(make_pod("small1", cpu="1"))
    assert set(play.binds) == {"small1"}
    play.wait(31)
    play.pod_gone("small1")
    play.see(make_pod("small2", cpu="1"))
    assert play.binds == {}
    play.pod_gone("y")
    play.recorded()
    assert set(play.binds) == {"a", "b"}


@pytest.mark.timeout(30)
def test_a_standby_survives_a_gang_that_keeps_room_and_lacks_members() -> None:
    """Only one that decides can give back what it was promised; until then no alarm may ring again and again."""
    play = Play(GangScheduling())
    play.see(make_node("n1", cpu="4"))
    lame = replace(member("a", 2), nominated_node="n1")
    for _ in range(2):
        play.see(lame, budget=0)
    for at_s in (1010.0, 1030.5, 1031.0, 1100.0):
        play.see(lame, at=at_s, budget=0)
        assert (play.engine.next_change_s(deciding=False) or at_s + 1) > at_s
    play.handle()
    assert ("a", "") in [(patch.pod.name, patch.nominated_node) for patch in play.patches]


def test_a_gang_lands_in_one_domain() -> None:
    """The one that it fills best."""
    play = Play(GangScheduling())
    play.see(*(make_node(f"{zone}{i}", cpu=cpu, zone=zone) for zone, cpu in (("a", "4"), ("b", "1")) for i in range(3)))
    play.handle(group(min_count=3, topology_key="topology.kubernetes.io/zone"))
    play.see(*(make_pod(name, cpu="1", group="g") for name in "xyz"))
    play.recorded()
    assert set(play.binds.values()) == {"b0", "b1", "b2"}


def test_a_gang_that_no_domain_can_hold_waits() -> None:
    play = Play(GangScheduling())
    play.see(*(make_node(f"{zone}{i}", cpu="1", zone=zone) for zone in "ab" for i in range(2)))
    play.handle(group(min_count=3, topology_key="topology.kubernetes.io/zone"))
    play.see(*(make_pod(name, cpu="1", group="g") for name in "xyz"))
    assert play.binds == {}
    assert play.place("x") is Place.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("zones", "want"),
    [
        pytest.param((None, None), {"n3", "n4"}, id="nobody's node has it: any domain"),
        pytest.param((None, "a"), {"n2"}, id="another's node still has it: that domain"),
    ],
)
def test_a_node_that_loses_the_label_does_not_keep_its_gang_out(zones: tuple[str | None, ...], want: set[str]) -> None:
    """Members stand in a domain that is not there any more; the one that was lost finds room all the same."""
    play = Play(GangScheduling())
    play.handle(group(min_count=3, topology_key="topology.kubernetes.io/zone", scheduled=True))
    nodes = [make_node(f"n{i}", cpu="2", zone=zone) for i, zone in enumerate(("a", "a", "b", "b"), 1)]
    pods = [make_pod(name, cpu="1", group="g", node=node) for name, node in (("x", "n1"), ("y", "n2"))]
    play.see(*nodes, *(replace(pod, phase="Running", scheduled_s=600.0, created_s=500.0) for pod in pods))
    play.see(*(make_node(f"n{i}", cpu="2", zone=zone) for i, zone in enumerate(zones, 1)))
    play.see(make_pod("z", cpu="1", group="g", created_s=900.0))
    assert set(play.binds) == {"z"}
    assert set(play.binds.values()) <= want


def test_a_profile_without_the_plugin_places_members_one_by_one() -> None:
    play = Play()
    play.see(make_node("n1", cpu="2"), member("a"))
    assert play.of(Bind) != []


def test_a_gang_preempts_as_a_whole(play: Play) -> None:
    """Its victims go, its nodes are promised, and it starts when they are gone."""
    low = [make_pod(f"low{i}", cpu="1", node=node) for i, node in enumerate(("n1", "n1", "n2", "n2"))]
    play.see(*low)
    play.see(*(member(name, 3, priority=10) for name in "abc"))
    assert len(play.deletions) == 3
    nominated = {patch.pod.name: patch.nominated_node for patch in play.of(PatchPodStatus) if patch.nominated_node}
    assert set(nominated) == {"a", "b", "c"}
