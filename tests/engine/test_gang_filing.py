"""What a gang without room is filed under: everything that kept any of its members from any node."""

from __future__ import annotations

from moorage.core.events import ObjectSeen
from moorage.core.objects import PodGroup
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}


def test_room_for_any_member_that_had_none_wakes_the_gang() -> None:
    """Two of three are enough: the first is kept out by a taint, the second by lack of room, which comes."""
    play = Play(GangScheduling(), DefaultPreemption())
    play.see(make_node("n1", cpu="4", taints=["t:NoSchedule"]), make_pod("full", cpu="3", node="n1"))
    play.see(
        make_pod("a", cpu="1", annotations=GANG),
        make_pod("b", cpu="2", annotations=GANG, tolerations=["t"]),
        make_pod("c", cpu="1", annotations=GANG, tolerations=["t"]),
    )
    assert play.binds == {}
    play.handle(at=play.now + 20)
    play.pod_gone("full")
    play.recorded()
    assert set(play.binds) == {"b", "c"}


def test_another_place_for_a_member_that_had_one_wakes_the_gang() -> None:
    """It was in the way of the other, for whom the new place would have been too small."""
    play = Play(GangScheduling(), DefaultPreemption())
    play.see(make_node("n1", cpu="1"), make_node("n2", cpu="500m", taints=["t:NoSchedule"]))
    play.see(
        make_pod("a", cpu="500m", annotations=GANG),
        make_pod("b", cpu="1", annotations=GANG, tolerations=["*"]),
    )
    assert play.binds == {}
    play.handle(at=play.now + 20)
    play.see(make_node("n2", cpu="500m"))
    play.recorded()
    assert play.binds == {"a": "n2", "b": "n1"}


def test_a_node_that_gets_the_label_wakes_a_gang_that_must_stay_in_one_domain() -> None:
    """There was no domain, and so no plugin that could have rejected one."""
    play = Play(GangScheduling(), DefaultPreemption())
    group = PodGroup("default", "g", uid="g", min_count=2, topology_key="topology.kubernetes.io/zone")
    play.handle(ObjectSeen("PodGroup", "default/g", group))
    play.see(make_node("n1", cpu="4"), *(make_pod(name, cpu="1", group="g") for name in "ab"))
    assert play.binds == {}
    play.handle(at=play.now + 20)
    play.see(make_node("n1", cpu="4", zone="z"))
    play.recorded()
    assert set(play.binds) == {"a", "b"}


def test_a_gang_of_many_kinds_of_members_is_filed_under_every_filter() -> None:
    """No more than a few kinds are asked why they found no node, and nothing that may help is missed."""
    play = Play(GangScheduling(), DefaultPreemption())
    size = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    play.see(make_node("n1", cpu="2", taints=["t:NoSchedule"]))
    play.see(*(make_pod(f"m{i:02}", cpu="1", annotations=size, labels={"index": str(i)}) for i in range(40)))
    assert play.binds == {}
    play.handle(at=play.now + 20)
    play.see(make_node("n1", cpu="2"))
    play.recorded()
    assert len(play.binds) == 2
