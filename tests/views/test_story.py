"""What happened, from commands, answers and sightings, in the words of the one table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from moorage.app.decisions import DecisionLog
from moorage.core.commands import (
    Bind,
    ClearNode,
    Command,
    DeletePod,
    EvictPod,
    KeeperCommand,
    PatchNode,
    PatchObject,
    PatchPodStatus,
    PodRef,
    RecordEvent,
)
from moorage.core.events import BindDone, BindOutcome
from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Condition
from moorage.engine.engine import Engine
from moorage.engine.keeping import marks
from moorage.engine.keeping.deletion_costs import COST
from moorage.engine.lifecycle import State
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing.builders import make_pod
from moorage.views.loglines import KUBERNETES_MARK
from moorage.views.story import Sightings, bound, completion, decided, ending, ordered
from moorage.views.words import LIFE, WORDS, HappeningKind, step_note

POD, OTHER = PodRef("ns", "a", "uid-a"), PodRef("ns", "b", "uid-b")
BIND = Bind(POD, "n1", evaluated=5, feasible=3)
LEAVING = marks.leaving("taint spot", 0.0, 120.0, cordon=True)
UNSCHEDULABLE = Condition("PodScheduled", "False", "Unschedulable", "no room")
PROFILES = build_profiles(Configuration(), Registry(BUILTIN))
UNTIL = "1970-01-01T00:02:00Z"

HIDDEN = ("event", "log_level", KUBERNETES_MARK)
"""Of a line that is on its way: what is not a field of it."""


def annotated(kind: str, annotations: dict[str, str | None]) -> PatchObject:
    patch = FrozenDict({"metadata": FrozenDict({"annotations": FrozenDict(annotations)})})
    return PatchObject(POD, kind, POD.namespace, POD.name, patch)


def test_every_kind_of_happening_has_words() -> None:
    """A row for each, and each is told to somebody."""
    assert set(WORDS) == set(HappeningKind)
    assert all(words.chip or words.word or words.order or words.line for words in WORDS.values())


def test_every_state_of_a_life_has_words() -> None:
    """A sentence for each, with and without a cause."""
    assert set(LIFE) == set(State)
    assert step_note(State.GATED, "SchedulingGates") == "may not be tried yet (SchedulingGates)"
    assert step_note(State.ACTIVE, "") == "is queued, to be tried"
    assert step_note(State.BACK, "no {room}") == "comes back: no {room}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (BIND, [(HappeningKind.ATTEMPTED, "ns/a", "-> n1 (3 of 5 nodes fit)")]),
        (Bind(POD, "n1"), [(HappeningKind.ATTEMPTED, "ns/a", "-> n1")]),
        (DeletePod(POD, "Preemption", "why", OTHER), [(HappeningKind.EVICTS, "ns/a", "for ns/b")]),
        (DeletePod(POD, "Gang", "released"), [(HappeningKind.EVICTS, "ns/a", "released")]),
        (PatchPodStatus(POD, nominated_node=""), []),
        (
            PatchPodStatus(POD, UNSCHEDULABLE, "n2"),
            [(HappeningKind.NOMINATED, "ns/a", "is nominated to n2"), (HappeningKind.WAITS, "ns/a", "no room")],
        ),
        (
            RecordEvent(POD, "Normal", "Preempted", "Preempting", "by b", "me", OTHER),
            [(HappeningKind.PREEMPTS, "ns/b", "takes the place of a")],
        ),
        (RecordEvent(POD, "Normal", "Scheduled", "Binding", "fine", "me"), []),
        (EvictPod(POD, "n1", "return"), [(HappeningKind.MOVES, "ns/a", "leaves n1 (return, no room anywhere)")]),
        (PatchNode("n1", "u", True, LEAVING), [(HappeningKind.CORDONS, "n1", "is cordoned (taint spot)")]),
        (PatchNode("n1", "u", False, marks.STAYING), [(HappeningKind.FREES, "n1", "is uncordoned")]),
    ],
    ids=str,
)
def test_commands_are_told(command: Command | KeeperCommand, told: list[tuple[HappeningKind, str, str]]) -> None:
    """What is decided, about what, in words; nothing for what people need not know."""
    assert [(each.what, each.subject, each.note) for each in decided(command, 1.0)] == told


@pytest.mark.parametrize(
    ("command", "order"),
    [
        (
            PatchNode("n1", "u", True, LEAVING),
            f"cordon node n1: it is about to go away, {UNTIL} at the latest (taint spot)",
        ),
        (
            PatchNode("n1", "u", None, LEAVING),
            f"mark node n1: it is about to go away, {UNTIL} at the latest (taint spot)",
        ),
        (PatchNode("n1", "u", False, marks.STAYING), "uncordon node n1: it stays after all"),
        (PatchNode("n1", "u", None, marks.STAYING), "unmark node n1: it stays after all"),
        (
            EvictPod(POD, "n1", "fallback", "n2"),
            "evict pod ns/a from node n1 (fallback); there is room on node n2",
        ),
        (
            EvictPod(POD, "n1", "fallback"),
            "evict pod ns/a from node n1 (fallback); no node has room for its successor",
        ),
        (DeletePod(POD, "r", "time is up"), "delete pod ns/a although a budget covers it: time is up"),
        (PatchPodStatus(POD, nominated_node="n2"), "nominate pod ns/a to node n2"),
        (annotated("Pod", {COST: "-10"}), "give pod ns/a the deletion cost -10"),
        (annotated("Pod", {COST: None}), "give pod ns/a no deletion cost"),
        (annotated("Pod", {marks.FALLBACK: "n1"}), "mark pod ns/a: it fell back from spot capacity"),
        (
            PatchObject(POD, "PlacementPolicy", "ns", "a", FrozenDict({"status": 1}), subresource="status"),
            "write the status of PlacementPolicy ns/a",
        ),
        (ClearNode("n1", (POD, OTHER)), "delete the pods of node n1 if a read confirms that it is gone: ns/a, ns/b"),
        (RecordEvent(POD, "Normal", "SpotFallback", "Evicting", "moved", "keeper"), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_orders_of_the_keeper(command: KeeperCommand, order: str) -> None:
    """One line each, as the log and the dry run show it."""
    assert ordered(command) == order


@pytest.mark.parametrize(
    ("verbosity", "dry_run", "lines"),
    [
        (2, False, ["Unable to schedule pod; no fit; waiting", "Evicting pod", "Successfully bound pod to node"]),
        (
            3,
            False,
            [
                "Attempting to bind pod to node",
                "Unable to schedule pod; no fit; waiting",
                "Evicting pod",
                "Successfully bound pod to node",
            ],
        ),
        (0, True, ["Attempting to bind pod to node", "Unable to schedule pod; no fit; waiting", "Evicting pod"]),
    ],
    ids=["decisions", "attempts", "dry run"],
)
def test_the_log_has_the_lines_of_its_verbosity(verbosity: int, dry_run: bool, lines: list[str]) -> None:
    """In kube-scheduler's words; a dry run tells attempts at any verbosity, and binds nothing."""
    log = DecisionLog.of(verbosity, Engine(PROFILES), dry_run=dry_run)
    assert log is not None
    failed = RecordEvent(OTHER, "Warning", "FailedScheduling", "Scheduling", "0/5 nodes are available", "me")
    with capture_logs() as written:
        log.tell([], [BIND, failed, PatchPodStatus(OTHER, UNSCHEDULABLE), DeletePod(OTHER, "Preemption", "m", POD)])
        log.tell([BindDone(POD.uid, BindOutcome.BOUND, "n1")], [])
    assert [line["event"] for line in written] == lines
    fields = {line["event"]: {name: line[name] for name in line if name not in HIDDEN} for line in written}
    assert fields["Unable to schedule pod; no fit; waiting"] == {"pod": "ns/b", "err": "0/5 nodes are available"}
    assert fields["Evicting pod"] == {"pod": "ns/b", "preemptor": "ns/a", "reason": "Preemption"}
    chosen = {"pod": "ns/a", "node": "n1", "evaluatedNodes": 5, "feasibleNodes": 3}
    assert all(fields[line] == chosen for line in fields if "bind pod" in line or "bound pod" in line)


