"""What stands of a gang that cannot be completed is deleted only if somebody makes it again and budgets allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play

GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "3"}


def member(name: str, **fields: Any) -> Pod:
    return make_pod(name, cpu="1", annotations=GANG, **{"created_s": 500.0, "labels": {"app": "g"}, **fields})


def budget(allowed: int, **fields: Any) -> ObjectSeen:
    selector = Selector((Requirement("app", Operator.IN, ("g",)),))
    value = PodDisruptionBudget("default", "pdb", selector, allowed, **fields)
    return ObjectSeen("PodDisruptionBudget", value.key, value)


def half_started(*owners: str | None, args: GangSchedulingArgs | None = None, phase: str = "Running") -> Play:
    """Two of three members stand, with these controllers, and a stranger has the room of the third."""
    play = Play(GangScheduling(args))
    pods = [member(name, node="n1", owner=owner) for name, owner in zip("ab", owners, strict=True)]
    standing = [replace(pod, phase=phase, scheduled_s=600.0) for pod in pods]
    play.see(make_node("n1", cpu="3"), make_pod("thief", cpu="1", node="n1"), *standing, member("c"), budget=0)
    play.handle()
    return play


@pytest.mark.parametrize("owners", [(None, None), ("crew", None)], ids=["all are bare", "one is bare"])
def test_pods_that_nobody_makes_again_are_not_deleted(owners: tuple[str | None, ...]) -> None:
    """Users are told once; when there is room, the gang is completed."""
    play = half_started(*owners)
    play.wait(11)
    assert play.deletions == []
    assert [each for each in play.reasons if each[1] == "GangIncomplete"] == [(n, "GangIncomplete") for n in "ab"]
    assert "has no controller" in play.note("a")
    for _ in range(4):
        play.wait(31)
        assert (play.deletions, [each for each in play.reasons if each[1] == "GangIncomplete"]) == ([], [])
    play.pod_gone("thief")
    assert play.binds == {"c": "n1"}


def test_an_argument_lets_them_be_deleted() -> None:
    play = half_started(None, None, args=GangSchedulingArgs(release_bare_pods=True))
    play.wait(11)
    assert set(play.deletions) == {"a", "b"}


@pytest.mark.parametrize(
    ("allowed", "phase", "want"),
    [
        pytest.param(2, "Running", {"a", "b"}, id="it allows as many"),
        pytest.param(1, "Running", set(), id="it allows one only: all or nobody"),
        pytest.param(0, "Pending", {"a", "b"}, id="they do not run yet: nobody asks it"),
    ],
)
def test_budgets_are_asked(allowed: int, phase: str, want: set[str]) -> None:
    play = half_started("crew", "crew", phase=phase)
    play.handle(budget(allowed))
    play.wait(11)
    assert set(play.deletions) == want


def test_a_budget_that_gives_way_lets_the_gang_be_released() -> None:
    play = half_started("crew", "crew")
    play.handle(budget(0))
    play.wait(11)
    assert "disruption budget default/pdb does not allow that now" in play.note("a")
    play.handle(budget(2))
    play.wait(31)
    assert set(play.deletions) == {"a", "b"}
