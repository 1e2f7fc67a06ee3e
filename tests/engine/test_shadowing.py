"""Decisions of another scheduler against those of a profile, on the state and in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from moorage.core.affinity import SpreadConstraint
from moorage.core.events import NodeSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import HOSTNAME
from moorage.core.pods import RUNNING, Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.engine.invariants import check_engine
from moorage.engine.shadowing.following import Follow
from moorage.engine.shadowing.ordering import MoveLog
from moorage.engine.shadowing.verdicts import ShadowVerdict
from moorage.framework.profiles import Profile
from moorage.testing import make_node, make_pod
from moorage.testing.fingerprint import fingerprint
from moorage.views.shadow import conclusions
from tests.engine.shadowed import OTHER, REFUSED, Shadowed, following, owning
from tests.framework.readers import default_profile

FIT = "NodeResourcesFit"
WEB = Selector((Requirement("app", Operator.IN, ("web",)),))
SPREAD = SpreadConstraint(max_skew=2, topology_key=HOSTNAME, hard=True, selector=WEB)


def upside_down(plugin: str = FIT) -> Profile:
    """The default profile with the weight of one plugin negated."""
    profile = default_profile()
    weights = {**profile.weights, plugin: -profile.weights[plugin]}
    return replace(profile, weights=FrozenDict(weights))


# --- one decision ---


def test_the_same_node_and_a_tie_are_agreement() -> None:
    """Two equal nodes tie; once one is fuller, only the other is right."""
    shadow = following("n1", "n2")
    shadow.create("a", cpu="1")
    shadow.bind("a", "n1")
    shadow.create("b", cpu="1")
    shadow.bind("b", "n2")
    found = shadow.verdicts
    assert found.pop(ShadowVerdict.SAME) >= 1, "with n1 fuller, b belongs to n2"
    assert set(found) <= {ShadowVerdict.TIE}
    assert shadow.shadow.ledger.counts.decisions == 2


def test_a_different_node_is_told_with_the_scores_of_both() -> None:
    """By plugin; what the plugins disagree about adds up to the difference of the totals."""
    shadow = following("n1", "n2")
    shadow.create("a", cpu="2", memory="4Gi")
    shadow.bind("a", "n1")
    shadow.create("b", cpu="1", memory="1Gi")
    shadow.bind("b", "n1")
    decision = shadow.last
    finding = decision.finding
    assert (decision.verdict, decision.there, finding.here) == (ShadowVerdict.DIFFERENT, "n1", "n2")
    assert finding.difference[FIT] > 0
    totals = sum(finding.scores_here.values()) - sum(finding.scores_there.values())
    assert totals == sum(finding.difference.values()) > 0
    assert finding.feasible == 2


@pytest.mark.parametrize(
    ("node", "fields", "plugin"),
    [
        pytest.param(make_node("n1", unschedulable=True), {}, "NodeUnschedulable", id="cordoned"),
        pytest.param(make_node("n1", taints=["a=b:NoSchedule"]), {}, "TaintToleration", id="tainted"),
        pytest.param(make_node("n1", cpu="1"), {"cpu": "2"}, FIT, id="too small"),
    ],
)
def test_a_node_that_the_profile_rejects_is_told_with_the_reason(
    node: object, fields: dict[str, str], plugin: str
) -> None:
    """The other scheduler's node is not scored then."""
    shadow = following(node, "n2")
    shadow.create("a", **fields)
    shadow.bind("a", "n1")
    finding = shadow.last.finding
    assert finding.verdict is ShadowVerdict.DIFFERENT
    assert list(finding.rejected) == [plugin]
    assert not finding.scores_there
    assert shadow.shadow.ledger.counts.plugins[plugin].rejections == 1


def test_placed_there_and_pending_here() -> None:
    """With the message that users would read."""
    shadow = following(make_node("n1", cpu="1"))
    shadow.create("a", cpu="2")
    shadow.bind("a", "n1")
    decision = shadow.last
    assert decision.verdict is ShadowVerdict.PENDING_HERE
    assert decision.finding.here is None
    assert "Insufficient cpu" in decision.finding.message


