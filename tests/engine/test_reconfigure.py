"""Other profiles and settings under a running engine: nobody is lost, and the next decision goes by the new rules."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.commands import AskExtenders, Command
from moorage.core.events import BindOutcome, ConfigurationChanged, ExtendersAnswered, PodSeen
from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.configuration import Extender
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import Profile
from moorage.framework.status import Hold, unschedulable
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.one_pod_per_node import OnePodPerNode
from moorage.plugins.plan_sort import PlanSort
from moorage.testing import make_node, make_pod
from tests.engine.actors import Gatekeeper, Permitter, Reserver
from tests.engine.play import SCHEDULER, Play, small_profile
from tests.framework.readers import make_profile

MIN = "moorage.dev/pod-group-min-available"


def reconfigure(play: Play, *profiles: Profile, settings: EngineSettings | None = None) -> list[Command]:
    """Apply a configuration, show every pod again as its user must, and let the engine decide."""
    changed = ConfigurationChanged("", profiles, settings or EngineSettings())
    commands, _ = play.engine.handle([changed], play.now, budget=0)
    play.handle(*(PodSeen(pod) for pod in play.pods.values()))
    return commands


def planner() -> Profile:
    usual = [plugin.make() for plugin in small_profile().plugins if plugin.name != "PrioritySort"]
    more: list[Plugin] = [PlanSort(), NodeUnschedulable(), OnePodPerNode(), GangScheduling(), DefaultPreemption()]
    return make_profile([*usual, *more], scheduler_name=SCHEDULER)


def test_pods_that_wait_keep_their_history_and_are_judged_by_the_new_rules() -> None:
    """A pod that a plugin had rejected is placed when the plugin is gone, with its attempts and its age."""
    play = Play(Reserver("Never", [], lambda _: unschedulable("never")))
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1"), make_pod("large", cpu="64"))
    before = play.engine.queue.get("default/a")
    assert before is not None
    assert before.place is Place.UNSCHEDULABLE
    play.now += 20
    reconfigure(play, small_profile())
    assert play.binds == {"a": "n1"}
    after = play.engine.queue.get("default/a")
    assert after is before
    assert (after.attempts, after.first_s) == (2, 1000.0)
    assert play.place("large") is Place.UNSCHEDULABLE


def test_a_new_gate_holds_pods_that_were_waiting_already() -> None:
    """PreEnqueue is asked anew of everyone."""
    play = Play()
    play.see(make_node("n1", cpu="1"), make_pod("a", cpu="4"))
    reconfigure(play, small_profile(Gatekeeper(lambda _: unschedulable("not yet"))))
    assert play.place("a") is Place.GATED
    reconfigure(play, small_profile())
    assert play.place("a") is not Place.GATED


def test_binds_under_way_end_as_they_would_have() -> None:
    """One succeeds and one fails after the change; the failed pod is tried again."""
    play = Play(Reserver("A", []))
    play.see(make_node("n1", cpu="4"), make_pod("good", cpu="1"), make_pod("bad", cpu="1"))
    assert play.binds == {"good": "n1", "bad": "n1"}
    reconfigure(play, small_profile())
    assert play.commands == []
    play.bound("good")
    assert play.reasons == [("good", "Scheduled")]
    play.answer("bad", BindOutcome.FAILED, message="no")
    assert play.used_cpu("n1") == 1000
    play.wait(2)
    assert play.binds == {"bad": "n1"}


def test_a_pod_held_in_permit_is_unreserved_and_tried_at_once() -> None:
    """What plugins hold for it is given back to the plugins that gave it."""
    diary: list[str] = []
    play = Play(Reserver("A", diary), Permitter(lambda _: Hold(deadline_s=2000.0)))
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1"))
    assert play.binds == {}
    commands = reconfigure(play, small_profile())
    assert diary == ["A reserves a on n1", "A unreserves a"]
    assert any("configuration was changed" in getattr(command, "note", "") for command in commands)
    assert play.binds == {"a": "n1"}
    assert play.used_cpu("n1") == 1000


def test_backoff_is_that_of_the_new_settings() -> None:
    """From the next failure on."""
    play = Play()
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1"))
    reconfigure(play, small_profile(), settings=EngineSettings(Backoff(60.0, 60.0)))
    play.answer("a", BindOutcome.FAILED, message="no")
    assert play.wakeup == play.now + 60


def test_profiles_come_and_go() -> None:
    """Pods of a profile that is gone wait for nobody; those of a new one are placed once they are seen again."""
    play = Play(profiles=[small_profile(scheduler_name="old")])
    old, new = make_pod("old", cpu="64", scheduler_name="old"), make_pod("new", cpu="1", scheduler_name="new")
    play.see(make_node("n1", cpu="4"), old, new)
    assert play.place("old") is Place.UNSCHEDULABLE
    assert play.place("new") is None
    reconfigure(play, small_profile(scheduler_name="new"))
    assert play.place("old") is None
    assert play.binds == {"new": "n1"}
    assert list(play.engine.runners) == ["new"]


def test_a_pod_of_a_profile_that_is_gone_is_still_bound_if_that_is_under_way() -> None:
    """It is told of by the name that it was decided under."""
    play = Play(profiles=[small_profile(scheduler_name="old")])
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1", scheduler_name="old"))
    reconfigure(play, small_profile(scheduler_name="new"))
    play.bound("a")
    assert play.reasons == [("a", "Scheduled")]


def test_a_pod_whose_profile_goes_and_comes_back_is_not_lost_when_its_bind_fails() -> None:
    """Nobody shows it again after the answer, so that must be enough."""
    play = Play(profiles=[small_profile(scheduler_name="old")])
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1", scheduler_name="old"))
    for name in ("new", "old"):
        reconfigure(play, small_profile(scheduler_name=name))
    play.answer("a", BindOutcome.FAILED, message="no")
    assert play.binds == {"a": "n1"}
    assert play.used_cpu("n1") == 1000


def test_a_pod_that_an_extender_was_asked_about_is_decided_without_it() -> None:
    """Once the extender is gone; its late answer changes nothing."""
    play = Play()
    play.see(make_node("n1", cpu="4"))
    asking = EngineSettings(extenders=(Extender("http://f", filter_verb="filter"),))
    reconfigure(play, small_profile(), settings=asking)
    play.see(make_pod("a", cpu="1"), make_pod("b", cpu="1"))
    assert [type(command) for command in play.commands] == [AskExtenders]
    reconfigure(play, small_profile())
    assert set(play.binds) == {"a", "b"}
    play.handle(ExtendersAnswered("default/a", ("n1",), token=play.asked["default/a"]))
    assert play.commands == []


def test_the_plan_is_made_of_what_is_there_already() -> None:
    """From one order of the queue to another whose keys look different, and back."""
    play = Play()
    waiting = [make_pod(name, cpu="3", priority=priority) for name, priority in (("low", 1), ("high", 9))]
    play.see(make_node("n1", cpu="4"), *waiting, budget=0)
    reconfigure(play, planner())
    planning = play.engine.planning
    assert planning is not None
    assert planning.sizes() == {SCHEDULER: (1, 1)}
    assert play.place("low") is Place.GATED, "the node is planned for the other one"
    reconfigure(play, small_profile())
    assert play.engine.planning is None
    assert play.place("low") is not Place.GATED


def test_a_gang_that_waits_for_its_record_starts_again() -> None:
    """Nothing of it is bound, so all of it goes back and comes out together."""
    profile = small_profile(GangScheduling())
    play = Play(profiles=[profile])
    play.see(make_node("n1", cpu="4"), *(_member(name) for name in ("a", "b")))
    [patch] = [patch for patch in play.patches if patch.token]
    assert play.binds == {}
    reconfigure(play, small_profile(GangScheduling()))
    play.recorded(patch.pod.uid)
    for again in [patch for patch in play.patches if patch.token]:
        play.recorded(again.pod.uid)
    for _ in range(5):
        if play.binds:
            break
        play.wait(2)
        for again in [patch for patch in play.patches if patch.token]:
            play.recorded(again.pod.uid)
    assert set(play.binds) == {"a", "b"}


def test_members_of_a_gang_are_single_pods_for_a_profile_without_gangs() -> None:
    """Who waited for the others goes on alone."""
    play = Play(profiles=[small_profile(GangScheduling())])
    play.see(make_node("n1", cpu="4"), _member("a"))
    assert play.place("a") is Place.GATED
    reconfigure(play, small_profile())
    assert set(play.binds) == {"a"}


def test_single_pods_are_members_of_a_gang_for_a_profile_with_gangs() -> None:
    """A pod that waits for room waits for its gang from then on."""
    play = Play()
    play.see(make_node("n1", cpu="1"), _member("a", cpu="2"))
    assert play.place("a") is Place.UNSCHEDULABLE
    reconfigure(play, small_profile(GangScheduling()))
    assert play.place("a") is Place.GATED
    entry = play.engine.queue.get("default/a")
    assert entry is not None
    assert entry.unit is not None


def _member(name: str, cpu: str = "1") -> Pod:
    return make_pod(name, cpu=cpu, annotations={"pod-group": "g", MIN: "2"})


def test_priorities_are_read_anew() -> None:
    """A pod seen again with another priority stands where that puts it."""
    play = Play()
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="64"), make_pod("b", cpu="64"))
    template = replace(play.pods["default/b"].template, priority=7)
    play.pods["default/b"] = replace(play.pods["default/b"], template=template)
    play.now += 20
    reconfigure(play, small_profile())
    assert play.reasons[0][0] == "b"


def test_a_pod_that_is_being_bound_is_not_nominated_when_its_profile_goes() -> None:
    """Its room would count twice until the bind is answered."""
    play = Play(profiles=[small_profile(), small_profile(scheduler_name="other")])
    play.see(make_node("n1", cpu="4"), make_pod("a", cpu="1", nominated_node="n1"))
    assert play.binds == {"a": "n1"}
    reconfigure(play, small_profile(scheduler_name="other"))
    assert not play.engine.state.nominations.count
    play.check()
