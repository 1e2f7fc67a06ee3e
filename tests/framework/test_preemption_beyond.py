"""What preemption of single pods does beyond kube-scheduler: gangs among the victims, strict budgets, and the guard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from moorage.core.arrays import Rows
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import Rejections
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.testing import make_node, make_pod
from tests.framework.gang_preempting import CRD, SINGLE, WHOLE, Gang
from tests.plugins.preempting import Cluster, budget, preempt, preempt_on

HIGH = make_pod("high", cpu="2", priority=100)


class Local(Plugin):
    """Reads the pods of a node and passes all: forces the search node by node."""

    name: ClassVar[str] = "Local"
    reads: ClassVar[Reads] = Reads.PODS

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        return None


WAYS = [pytest.param((), id="all nodes at once"), pytest.param((Local(),), id="node by node")]


def node(name: str = "n1") -> Node:
    return make_node(name, cpu="4")


def small(name: str, on: str, cpu: str, priority: int, started_s: float = 0.0) -> Pod:
    return replace(make_pod(name, cpu=cpu, node=on, priority=priority), started_s=started_s)


def big(name: str, on: str, priority: int, **fields: Any) -> Pod:
    return replace(make_pod(name, cpu="4", node=on, priority=priority, **fields), started_s=0.0)


WHOLE_GANG, LOOSE_GANG, SMALL_GANG = Gang("g", WHOLE), Gang("g", SINGLE), Gang("g", CRD, 2)


def trio(gang: Gang, priority: int = 0) -> list[Pod]:
    """Three members that fill three nodes."""
    return [gang.member(f"g{n}", "4", f"n{n}", priority=priority) for n in (1, 2, 3)]


GANGS = [
    pytest.param(WHOLE_GANG, trio(WHOLE_GANG), {"g1", "g2", "g3"}, id="a group that goes as a whole"),
    pytest.param(LOOSE_GANG, trio(LOOSE_GANG), 1, id="a group whose members go one by one"),
    pytest.param(SMALL_GANG, trio(SMALL_GANG), 1, id="a gang that stays above its minimum"),
    pytest.param(
        Gang("g", CRD, 3), trio(Gang("g", CRD, 3)), {"g1", "g2", "g3"}, id="a gang that falls below its minimum"
    ),
    pytest.param(
        WHOLE_GANG,
        [*trio(WHOLE_GANG)[:2], replace(trio(WHOLE_GANG)[2], deleted_s=1.0)],
        {"g3"},
        id="a member that leaves anyhow takes nobody along",
    ),
    pytest.param(
        WHOLE_GANG,
        [*trio(WHOLE_GANG)[:2], big("alone", "n3", 0)],
        {"alone"},
        id="fewer victims are better, far or near",
    ),
    pytest.param(
        WHOLE_GANG, [*trio(WHOLE_GANG)[:2], big("alone", "n3", 9)], {"g1", "g2"}, id="but the top priority comes first"
    ),
    pytest.param(
        WHOLE_GANG,
        [*trio(WHOLE_GANG)[:2], replace(WHOLE_GANG.member("g3", "4", "n3", priority=500))],
        set(),
        id="a more important companion protects the others",
    ),
    pytest.param(
        WHOLE_GANG,
        [
            *(WHOLE_GANG.member("g1", "2", "n1", priority=0), WHOLE_GANG.member("g2", "4", "n2", priority=500)),
            *(small("alone", "n1", "2", 50), big("peer", "n3", 100)),
        ],
        {"alone"},
        id="so that somebody else has to go, even if more important than the one protected",
    ),
    pytest.param(
        SMALL_GANG,
        [
            *(SMALL_GANG.member("g1", "2", "n1", priority=0), SMALL_GANG.member("g2", "1", "n1", priority=0)),
            *(SMALL_GANG.member("g3", "4", "n2", priority=500), small("top", "n1", "1", 100), big("peer", "n3", 100)),
        ],
        {"g1"},
        id="one of a gang may go as long as that takes nobody more important along",
    ),
    pytest.param(
        SMALL_GANG,
        [
            *(SMALL_GANG.member("g1", "1", "n1", priority=0), SMALL_GANG.member("g2", "1", "n1", priority=0)),
            *(SMALL_GANG.member("g3", "4", "n2", priority=500), small("top", "n1", "2", 100), big("peer", "n3", 100)),
        ],
        set(),
        id="but not two",
    ),
    pytest.param(
        WHOLE_GANG,
        [
            *(WHOLE_GANG.member("g1", "2", "n1", started_s=1.0), WHOLE_GANG.member("g2", "1", "n1", started_s=3.0)),
            *(small("alone", "n1", "1", 0, started_s=2.0), big("peer", "n2", 100), big("peer3", "n3", 100)),
        ],
        {"g1", "g2"},
        id="a companion on the same node makes room, so that another pod may stay",
    ),
]


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(("gang", "pods", "want"), GANGS)
def test_victims_take_companions_along(
    gang: Gang, pods: list[Pod], want: set[str] | int, plugins: Sequence[Plugin]
) -> None:
    """All of them are among the nomination's victims, on whichever nodes they stand."""
    cluster = Cluster([node("n1"), node("n2"), node("n3")], pods, HIGH, gangs=[gang])
    found = preempt(cluster, *plugins)
    got: set[str] | int = len(found.victims) if isinstance(want, int) else set(found.victims)
    assert (got, found.node is not None) == (want, bool(want))