def test_pending_there_and_placed_here_counts_once_and_only_if_it_lasts() -> None:
    """A refusal is judged when it is seen and again later; a pod counts once."""
    shadow = following("n1", make_node("small", cpu="1"))
    shadow.create("a", cpu="2")
    shadow.refuse("a")
    shadow.create("big", cpu="64")
    shadow.refuse("big")
    shadow.create("quick", cpu="1")
    shadow.refuse("quick")
    shadow.bind("quick", "n1")
    assert shadow.verdicts == {ShadowVerdict.SAME: 1, ShadowVerdict.PENDING_THERE: 1, ShadowVerdict.BOTH_PENDING: 1}
    shadow.change("a", scheduled_condition=replace(REFUSED, message="again"))
    assert shadow.verdicts[ShadowVerdict.PENDING_THERE] == 1
    assert shadow.last.finding.here == "n1"


def test_only_pods_of_the_named_schedulers_are_judged() -> None:
    """Pods of others count as what they are: part of the cluster."""
    shadow = following("n1", "n2")
    shadow.create("theirs", cpu="3", scheduler_name="another")
    shadow.bind("theirs", "n1")
    shadow.create("a", cpu="2")
    shadow.bind("a", "n2")
    assert shadow.verdicts == {ShadowVerdict.SAME: 1}


def test_pods_that_are_first_seen_on_a_node_are_counted_and_not_judged() -> None:
    """What was there before the beginning is not even counted."""
    shadow = following("n1")
    shadow.see(make_pod("old", node="n1"))
    shadow.begin()
    shadow.see(make_pod("static", node="n1"))
    assert shadow.verdicts == {}
    assert shadow.shadow.ledger.counts.unseen == 1


def test_a_node_that_is_not_known_cannot_be_compared() -> None:
    """The watch of nodes may be behind."""
    shadow = following("n1")
    shadow.create("a")
    shadow.bind("a", "n9")
    assert shadow.verdicts == {ShadowVerdict.UNDECIDED: 1}


# --- the order ---


def test_a_difference_that_another_order_explains_is_no_difference() -> None:
    """Both waited when b was decided first and bound last: a saw a world in which b stood on n1 already."""
    shadow = following("n1", "n2")
    shadow.create("a", cpu="1")
    shadow.create("b", cpu="3", memory="12Gi")
    shadow.see(make_pod("filler", cpu="1", node="n2"))
    shadow.bind("a", "n2")
    shadow.bind("b", "n1")
    assert shadow.verdicts.get(ShadowVerdict.ORDER) == 1
    assert ShadowVerdict.DIFFERENT not in shadow.verdicts


def test_a_bind_that_was_seen_too_early_is_undone() -> None:
    """A was decided before b came to n1, but bound after it."""
    shadow = following("n1", make_node("n2", cpu="3"))
    shadow.create("a", cpu="500m")
    shadow.create("b", cpu="3", memory="12Gi")
    shadow.bind("b", "n1")
    shadow.bind("a", "n1")
    assert shadow.verdicts == {ShadowVerdict.SAME: 1, ShadowVerdict.ORDER: 1}


def test_pods_that_come_one_after_another_have_nothing_to_be_explained_by() -> None:
    """The same binds as above, but b came only after a was bound."""
    shadow = following("n1", "n2")
    shadow.see(make_pod("filler", cpu="1", node="n2"))
    shadow.create("a", cpu="1")
    shadow.bind("a", "n2")
    shadow.create("b", cpu="3", memory="12Gi")
    shadow.bind("b", "n1")
    assert shadow.verdicts == {ShadowVerdict.SAME: 1, ShadowVerdict.DIFFERENT: 1}


def test_a_pod_that_left_between_the_decision_and_its_bind_explains_a_difference() -> None:
    """The other scheduler saw n1 full."""
    shadow = following("n1", make_node("n2", cpu="3"))
    shadow.see(make_pod("leaving", cpu="3", memory="12Gi", node="n1"))
    shadow.create("a", cpu="500m")
    shadow.delete("leaving")
    shadow.bind("a", "n2")
    assert shadow.verdicts == {ShadowVerdict.ORDER: 1}


