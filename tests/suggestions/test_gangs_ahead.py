"""Suggestions beside gangs that are decided on first: a gang takes, and frees, what all that it needs would."""

from __future__ import annotations

import pytest

from tests.engine.test_counterfactual import World
from tests.engine.test_share_suggestions import queue
from tests.suggestions.puzzles import Plain, node, pod, thing
from tests.suggestions.verdicts import applied, node_of, rules

GIB = 1024
STUCK = pod("stuck", 2000, 8 * GIB)
GOVERNED = pod("stuck", 2000, 8 * GIB, labels={"moorage.dev/queue": "a"})


def old(cpu: int) -> Plain:
    """What stands on the node."""
    return pod("old", cpu, 14 * GIB, nodeName="n1", priority=10)


def gang(least: int, *cpus: int) -> list[Plain]:
    """A group with members that are more important than all others."""
    mark = {"scheduling.x-k8s.io/pod-group": "g"}
    members = (pod(f"g-{number}", cpu, labels=mark, priority=100) for number, cpu in enumerate(cpus))
    return [thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": least}), *members]


def gated(group: list[Plain], member: int) -> list[Plain]:
    """The same group with one member that must not be tried yet."""
    group[1 + member]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    return group


@pytest.mark.parametrize("rest", [[STUCK], [GOVERNED, queue("a", quota="2")]], ids=["no-queue", "in-a-queue"])
@pytest.mark.parametrize(
    ("objects", "want", "never"),
    [
        pytest.param(
            [node("n1", 2000, 16, "a"), old(1000), *gang(3, 2000)],
            "Add one more node like n1; it then fits there.",
            "Request no cpu instead of 2; it then fits on n1.",
            id="too-few-to-start",
        ),
        pytest.param(
            [node("n1", 2000, 16, "a"), old(1000), *gang(2, 2000, 2000)],
            "Add 3 more nodes like n1; it then fits there.",
            "Add one more node like n1; it then fits there.",
            id="enough-on-new-nodes",
        ),
        pytest.param(
            [node("n1", 2000, 16, "a"), old(1000), *gated(gang(2, 2000, 2000, 2000), 0)],
            "Add 3 more nodes like n1; it then fits there.",
            "Add one more node like n1; it then fits there.",
            id="enough-without-the-first-which-is-gated",
        ),
        pytest.param(
            [node("n1", 2000, 16, "a"), old(1000), *gated(gang(2, 2000, 2000), 0)],
            "Add one more node like n1; it then fits there.",
            None,
            id="too-few-without-the-first-which-is-gated",
        ),
        pytest.param(
            [node("n1", 2000, 16, "a"), old(1000), *gang(1, 2000)],
            "Request no cpu instead of 2; it then fits on n1.",
            None,
            id="starts-by-evicting",
        ),
        pytest.param(
            [node("n1", 4000, 16, "a"), old(3000), *gang(2, 1000, 1000, 1000)],
            "Lower the cpu request from 2 to 1; it then fits on n1.",
            None,
            id="starts-by-evicting-with-more-than-it-needs",
        ),
    ],
)
def test_a_gang_ahead_is_placed_as_a_whole(objects: list[Plain], rest: list[Plain], want: str, never: str) -> None:
    """Members that cannot start evict nobody, so that what they would free is not promised."""
    world = [*objects, *rest]
    found = World(world).suggestions()
    texts = [each.text for each in found]
    assert want in texts
    assert never not in texts
    assert [each.text for each in found if not node_of(applied(world, each.objects), rules(), "stuck")] == []
