"""Gated pods stay out of the queue, and say why in kube-scheduler's words."""

from __future__ import annotations

from moorage.framework.changes import What
from moorage.framework.status import Code
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.testing import check_plugin, make_pod


def test_a_pod_without_gates_enters_the_queue() -> None:
    """No gates, nothing to say."""
    assert SchedulingGates().pre_enqueue(make_pod("a")) is None


def test_a_gated_pod_is_held_and_names_its_gates_in_order() -> None:
    """The message lists the gates as kube-scheduler does; no eviction can help."""
    status = SchedulingGates().pre_enqueue(make_pod("a", gates=["quota.example/wait", "b"]))
    assert status is not None
    assert status.code is Code.UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [quota.example/wait b]"


def test_only_the_pod_itself_can_change_it() -> None:
    """Events of nodes and other pods do not wake a gated pod."""
    assert SchedulingGates.wakes is What.SELF


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(SchedulingGates)