def test_judging_again_leaves_the_state_as_it_is() -> None:
    """All of it happens in statements."""
    shadow = following("n1", "n2", "n3")
    for number in range(6):
        shadow.create(f"p{number}", cpu="1", labels={"app": "web"}, spread=(SPREAD,))
    for number in range(6):
        shadow.bind(f"p{number}", f"n{1 + number % 2}")
    assert isinstance(shadow.shadow, Follow)
    state = shadow.shadow.engine.state
    before = fingerprint(state)
    before.pop("change logs")
    shadow.settle()
    after = fingerprint(state)
    after.pop("change logs")
    assert before == after
    check_engine(shadow.shadow.engine)


def test_moves_know_how_far_back_they_reach() -> None:
    """Whatever is older cannot be gone back to."""
    moves = MoveLog(kept=2)
    numbers = [moves.note(make_pod(f"p{number}", node="n1"), came=True) for number in range(4)]
    assert [move.pod.name for move in moves.after(numbers[1])] == ["p3", "p2"]
    assert moves.reaches(numbers[1])
    assert not moves.reaches(numbers[0])


def test_large_pods_that_are_gone_do_not_stay_in_the_log() -> None:
    """Bytes count, not only numbers; what was dropped is known to be."""
    large = [make_pod(f"p{number}", annotations={"a": f"{number}" * 10_000}) for number in range(9)]
    moves = MoveLog(kept_bytes=3 * large[0].template.size)
    for pod in large:
        moves.note(pod, came=True)
        moves.note(pod, came=False)
    assert [move.pod.name for move in moves.after(0)] == ["p8", "p8", "p7"]
    assert (moves.reaches(14), moves.reaches(15)) == (False, True)
    alone = MoveLog(kept_bytes=1)
    alone.note(large[0], came=True)
    assert len(alone.after(0)) == 1


# --- which plugin it is due to ---


def crowd(shadow: Shadowed, number: int) -> None:
    """Pods come one after another, and each is bound where the default profile puts it."""
    judge = following("n1", "n2", "n3", "n4")
    for each in range(number):
        fields = {"cpu": f"{100 + 50 * (each % 7)}m", "memory": f"{200 + 300 * (each % 5)}Mi"}
        name = f"p{each}"
        judge.create(name, **fields)
        shadow.create(name, **fields)
        assert isinstance(judge.shadow, Follow)
        engine = judge.shadow.engine
        with engine.state.statement():
            record = engine.trial(judge.now).place(judge.pods[name])
            assert record is not None
            node = record.node
        judge.bind(name, node)
        shadow.bind(name, node)


def test_the_same_profile_agrees_always() -> None:
    """Ties are broken alike, too."""
    shadow = following("n1", "n2", "n3", "n4")
    crowd(shadow, 40)
    assert shadow.verdicts == {ShadowVerdict.SAME: 40}


def test_a_weight_of_the_other_sign_is_named() -> None:
    """Its plugin alone accounts for every difference: with the right sign there would be none."""
    shadow = following("n1", "n2", "n3", "n4", profile=upside_down())
    crowd(shadow, 40)
    different = shadow.verdicts[ShadowVerdict.DIFFERENT]
    assert different > 10
    plugins = shadow.shadow.ledger.counts.plugins
    assert plugins[FIT].reversed == different
    assert [name for name, tally in plugins.items() if tally.reversed == different] == [FIT]
    assert max(plugins, key=lambda name: plugins[name].decisive) == FIT


# --- evictions ---


def test_victims_of_both_are_compared() -> None:
    """The other scheduler evicts two pods where one is enough."""
    shadow = following("n1", "n2")
    shadow.see(make_pod("one", cpu="4", node="n1"))
    shadow.see(make_pod("two", cpu="2", node="n2"))
    shadow.see(make_pod("three", cpu="2", node="n2"))
    shadow.create("urgent", cpu="4", priority=100)
    shadow.change("urgent", nominated_node="n2", scheduled_condition=REFUSED)
    for victim in ("two", "three"):
        shadow.change(victim, preempted=True, deleted_s=1.0)
    shadow.delete("two")
    shadow.settle()
    (eviction,) = shadow.shadow.ledger.evictions
    assert (eviction.there, sorted(eviction.victims_there)) == ("n2", ["default/three", "default/two"])
    assert (eviction.here, eviction.victims_here) == ("n1", ("default/one",))
    tally = shadow.shadow.ledger.counts.evictions
    assert (tally.nominations, tally.same_node, tally.victims_there, tally.victims_here) == (1, 0, 2, 1)