def test_binds_that_fail_are_for_the_curious() -> None:
    """From the fourth level on, with how they ended."""
    answer = BindDone(POD.uid, BindOutcome.FAILED, "n1", "timeout")
    for verbosity, number in ((3, 0), (4, 1)):
        log = DecisionLog(verbosity)
        log.tell([], [BIND])
        with capture_logs() as written:
            log.tell([answer], [])
        assert [(line["event"], line["outcome"], line["err"]) for line in written] == [
            ("Pod was not bound", "failed", "timeout")
        ] * number
    assert DecisionLog.of(1, Engine(PROFILES)) is None


def test_a_bind_is_told_with_what_is_known() -> None:
    """How many nodes fitted, and whatever a reader adds to it."""
    placed = bound(BIND, BindDone(POD.uid, BindOutcome.BOUND, "n1"), 7.0)
    assert (placed.at_s, placed.what, placed.text) == (7.0, HappeningKind.PLACED, "a -> n1 (3 of 5 nodes fit)")
    more = replace(placed, facts={**placed.facts, "score": 12, "waited_s": 2.04})
    assert more.note == "-> n1 (3 of 5 nodes fit, score 12, waited 2.0 s)"


def test_pods_are_seen_to_run_and_to_end() -> None:
    """Phases, reasons of deletions, and finished pods whose removal is no news."""
    pod = replace(make_pod("a", node="n1"), phase="Pending")
    runs = replace(pod, phase="Running")
    done = replace(runs, phase="Succeeded")
    seen = Sightings(settled=True)
    assert [each.text for each in seen.pod(pod, runs, 1.0)] == ["a on n1"]
    assert [(each.what, each.facts["phase"]) for each in seen.pod(runs, done, 1.0)] == [
        (HappeningKind.FINISHED, "Succeeded")
    ]
    assert [*seen.pod_gone(done, 1.0)] == []
    assert [each.note for each in seen.pod_gone(runs, 1.0)] == ["from n1"]
    assert [each.note for each in ending(done, 1.0, "DeletionByTaintManager")] == ["from n1 (DeletionByTaintManager)"]
    assert [each.note for each in ending(make_pod("w"), 1.0)] == ["before it had a node"]
    assert [*Sightings().pod(pod, runs, 1.0)] == []


def test_a_job_is_complete_once() -> None:
    """With all its completions; a Job that failed is not complete."""
    job = Workload("Job", "ns", "report", completions=2, succeeded=2, finished=True)
    before = replace(job, succeeded=1, finished=False)
    (told,) = completion(before, job, 1.0)
    assert (told.subject, told.text) == ("Job ns/report", "Job report is complete, 2 pods")
    assert [*completion(job, job, 1.0)] == []
    assert [*completion(before, replace(job, succeeded=1), 1.0)] == []
