"""Disruption budgets when a share is taken back: what they protect is passed over, wherever it is in the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import RUNNING, Pod
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE_LABEL
from moorage.core.selectors import selector_from_labels
from moorage.framework.profiles import Profile
from tests.queues.teams import Teams, hasty, make_queue, team_pod
from tests.queues.test_reclaiming_gangs import gang

GUARDED = {QUEUE_LABEL: "b", PREEMPTIBLE_LABEL: "true", "app": "guarded"}


def strict() -> Sequence[Profile]:
    """The default profile, with which no budget may be violated."""
    return hasty(pdb_policy="Strict")


def lent(guarded: int, plain: int, allowed: int, profiles: Sequence[Profile] = (), quota: int = 2) -> Teams:
    """Queue b runs on all devices; its youngest pods have a budget that allows so many disruptions."""
    count = guarded + plain
    teams = Teams(make_queue("a", quota), make_queue("b", count - quota), nodes=(count,), profiles=profiles)
    budget = PodDisruptionBudget("default", "pdb", selector_from_labels({"app": "guarded"}), allowed)
    teams.play([ObjectSeen("PodDisruptionBudget", budget.key, budget)])
    pods = [_running(team_pod(f"plain{n}", "b", created_s=float(n))) for n in range(plain)]
    pods += [_running(team_pod(f"guarded{n}", "b", labels=GUARDED, created_s=100.0 + n)) for n in range(guarded)]
    teams.see(*pods)
    return teams


def _running(pod: Pod) -> Pod:
    return replace(pod, node="n0", phase=RUNNING, ready=True, started_s=0.0)


@pytest.mark.parametrize("policy", ["BestEffort", "Strict"])
@pytest.mark.parametrize(
    ("allowed", "want"),
    [(0, ["plain2", "plain3"]), (1, ["guarded1", "plain3"]), (2, ["guarded0", "guarded1"])],
)
def test_victims_are_those_that_budgets_allow(policy: str, allowed: int, want: list[str]) -> None:
    """In their order, without those that are protected, also of several claimants in one round."""
    teams = lent(2, 4, allowed, strict() if policy == "Strict" else ())
    teams.see(*(team_pod(f"a{n}", "a", created_s=500.0 + n) for n in range(2)))
    assert sorted(pod.name for pod in teams.evicted) == want
    assert len(teams.running("a")) == 2


def test_budgets_are_violated_only_where_nothing_else_helps() -> None:
    """And never with the policy Strict."""
    for profiles, want in (((), 2), (strict(), 0)):
        teams = lent(4, 0, 0, profiles)
        teams.see(*(team_pod(f"a{n}", "a", created_s=500.0 + n) for n in range(2)))
        assert (len(teams.running("a")), len(teams.evicted)) == (want, want)


@pytest.mark.parametrize("size", [3, 10])
def test_a_gang_passes_over_what_is_protected(size: int) -> None:
    """Whichever search finds its victims."""
    teams = lent(6, 12, 1, strict(), quota=size)
    teams.see(*gang("g", "a", size))
    names = [pod.name for pod in teams.evicted]
    assert (len(teams.running("a")), len(names), sum(name.startswith("guarded") for name in names)) == (size, size, 1)