# --- a world of its own ---


def test_own_placements_are_the_world_from_then_on() -> None:
    """The other scheduler piles pods up; here they are spread, and stay so."""
    shadow = owning("n1", "n2")
    for number in range(4):
        shadow.create(f"p{number}", cpu="1", memory="4Gi")
        shadow.bind(f"p{number}", "n1")
    assert sum(shadow.verdicts.values()) == 4
    there, here = shadow.shadow.worlds
    assert here is not None
    assert [len(there.state.records_on(row)) for row in there.state.rows()] == [4, 0]
    assert [len(here.state.records_on(row)) for row in here.state.rows()] == [2, 2]
    assert shadow.verdicts[ShadowVerdict.SAME] == 2


def test_what_waits_in_one_world_only() -> None:
    """The other scheduler has left no room for a large pod."""
    shadow = owning("n1", "n2")
    for number in range(2):
        shadow.create(f"small{number}", cpu="2", memory="1Gi")
        shadow.bind(f"small{number}", f"n{number + 1}")
    shadow.create("large", cpu="2")
    shadow.refuse("large")
    shadow.create("larger", cpu="16")
    shadow.refuse("larger")
    found = shadow.verdicts
    assert (found[ShadowVerdict.PENDING_THERE], found[ShadowVerdict.BOTH_PENDING]) == (1, 1)
    shadow.create("huge", cpu="16")
    shadow.bind("huge", "n1")
    assert shadow.last.verdict is ShadowVerdict.PENDING_HERE
    assert "Insufficient cpu" in shadow.last.finding.message


def test_a_pod_that_finished_there_waits_here_no_longer() -> None:
    """It got no node here before it had run to its end there: nothing would ever end it here, once it had one."""
    shadow = owning("n1")
    shadow.create("large", cpu="16")
    shadow.bind("large", "n1")
    shadow.create("small", cpu="1")
    shadow.bind("small", "n1")
    shadow.settle()
    here = shadow.shadow.worlds[1]
    assert here is not None
    assert [entry.pod.name for entry in here.queue.entries()] == ["large"]
    for name in ("large", "small"):
        shadow.change(name, phase="Succeeded")
    shadow.settle()
    assert not [*here.queue.entries()]
    shadow.tell(NodeSeen(make_node("n2", cpu="32")))
    shadow.change("large", ready=False)
    shadow.settle()
    assert not [record.pod.name for record in here.state.records() if not record.pod.finished]
    for name in ("large", "small"):
        shadow.delete(name)
    shadow.settle()
    assert not here.state.records()


def test_a_pod_that_is_evicted_here_waits_again_and_leaves_with_the_real_one() -> None:
    """Its controller would make another one; nothing is kept of pods that are gone."""
    shadow = owning("n1")
    shadow.see(make_pod("old", cpu="3", node="n1", owner="web"))
    shadow.create("urgent", cpu="3", priority=100)
    shadow.settle()
    here = shadow.shadow.worlds[1]
    assert here is not None
    assert [record.pod.name for record in here.state.records()] == ["urgent"]
    assert [entry.pod.name for entry in here.queue.entries()] == ["old"]
    assert shadow.shadow.ledger.counts.evictions.victims_here == 1
    shadow.delete("old")
    shadow.delete("urgent")
    shadow.settle()
    assert not here.state.records()
    assert not [*here.queue.entries()]


