"""The auditor can tell: for each check a history that breaks it, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.faults import checks
from tests.faults.checks import GANG_LABEL, GANG_SIZE, End, Terms
from tests.faults.history import ADDED, DELETED, MODIFIED, History, Revision, quantity

_LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def node(name: str = "n1", *, cpu: str = "2", pods: str = "10", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "pods": pods}},
    }


def pod(
    name: str,
    on: str = "",
    *,
    cpu: str = "1",
    port: int = 0,
    ready: bool = False,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"hostPort": port, "containerPort": port}]
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    return {
        "metadata": {"name": name, "uid": name, "namespace": "ns", **(meta or {})},
        "spec": {"containers": [container], "schedulerName": "moorage", **({"nodeName": on} if on else {}), **spec},
        "status": {"conditions": conditions},
    }


def member(name: str, on: str = "") -> dict[str, Any]:
    return pod(name, on, meta={"labels": {GANG_LABEL: "g", GANG_SIZE: "2"}})


def scheduled(name: str, about: str, count: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "namespace": "ns"},
        "reason": "Scheduled",
        "regarding": {"uid": about},
        "deprecatedCount": count,
    }


def budget(least: int) -> dict[str, Any]:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}}
    return {"metadata": {"name": "b", "uid": "b", "namespace": "ns"}, "spec": spec}


def device_claim(name: str, device: str, *consumers: str, pool: str = "n1") -> dict[str, Any]:
    result = {"driver": "d", "pool": pool, "device": device}
    status: dict[str, Any] = {"reservedFor": [{"name": each, "uid": each} for each in consumers]}
    if device:
        status["allocation"] = {"devices": {"results": [result]}}
    return {"metadata": {"name": name, "uid": name, "namespace": "ns"}, "status": status}


def claiming(name: str, on: str = "") -> dict[str, Any]:
    return pod(name, on, cpu="0", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])


def history(*story: tuple[Any, ...]) -> History:
    """A line each: kind, change, object and, if it matters, the second in which it was seen."""
    told = []
    for number, (kind, change, thing, *at_s) in enumerate(story, start=1):
        told.append(Revision(kind, change, thing, number, float(at_s[0]) if at_s else number / 1000))
    return History(told)


def app(name: str, on: str = "n1", **fields: Any) -> dict[str, Any]:
    return pod(name, on, ready=True, meta={"labels": {"app": "a"}, **fields})


N, P, E, B, C = "nodes", "pods", "events", "poddisruptionbudgets", "resourceclaims"
BREACHES: dict[str, tuple[Callable[[History, Terms], list[str]], History, str]] = {
    "a pod on two nodes": (
        lambda found, _terms: checks.moved(found),
        history((P, ADDED, pod("a")), (P, MODIFIED, pod("a", "n1")), (P, MODIFIED, pod("a", "n2"))),
        "a was on n1 and then on n2",
    ),
    "too much cpu": (
        checks.overcommitted,
        history(
            (N, ADDED, node()),
            *((P, c, pod(p, on, cpu="1.5")) for p in "ab" for c, on in ((ADDED, ""), (MODIFIED, "n1"))),
        ),
        "b bound to n1: 3.0 of cpu, it has 2",
    ),
    "too many pods": (
        checks.overcommitted,
        history(
            (N, ADDED, node(pods="1")),
            (P, ADDED, pod("a", "n1", cpu="0")),
            (P, ADDED, pod("b", cpu="0")),
            (P, MODIFIED, pod("b", "n1", cpu="0")),
        ),
        "b bound to n1: 2 of pods, it has 1",
    ),
    "a resource that the node does not have": (
        checks.overcommitted,
        history(
            (N, ADDED, node()),
            (P, ADDED, pod("a", overhead={"example.com/gpu": "1"})),
            (P, MODIFIED, pod("a", "n1", overhead={"example.com/gpu": "1"})),
        ),
        "a bound to n1: 1 of example.com/gpu, it has 0",
    ),
    "a host port twice": (
        checks.overcommitted,
        history(
            (N, ADDED, node()),
            *((P, c, pod(p, on, port=80)) for p in "ab" for c, on in ((ADDED, ""), (MODIFIED, "n1"))),
        ),
        "b bound to n1, where its host port is taken",
    ),
    "an init container that is larger than all containers": (
        checks.overcommitted,
        history(
            (N, ADDED, node()),
            (P, ADDED, pod("a")),
            (P, MODIFIED, pod("a", "n1", initContainers=[{"resources": {"requests": {"cpu": "3"}}}])),
        ),
        "a bound to n1: 3 of cpu, it has 2",
    ),
    "a pod without a node that has room": (
        checks.stranded,
        history((N, ADDED, node()), (P, ADDED, pod("a"))),
        "a has no node, and there is room for it",
    ),
    "a gang that has room": (
        checks.stranded,
        history((N, ADDED, node()), (P, ADDED, member("a")), (P, ADDED, member("b"))),
        "g has no node, and there is room for it",
    ),
    "a node that was gone": (
        checks.misplaced,
        history(
            (N, ADDED, node(), 1), (N, DELETED, node(), 2), (P, ADDED, pod("a"), 3), (P, MODIFIED, pod("a", "n1"), 4)
        ),
        "a was bound to n1, which was gone for 2.0 s",
    ),
    "a node that never was": (
        checks.misplaced,
        history((P, ADDED, pod("a"), 3), (P, MODIFIED, pod("a", "n1"), 4)),
        "a was bound to n1, which was gone and never was there",
    ),
    "a cordoned node": (
        checks.misplaced,
        history(
            (N, ADDED, node(), 1),
            (N, MODIFIED, node(unschedulable=True), 2),
            (N, MODIFIED, node(unschedulable=True), 3),
            (P, ADDED, pod("a"), 3),
            (P, MODIFIED, pod("a", "n1"), 4),
        ),
        "a was bound to n1, which was tainted node.kubernetes.io/unschedulable for 2.0 s",
    ),
    "a tainted node": (
        checks.misplaced,
        history(
            (N, ADDED, node(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]), 1),
            (P, ADDED, pod("a"), 3),
            (P, MODIFIED, pod("a", "n1", tolerations=[{"key": "k", "value": "w"}]), 4),
        ),
        "a was bound to n1, which was tainted k for 3.0 s",
    ),
    "half a gang": (
        checks.partial,
        history((P, ADDED, member("a", "n1")), (P, ADDED, member("b"))),
        "1 of 2 members of g run",
    ),
    "a budget": (
        checks.budgets_broken,
        history(
            (B, ADDED, budget(2)),
            (P, ADDED, app("a")),
            (P, ADDED, app("b")),
            (P, MODIFIED, app("a", **_LEAVING)),
        ),
        "a was sent away, 1 of 2 that b wants are left",
    ),
    "two events": (
        checks.events_doubled,
        history(
            (P, ADDED, pod("a")),
            (P, MODIFIED, pod("a", "n1")),
            (E, ADDED, scheduled("x", "a")),
            (E, ADDED, scheduled("y", "a")),
        ),
        "a has 2 Scheduled events",
    ),
    "an event that was counted twice": (
        checks.events_doubled,
        history((P, ADDED, pod("a")), (P, MODIFIED, pod("a", "n1")), (E, ADDED, scheduled("x", "a", count=2))),
        "a has 2 Scheduled events",
    ),
    "no event": (
        checks.events_doubled,
        history((P, ADDED, pod("a")), (P, MODIFIED, pod("a", "n1"))),
        "a was bound without a Scheduled event",
    ),
    "a device twice": (
        lambda found, _terms: checks.devices_doubled(found),
        history((C, ADDED, device_claim("a", "gpu")), (C, ADDED, device_claim("b", "gpu"))),
        "d/n1/gpu is held by a and by b",
    ),
    "a claim that is not reserved": (
        checks.bound_without_devices,
        history((C, ADDED, device_claim("c", "gpu", "b")), (P, ADDED, claiming("b")), (P, ADDED, claiming("a", "n1"))),
        "a was bound, and c is not reserved for it",
    ),
    "devices of another node": (
        checks.bound_without_devices,
        history((C, ADDED, device_claim("c", "gpu", "a", pool="n2")), (P, ADDED, claiming("a", "n1"))),
        "a was bound to n1, and c holds devices of {'n2'}",
    ),
    "a claim of a pod that is gone": (
        lambda found, _terms: checks.reserved_for_nobody(found),
        history((C, ADDED, device_claim("c", "gpu", "a")), (P, ADDED, pod("a")), (P, DELETED, pod("a"))),
        "c is reserved for a, which is gone",
    ),
}


@pytest.mark.parametrize(("check", "told", "want"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_is_found(check: Callable[[History, Terms], list[str]], told: History, want: str) -> None:
    """Each check finds its own, and `audit` finds it too."""
    assert check(told, Terms()) == [want]
    assert want in checks.audit(told, Terms())


def test_a_sound_run_has_none() -> None:
    """Binds within the room, a late bind that could not know better, a gang, an eviction that the budget allows."""
    tainted = node("n2", taints=[{"key": "k", "effect": "NoSchedule"}])
    tolerant: dict[str, Any] = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    told = history(
        (N, ADDED, node("n1", cpu="4")),
        (N, ADDED, tainted),
        (B, ADDED, budget(1)),
        *((P, ADDED, member(name)) for name in "ab"),
        *((P, MODIFIED, member(name, "n1")) for name in "ab"),
        (P, ADDED, pod("c", **tolerant), 5),
        (P, MODIFIED, pod("c", "n2", **tolerant), 6),
        *((E, ADDED, scheduled(f"e-{name}", name)) for name in "abcde"),
        (P, ADDED, app("x")),
        (P, ADDED, app("y")),
        (P, MODIFIED, app("x", **_LEAVING)),
        (P, DELETED, app("x")),
        (P, ADDED, pod("d"), 9),
        (N, MODIFIED, node("n1", cpu="4", unschedulable=True), 10),
        (P, MODIFIED, pod("d", "n1"), 10.5),
        (C, ADDED, device_claim("b", "gpu", "x"), 10.6),
        (C, MODIFIED, device_claim("b", ""), 10.7),
        (C, ADDED, device_claim("c", "gpu", "e"), 10.8),
        (P, ADDED, claiming("e"), 10.8),
        (N, MODIFIED, node("n1", cpu="4"), 10.8),
        (P, MODIFIED, claiming("e", "n1"), 10.9),
        (P, ADDED, pod("too-large", cpu="9"), 11),
        (P, ADDED, pod("gated", schedulingGates=[{"name": "g"}]), 11),
    )
    assert checks.audit(told, Terms()) == []


def test_what_a_scenario_says_beforehand_is_allowed() -> None:
    """Pods that wait on purpose, deletions of the scenario's own, events of the dead, a view that was frozen."""
    told = history(
        (N, ADDED, node(), 1),
        (N, DELETED, node(), 2),
        (P, ADDED, pod("a"), 3),
        (P, MODIFIED, pod("a", "n1"), 4),
        (N, ADDED, node("n2"), 5),
        (P, ADDED, pod("b"), 6),
        (B, ADDED, budget(1), 6),
        (P, ADDED, app("x", "n2"), 6),
        (P, DELETED, app("x", "n2"), 7),
    )
    assert len(checks.audit(told, Terms())) == 4
    terms = Terms(pending=frozenset({"b"}), removed=frozenset({"x"}), events_may_be_lost=True, blind=True)
    assert checks.audit(told, terms) == []