def test_companions_are_added_when_somebody_else_chooses() -> None:
    """An extender is asked about the pods of a node only, and companions are evicted all the same."""
    cluster = Cluster([node("n1"), node("n2"), node("n3")], trio(WHOLE_GANG), HIGH, gangs=[WHOLE_GANG])
    found = preempt_on(cluster.state(), HIGH, DefaultPreemption(), name_all=True)
    assert sorted(found.offers) == [("g1",), ("g2",), ("g3",)]
    assert set(found.victims) == {"g1", "g2", "g3"}


# --- budgets and the guard ---


@pytest.mark.parametrize("plugins", WAYS)
@pytest.mark.parametrize(
    ("allowed", "want"), [pytest.param(0, (), id="protected"), pytest.param(1, ("low",), id="allowed")]
)
def test_strict_budgets(allowed: int, want: tuple[str, ...], plugins: Sequence[Plugin]) -> None:
    """With `pdbPolicy: Strict` a pod whose eviction breaks a budget is no victim, even if nobody else is."""
    low = big("low", "n1", 0, labels={"app": "a"})
    cluster = Cluster([node()], [low], HIGH, [budget("b", allowed, app="a")])
    found = preempt(cluster, *plugins, args=DefaultPreemptionArgs(pdb_policy="Strict"))
    assert found.victims == want


def test_the_guard_lets_a_pod_wait() -> None:
    """It is tried again when the minute has passed; the old nomination stays; a number and an event tell of it."""
    cluster = Cluster([node()], [big("low", "n1", 0)], HIGH)
    state, plugin = cluster.state(), DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_minute=1))
    assert preempt_on(state, HIGH, plugin, now=100.0).victims == ("low",)
    held = preempt_on(state, HIGH, plugin, now=120.0)
    limit = "maxEvictionsPerMinute allows 1 evictions within a minute"
    assert (held.message, held.nominates) == (f"preemption: {limit}; waiting for 40 s.", False)
    assert (held.expires_s, held.warnings, plugin.guarded) == (160.0, (("PreemptionHeldBack", limit),), 1)
    assert preempt_on(state, HIGH, plugin, now=160.0).victims == ("low",)


def test_pods_that_leave_anyhow_are_no_new_evictions() -> None:
    """They are named as victims, as kube-scheduler does, but cost the guard nothing."""
    cluster = Cluster([node()], [replace(big("low", "n1", 0), deleted_s=1.0)], HIGH)
    state, plugin = cluster.state(), DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_minute=1))
    for _ in range(3):
        assert preempt_on(state, HIGH, plugin).victims == ("low",)


@pytest.mark.parametrize(
    "arguments",
    [{"pdbPolicy": "strict"}, {"maxEvictionsPerMinute": -1}, {"maxEvictionsPerOwnerPerMinute": 1.5}],
    ids=str,
)
def test_bad_arguments_of_the_guard(arguments: dict[str, Any]) -> None:
    """Unknown policies and numbers below zero are errors."""
    with pytest.raises(ValidationError):
        DefaultPreemptionArgs.model_validate(arguments)
