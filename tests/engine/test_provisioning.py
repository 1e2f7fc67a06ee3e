"""Gangs that wait for nodes: one ProvisioningRequest each, as long as they wait, and no more than is bearable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.commands import Command, ReleaseCapacity, RequestCapacity
from moorage.core.events import CapacityDone, Event, ObjectGone, ObjectSeen, PodGone
from moorage.core.frozen import FrozenDict
from moorage.core.membership import Declared, GangKey
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.core.provisioning import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    CONSUMED,
    MOST_POD_SETS,
    PROVISIONING_REQUEST,
    ProvisioningRequest,
    request_name,
)
from moorage.engine.provisioning import MOST_IN_NAMESPACE
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

GANG = GangKey("default", "g", Declared.ANNOTATION)
NAME = request_name(GANG)
PATIENT_S = 6.0
"""A little more than gangs wait by default."""


def member(name: str, size: int = 3, gang: str = "g", cpu: str = "1", consumes: str = "") -> Pod:
    annotations = {"pod-group": gang, "moorage.dev/pod-group-min-available": str(size)}
    return make_pod(name, cpu=cpu, annotations=annotations | ({CONSUMED: consumes} if consumes else {}))


def request(counts: str = "3", owner: str = "default/a", *conditions: str, gang: GangKey = GANG) -> ObjectSeen:
    name = request_name(gang)
    value = ProvisioningRequest("default", name, f"uid-{name}", BEST_EFFORT_ATOMIC, gang, counts, owner, conditions)
    return ObjectSeen(PROVISIONING_REQUEST, f"default/{name}", value)


class Told(Play):
    """A play that remembers all commands."""

    def handle(self, *events: Event, at: float | None = None, budget: int = 1 << 62) -> list[Command]:
        self.told = getattr(self, "told", []) + super().handle(*events, at=at, budget=budget)
        return self.commands


def asked(play: Told) -> list[RequestCapacity]:
    return [each for each in play.told if isinstance(each, RequestCapacity)]


def released(play: Told) -> list[ReleaseCapacity]:
    return [each for each in play.told if isinstance(each, ReleaseCapacity)]


def waiting(play: Told, *pods: Pod) -> Told:
    """A gang that does not fit on two cpus, after a while."""
    play.see(make_node("n1", cpu="2"), *(pods or [member(name) for name in "abc"]))
    play.wait(PATIENT_S)
    return play


@pytest.fixture
def play() -> Told:
    return Told(GangScheduling())


def test_a_gang_without_room_asks_once(play: Told) -> None:
    """For all that must start together, and every member has to say that it consumes the request."""
    play.see(make_node("n1", cpu="2"), *(member(name) for name in "abc"))
    assert not asked(play), "it may get room at any moment"
    play.wait(PATIENT_S)
    play.wait(PATIENT_S)
    (command,) = asked(play)
    assert (command.gang, command.name, command.class_name) == (GANG, NAME, BEST_EFFORT_ATOMIC)
    assert [each.count for each in command.sets] == [3]
    assert [pod.name for pod in command.members] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pods", "want_counts"),
    [
        ([member(name) for name in "abcd"], [3]),
        ([member("a", cpu="3"), member("b"), member("c")], [1, 2]),
        ([member(f"p{n}", 40, cpu=f"{n + 1}m") for n in range(MOST_POD_SETS + 1)] + [member("q", 40)] * 7, None),
    ],
    ids=["no more than have to start together", "pods that differ", "more sorts than a request can say"],
)
def test_what_is_asked_for(play: Told, pods: list[Pod], want_counts: list[int] | None) -> None:
    """Pods that an autoscaler cannot tell apart are one set."""
    waiting(play, *pods)
    assert [[each.count for each in command.sets] for command in asked(play)] == ([want_counts] if want_counts else [])


@pytest.mark.parametrize(
    "pods",
    [
        [member("a"), member("b")],
        [member("a", 1, cpu="3")],
        [member(name, consumes="of-somebody-else") for name in "abc"],
        [make_pod(name, cpu="3") for name in "abc"],
    ],
    ids=["members are missing", "one pod", "another request", "no gang"],
)
def test_nobody_else_asks(play: Told, pods: list[Pod]) -> None:
    """Autoscalers look at single pods anyway; what does not wait for nodes, or has asked already, needs no request."""
    assert not asked(waiting(play, *pods))


def test_it_can_be_switched_off_or_ask_otherwise() -> None:
    """An empty class means no requests."""
    assert not asked(waiting(Told(GangScheduling(GangSchedulingArgs(provisioning_class="")))))
    (command,) = asked(waiting(Told(GangScheduling(GangSchedulingArgs(provisioning_class=CHECK_CAPACITY)))))
    assert command.class_name == CHECK_CAPACITY


def granted(play: Told, found: ObjectSeen | None = None) -> Told:
    """What was asked for is done, and shown: the members say so, and there is a request."""
    play.see(*(member(name, consumes=NAME) for name in "abc"))
    play.handle(CapacityDone(GANG, ok=True), found or request())
    play.wait(2)
    return play


def test_a_server_without_such_objects_is_left_alone(play: Told) -> None:
    """It is asked again after ten minutes only, or when it shows that it has them after all."""
    waiting(play)
    play.handle(CapacityDone(GANG, ok=False, served=False))
    play.see(*(member(name, gang="h") for name in "xyz"))
    play.wait(PATIENT_S)
    assert len(asked(play)) == 1
    play.handle(ObjectSeen(PROVISIONING_REQUEST, "default/o", ProvisioningRequest("default", "o")))
    play.wait(1)
    assert [each.gang.name for each in asked(play)] == ["g", "g", "h"]


def test_the_request_goes_when_the_gang_has_started(play: Told) -> None:
    """And not while its members may come back."""
    granted(waiting(play))
    play.see(make_node("n2", cpu="2"))
    play.wait(1)
    assert not released(play)
    play.wait(PATIENT_S)
    (command,) = released(play)
    assert (command.gang, command.name, command.uid, command.sets) == (GANG, NAME, f"uid-{NAME}", 1)


def test_the_request_goes_with_the_gang(play: Told) -> None:
    """Also if one member goes, and the others have to wait for another one."""
    granted(waiting(play))
    play.handle(PodGone("default/c"))
    play.wait(PATIENT_S)
    assert [[pod.name for pod in each.members] for each in released(play)] == [["a", "b"]]
    play.see(member("a"), member("b"))
    play.handle(CapacityDone(GANG, ok=True), ObjectGone(PROVISIONING_REQUEST, f"default/{NAME}"))
    play.handle(PodGone("default/a"), PodGone("default/b"))
    play.wait(PATIENT_S)
    assert len(released(play)) == 1
    assert len(asked(play)) == 1


def test_the_next_leader_keeps_what_is_needed_and_deletes_the_rest(play: Told) -> None:
    """Requests of gangs that are not there, and none of anybody else's."""
    gone = GangKey("default", "gone", Declared.LABEL)
    foreign = ProvisioningRequest("default", "foreign", "uid", BEST_EFFORT_ATOMIC)
    there = [request(), request(gang=gone), ObjectSeen(PROVISIONING_REQUEST, "default/foreign", foreign)]
    play.handle(*there, budget=0)
    waiting(play, *(member(name, consumes=NAME) for name in "abc"))
    assert [each.gang for each in released(play)] == [gone]
    assert not asked(play)