@pytest.mark.parametrize(
    ("foreign_s", "want", "want_races"), [(1.0, 1, 0), (3.9, 0, 1)], ids=["could be seen", "a race"]
)
def test_overcommitment_with_another_scheduler(foreign_s: float, want: int, want_races: int) -> None:
    """What somebody else bound a second ago could be known; what came at the same moment could not."""
    foreign: dict[str, Any] = {"schedulerName": "default-scheduler", "cpu": "2"}
    told = history(
        (N, ADDED, node(), 0),
        (P, ADDED, pod("f", **foreign), 0.5),
        (P, MODIFIED, pod("f", "n1", **foreign), foreign_s),
        (P, ADDED, pod("a"), 2),
        (P, MODIFIED, pod("a", "n1"), 4),
    )
    terms = Terms(ours=frozenset({"moorage"}))
    assert len(checks.overcommitted(told, terms)) == want
    assert len(checks.races(told, terms)) == want_races
    assert checks.overfull(told) == ["n1"]


def test_ends_are_compared() -> None:
    """Bound pods, whole gangs and evictions; nodes may differ, and so may the names that controllers give."""
    made: dict[str, Any] = {"generateName": "web-", "labels": {"app": "web"}}
    story = [
        (P, ADDED, pod("a", "n1")),
        (P, ADDED, member("m1", "n1")),
        (P, ADDED, member("m2", "n2")),
        (P, ADDED, pod("web-1", "n1", meta=made)),
        (P, ADDED, pod("web-2", "n1", meta=made)),
        (P, DELETED, pod("v", "n1")),
    ]
    calm = checks.end_of(history(*story), Terms())
    assert calm == End(frozenset({"a", "m1", "m2", "web/* x2"}), frozenset({"g"}), frozenset({"v"}))
    elsewhere = [(kind, change, {**each, "spec": {**each["spec"], "nodeName": "n9"}}) for kind, change, each in story]
    assert checks.end_of(history(*elsewhere), Terms()).differs(calm) == []
    worse = checks.end_of(history(*story[:-1], (P, DELETED, pod("a", "n1"))), Terms())
    assert len(worse.differs(calm)) == 2


def test_missing_revisions_are_a_breach() -> None:
    """An auditor that may have missed something cannot vouch for anything."""
    assert checks.audit(History([], ["the auditor may have missed revisions of pods"]), Terms())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1", "1"),
        ("100m", "0.1"),
        ("1.5Gi", "1610612736"),
        ("2k", "2000"),
        ("1e3", "1000"),
        ("5E", "5000000000000000000"),
    ],
)
def test_quantities(text: str, want: str) -> None:
    assert quantity(text) == Decimal(want)
