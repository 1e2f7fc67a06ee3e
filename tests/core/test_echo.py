"""Commands answered without a cluster: what waits for an answer gets one, and the watch shows what came of it."""

from __future__ import annotations

import pytest

from moorage.core.commands import (
    AskExtenders,
    AskPreemption,
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
from moorage.core.echo import Echo, answer_to
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodePatched,
    PatchDone,
    PodGone,
    PodSeen,
    StatusDone,
)
from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import GangRecord
from moorage.core.pods import Condition
from moorage.testing import make_pod

REF = PodRef("default", "p", "default/p")
PATCH = PatchObject(REF, "PersistentVolumeClaim", "default", "c", FrozenDict())

ANSWERS: dict[str, tuple[Command | KeeperCommand, KeeperEvent | None]] = {
    "bind": (Bind(REF, "n1"), BindDone(REF.uid, BindOutcome.BOUND, "n1")),
    "delete": (DeletePod(REF, "PreemptionByScheduler", "m"), DeleteDone(REF.uid, ok=True)),
    "status that somebody waits for": (PatchPodStatus(REF, token=7), StatusDone(REF.uid, ok=True, token=7)),
    "status": (PatchPodStatus(REF, nominated_node="n1"), None),
    "object": (PATCH, PatchDone(PATCH, ok=True)),
    "eviction": (EvictPod(REF, "n1", "fallback"), EvictDone(REF.uid, EvictOutcome.EVICTED)),
    "node": (PatchNode("n1", "u"), NodePatched(PatchNode("n1", "u"), ok=True)),
    "clearing a node": (ClearNode("n1", ()), None),
    "event": (RecordEvent(REF, "Normal", "Scheduled", "Binding", "", "moorage"), None),
    "question about nodes": (AskExtenders(REF, ("n1",), (0,)), None),
    "question about victims": (AskPreemption(REF, (), (0,)), None),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_answer_to_a_command(case: str) -> None:
    command, want = ANSWERS[case]
    assert answer_to(command) == want


def test_what_was_written_is_shown_and_stays() -> None:
    """A nomination, the reason for waiting and the record of a gang on one pod; its bind ends the nomination."""
    echo = Echo([make_pod("p")])
    waits, begun = Condition("PodScheduled", "False", "Unschedulable", "no"), GangRecord(done=False)
    [seen] = echo.events([PatchPodStatus(REF, waits, nominated_node="n2")])
    assert isinstance(seen, PodSeen)
    assert (seen.pod.scheduled_condition, seen.pod.nominated_node) == (waits, "n2")
    answer, seen = echo.events([PatchPodStatus(REF, gang_record=begun, token=3)])
    assert isinstance(seen, PodSeen)
    assert answer == StatusDone(REF.uid, ok=True, token=3)
    assert (seen.pod.gang_record, seen.pod.scheduled_condition, seen.pod.nominated_node) == (begun, waits, "n2")
    _, seen = echo.events([Bind(REF, "n1")])
    assert isinstance(seen, PodSeen)
    assert (seen.pod.node, seen.pod.nominated_node, seen.pod.gang_record) == ("n1", None, begun)
    assert echo.pods == {REF.uid: seen.pod}
    [seen] = echo.events([PatchPodStatus(REF, nominated_node="")])
    assert isinstance(seen, PodSeen)
    assert seen.pod.nominated_node is None


def test_pods_that_nobody_showed_are_answered_for() -> None:
    """A victim need not be known to be gone."""
    bind, delete = Bind(REF, "n1"), DeletePod(REF, "PreemptionByScheduler", "m")
    assert Echo().events([bind, delete]) == [answer_to(bind), answer_to(delete), PodGone(REF.uid)]
