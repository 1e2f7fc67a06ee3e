"""A late answer to an older command is never taken for the answer to a newer one."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.commands import AskExtenders, PatchObject
from moorage.core.events import BindDone, BindOutcome, ConfigurationChanged, EvictOutcome, ExtendersAnswered, StatusDone
from moorage.core.frozen import FrozenDict
from moorage.core.pods import RUNNING
from moorage.engine.keeping.deletion_costs import DeletionCosts
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Extender
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.keeping import Shore, budget, member, on_demand, replica_set, spot
from tests.engine.play import Play, small_profile


def test_the_record_of_an_older_start_starts_nobody() -> None:
    """The first start is undone while its record is written; the second waits for its own."""
    play = Play(GangScheduling())
    annotations = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    play.see(make_node("n1", cpu="2"), *(make_pod(name, cpu="1", annotations=annotations) for name in "ab"))
    [old] = [patch for patch in play.patches if patch.token]
    play.node_gone("n1")
    play.see(make_node("n2", cpu="2"))
    play.wait(10)
    new = play.records[old.pod.uid]
    assert new.gang_record != old.gang_record, "another record on the same pod"
    play.handle(StatusDone(old.pod.uid, ok=True, token=old.token))
    assert play.binds == {}
    play.recorded(new.pod.uid)
    assert play.binds == {"a": "n2", "b": "n2"}


def placed_again(play: Play) -> None:
    """A pod is being bound to n1, is seen to go and to come back, and is being bound to n2."""
    play.see(make_node("n1"), pod := make_pod("p", cpu="1"))
    assert play.binds == {"p": "n1"}
    play.pod_gone("p")
    play.see(make_node("n1", unschedulable=True, taints=["gone:NoSchedule"]), make_node("n2"), pod)
    assert play.binds == {"p": "n2"}


def test_a_bind_that_failed_earlier_brings_nobody_back() -> None:
    play = Play()
    placed_again(play)
    play.handle(BindDone("default/p", BindOutcome.FAILED, "n1", "too late"))
    assert play.node_of("p") == "n2"
    play.bound("p")
    assert play.reasons == [("p", "Scheduled")]


def test_a_bind_that_succeeded_earlier_tells_where_the_pod_is() -> None:
    """Not where the newer bind was to lead, which will be refused."""
    play = Play()
    placed_again(play)
    play.handle(BindDone("default/p", BindOutcome.BOUND, "n1"))
    assert (play.node_of("p"), play.used_cpu("n1"), play.used_cpu("n2")) == ("n1", 1000, 0)


def test_an_answer_to_a_question_of_the_old_configuration_answers_no_new_one() -> None:
    play = Play()
    settings = EngineSettings(extenders=(Extender("http://f", filter_verb="filter"),))
    play.engine.handle([ConfigurationChanged("", [small_profile()], settings)], play.now, budget=0)
    play.see(make_node("n1", cpu="4"), make_node("n2", cpu="4"), make_pod("a", cpu="1"))
    old = play.asked["default/a"]
    play.engine.handle([ConfigurationChanged("", [small_profile()], settings)], play.now, budget=0)
    play.handle()
    assert [ask.token != old for ask in play.of(AskExtenders)] == [True]
    play.handle(ExtendersAnswered("default/a", ("n1",), token=old))
    assert play.binds == {}
    play.handle(ExtendersAnswered("default/a", ("n2",), token=play.asked["default/a"]))
    assert play.binds == {"a": "n2"}


def test_a_pod_is_not_ordered_to_go_again_before_the_last_order_was_answered() -> None:
    """A pod that only looked like its successor ended the move; the answer to it must not end the next one."""
    shore = Shore()
    shore.tell(replica_set(2), budget(2))
    shore.see(spot("s1"), on_demand("o1"), on_demand("o2"), old := member("a", "s1"))
    shore.notice("s1")
    shore.wait(5)
    assert shore.evicted == ["a"]
    shore.see(replace(old, uid="new", name="b", node="o1", phase=RUNNING, created_s=shore.now))
    shore.wait(60)
    assert shore.evicted == ["a"], "the first order is not answered yet"
    shore.answer("a", EvictOutcome.FAILED)
    shore.wait(60)
    assert shore.evicted == ["a"], "and now there may be another one"


def test_an_answer_to_another_write_is_none_to_that_of_the_costs() -> None:
    """Both are written on the pod; the one that is late, or about something else, does not count."""
    state = Play().engine.state
    state.put_object("ReplicaSet", "default/web", replica_set(1).value)
    costs = DeletionCosts(state)
    pod = member("a", "n1")
    [first] = costs.for_order([pod, member("b", "n1")])[:1]
    mark = PatchObject(first.pod, "Pod", pod.namespace, pod.name, FrozenDict(), pod.uid)
    costs.answered(mark, 0.0)
    assert not costs.unseen
    costs.answered(first, 0.0)
    assert costs.unseen
