"""Pods that fell back return when spot capacity is back for good, a few at a time, and never in a loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.commands import EvictPod, PatchObject
from moorage.core.disruption.ledger import DO_NOT_DISRUPT, SAFE_TO_EVICT
from moorage.core.frozen import FrozenDict
from moorage.engine.keeping import marks
from moorage.plugins.spot_placement import SpotPlacementArgs
from tests.engine.keeping import Shore, budget, member, on_demand, replica_set, spot

LONG_S, GUARD_S = 60.0, 30.0


def fallen_back(*names: str, rule: SpotPlacementArgs | None = None, returns_at_once: int = 2) -> Shore:
    """Pods of one workload that stand on `d1` since their spot node `s1` went; `s2` is there but cordoned."""
    shore = Shore(
        rule=rule, return_after_s=LONG_S, move_again_after_s=GUARD_S, returns_at_once=returns_at_once, moves_at_once=99
    )
    shore.see(spot("s1", cpu="16"), on_demand("d1", cpu="16"), *(member(name, "s1") for name in names))
    shore.tell(replica_set(4 * len(names)), budget(len(names)))
    shore.notice("s1")
    shore.wait(1)
    for name in names:
        shore.move(name, "d1")
    shore.write()
    shore.ordered.clear()
    return shore


def test_a_successor_on_demand_remembers_where_it_came_from() -> None:
    """As an annotation on the pod itself, so that it survives the keeper; one on spot capacity needs none."""
    shore = Shore()
    shore.see(spot("s1"), spot("s2"), on_demand("d1"), member("a", "s1", "a"), member("b", "s1", "b"))
    shore.notice("s1")
    shore.wait(1)
    shore.move("a", "d1")
    shore.move("b", "s2")
    (command,) = shore.of(PatchObject)
    assert (command.kind, command.name) == ("Pod", "a+")
    assert command.patch["metadata"]["annotations"] == {marks.FALLBACK: "s1"}


def test_pods_return_once_capacity_is_back_for_long_enough() -> None:
    """Not before, and to the place that the profile itself prefers."""
    shore = fallen_back("a")
    shore.withdraw("s1")
    assert shore.wait(LONG_S - 5) == []
    shore.wait(10)
    assert shore.places == {"a+": "s1"}
    assert [command.cause for command in shore.of(EvictPod)] == ["return"]
    shore.move("a+", "s1")
    shore.ordered.clear()
    assert shore.wait(2 * LONG_S) == []
    assert shore.keeper.spot_return.away == 0


def test_capacity_that_comes_and_goes_is_not_back() -> None:
    """Every notice starts the clock anew."""
    shore = fallen_back("a")
    for _ in range(3):
        shore.withdraw("s1")
        shore.wait(LONG_S - 5)
        shore.notice("s1")
    assert shore.evicted == []


def test_a_restart_starts_the_clock_anew() -> None:
    """What this keeper has not seen it does not take for granted; the pods still know that they are away."""
    shore = fallen_back("a")
    shore.withdraw("s1")
    shore.wait(LONG_S - 5)
    shore.restart()
    assert shore.keeper.spot_return.away == 1
    shore.wait(LONG_S - 5)
    assert shore.evicted == []
    shore.wait(15)
    assert shore.evicted == ["a+"]


def test_returns_are_bounded_and_one_at_a_time_per_workload() -> None:
    """A second pod of the same workload waits for the first, whatever the budget says."""
    shore = fallen_back("a", "b", "c")
    shore.tell(*(replica_set(4, f"x{n}") for n in range(3)))
    shore.see(*(member(f"x{n}+", "d1", f"x{n}", annotations={marks.FALLBACK: "s1"}) for n in range(3)))
    shore.withdraw("s1")
    shore.wait(LONG_S + 5)
    assert len(shore.evicted) == 2
    assert len([name for name in shore.evicted if name in ("a+", "b+", "c+")]) <= 1


def test_nobody_returns_below_a_budget() -> None:
    """A budget that allows nothing holds everybody."""
    shore = fallen_back("a")
    shore.tell(budget(0))
    shore.withdraw("s1")
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


@pytest.mark.parametrize("annotation", [{SAFE_TO_EVICT: "false"}, {DO_NOT_DISRUPT: "true"}], ids=str)
def test_pods_that_must_not_be_disturbed_stay(annotation: dict[str, str]) -> None:
    """A return can wait, for ever if need be."""
    shore = fallen_back("a")
    (pod,) = (pod for pod in shore.pods.values() if pod.name == "a+")
    annotations = FrozenDict({**pod.template.annotations, **annotation})
    shore.see(replace(pod, template=replace(pod.template, annotations=annotations)))
    shore.withdraw("s1")
    shore.wait(2 * LONG_S)
    assert shore.evicted == []


def test_a_young_pod_is_not_moved() -> None:
    """The loop guard: successors are young, so nobody is moved twice in a row."""
    shore = Shore(return_after_s=10.0, move_again_after_s=300.0)
    shore.see(spot("s1"), on_demand("d1"), member("a", "s1"))
    shore.tell(replica_set(2))
    shore.notice("s1")
    shore.wait(1)
    shore.move("a", "d1")
    shore.write()
    shore.ordered.clear()
    shore.withdraw("s1")
    shore.wait(250)
    assert shore.evicted == []
    shore.wait(60)
    assert shore.evicted == ["a+"]


def test_the_profile_decides_who_wants_to_return() -> None:
    """With a base that stays on on-demand nodes, the pod that fell back may be the one that belongs there now."""
    shore = fallen_back("a", rule=SpotPlacementArgs(keep_on_demand=4))
    shore.withdraw("s1")
    shore.wait(3 * LONG_S)
    assert shore.evicted == []


def test_a_keeper_that_takes_over_marks_what_the_one_before_moved() -> None:
    """The book of moves is lost; since when nodes are leaving is not."""
    shore = Shore()
    shore.see(spot("s1"), on_demand("d1"), member("a", "s1"), member("old", "d1", "other", created_s=1.0))
    shore.notice("s1")
    shore.wait(1)
    shore.see(member("a+", "d1", created_s=shore.now))
    shore.ordered.clear()
    shore.pods.pop("default/a")
    shore.restart()
    shore.wait(2)
    assert [command.name for command in shore.of(PatchObject)] == ["a+"]
