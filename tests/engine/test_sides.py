"""Which profiles decide on a pod while a trial is in force, and what becomes of pods when that changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.events import ObjectGone, ObjectSeen, PodSeen, TrialRefused
from moorage.core.frozen import FrozenDict
from moorage.core.objects import NAMESPACE, Namespace
from moorage.core.selectors import selector_from_labels
from moorage.core.trials import Side, TrialEnd, TrialPhase, TrialRecord, TrialVerdict, is_among, workload_key
from moorage.engine.sides import KEPT_EVERY_S
from moorage.engine.units import Place
from moorage.framework.status import Hold
from moorage.framework.trying import TrialPods
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_pod
from tests.engine.actors import Permitter
from tests.engine.play import small_profile
from tests.engine.trialplays import Only, TrialPlay, trial

NAMES = [f"p{number}" for number in range(6)]
GROUP = "moorage.dev/pod-group"
SIZE = "moorage.dev/pod-group-min-available"


def test_the_trial_decides_on_its_pods_only() -> None:
    """Other pods are placed as if it were not there."""
    play = TrialPlay(trial(Only("n1")), Only("n0"))
    play.recall()
    play.create("new", NAMES)
    play.create("old", NAMES)
    assert {key: node for key, node in play.bound.items() if key.startswith("new")} == dict.fromkeys(
        (f"new/{name}" for name in NAMES), "n1"
    )
    assert {node for key, node in play.bound.items() if key.startswith("old")} == {"n0"}
    assert (play.side("new/p0"), play.side("old/p0")) == (Side.TRIAL, Side.CONTROL)
    assert (play.record.trial.placed, play.record.control.placed) == (6, 6)


def test_nothing_begins_before_the_cluster_was_asked() -> None:
    """A standby, or a leader that does not know yet what was tried before, decides as without a trial."""
    play = TrialPlay(trial(Only("n1")), Only("n0"))
    play.create("new", NAMES)
    assert set(play.bound.values()) == {"n0"}
    assert play.engine.sides.snapshot(play.now) is None
    play.reconfigure(trial(Only("n1"), name="other"))
    play.create("new", ["late"])
    assert play.bound["new/late"] == "n0"


def test_no_pod_can_choose_the_trial() -> None:
    """Runners of the trial have no name that a pod could have."""
    play = TrialPlay(trial(Only("n1")))
    play.recall()
    names = set(play.engine.all_runners) - set(play.engine.runners)
    play.create("old", ["sly"], scheduler_name=names.pop())
    assert play.engine.queue.get("old/sly") is None


def test_pods_of_other_profiles_take_no_part() -> None:
    """They are on neither side, so they do not count either."""
    play = TrialPlay(trial(Only("n1")))
    play.profiles = [small_profile(), small_profile(scheduler_name="apart")]
    play.reconfigure(play.settings.trial)
    play.recall()
    play.create("new", NAMES, scheduler_name="apart")
    assert len(play.bound) == 6
    assert play.side("new/p0") is None
    assert (play.record.trial.placed, play.record.control.placed) == (0, 0)


def test_namespaces_are_selected_by_label_and_followed() -> None:
    """A namespace that gets the label takes part from then on, and so do its pods that wait."""
    pods = TrialPods((), selector_from_labels({"ring": "first"}))
    play = TrialPlay(trial(Only("n1"), pods=pods), Only(""))
    play.tell(ObjectSeen(NAMESPACE, "new", Namespace("new", FrozenDict({"ring": "first"}))))
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old")))
    play.recall()
    play.create("new", ["a"])
    play.create("old", ["b"])
    assert play.bound == {"new/a": "n1"}
    play.now += 20
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old", FrozenDict({"ring": "first"}))))
    assert play.bound == {"new/a": "n1", "old/b": "n1"}


def test_what_changes_between_two_trials_counts_in_the_second() -> None:
    """Namespaces are labelled while none is in force; the next one begins without another configuration."""
    pods = TrialPods((), selector_from_labels({"ring": "first"}))
    play = TrialPlay(trial(Only("n1"), pods=pods, duration_s=60.0))
    labels = FrozenDict({"ring": "first"})
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old", labels)))
    play.recall()
    play.create("old", ["a"])
    assert play.side("old/a") is Side.TRIAL
    play.wait(120)
    assert not play.engine.sides.on
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old")), ObjectSeen(NAMESPACE, "new", Namespace("new", labels)))
    play.recall()
    play.create("new", ["b"])
    play.create("old", ["c"])
    assert [play.side(name) for name in ("new/b", "old/c")] == [Side.TRIAL, Side.CONTROL]


def test_a_namespace_that_changes_sides_disturbs_no_other() -> None:
    """Whoever makes or labels a namespace sends nobody else's pods back, and has nobody else's tried again."""
    pods = TrialPods((), selector_from_labels({"ring": "first"}))
    held = Permitter(lambda cycle: Hold(cycle.now + 1e6))
    play = TrialPlay(trial(Only("n1"), pods=pods, profile=small_profile(held, Only("n1"))), held)
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old")))
    play.recall()
    play.create("old", ["held"])
    play.create("old", ["large"], cpu="1000")
    engine = play.engine
    binding, entry = engine.bindings.get("old/held"), engine.queue.get("old/large")
    assert binding is not None
    assert entry is not None
    before = entry.attempts
    for _ in range(3):
        play.now += 20
        play.tell(ObjectSeen(NAMESPACE, "tenant", Namespace("tenant", FrozenDict({"ring": "first"}))))
        play.now += 20
        play.tell(ObjectGone(NAMESPACE, "tenant"))
    assert engine.bindings.get("old/held") is binding
    assert entry.attempts == before
    play.tell(ObjectSeen(NAMESPACE, "old", Namespace("old", FrozenDict({"ring": "first"}))))
    assert engine.bindings.get("old/held") is not binding
    assert entry.attempts == before + 1


@pytest.mark.parametrize(("percent", "want"), [(0.0, 0), (100.0, 40)], ids=["none", "all"])
def test_the_smallest_and_the_largest_share(percent: float, want: int) -> None:
    """0 covers nothing and 100 everything, and both run to their end without harm."""
    play = TrialPlay(trial(pods=TrialPods(workload_percent=percent), duration_s=600.0))
    play.recall()
    play.create("any", [f"w{number}" for number in range(40)])
    assert (play.record.trial.placed, play.record.control.placed) == (want, 40 - want)
    play.wait(601)
    assert (play.record.end, play.record.verdict) == (TrialEnd.TIME_OVER, TrialVerdict.UNKNOWN)


def test_a_workload_is_whole_on_one_side() -> None:
    """Whichever share: all pods of an owner, and all members of a gang whatever their owners."""
    pods = TrialPods(workload_percent=50.0)
    play = TrialPlay(trial(GangScheduling(), pods=pods), GangScheduling())
    play.recall()
    for owner in range(12):
        play.create("any", [f"o{owner}-{number}" for number in range(3)], owner=f"set-{owner}")
    for gang in range(12):
        for member in range(3):
            made = {"owner": f"role-{gang}-{member}", "annotations": {GROUP: f"g{gang}", SIZE: "3"}}
            play.create("any", [f"g{gang}-{member}"], **made)
    found: dict[str, set[Side | None]] = {}
    for key in play.pods:
        found.setdefault(key.partition("-")[0], set()).add(play.side(key))
    assert {len(sides) for sides in found.values()} == {1}
    assert {side for sides in found.values() for side in sides} == set(Side)


def test_a_gang_is_placed_by_the_profile_of_its_side() -> None:
    """All its members, at once."""
    play = TrialPlay(trial(GangScheduling(), Only("n1")), GangScheduling(), Only("n0"))
    play.recall()
    for namespace in ("new", "old"):
        play.create(namespace, NAMES, annotations={GROUP: "g", SIZE: "6"})
    for namespace, node in (("new", "n1"), ("old", "n0")):
        assert {play.bound[f"{namespace}/{name}"] for name in NAMES} == {node}


def test_a_gang_that_only_the_trial_places_together_is_joined_and_separated() -> None:
    """Members that wait one by one become a gang when the trial begins, and single pods again when it ends."""
    play = TrialPlay(trial(GangScheduling()), Only(""))
    annotations = {GROUP: "g", SIZE: "4"}
    play.create("new", ["a", "b"], annotations=annotations)

    def gangs() -> set[bool]:
        entries = [play.engine.queue.get(f"new/{name}") for name in "ab"]
        return {entry is not None and entry.unit.gang is not None and entry.place is Place.GATED for entry in entries}

    assert gangs() == {False}
    play.recall()
    assert gangs() == {True}
    play.tell(TrialRefused("broken"))
    assert gangs() == {False}


def test_pods_that_wait_are_tried_again_by_the_other_side() -> None:
    """When the trial begins, and when it ends; they keep their history."""
    play = TrialPlay(trial(), Only(""), nodes=1)
    play.create("new", ["a"])
    entry = play.engine.queue.get("new/a")
    assert entry is not None
    assert entry.attempts == 1
    play.now += 20
    play.recall()
    assert play.bound == {"new/a": "n0"}
    other = TrialPlay(trial(Only("")), nodes=1)
    other.recall()
    other.create("new", ["a"])
    assert other.bound == {}
    other.now += 20
    other.tell(TrialRefused("no YAML"))
    assert other.bound == {"new/a": "n0"}
    assert (other.record.phase, other.record.end, other.record.message) == (
        TrialPhase.ENDED,
        TrialEnd.BROKEN,
        "no YAML",
    )


def test_a_process_that_leads_later_begins_no_trial_of_a_broken_file() -> None:
    """It has the terms of before; what the last leader wrote down lets the trial begin anew once the file is whole."""
    terms = trial(Only("n1"))
    running = TrialRecord("trial", terms.digest)
    for record in (running, replace(running, phase=TrialPhase.ENDED, end=TrialEnd.BROKEN), None):
        play = TrialPlay(terms, Only("n0"))
        play.tell(TrialRefused("no YAML"))
        play.recall(record)
        play.create("new", ["a"])
        assert play.bound == {"new/a": "n0"}
        assert play.engine.sides.record is None or play.record.end is TrialEnd.BROKEN
        play.reconfigure(terms)
        play.create("new", ["b"])
        assert play.bound["new/b"] == "n1"


def test_what_is_on_its_way_without_a_bind_goes_back() -> None:
    """A pod that a plugin of the trial holds in Permit is let go when the trial ends."""
    hold = Permitter(lambda cycle: Hold(cycle.now + 1e6))
    play = TrialPlay(trial(hold), nodes=1)
    play.recall()
    play.create("new", ["a"])
    binding = play.engine.bindings.get("new/a")
    assert binding is not None
    assert binding.held_by is not None
    play.tell(TrialRefused("gone"))
    assert play.bound == {"new/a": "n0"}


# --- documents that come, change and go ---


def test_a_trial_ends_with_its_document_and_begins_again_with_it() -> None:
    """As a new trial: nothing of before counts."""
    terms = trial(Only("n1"))
    play = TrialPlay(terms, Only("n0"))
    play.recall()
    play.create("new", NAMES)
    play.reconfigure(None)
    assert (play.record.phase, play.record.end) == (TrialPhase.ENDED, TrialEnd.REMOVED)
    play.create("new", ["without"])
    assert play.bound["new/without"] == "n0"
    play.now += 100
    play.reconfigure(terms)
    assert (play.record.phase, play.record.trial.placed, play.record.ran_s) == (TrialPhase.RUNNING, 0, 0.0)
    play.create("new", ["within"])
    assert play.bound["new/within"] == "n1"


def test_another_duration_or_limit_does_not_begin_anew() -> None:
    """Time and counts go on; a duration that is over already ends it at once."""
    terms = trial()
    play = TrialPlay(terms)
    play.recall()
    play.create("new", NAMES)
    play.wait(1000)
    play.reconfigure(replace(terms, duration_s=7200.0))
    assert (play.record.ran_s, play.record.trial.placed) == (1000.0, 6)
    play.wait(5000)
    assert play.record.phase is TrialPhase.RUNNING
    play.reconfigure(replace(terms, duration_s=60.0))
    assert (play.record.phase, play.record.end) == (TrialPhase.ENDED, TrialEnd.TIME_OVER)


def test_other_pods_or_profiles_are_another_trial() -> None:
    """It begins at zero, even if the one before was worse."""
    play = TrialPlay(trial(Only("n1")), Only("n0"))
    play.recall()
    play.create("new", NAMES)
    before = play.record.digest
    play.wait(100)
    play.reconfigure(trial(Only("n1"), pods=TrialPods(("newer",))))
    assert play.record.digest != before
    assert (play.record.ran_s, play.record.trial.placed) == (0.0, 0)


def test_an_ended_trial_stays_ended() -> None:
    """Whatever else of the configuration changes, until something of the trial does."""
    terms = trial(Only("n1"), duration_s=60.0)
    play = TrialPlay(terms, Only("n0"))
    play.recall()
    play.wait(61)
    assert play.record.end is TrialEnd.TIME_OVER
    play.reconfigure(replace(terms, duration_s=7200.0))
    assert play.phase() is TrialPhase.ENDED
    play.reconfigure(replace(terms, name="again"))
    assert play.phase() is TrialPhase.RUNNING


# --- from leader to leader ---


def record_of(**fields: object) -> TrialRecord:
    return replace(TrialRecord("trial", trial(Only("n1")).digest), **fields)  # type: ignore[arg-type]


def test_the_next_leader_goes_on() -> None:
    """With the counts, and with the time: what may have passed since the last record counts as run."""
    first = TrialPlay(trial(Only("n1")), Only("n0"))
    first.recall()
    first.create("new", NAMES)
    first.create("old", NAMES[:4])
    first.wait(100)
    kept = first.record
    second = TrialPlay(trial(Only("n1")), Only("n0"))
    second.now = 50.0  # a clock of its own
    second.recall(kept)
    assert (second.record.trial, second.record.control) == (kept.trial, kept.control)
    assert second.record.ran_s == 100.0 + KEPT_EVERY_S
    second.create("new", ["more"])
    assert second.record.trial.placed == 7
    second.wait(3600.0 - 100.0 - KEPT_EVERY_S - 1)
    assert second.record.phase is TrialPhase.RUNNING
    second.wait(2)
    assert second.record.end is TrialEnd.TIME_OVER


def test_pods_that_waited_without_a_leader_count() -> None:
    """Time without a leader is no time of the trial, and yet these pods are not older than it."""
    first = TrialPlay(trial(Only("")))
    first.recall()
    first.wait(30)
    kept = first.record
    second = TrialPlay(trial(Only("")))
    second.now = first.now + 300
    waiting = (make_pod(f"p{number}", namespace="new", created_s=first.now - 20) for number in range(5))
    second.tell(*map(PodSeen, waiting), budget=0)
    second.recall(kept)
    second.create("old", NAMES)
    second.wait(30)
    assert (second.record.end, second.record.verdict) == (TrialEnd.WORSE, TrialVerdict.WORSE)
    assert second.record.ran_s < 100.0


RECORDS = {
    "worse": (record_of(phase=TrialPhase.ENDED, end=TrialEnd.WORSE), "n0", TrialPhase.ENDED),
    "time over": (record_of(phase=TrialPhase.ENDED, end=TrialEnd.TIME_OVER), "n0", TrialPhase.ENDED),
    "kept": (record_of(phase=TrialPhase.KEPT, end=TrialEnd.TIME_OVER), "n1", TrialPhase.KEPT),
    "removed": (record_of(phase=TrialPhase.ENDED, end=TrialEnd.REMOVED), "n1", TrialPhase.RUNNING),
    "another one": (record_of(phase=TrialPhase.ENDED, end=TrialEnd.WORSE, digest="?"), "n1", TrialPhase.RUNNING),
    "from a leader that never ended": (record_of(ran_s=1e9), "n0", TrialPhase.ENDED),
    "of negative age": (record_of(ran_s=-500.0), "n1", TrialPhase.RUNNING),
}


@pytest.mark.parametrize(("record", "node", "phase"), RECORDS.values(), ids=RECORDS)
def test_what_is_kept_of_a_trial_counts(record: TrialRecord, node: str, phase: TrialPhase) -> None:
    """The next leader neither repeats what has ended nor loses what goes on."""
    play = TrialPlay(trial(Only("n1")), Only("n0"))
    play.recall(record)
    play.create("new", ["a"])
    assert play.bound == {"new/a": node}
    assert play.record.phase is phase


def test_a_trial_under_which_leaders_die_comes_to_its_end() -> None:
    """Each of them adds to its time, even if it dies at once."""
    record: TrialRecord | None = None
    for _ in range(10):
        play = TrialPlay(trial(Only("n1"), duration_s=100.0))
        play.recall(record)
        record = play.record
    assert record is not None
    assert record.end is TrialEnd.TIME_OVER


def test_a_new_leader_without_the_document_ends_it() -> None:
    """Its pods are decided on by the configuration."""
    play = TrialPlay(None, Only("n0"))
    play.recall(record_of())
    assert (play.record.phase, play.record.end) == (TrialPhase.ENDED, TrialEnd.REMOVED)


# --- preemption across sides ---


def test_evictions_count_for_the_side_that_decides_on_them() -> None:
    """A pod of the trial evicts one of the control: that is the trial's doing."""
    play = TrialPlay(trial(DefaultPreemption()), DefaultPreemption(), nodes=1, cpu="4")
    play.recall()
    play.create("old", ["low"], cpu="4")
    play.create("new", ["high"], cpu="4", priority=100)
    play.wait(20)
    assert play.bound == {"old/low": "n0", "new/high": "n0"}
    assert (play.record.trial.evictions, play.record.control.evictions) == (1, 0)
    play.create("old", ["higher"], cpu="4", priority=200)
    play.wait(20)
    assert (play.record.trial.evictions, play.record.control.evictions) == (1, 1)


def test_shares_follow_the_stable_hash() -> None:
    """The engine asks the function that is tested in `tests/core`."""
    play = TrialPlay(trial(pods=TrialPods(workload_percent=30.0)))
    play.recall()
    play.create("any", [f"w{number}" for number in range(50)])
    want = {key for key, pod in play.pods.items() if is_among(workload_key(pod), 30.0)}
    assert {key for key in play.pods if play.side(key) is Side.TRIAL} == want
    assert make_pod("w1", namespace="any").key in play.pods
