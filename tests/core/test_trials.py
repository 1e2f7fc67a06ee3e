"""Shares of workloads and classes of waiting times."""

from __future__ import annotations

import pytest

from moorage.core.pods import Owner
from moorage.core.trials import SideCounts, SideTally, is_among, longest_s, percentile_s, wait_class, workload_key
from moorage.testing import make_pod

KEYS = [f"Deployment/team-{number % 7}/web-{number}" for number in range(20_000)]


def test_a_share_is_about_as_large_as_it_says_and_grows_by_adding() -> None:
    """None at 0, all at 100; whoever is in a share is in every larger one."""
    taken: set[str] = set()
    for percent in (0.0, 0.5, 10.0, 33.3, 100.0):
        now = {key for key in KEYS if is_among(key, percent)}
        assert taken <= now
        assert abs(len(now) / len(KEYS) - percent / 100) < 0.01
        taken = now
    assert len(taken) == len(KEYS)


def test_the_share_is_the_same_everywhere() -> None:
    """It depends on the name alone: these were computed once."""
    assert [key for key in KEYS[:40] if is_among(key, 10.0)] == WANT


WANT = ["Deployment/team-2/web-2", "Deployment/team-4/web-11", "Deployment/team-1/web-36"]

WORKLOADS = {
    "a rollout": (
        make_pod("a", owner="web-5d4f", labels={"pod-template-hash": "5d4f"}),
        make_pod("b", owner="web-77aa", labels={"pod-template-hash": "77aa"}),
    ),
    "runs of a CronJob": (
        make_pod("a", owner=Owner("Job", "nightly-28000001", "u1", "batch/v1")),
        make_pod("b", owner=Owner("Job", "nightly-28001441", "u2", "batch/v1")),
    ),
    "members of a gang with several owners": (
        make_pod("a", owner="driver", annotations={"moorage.dev/pod-group": "train"}),
        make_pod("b", owner="worker", annotations={"moorage.dev/pod-group": "train"}),
    ),
}


@pytest.mark.parametrize(("one", "other"), WORKLOADS.values(), ids=WORKLOADS)
def test_what_belongs_together_has_one_key(one: object, other: object) -> None:
    """So it is on one side."""
    assert workload_key(one) == workload_key(other)  # type: ignore[arg-type]


def test_what_does_not_belong_together_has_several() -> None:
    """Other namespaces, other owners, pods of their own."""
    pods = [
        make_pod("a", owner="web"),
        make_pod("a", owner="web", namespace="other"),
        make_pod("a", owner=Owner("StatefulSet", "web", "u", "apps/v1")),
        make_pod("a"),
        make_pod("b"),
    ]
    assert len(set(map(workload_key, pods))) == len(pods)


@pytest.mark.parametrize("waited_s", [-5.0, 0.0, 0.01, 0.02, 1.0, 59.9, 86400.0, 1e9, float("inf")])
def test_a_class_is_a_tenth_wide_and_bounded(waited_s: float) -> None:
    """Nothing that a clock may say gives a class beyond the last one."""
    place = wait_class(waited_s)
    assert 0 <= place <= 220
    if 0.01 < waited_s < 1e6:
        assert waited_s <= longest_s(place) * 1.000001
        assert longest_s(place) <= waited_s * 1.1001


def test_the_percentile_is_that_of_the_numbers_behind_it() -> None:
    """As close as classes are wide."""
    tally = SideTally()
    for tenths in range(1, 1001):
        tally.add(tenths / 10)
    assert tally.placed == 1000
    assert 99.0 <= percentile_s(tally.waits, 0.99) <= 99.0 * 1.1
    assert percentile_s({}, 0.99) == 0.0
    assert tally.counts().tally() == tally
    assert SideCounts().tally() == SideTally()