@pytest.mark.parametrize("make", [following, owning], ids=["follow", "own"])
def test_what_there_is_no_time_to_compare_is_taken_over_and_counted(make: Callable[..., Shadowed]) -> None:
    """It counts neither as agreement nor as difference, and decisions after it see it."""
    shadow = make(make_node("n1", cpu="4"), make_node("n2", cpu="4"))
    shadow.create("late", cpu="3")
    shadow.create("next", cpu="3")
    bound = replace(shadow.pods["late"], node="n1", phase=RUNNING)
    shadow.shadow.tell(PodSeen(bound), shadow.now, compares=False)
    assert shadow.verdicts == {}
    assert shadow.shadow.ledger.counts.skipped == 1
    shadow.bind("next", "n2")
    assert shadow.verdicts == {ShadowVerdict.SAME: 1}
    assert [record.pod.name for record in shadow.shadow.worlds[0].state.records()] == ["late", "next"]
    assert conclusions(shadow.shadow.ledger.counts)[-1].startswith("1 decision came faster than")


@pytest.mark.parametrize("make", [following, owning], ids=["follow", "own"])
def test_nothing_grows_with_history(make: object) -> None:
    """After pods have come and gone, as much is kept as before, and the newest differences."""
    shadow = make("n1", "n2", kept=5)  # type: ignore[operator]
    for number in range(300):
        shadow.create(f"p{number}", cpu="1")
        shadow.bind(f"p{number}", "n1" if number % 2 else "n9")
        shadow.shadow.review(shadow.now)
        shadow.delete(f"p{number}")
        shadow.shadow.review(shadow.now)
    shadow.settle()
    ledger = shadow.shadow.ledger
    assert len(ledger.differences) == 5
    assert (
        ledger.counts.left_out
        == ledger.counts.decisions
        - sum(ledger.counts.of(each) for each in (ShadowVerdict.SAME, ShadowVerdict.TIE, ShadowVerdict.ORDER))
        - 5
    )
    for name, value in vars(shadow.shadow).items():
        if name not in ("_names", "_moves") and isinstance(value, dict | set | list):
            assert not value, f"{name} still holds something"


def test_a_pod_is_judged_as_it_last_waited() -> None:
    """Binding may change it, as annotations of the binding do; gates are gone before that."""
    shadow = following("n1", "n2")
    pod: Pod = shadow.create("a", cpu="1", gates=("wait",))
    shadow.see(replace(pod, gates=()))
    shadow.bind("a", "n1")
    assert shadow.shadow.ledger.counts.of(ShadowVerdict.UNDECIDED) == 0
    assert sum(shadow.verdicts.values()) == 1
    assert pod.template.scheduler_name == OTHER


def test_a_pod_of_another_scheduler_that_is_evicted_here_stays_away() -> None:
    """In the cluster it runs on, and its updates are seen; here its place is taken, and nobody here would place it."""
    shadow = owning("n1")
    shadow.see(make_pod("old", cpu="3", node="n1", owner="web", scheduler_name="third"))
    shadow.create("urgent", cpu="3", priority=100)
    shadow.settle()
    here = shadow.shadow.worlds[1]
    assert here is not None
    shadow.change("old", phase=RUNNING)
    shadow.settle()
    assert [record.pod.name for record in here.state.records()] == ["urgent"]
    shadow.delete("old")
    shadow.delete("urgent")
    shadow.settle()
    assert not here.state.records()


def test_differences_that_come_too_fast_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be judged again is bounded; what is given up counts as not compared."""
    monkeypatch.setattr("moorage.engine.shadowing.following.MOST_KEPT_OPEN", 3)
    shadow = following("n1", "n2")
    for number in range(5):
        shadow.create(f"p{number}", cpu="100")
        shadow.bind(f"p{number}", "n1")
    assert shadow.verdicts == {ShadowVerdict.PENDING_HERE: 3, ShadowVerdict.UNDECIDED: 2}
    assert "too many" in shadow.shadow.ledger.differences[0].finding.message


def test_what_is_not_judged_in_time_at_the_end_is_given_up() -> None:
    """The report comes soon after the end, however much was open."""
    shadow = following("n1", "n2")
    for number in range(3):
        shadow.create(f"p{number}", cpu="100")
        shadow.bind(f"p{number}", "n1")
    answers = [True, False, False]
    shadow.shadow.finish(shadow.now, lambda: answers.pop(0))
    assert shadow.verdicts == {ShadowVerdict.PENDING_HERE: 1, ShadowVerdict.UNDECIDED: 2}
