"""Small shares of the takeover drill; `make takeover` plays the full one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.app.takeover_drill import Course, drill
from tests.app.takeover_ledger import AUDIT_POLICY, Attempt, Ledger
from tests.app.takeover_report import Report
from tests.controlplane_fixtures import PlaneFactory

ELECTION = "config.scheduler.leaderElection"
STOPPED = Course(signals=(signal.SIGTERM,) * 2, burst=60, trickle=4, suspended_s=0)
"""With the default durations: nobody waits for a lease to expire."""
SUSPENDED = Course(
    signals=(signal.SIGTERM, signal.SIGKILL),
    burst=20,
    trickle=8,
    last_burst=144,
    urgent=16,
    suspended_s=12.0,
    values=(f"{ELECTION}.leaseDuration=10s", f"{ELECTION}.renewDeadline=8s"),
)


@pytest.mark.parametrize(
    "course",
    [
        pytest.param(STOPPED, id="leaders are told to stop"),
        pytest.param(SUSPENDED, id="leaders are killed and suspended", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_or_misplaced_when_leaders_change(
    fresh_control_plane: PlaneFactory, tmp_path: Path, course: Course
) -> None:
    """Pods arrive all the time; the fence refuses a bind of an old term."""
    plane = fresh_control_plane(audit_policy=AUDIT_POLICY)
    report = asyncio.run(drill(plane, course, tmp_path, fence=True, in_time=False))
    assert report.faults == []
    assert report.bound == course.room
    assert "leadership term" in report.by_hand
    assert len(report.takeovers) == len(course.signals) + bool(course.suspended_s)


# --- the judges can tell ---


def lease(holder: str, transitions: int, revision: int) -> dict[str, object]:
    spec = {"holderIdentity": holder, "leaseTransitions": transitions}
    return {"metadata": {"resourceVersion": str(revision)}, "spec": spec}


def pod(name: str, node: str, term: str, revision: int, cpu: str = "2") -> dict[str, object]:
    metadata = {"name": name, "uid": name, "resourceVersion": str(revision), "annotations": {"moorage.dev/term": term}}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}, "status": {}}


def test_a_breach_of_each_kind_is_found() -> None:
    """A pod on two nodes, a node with too much on it, binds of a term that had ended, and a pod that is missing."""
    ledger = Ledger(4000)
    for seen in (lease("a", 0, 10), lease("", 0, 20), lease("b", 1, 30)):
        ledger.see_lease(seen)
    fine = [pod("p1", "n1", "0/a", 15), pod("p2", "n1", "1/b", 35)]
    odd = [pod("p1", "n2", "0/a", 16), pod("p3", "n1", "0/a", 25), pod("p4", "n2", "0/a", 40)]
    for each in (*fine, *odd):
        ledger.see_pod(each)
    late = Attempt("p4", "0/a", ledger.reigns[-1].moment_s + 1, 201, "")
    report = Report(fence=False)
    report.judge(ledger, [late, late], [fine[1], *odd], room=5)
    assert report.counts == {
        "pods lost": 1,
        "pods bound twice": 2,
        "nodes over allocatable": 1,
        "binds of an old term accepted": 2,
    }
    assert report.sent_late == 2
    assert len(report.faults) == 7


def test_a_drill_without_a_breach_has_none() -> None:
    """Binds of each leader in its own term, and room for all."""
    ledger = Ledger(4000)
    pods = [pod("p1", "n1", "0/a", 15), pod("p2", "n1", "1/b", 35)]
    ledger.see_lease(lease("a", 0, 10))
    ledger.see_pod(pods[0])
    ledger.see_lease(lease("b", 1, 30))
    ledger.see_pod(pods[1])
    report = Report(fence=False)
    report.judge(ledger, [Attempt("p1", "0/a", 0.0, 201, ""), Attempt("p2", "1/b", 9e9, 201, "")], pods, room=2)
    assert set(report.counts.values()) == {0}
    assert report.faults == []
