"""Suggestions in clusters that queues share: what is proven comes true although others take turns.

`make test` looks at a few clusters; MOORAGE_SUGGESTIONS says at how many.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

from moorage.core.edits import EndJob, RaiseBound, ShrinkGang
from tests.engine.test_counterfactual import World
from tests.engine.test_share_suggestions import member, queue
from tests.suggestions.puzzles import Plain, node, pod, thing
from tests.suggestions.shares import shared_puzzle, shared_puzzles
from tests.suggestions.verdicts import applied, node_of, proven, rules

CLUSTERS = int(os.environ.get("MOORAGE_SUGGESTIONS", "60"))
PARTS = 6
OF_QUEUES = (RaiseBound, ShrinkGang, EndJob)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_proven_comes_true(part: int) -> None:
    """Played with a simulation, every change lets the pod start, whoever else wants the room; some are of queues."""
    of_queues = 0
    for drawn in shared_puzzles(part * 10_000, CLUSTERS // PARTS):
        for each in proven(drawn, rules()):
            assert node_of(applied(drawn.objects, each.objects), rules(), drawn.pod), (drawn, each.text)
            of_queues += any(isinstance(edit, OF_QUEUES) for edit in each.edits)
    assert of_queues


def test_a_quota_is_not_promised_where_a_gang_of_the_queue_would_get_the_room() -> None:
    """What comes first in a later round was overlooked."""
    drawn = shared_puzzle(200_252)
    assert drawn is not None
    found = proven(drawn, rules())
    comes_true = partial(node_of, using=rules(), pod=drawn.pod)
    assert [each.text for each in found if not comes_true(applied(drawn.objects, each.objects))] == []
    assert found


def fixed(body: Plain) -> Plain:
    """The pod as one that may not be evicted."""
    body["metadata"]["labels"]["moorage.dev/preemptible"] = "false"
    return body


def below(name: str, **terms: Any) -> Plain:
    """A queue below another one."""
    made = queue(name, **terms)
    made["spec"]["parent"] = "all"
    return made


def together(name: str, of: str, size: int) -> list[Plain]:
    """A gang, with the pod that is asked about."""
    pods = [member(name if number == 0 else f"{name}-{number}", of, 10 + number) for number in range(size)]
    for each in pods:
        each["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "gang"
    group = thing("PodGroup", "gang", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": size})
    return [group, *pods]


LIMITED = [
    node("n1", 8000, 16, "a"),
    queue("all", quota="4", limit="2"),
    below("a", quota="2"),
    below("b", quota="1"),
    *(fixed(member(f"a-{number}", "a", number, "n1")) for number in range(2)),
    member("stuck", "a", 2),
]
CROWDED = [
    node("n1", 2000, 16, "a"),
    queue("a", quota="2"),
    queue("b", quota="1"),
    *(fixed(member(f"a-{number}", "a", number, "n1")) for number in range(2)),
    member("stuck", "a", 2),
]
BOUNDED = [
    node("n1", 2000, 16, "a"),
    queue("all", quota="2", limit="2"),
    below("a", quota="2", limit="3"),
    *(fixed(member(f"a-{number}", "a", number, "n1")) for number in range(2)),
]
"""A limit and the only node are both used up."""
OUTSIDE = [
    node("n1", 2000, 16, "a"),
    queue("a", quota="0"),
    queue("b", quota="0", weight=3),
    *(pod(f"old-{number}", 1000, nodeName="n1", priority=100) for number in range(2)),
    pod("other", 1000, priority=99),
    member("stuck", "a", 1),
    member("young", "b", 4),
]
"""Once the pod without a queue has a node, there is one cpu less to divide, and it is the other queue's."""
_RAISED = "Raise the limit of queue all from 2 to {} cpu; it then fits on n1."


@pytest.mark.parametrize(
    ("objects", "want", "never"),
    [
        pytest.param(LIMITED, _RAISED.format(3), None, id="alone"),
        pytest.param([*LIMITED, member("young", "b", 9)], _RAISED.format(4), _RAISED.format(3), id="with-a-rival"),
        pytest.param(
            [*LIMITED, pod("other", 1000)], _RAISED.format(3), None, id="beside-one-without-a-queue-that-has-room"
        ),
        pytest.param(CROWDED, "Add one more node like n1; it then fits there.", None, id="the-only-one-on-a-new-node"),
        pytest.param(
            [*CROWDED, *(member(f"young-{number}", "b", 9) for number in range(1))],
            "Add one more node like n1; it then fits there.",
            None,
            id="beside-a-rival-on-a-new-node",
        ),
        pytest.param(
            [*CROWDED, *(fixed(member("young-0", "b", 9)) for _ in range(1)), pod("other", 1000)],
            "Add 2 more nodes like n1; it then fits there.",
            "Add one more node like n1; it then fits there.",
            id="a-rival-and-one-without-a-queue-fill-a-new-node",
        ),
        pytest.param(CROWDED, "Wait until pod default/a-0 has ended; it then fits on n1.", None, id="the-end-of-a-job"),
        pytest.param(
            [*CROWDED, member("young", "b", 9)],
            None,
            "Wait until pod default/a-0 has ended; it then fits on n1.",
            id="the-end-of-a-job-is-good-for-a-rival",
        ),
        pytest.param(
            [*BOUNDED, member("stuck", "a", 2)],
            "Raise the limit of queue all from 2 to 3 cpu and add one more node like n1; it then fits there.",
            None,
            id="a-limit-and-a-node",
        ),
        pytest.param(
            [*BOUNDED, *together("stuck", "a", 3)],
            "Raise the limit of queue a from 3 to 5 cpu, raise the limit of queue all from 2 to 5 cpu and add 2 more "
            "nodes like n1; it then fits there.",
            None,
            id="limits-and-nodes-for-a-gang",
        ),
        pytest.param(
            OUTSIDE,
            "Add 2 more nodes like n1; it then fits there.",
            "Add one more node like n1; it then fits there.",
            id="shares-are-smaller-once-one-without-a-queue-has-a-node",
        ),
    ],
)
def test_a_younger_pod_whose_queue_comes_first(objects: list[Plain], want: str | None, never: str | None) -> None:
    """What it would take is not promised to the older one; a change that is enough for both is."""
    world = World(objects)
    found = world.suggestions()
    texts = [each.text for each in found]
    assert want is None or want in texts
    assert never not in texts
    comes_true = partial(node_of, using=rules(), pod="stuck")
    assert [each.text for each in found if not comes_true(applied(objects, each.objects))] == []
