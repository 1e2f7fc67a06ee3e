"""The end of a running job as a suggestion for a pod of a queue: which job, when, and what comes before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from moorage.core.invariants import check_invariants
from moorage.core.queueaccounts import queue_accounts
from moorage.core.times import time_s
from moorage.engine.counterfactual import suggest
from moorage.wire.rewriting import Rewriter
from tests.engine.test_counterfactual import World
from tests.engine.test_share_suggestions import member, queue
from tests.suggestions.puzzles import Plain, node, pod, thing
from tests.suggestions.verdicts import applied, node_of, rules

GROUP = "scheduling.x-k8s.io/pod-group"
START = "2026-01-01T14:00:00Z"


def running(name: str, of: str, second: int = 0, where: str = "n1", *, lasts_s: int | None = None) -> Plain:
    """A pod of a queue on a node, with a deadline if it lasts so long at most."""
    body = member(name, of, second, where)
    body["status"] = {"phase": "Running", "startTime": START}
    if lasts_s is not None:
        body["spec"]["activeDeadlineSeconds"] = lasts_s
    return body


def sized(body: Plain, cpu: str) -> Plain:
    """The pod with another request."""
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return body


def owned(body: Plain, kind: str, name: str) -> Plain:
    """The pod with a controller."""
    api = "batch/v1" if kind == "Job" else "apps/v1"
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": api, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}
    ]
    return body


def job(name: str, *, lasts_s: int | None = None, **spec: Any) -> Plain:
    """A Job object that started with its pods."""
    own = {
        "completions": 2,
        "parallelism": 2,
        **spec,
        **({} if lasts_s is None else {"activeDeadlineSeconds": lasts_s}),
    }
    made = thing("Job", name, "batch/v1", spec={**own, "template": {}}, status={"startTime": START})
    made["metadata"]["uid"] = f"u-{name}"
    return made


def in_gang(body: Plain, group: str) -> Plain:
    """The pod as a member of a gang."""
    body["metadata"]["labels"][GROUP] = group
    return body


def gang(name: str, least: int) -> Plain:
    """A PodGroup."""
    return thing("PodGroup", name, "scheduling.x-k8s.io/v1alpha1", spec={"minMember": least})


def ends(objects: Sequence[Plain], name: str = "stuck") -> list[str]:
    """The ends that are suggested, each of which is proven once more with a simulation."""
    world = World(objects)
    before = queue_accounts(world.engine.state)
    found = world.suggestions(name)
    assert queue_accounts(world.engine.state) == before
    check_invariants(world.engine.state)
    assert not world.engine.faults.take()
    told = [each for each in found if each.text.startswith("Wait until ")]
    assert list(found[len(found) - len(told) :]) == told  # what can be done comes first
    for each in told:
        assert node_of(applied(objects, each.objects), rules(), name), each.text
    return [each.text for each in told]


FULL = (node("n1", 2000, 16, "a"), queue("a"), queue("b"))
LIMITED = (node("n1", 8000, 16, "a"), queue("a", limit="2"), queue("b"))
STUCK = member("stuck", "a", 9)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [*FULL, sized(running("large", "a"), "1500m"), sized(running("small", "a"), "500m"), STUCK],
            ["Wait until pod default/large has ended; it then fits on n1."],
            id="only-that-of-which-there-is-enough",
        ),
        pytest.param(
            [node("n1", 4000, 16, "a"), *FULL[1:], sized(running("x", "b"), "2"), STUCK],
            [],
            id="none-for-a-pod-that-fits",
        ),
        pytest.param(
            [
                node("n1", 4000, 16, "a"),
                *FULL[1:],
                sized(running("x", "b"), "2200m"),
                sized(running("y", "b"), "1500m"),
                STUCK,
            ],
            [
                "Wait until pod default/y has ended; it then fits on n1.",
                "Wait until pod default/x has ended; it then fits on n1.",
            ],
            id="the-smallest-first",
        ),
        pytest.param(
            [
                *FULL[1:],
                node("n1", 3000, 16, "a"),
                running("small", "b"),
                running("late", "b", lasts_s=600),
                running("soon", "b", lasts_s=300),
                STUCK,
            ],
            [
                "Wait until pod default/soon has ended, 2026-01-01T14:05:00Z at the latest; it then fits on n1.",
                "Wait until pod default/late has ended, 2026-01-01T14:10:00Z at the latest; it then fits on n1.",
            ],
            id="the-earliest-known-end-and-never-more-than-two",
        ),
        pytest.param(
            [*LIMITED, running("a-0", "a"), running("a-1", "a", lasts_s=60), running("b-0", "b", lasts_s=30), STUCK],
            [
                "Wait until pod default/a-1 has ended, 2026-01-01T14:01:00Z at the latest; it then fits on n1.",
                "Wait until pod default/a-0 has ended; it then fits on n1.",
            ],
            id="a-limit-is-freed-by-pods-of-its-own-queue",
        ),
        pytest.param(
            [
                *FULL,
                job("train", lasts_s=120, completions=5),
                *(owned(running(f"train-{number}", "b"), "Job", "train") for number in range(2)),
                STUCK,
            ],
            ["Wait until Job default/train has ended, 2026-01-01T14:02:00Z at the latest; it then fits on n1."],
            id="all-pods-of-a-job-which-makes-no-more-of-them",
        ),
        pytest.param(
            [
                *FULL,
                job("train"),
                *(owned(running(f"train-{number}", "b", lasts_s=60), "Job", "train") for number in range(2)),
                STUCK,
            ],
            ["Wait until Job default/train has ended; it then fits on n1."],
            id="a-job-outlives-the-deadline-of-its-pods",
        ),
        pytest.param(
            [
                *FULL,
                gang("g", 2),
                *(in_gang(running(f"g-{number}", "b", lasts_s=60 * number + 60), "g") for number in range(2)),
                STUCK,
            ],
            ["Wait until pod group default/g has ended, 2026-01-01T14:02:00Z at the latest; it then fits on n1."],
            id="a-gang-as-a-whole-with-the-end-of-its-last-pod",
        ),
        pytest.param(
            [
                *FULL,
                gang("g", 2),
                sized(running("half", "b"), "1"),
                sized(running("other", "b"), "900m"),
                in_gang(sized(member("g-0", "a", 8), "1"), "g"),
                in_gang(sized(member("stuck", "a", 9), "1"), "g"),
            ],
            [],
            id="a-gang-waits-for-more-than-one-of-them",
        ),
        pytest.param(
            [
                *FULL,
                gang("g", 2),
                sized(running("whole", "b"), "1900m"),
                in_gang(sized(member("g-0", "a", 8), "1"), "g"),
                in_gang(sized(member("stuck", "a", 9), "1"), "g"),
            ],
            ["Wait until pod default/whole has ended; it then fits on n1."],
            id="a-gang-that-waits",
        ),
        pytest.param(
            [*FULL, *(owned(running(f"web-{number}", "b"), "ReplicaSet", "web") for number in range(2)), STUCK],
            [],
            id="what-is-made-again-does-not-end",
        ),
        pytest.param(
            [*FULL, pod("service", 1500, nodeName="n1"), STUCK],
            [],
            id="nothing-says-that-it-ends",
        ),
        pytest.param(
            [
                *FULL,
                pod("other", 1500, nodeName="n1", activeDeadlineSeconds=60) | {"status": {"startTime": START}},
                STUCK,
            ],
            ["Wait until pod default/other has ended, 2026-01-01T14:01:00Z at the latest; it then fits on n1."],
            id="a-pod-without-a-queue-that-has-a-deadline",
        ),
        pytest.param(
            [*FULL, sized(running("old", "b"), "1500m"), pod("stuck", 1000)],
            [],
            id="a-pod-without-a-queue-is-told-of-none",
        ),
        pytest.param(
            [*FULL, sized(running("old", "b"), "1500m"), sized(member("first", "a", 1), "1500m"), STUCK],
            [],
            id="an-older-pod-would-take-the-room",
        ),
    ],
)
def test_ends_that_let_a_pod_start(objects: list[Plain], want: list[str]) -> None:
    """The earliest known end, else the smallest job; proven, at most two, and after all that can be done."""
    assert ends(objects) == want


def test_pods_of_another_namespace_are_no_part_of_a_job() -> None:
    """Anybody may name the uid of a Job of others as the owner of a pod: that hides no end, and adds none."""
    forged = owned(running("forged", "b"), "Job", "train")
    forged["metadata"]["namespace"] = "other"
    pods = [sized(owned(running(f"train-{number}", "b"), "Job", "train"), "500m") for number in range(2)]
    objects = [node("n1", 3000, 16, "a"), *FULL[1:], sized(forged, "1500m"), *pods, job("train"), STUCK]
    assert ends(objects) == [
        "Wait until Job other/train has ended; it then fits on n1.",
        "Wait until Job default/train has ended; it then fits on n1.",
    ]


def started(body: Plain, at: str) -> Plain:
    """The same, started at another time."""
    return body | {"status": body["status"] | {"startTime": at}}


SOON = running("soon", "b", lasts_s=7200)
NO_YEAR = "0001-01-01T00:00:00+14:00"


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([running("late", "b", lasts_s=60), SOON], id="passed"),
        pytest.param(
            [
                started(running("late", "b", lasts_s=60), NO_YEAR),
                SOON,
            ],
            id="before-there-were-years",
        ),
        pytest.param(
            [
                started(job("late", lasts_s=0), NO_YEAR),
                owned(running("late-0", "b"), "Job", "late"),
                SOON,
            ],
            id="a-job-before-there-were-years",
        ),
    ],
)
def test_a_deadline_that_has_passed_is_not_known(objects: list[Plain]) -> None:
    """What should have ended may do so at any time: it comes after what has a time, and has none."""
    world = World([*FULL, *objects, STUCK])
    rewriter = Rewriter(lambda *identity: world.objects.get(identity))
    now_s = time_s("2026-01-01T15:00:00Z") or 0.0
    found = [each.text for each in suggest(world.engine, world.pods["stuck"], now_s, rewriter)]
    assert not world.engine.faults.take()
    first, then = (each for each in found if each.startswith("Wait until "))
    assert first == "Wait until pod default/soon has ended, 2026-01-01T16:00:00Z at the latest; it then fits on n1."
    assert then.endswith("default/late has ended; it then fits on n1.")
