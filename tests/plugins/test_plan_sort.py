"""The plan's order: priority, what runs, fewer pods, age, name."""

from __future__ import annotations

import pytest

from moorage.framework.contract import PlansUnits
from moorage.plugins.plan_sort import PlanSort
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import check_plugin, make_pod

Unit = tuple[int, int, bool, float, str]
"""Priority, size, whether it runs, time of creation, name."""

ORDERS: dict[str, tuple[Unit, Unit]] = {
    "higher priority, whatever else": ((100, 9, False, 9.0, "z"), (50, 1, True, 1.0, "a")),
    "negative priority last": ((0, 9, False, 9.0, "z"), (-1, 1, True, 1.0, "a")),
    "what runs, whatever its size": ((50, 3, True, 9.0, "z"), (50, 1, False, 1.0, "a")),
    "fewer pods, whatever their age": ((50, 1, False, 9.0, "z"), (50, 3, False, 1.0, "a")),
    "the older one": ((50, 3, False, 1.0, "z"), (50, 3, False, 1.5, "a")),
    "the name at last": ((50, 3, False, 1.0, "ns/a"), (50, 3, False, 1.0, "ns/b")),
}


@pytest.mark.parametrize(("first", "second"), ORDERS.values(), ids=ORDERS.keys())
def test_the_first_of_two_units(first: Unit, second: Unit) -> None:
    """Each rule counts only among units that are equal by the rules before it."""
    plugin = PlanSort()
    assert plugin.unit_key(*first) < plugin.unit_key(*second)


def test_a_waiting_pod_is_a_unit_of_one() -> None:
    """The queue and the plan agree; how long a pod has been in the queue does not count."""
    plugin, pod = PlanSort(), make_pod("a", namespace="ns", priority=7, created_s=3.0)
    assert plugin.queue_key(pod, 99.0) == plugin.queue_key(pod, 1.0) == plugin.unit_key(7, 1, False, 3.0, "ns/a")


def test_the_profile_can_be_told_to_be_planned() -> None:
    """The engine plans where the plugin that orders the queue can order units."""
    assert isinstance(PlanSort(), PlansUnits)
    assert not isinstance(PrioritySort(), PlansUnits)


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(PlanSort)
