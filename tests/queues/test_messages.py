"""What a pod that waits is told about its queue: first of all where the share is what it waits for, else nothing."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.commands import PatchPodStatus, RecordEvent
from moorage.sim.simulation import simulate
from tests.engine.test_counterfactual import World
from tests.suggestions.puzzles import Plain, node, pod, thing
from tests.suggestions.verdicts import given, rules

NODES = [node("n1", 2000, 16, "a"), node("n2", 2000, 16, "a")]
FULL = "0/2 nodes are available: 2 Insufficient cpu."


def queue(name: str, parent: str = "", **terms: Any) -> Plain:
    """A queue that shares cpu."""
    spec = {"resources": {"cpu": terms}, **({"parent": parent} if parent else {})}
    return thing("Queue", name, "moorage.dev/v1alpha1", cluster_wide=True, spec=spec)


def member(name: str, of: str, cpu: int = 1000, *, second: int = 0, **parts: Any) -> Plain:
    """A pod of a queue."""
    made = pod(name, cpu, labels={"moorage.dev/queue": of, **parts.pop("labels", {})}, **parts)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return made


def gang(of: str, count: int, cpu: int = 1000, **parts: Any) -> list[Plain]:
    """A gang of so many members, the first of which is `stuck`."""
    names = ["stuck", *(f"stuck-{number}" for number in range(1, count))]
    mark = {"scheduling.x-k8s.io/pod-group": "g"}
    members = [member(name, of, cpu, second=9, labels=mark, **parts) for name in names]
    return [thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": count}), *members]


def running(of: str, *nodes: str) -> list[Plain]:
    """Pods of a queue on nodes."""
    return [member(f"{of}-{number}", of, second=number, nodeName=name) for number, name in enumerate(nodes)]


TWO = [queue("a", quota="2"), queue("b", quota="2")]
LENT = [*NODES, *TWO, *running("a", "n1", "n1", "n2"), *running("b", "n2")]
"""All is in use; a has three of its two, b one."""


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [*LENT, member("stuck", "a", second=9), member("other", "b", 1500, second=9)],
            f"queue a has 3 of its fair share of 2 cpu; {FULL}",
            id="a-pod-beyond-the-share",
        ),
        pytest.param(
            [*LENT, *gang("a", 2), member("other", "b", 1500, second=9)],
            f"queue a has 3 of its fair share of 2 cpu; pod group default/g: 0 of 2 members fit; {FULL}",
            id="a-gang-beyond-the-share",
        ),
        pytest.param(
            [*LENT, *gang("b", 2)],
            f"queue b has 1 of its fair share of 2 cpu and asks for 2 more; "
            f"pod group default/g: 0 of 2 members fit; {FULL}",
            id="a-gang-that-the-rest-of-the-share-is-too-small-for",
        ),
        pytest.param(
            [*NODES, queue("top", quota="4"), queue("a", "top", quota="1"), queue("b", "top", quota="3"),
             *running("a", "n1"), *running("b", "n1", "n2", "n2"), member("stuck", "a", second=9)],
            f"queue a has 1 of its fair share of 1 cpu; {FULL}",
            id="the-nearest-level-is-named",
        ),
        pytest.param(
            [*LENT, member("stuck", "b", 2500, second=9)],
            FULL,
            id="not-where-no-node-could-hold-it",
        ),
        pytest.param(
            [*LENT, member("stuck", "a", second=9, nodeSelector={"disk": "tape"})],
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            id="not-where-room-would-not-help",
        ),
        pytest.param(
            [*NODES, queue("a", quota="1", limit="1"), *running("a", "n1"), member("stuck", "a", second=9)],
            "0/2 nodes are available: queue a has 1 of its limit of 1 cpu.",
            id="a-limit-says-it-once",
        ),
        pytest.param(
            [*LENT, pod("stuck", 1000)],
            f"{FULL} preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
            id="not-without-a-queue",
        ),
    ],
)  # fmt: skip
def test_the_queue_is_named_first_where_its_share_is_what_a_pod_waits_for(objects: list[Plain], want: str) -> None:
    """What nodes say follows, in kube-scheduler's words."""
    stories = {story.name: story for story in simulate(given(objects), rules()).pods}
    assert stories["stuck"].message == want


def test_the_condition_and_the_event_say_the_same() -> None:
    """Every member of a gang has the condition, and the one that stands for them the event."""
    world = World([*LENT, *gang("a", 2), member("other", "b", 1500, second=9)])
    commands, _ = world.engine.handle([], 1.0)
    ours = [each for each in commands if getattr(getattr(each, "pod", None), "name", "").startswith("stuck")]
    told = [each.condition.message for each in ours if isinstance(each, PatchPodStatus) and each.condition]
    events = [each.note for each in commands if isinstance(each, RecordEvent) and each.pod.name.startswith("stuck")]
    assert told[:1] == events
    assert {text.partition(";")[0] for text in told} == {"queue a has 3 of its fair share of 2 cpu"}
    assert len(told) == 2
