"""Gangs for which there is too little: that they can never fit is said with figures, and what would help is proven."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.sim.opinions import opinion_from_files
from tests.suggestions.puzzles import Plain, node, thing
from tests.suggestions.verdicts import applied, given, node_of, rules

GPU = "nvidia.com/gpu"
NEVER = "pod group default/{} can never fit the cluster as it is: {}"
_SECOND = {"run0": 1, "run1": 2, "run2": 3, "runb": 4, "over": 5, "never": 6, "split": 7}


def gpus(count: int, each: int = 8, zones: str = "a") -> list[Plain]:
    """Nodes n0, n1, ... with so many GPUs each; zones in turn."""
    made = [node(f"n{number}", 96_000, 512, zones[number % len(zones)], 110) for number in range(count)]
    for body in made:
        body["status"]["allocatable"][GPU] = str(each)
    return made


def queue(name: str, quota: int) -> Plain:
    """A queue that shares GPUs."""
    spec = {"resources": {GPU: {"quota": str(quota)}}}
    return thing("Queue", name, "moorage.dev/v1alpha1", cluster_wide=True, spec=spec)


def gang(name: str, count: int, each: int, of: str = "", nodes: list[str] | None = None, **spec: Any) -> list[Plain]:
    """A gang of so many members with so many GPUs each, perhaps on nodes."""
    labels = {"scheduling.x-k8s.io/pod-group": name, **({"moorage.dev/queue": of} if of else {})}
    made = [thing("PodGroup", name, "scheduling.x-k8s.io/v1alpha1", spec={"minMember": count, **spec})]
    for number in range(count):
        amounts = {"cpu": "1", GPU: str(each)}
        container = {"name": "main", "image": "pause", "resources": {"requests": amounts, "limits": {GPU: str(each)}}}
        placed = {"nodeName": nodes[number]} if nodes else {}
        made.append(thing("Pod", f"{name}-{number}", labels=labels, spec={"containers": [container], **placed}))
    for body in made:
        body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{_SECOND.get(name, 9):02}Z"
    return made


SPREAD = [f"n{number % 4}" for number in range(28)]
SHARED = [
    *gpus(4),
    queue("a", 16),
    queue("b", 16),
    *(each for number in range(3) for each in gang(f"run{number}", 8, 1, "a", SPREAD[8 * number : 8 * number + 8])),
    *gang("runb", 4, 1, "b", SPREAD[24:]),
]
"""28 of 32 GPUs are in use, 7 on each node: a has 24 of its 16, b has 4."""
OVER, NEVER_FITS, SPLIT = gang("over", 8, 1, "a"), gang("never", 40, 1, "b"), gang("split", 2, 6, "b")


@pytest.mark.parametrize(
    ("objects", "name", "why"),
    [
        pytest.param(
            [*gpus(4), *gang("g", 40, 1)], "g", f"it asks for 40 {GPU}; all nodes together have 32", id="total"
        ),
        pytest.param(
            [*gpus(4), *gang("g", 2, 9)], "g", f"no node has 9 {GPU}, the largest has 8", id="too-large-a-member"
        ),
        pytest.param(
            [*gpus(4), *gang("g", 5, 5)],
            "g",
            "even if all nodes were empty, 4 of the 5 members that it needs would fit",
            id="too-few-nodes-for-its-members",
        ),
        pytest.param(
            [*gpus(1), node("big", 96_000, 512, "a", unschedulable=True), *gang("g", 16, 1)],
            "g",
            f"it asks for 16 {GPU}; all nodes that it may use together have 8",
            id="a-node-that-it-may-not-use",
        ),
        pytest.param(
            [*gpus(4), *gang("g", 2, 1, minResources={GPU: "40"})],
            "g",
            f"it asks for 40 {GPU}; all nodes together have 32",
            id="its-min-resources",
        ),
        pytest.param(
            [*SHARED, *NEVER_FITS], "never", f"it asks for 40 {GPU}; all nodes together have 32", id="in-a-queue"
        ),
        pytest.param(
            [*gpus(4), *gang("old", 4, 8, nodes=["n0", "n1", "n2", "n3"]), *gang("g", 4, 8)], "g", "", id="only-now"
        ),
        pytest.param([*SHARED, *SPLIT], "split", "", id="only-now-in-a-queue"),
    ],
)
def test_what_can_never_fit_is_said(objects: list[Plain], name: str, why: str) -> None:
    """With what it asks for and what there is; a gang that fits once others are gone is none of these."""
    opinion = opinion_from_files(given(objects), rules(), "default", f"{name}-0")
    assert opinion.node is None
    assert opinion.capacity == (NEVER.format(name, why) if why else "")


MORE = "Add {} more nodes like n0 ({} would do for it alone, but others that wait need room, too); it then fits there."


@pytest.mark.parametrize(
    ("waiting", "name", "want"),
    [
        pytest.param(OVER, "over", "Add one more node like n0; it then fits there.", id="alone"),
        pytest.param(NEVER_FITS, "never", "Add 5 more nodes like n0; it then fits there.", id="too-large-alone"),
        pytest.param([*OVER, *NEVER_FITS, *SPLIT], "never", MORE.format(6, 5), id="too-large-beside-others"),
        pytest.param(
            [*OVER, *SPLIT], "over", "Add one more node like n0; it then fits there.", id="beside-one-without-a-claim"
        ),
        pytest.param(
            [*OVER, *NEVER_FITS, *SPLIT], "split", MORE.format(4, 2), id="not-so-many-that-another-takes-them"
        ),
    ],
)
def test_the_fewest_nodes_that_are_proven(waiting: list[Plain], name: str, want: str) -> None:
    """Where others take some of them, both numbers are said, and as many as are said do let it start."""
    objects = [*SHARED, *waiting]
    found = opinion_from_files(given(objects), rules(), "default", f"{name}-0").suggestions
    assert want in [each.text for each in found]
    assert [each.text for each in found if not node_of(applied(objects, each.objects), rules(), f"{name}-0")] == []


def test_no_larger_quota_for_a_gang_that_is_within_it() -> None:
    """A job before it that can never fit needs no quota; what keeps the gang waiting is that taking back is in vain."""
    opinion = opinion_from_files(given([*SHARED, *OVER, *NEVER_FITS, *SPLIT]), rules(), "default", "split-0")
    assert not [each.text for each in opinion.suggestions if "quota" in each.text]
    assert opinion.queue[-1] == (
        "taking back what others have beyond their shares makes no room for it: "
        f"each member needs 6 {GPU} on one node, and no node has more than 1 free"
    )
