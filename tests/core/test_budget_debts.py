"""Evictions that a budget's status does not show yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.budget_debts import BudgetDebts
from moorage.core.budgets import Budgets
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.core.selectors import selector_from_labels
from moorage.testing import make_node, make_pod, make_state

KNOWN = PodDisruptionBudget("default", "b", selector_from_labels({"app": "a"}), 2)
POD = make_pod("p", node="n1", labels={"app": "a"})

DEBTS = [
    pytest.param(KNOWN, POD, 1.0, 1, id="nothing has happened yet"),
    pytest.param(KNOWN, replace(POD, deleted_s=1.0), 1.0, 1, id="the pod goes, the budget has not moved"),
    pytest.param(KNOWN, None, 1.0, 1, id="the pod is gone, the budget has not moved"),
    pytest.param(replace(KNOWN, disruptions_allowed=1), POD, 1.0, 1, id="the budget moved before the pod went"),
    pytest.param(replace(KNOWN, disruptions_allowed=1), None, 1.0, 0, id="the budget has moved"),
    pytest.param(replace(KNOWN, disrupted_pods=("p",)), POD, 1.0, 0, id="the budget counts it"),
    pytest.param(KNOWN, POD, 60.0, 0, id="a minute is over"),
]


@pytest.mark.parametrize(("budget", "pod", "after_s", "want"), DEBTS)
def test_a_debt_lasts_until_the_budget_can_know(
    budget: PodDisruptionBudget, pod: Pod | None, after_s: float, want: int
) -> None:
    """One covered pod and one that no budget covers were evicted."""
    debts = BudgetDebts()
    debts.note([POD, make_pod("free")], Budgets([KNOWN]), 0.0)
    state = make_state([make_node("n1")], [] if pod is None else [pod])
    spent = debts.spent(state, Budgets([budget]), after_s)
    assert (0 if spent is None else spent.sum()) == want


def test_a_budget_that_is_gone_owes_nothing() -> None:
    """The numbers of the others stay right."""
    debts = BudgetDebts()
    debts.note([POD], Budgets([KNOWN]), 0.0)
    other = replace(KNOWN, name="c")
    spent = debts.spent(make_state([make_node("n1")], [POD]), Budgets([other]), 1.0)
    assert spent is not None
    assert list(spent) == [0]
