"""Nodes that are only being drained: pods that ask to be left alone are, and nothing is done in a hurry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.commands import DeletePod
from moorage.core.taints import Taint
from moorage.engine.keeping import marks
from moorage.framework.keeping import AtDeadline, NodeSignal, SignalKind
from tests.engine.keeping import NOTICE, Shore, budget, member, on_demand, replica_set, spot

KARPENTER = Taint("karpenter.sh/disrupted", "", "NoSchedule")
SOFT = {
    "Karpenter": KARPENTER,
    "Karpenter before 1.0": Taint("karpenter.sh/disruption", "disrupting", "NoSchedule"),
    "a rebalance recommendation": Taint("aws-node-termination-handler/rebalance-recommendation", "", "NoSchedule"),
}
QUIET = {"karpenter.sh/do-not-disrupt": "true"}, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def drained(taint: Taint, **settings: Any) -> Shore:
    """A spot node that gets a notice, with two pods that must not be disturbed and one that may be."""
    shore = Shore(**settings)
    quiet = [member(f"quiet{n}", "s1", annotations=notes) for n, notes in enumerate(QUIET)]
    shore.see(spot("s1"), on_demand("d1"), *quiet, member("other", "s1"))
    shore.tell(replica_set(12))
    shore.notice("s1", taint=taint)
    return shore


@pytest.mark.parametrize("taint", SOFT.values(), ids=SOFT)
def test_pods_that_ask_for_it_are_left_to_whoever_drains_the_node(taint: Taint) -> None:
    """However long it takes; the others are moved as ever."""
    shore = drained(taint)
    shore.wait(150)
    assert set(shore.evicted) == {"other"}


def test_a_node_that_waits_for_its_finalizer_is_only_being_drained() -> None:
    """A mark of deletion shows while somebody holds the object back."""
    shore = drained(Taint("example.com/other", "", "NoSchedule"))
    shore.see(replace(shore.nodes["s1"], deleting=True))
    shore.write()
    shore.wait(150)
    assert set(shore.evicted) == {"other"}


def test_a_machine_that_goes_cannot_wait() -> None:
    """An interruption moves everybody, also if the node was being drained before."""
    shore = drained(KARPENTER)
    shore.wait(130)
    shore.see(replace(shore.nodes["s1"], taints=(KARPENTER, NOTICE)))
    shore.write()
    shore.wait(5)
    assert set(shore.evicted) == {"other", "quiet0", "quiet1"}


def test_the_time_of_a_drained_node_begins_with_the_first_hard_notice() -> None:
    """The end that a soft notice had is none; the next keeper reads the true one off the node."""
    shore = drained(KARPENTER)
    shore.wait(130)
    shore.see(replace(shore.nodes["s1"], taints=(KARPENTER, NOTICE)))
    departure = shore.keeper.departures.get("s1")
    assert departure is not None
    assert departure.until_s == pytest.approx(shore.now + 120.0)
    shore.write()
    assert marks.time_s(shore.nodes["s1"], marks.UNTIL) == pytest.approx(departure.until_s, abs=1.0)
    until_s = departure.until_s
    shore.restart()
    again = shore.keeper.departures.get("s1")
    assert again is not None
    assert again.until_s == pytest.approx(until_s, abs=1.0)


def test_a_drain_breaks_no_budget_and_evicts_nobody_without_a_place() -> None:
    """There is no last chance, as nothing goes down with the node."""
    shore = Shore(at_deadline=AtDeadline.DELETE)
    shore.see(spot("s1"), member("a", "s1"), member("b", "s1", app="held"))
    shore.tell(replica_set(1), budget(0, "held"))
    shore.notice("s1", taint=KARPENTER)
    shore.wait(150)
    assert not shore.evicted
    assert not shore.of(DeletePod)


def test_a_signal_of_the_configuration_can_be_soft_or_make_a_soft_one_hard() -> None:
    """Who knows more about the cluster has the last word."""
    own = NodeSignal(SignalKind.TAINT, "example.com/drain", soft=True)
    shore = drained(Taint("example.com/drain", "", "NoSchedule"), signals=(own,))
    shore.wait(60)
    assert set(shore.evicted) == {"other"}
    shore = drained(KARPENTER, signals=(NodeSignal(SignalKind.TAINT, KARPENTER.key),))
    shore.wait(60)
    assert set(shore.evicted) == {"other", "quiet0", "quiet1"}