FAILED = request("3", "default/a", "Failed")
EXPIRED = request("3", "default/a", "Provisioned", "BookingExpired")


@pytest.mark.parametrize(
    "found",
    [FAILED, EXPIRED, request("2"), request("3", "other")],
    ids=["failed", "expired", "of another size", "of pods that are gone"],
)
def test_a_request_of_no_use_is_replaced(play: Told, found: ObjectSeen) -> None:
    """Once it is gone, and not at once."""
    granted(waiting(play), found)
    assert len(released(play)) == 1
    play.see(*(member(name) for name in "abc"))
    play.handle(CapacityDone(GANG, ok=True), ObjectGone(PROVISIONING_REQUEST, f"default/{NAME}"))
    play.wait(30)
    assert len(asked(play)) == 1
    play.wait(60)
    assert len(asked(play)) == 2


def test_members_that_come_later_say_so_too(play: Told) -> None:
    """A member that was replaced would have nodes added for it beside those of the request."""
    granted(waiting(play))
    play.handle(PodGone("default/c"))
    play.see(member("c2"))
    play.wait(61)
    assert [pod.name for pod in asked(play)[-1].members] == ["c2"]


def test_members_that_no_request_is_for_do_not_say_so(play: Told) -> None:
    """What a leader left that died after it had deleted the request."""
    waiting(play, *(member(name, 1, cpu="3", consumes=NAME) for name in "ab"))
    (command,) = released(play)
    assert (command.uid, [pod.name for pod in command.members]) == ("", ["a", "b"])


def test_requests_are_bounded(play: Told) -> None:
    """A namespace cannot have more than its part of them."""
    gangs = range(2 * MOST_IN_NAMESPACE)
    pods = [member(f"{number}-{name}", 2, gang=f"g{number}") for number in gangs for name in "ab"]
    play.see(make_node("n1", cpu="1"), *pods)
    play.wait(PATIENT_S)
    play.wait(PATIENT_S)
    assert len(asked(play)) == MOST_IN_NAMESPACE


def test_members_that_stand_say_where_the_others_must_be(play: Told) -> None:
    """A domain that is chosen can be said to an autoscaler: nodes elsewhere would be of no use."""
    group = PodGroup("default", "g", uid="g", min_count=4, topology_key="rack")
    play.handle(ObjectSeen("PodGroup", "default/g", group))
    play.see(make_node("n1", cpu="1", labels={"rack": "r1"}))
    template = replace(make_pod("x", cpu="1").template, group="g", annotations=FrozenDict())
    standing = replace(make_pod("s", cpu="1", node="n1"), template=template)
    play.see(standing, *(replace(make_pod(name, cpu="1"), template=template) for name in "abc"))
    play.wait(PATIENT_S)
    assert [each.node_labels for command in asked(play) for each in command.sets] == [(("rack", ("r1",)),)]
