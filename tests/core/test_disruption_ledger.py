"""May a pod be disturbed: who makes it again, what its budgets allow, and how many evictions there were lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.disruption.ledger import (
    BUDGET,
    DO_NOT_DISRUPT,
    MIRROR,
    SAFE_TO_EVICT,
    WINDOW_S,
    DisruptionLedger,
    DisruptionReason,
    EvictionLimits,
    Refusal,
    owner_of,
)
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import RUNNING, Owner, Pod
from moorage.core.selectors import selector_from_labels
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state

GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "3"}


def owned(kind: str) -> Pod:
    return make_pod("p", owner=Owner(kind, "o", "uid", "apps/v1"))


PODS: Mapping[str, Pod] = {
    "bare": make_pod("p"),
    "bare, in a gang": make_pod("p", annotations=GANG),
    "of a ReplicaSet": owned("ReplicaSet"),
    "of a StatefulSet": owned("StatefulSet"),
    "of a Job": owned("Job"),
    "of a kind that nobody knows": owned("Wolf"),
    "of a ReplicaSet, in a gang": make_pod("p", owner="o", annotations=GANG),
    "of a DaemonSet": owned("DaemonSet"),
    "static": make_pod("p", owner=Owner("Node", "n1", "uid", "v1"), annotations={MIRROR: "x"}),
    "says that it is static": make_pod("p", owner="o", annotations={MIRROR: "x"}),
    "not safe to evict": make_pod("p", owner="o", annotations={SAFE_TO_EVICT: "false"}),
    "not to be disrupted": make_pod("p", owner="o", annotations={DO_NOT_DISRUPT: "true"}),
}
ALL = frozenset(PODS)
NOT_AGAIN = {"bare", "bare, in a gang", "of a DaemonSet", "static", "says that it is static"}
AGAIN = ALL - NOT_AGAIN
AT_ONCE = {"of a ReplicaSet", "of a StatefulSet"}

WHO: Mapping[DisruptionReason, frozenset[str] | set[str]] = {
    DisruptionReason.PREEMPT: ALL,
    DisruptionReason.RECLAIM: ALL,
    DisruptionReason.MOVE: AGAIN,
    DisruptionReason.STALE: AGAIN,
    DisruptionReason.RELEASE: AGAIN,
    DisruptionReason.SPOT: AGAIN,
    DisruptionReason.WINDOW: AGAIN,
    DisruptionReason.REPACK: AT_ONCE,
    DisruptionReason.REPAIR: AT_ONCE,
}


@pytest.mark.parametrize("reason", DisruptionReason)
def test_who_may_go_for_a_reason(reason: DisruptionReason) -> None:
    """Without budgets: only what comes first takes pods that nobody makes again, unless the reason is told to."""
    ledger = DisruptionLedger(ClusterState())
    assert {kind for kind, pod in PODS.items() if ledger.objection([pod], reason, 0.0) is None} == WHO[reason]
    told = {kind for kind, pod in PODS.items() if ledger.objection([pod], reason, 0.0, bare=True) is None}
    assert told == WHO[reason] | {"bare", "bare, in a gang"}


def test_an_objection_names_the_pod_and_what_is_the_matter() -> None:
    ledger = DisruptionLedger(ClusterState())
    pods = [make_pod("b"), make_pod("a"), owned("Job")]
    assert ledger.objection(pods, DisruptionReason.STALE, 0.0) == (
        "pod default/a would not be created again, as it has no controller"
    )


# --- budgets ---

KNOWN = PodDisruptionBudget("default", "b", selector_from_labels({"app": "a"}), 2)


def guarded(name: str, **fields: object) -> Pod:
    """A pod that the budget covers."""
    pod = make_pod(name, node="n1", labels={"app": "a"}, owner="web", **fields)  # type: ignore[arg-type]
    return replace(pod, phase=RUNNING)


POD = guarded("p")


def ledger_with(*budgets: PodDisruptionBudget) -> tuple[ClusterState, DisruptionLedger]:
    state = make_state([make_node("n1")])
    for budget in budgets:
        state.put_object(BUDGET, budget.key, budget)
    return state, state.disruptions


ALLOWED = [
    pytest.param(2, 2, RUNNING, True, id="as many as it allows"),
    pytest.param(1, 2, RUNNING, False, id="one too many"),
    pytest.param(0, 1, RUNNING, False, id="exhausted"),
    pytest.param(0, 1, "Pending", True, id="exhausted, of a pod that does not run yet"),
]


@pytest.mark.parametrize("reason", DisruptionReason)
@pytest.mark.parametrize(("allowed", "count", "phase", "want"), ALLOWED)
def test_budgets_are_asked_for_every_reason(
    reason: DisruptionReason, allowed: int, count: int, phase: str, want: bool
) -> None:
    """Unless the caller does not keep them strictly."""
    _, ledger = ledger_with(replace(KNOWN, disruptions_allowed=allowed))
    pods = [replace(guarded(f"p{number}"), phase=phase) for number in range(count)]
    assert (ledger.objection(pods, reason, 0.0) is None) is want
    assert ledger.objection(pods, reason, 0.0, strict=False) is None


DEBTS = [
    pytest.param(KNOWN, False, 1.0, 1, id="nothing has happened yet"),
    pytest.param(KNOWN, True, 1.0, 1, id="the pod goes, the budget has not moved"),
    pytest.param(replace(KNOWN, disruptions_allowed=1), False, 1.0, 1, id="the budget moved before the pod went"),
    pytest.param(replace(KNOWN, disruptions_allowed=1), True, 1.0, 0, id="the budget has moved"),
    pytest.param(replace(KNOWN, disrupted_pods=("p",)), False, 1.0, 0, id="the budget counts it"),
    pytest.param(KNOWN, False, 60.0, 0, id="a minute is over"),
    pytest.param(replace(KNOWN, name="c"), False, 1.0, 0, id="the budget is another one"),
]


@pytest.mark.parametrize(("budget", "going", "after_s", "want"), DEBTS)
def test_a_debt_lasts_until_the_budget_can_know(
    budget: PodDisruptionBudget, going: bool, after_s: float, want: int
) -> None:
    """One covered pod and one that no budget covers were evicted."""
    state, ledger = ledger_with(KNOWN)
    for pod in (POD, make_pod("free", node="n1")):
        ledger.ordered(pod, "us", 0.0)
    if going:
        ledger.going(POD.uid)
    if budget != KNOWN:
        state.remove_object(BUDGET, KNOWN.key)
        state.put_object(BUDGET, budget.key, budget)
        ledger.written(budget.key)
    spent = ledger.spent(after_s)
    assert (0 if spent is None else spent.sum()) == want


def test_a_budget_that_has_moved_and_come_back_knows_too() -> None:
    """Its pod was replaced: it allows as much as before."""
    _, ledger = ledger_with(KNOWN)
    ledger.ordered(POD, "us", 0.0)
    ledger.going(POD.uid)
    for _ in range(2):
        ledger.written(KNOWN.key)
    assert ledger.spent(1.0) is None


def test_an_eviction_that_failed_is_no_debt() -> None:
    _, ledger = ledger_with(replace(KNOWN, disruptions_allowed=1))
    ledger.ordered(POD, "us", 0.0)
    assert ledger.refusing([guarded("q")], 1.0) is not None
    ledger.failed(POD.uid)
    assert ledger.refusing([guarded("q")], 1.0) is None
    assert ledger.refusing([guarded("q"), POD], 1.0) is not None, "it would have to be paid for again"


def test_what_a_search_spends_is_undone_with_its_statement() -> None:
    """And counts within it, for the budgets and for the limits; a pod that was spent for is not counted twice."""
    state, ledger = ledger_with(replace(KNOWN, disruptions_allowed=1))
    limits = EvictionLimits(per_minute=1)
    with state.statement():
        ledger.spend([POD, POD], "us", 0.0)
        assert ledger.refusing([POD], 1.0) is None
        assert ledger.refusing([guarded("q")], 1.0) is not None
        assert ledger.too_many([guarded("q")], "us", limits, 1.0) is not None
    assert ledger.refusing([guarded("q")], 1.0) is None
    assert ledger.too_many([guarded("q")], "us", limits, 1.0) is None


def test_what_was_ordered_outlives_a_search_that_spends_for_it_again() -> None:
    state, ledger = ledger_with(replace(KNOWN, disruptions_allowed=1))
    ledger.ordered(POD, "us", 0.0)
    with state.statement():
        ledger.spend([POD], "us", 1.0)
    assert ledger.refusing([guarded("q")], 2.0) is not None


# --- limits ---

REFUSALS = [
    pytest.param((0, 0), [(0.0, "a" * 99)], (1.0, "a"), None, id="no limits"),
    pytest.param((3, 0), [(0.0, "ab")], (1.0, "c"), None, id="up to the limit"),
    pytest.param((3, 0), [(0.0, "ab")], (1.0, "cd"), Refusal(3, None, 60.0), id="beyond it"),
    pytest.param((3, 0), [(0.0, "a"), (5.0, "b"), (7.0, "c")], (8.0, "cd"), Refusal(3, None, 65.0), id="room for two"),
    pytest.param((3, 0), [(0.0, "abc")], (60.0, "abc"), None, id="a minute later"),
    pytest.param((3, 0), [(0.0, "abc")], (59.9, "a"), Refusal(3, None, 60.0), id="nearly a minute later"),
    pytest.param((3, 0), [], (0.0, "abcd"), Refusal(3, None, None), id="more than the limit at once"),
    pytest.param((0, 2), [(0.0, "ab"), (1.0, "ab")], (2.0, "c"), None, id="another owner"),
    pytest.param((0, 2), [(0.0, "ab"), (1.0, "ab")], (2.0, "ca"), Refusal(2, "a", 60.0), id="the same owner"),
    pytest.param((0, 2), [], (0.0, "aaa"), Refusal(2, "a", None), id="too many of one owner at once"),
    pytest.param((6, 2), [(0.0, "ab"), (9.0, "ab")], (9.0, "aac"), Refusal(2, "a", 69.0), id="the longer wait counts"),
    pytest.param((1, 1), [(500.0, "a")], (10.0, "a"), None, id="a clock that was set back"),
    pytest.param((1, 1), [(0.0, "a")], (0.0, ""), None, id="nobody"),
]


class Rate:
    """A ledger for which owners are letters, whose pods are always new ones."""

    def __init__(self, limits: tuple[int, int]) -> None:
        self._ledger, self._limits, self._made = DisruptionLedger(ClusterState()), EvictionLimits(*limits), 0

    def _pods(self, owners: str) -> list[Pod]:
        self._made += len(owners)
        return [make_pod(f"p{number}", owner=owner) for number, owner in enumerate(owners, self._made - len(owners))]

    def note(self, owners: str, now: float) -> None:
        for pod in self._pods(owners):
            self._ledger.ordered(pod, "us", now)
            self._ledger.ordered(replace(pod, uid=f"{pod.uid}'"), "others", now)

    def refusal(self, owners: str, now: float) -> Refusal | None:
        found = self._ledger.too_many(self._pods(owners), "us", self._limits, now)
        return found if found is None or found.owner is None else found._replace(owner=found.owner[-1])


@pytest.mark.parametrize(("limits", "noted", "asked", "want"), REFUSALS)
def test_refusals(
    limits: tuple[int, int], noted: list[tuple[float, str]], asked: tuple[float, str], want: Refusal | None
) -> None:
    """The answer names the limit, whose it is, and when to come back; what others evict does not count."""
    rate = Rate(limits)
    for at_s, owners in noted:
        rate.note(owners, at_s)
    assert rate.refusal(asked[1], asked[0]) == want


STEPS = st.lists(st.tuples(st.floats(0.0, 40.0), st.text("abc", min_size=1, max_size=4)), max_size=40)


@given(limits=st.tuples(st.integers(1, 6), st.integers(1, 4)), steps=STEPS)
def test_no_minute_sees_more_than_the_limits_and_who_waits_gets_through(
    limits: tuple[int, int], steps: list[tuple[float, str]]
) -> None:
    """Compared with a plain list of what was let through."""
    rate, now = Rate(limits), 0.0
    done: list[tuple[float, str]] = []
    for step_s, owners in steps:
        now += step_s
        refusal = rate.refusal(owners, now)
        if refusal is not None and refusal.retry_s is not None:
            assert refusal.retry_s > now
            now = refusal.retry_s
            refusal = rate.refusal(owners, now)
            assert refusal is None
        if refusal is None:
            rate.note(owners, now)
            done.extend((now, owner) for owner in owners)
    for end_s, _ in done:
        within = Counter(owner for at_s, owner in done if at_s <= end_s < at_s + WINDOW_S)
        assert within.total() <= limits[0]
        assert max(within.values()) <= limits[1]


def test_owners() -> None:
    """Pods of one controller count together, pods without one by name, so that one made anew counts with the old."""
    assert owner_of(make_pod("a", owner="web")) == owner_of(make_pod("b", owner="web"))
    assert owner_of(make_pod("a")) != owner_of(make_pod("b"))
    assert owner_of(make_pod("a", uid="1")) == owner_of(make_pod("a", uid="2"))
