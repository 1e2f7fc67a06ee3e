"""Gangs evict as a unit, are evicted as their terms say, and nobody is evicted in vain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.state import PodRecord
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.testing import make_node, make_pod
from tests.framework.gang_preempting import (
    ANNOTATED,
    CRD,
    SINGLE,
    WHOLE,
    Gang,
    GangOutcome,
    Scene,
    check_outcome,
    preempt_gang,
    preempt_gang_on,
)
from tests.framework.readers import NOW_S
from tests.plugins.preempting import budget

WAYS: Sequence[tuple[Plugin, ...]] = ((), (InterPodAffinity(),))
"""All nodes at once, and with a filter that reads the whole cluster."""


def node(name: str = "n1", cpu: str = "4", **fields: Any) -> Node:
    return make_node(name, cpu=cpu, **fields)


def low(name: str, on: str = "n1", cpu: str = "1", priority: int = 100, **fields: Any) -> Pod:
    started_s = fields.pop("started_s", 0.0)
    return replace(make_pod(name, cpu=cpu, node=on, priority=priority, **fields), started_s=started_s)


def members(count: int, cpu: str = "1", priority: int = 300, **fields: Any) -> list[Pod]:
    return [make_pod(f"h{i}", cpu=cpu, priority=priority, group="incoming", **fields) for i in range(1, count + 1)]


def sized(*cpus: str) -> list[Pod]:
    """Members m1, m2, ... that ask for so much."""
    return [make_pod(f"m{i}", cpu=cpu, priority=300, group="incoming") for i, cpu in enumerate(cpus, 1)]


FOO = {"app": "foo"}
G = {way: Gang("g", way, 3) for way in (SINGLE, WHOLE, CRD, ANNOTATED)}


def gang(way: str, on: Sequence[str], cpu: str = "1", **fields: Any) -> list[Pod]:
    return [G[way].member(f"g{i}", cpu, at, **{"priority": 100, **fields}) for i, at in enumerate(on, 1)]


VICTIMS = [
    pytest.param(
        Scene([node()], [low(f"l{i}") for i in range(4)], members(4), needed=3),
        {"h1", "h2", "h3", "h4"},
        ["l0", "l1", "l2", "l3"],
        id="more members than needed: all get room",
    ),
    pytest.param(
        Scene([node()], [low("l1"), low("l2"), low("peer", cpu="2", priority=300)], members(3), needed=2),
        {"h1", "h2"},
        ["l1", "l2"],
        id="no room for all: the first that are needed",
    ),
    pytest.param(
        Scene([node()], [low("l1"), low("l2"), low("l3", cpu="2")], sized("64", "2", "2"), needed=2),
        {"m2", "m3"},
        ["l1", "l2", "l3"],
        id="one that no node could ever hold is left out",
    ),
    pytest.param(
        Scene([node()], [low("l1"), low("l2"), low("l3", cpu="2")], sized("64", "1", "1", "1"), needed=2),
        {"m2", "m3", "m4"},
        2,
        id="and all the others get room",
    ),
    pytest.param(
        Scene([node()], [low("l1", cpu="4")], sized("4", "2", "2"), needed=2),
        {"m2", "m3"},
        ["l1"],
        id="the first one would leave no room for the others that are needed",
    ),
    pytest.param(
        Scene(
            [node(), node("n2", taints=["t:NoSchedule"])],
            [low("l1"), low("peer", cpu="3", priority=300), low("l2", "n2", "4")],
            [*sized("2", "2"), make_pod("m3", cpu="1", priority=300, group="incoming", tolerations=["t"])],
            needed=1,
        ),
        {"m3"},
        1,
        id="the first ones fit nowhere as it is: the next",
    ),
    pytest.param(
        Scene([node(cpu="3")], [low("top", priority=900), low("l1"), low("l2")], members(3)),
        set(),
        [],
        id="no room for those needed: nobody goes",
    ),
    pytest.param(
        Scene([node("n1", "2"), node("n2", "2")], [low(f"l{i}", f"n{i // 2 + 1}") for i in range(4)], members(4)),
        {"h1", "h2", "h3", "h4"},
        ["l0", "l1", "l2", "l3"],
        id="across nodes",
    ),
    pytest.param(
        Scene(
            [node(cpu="3")],
            [low("l1", labels=FOO), low("l2", labels=FOO), low("l3")],
            members(2, "500m"),
            budgets=[budget("foo", 0, app="foo")],
        ),
        {"h1", "h2"},
        ["l3"],
        id="pods that a budget protects are spared if that is possible",
    ),
    pytest.param(
        Scene(
            [node("n1", "2"), node("n2", "2"), node("n3", "2")],
            [low("a", "n1", "2", labels=FOO), low("b", "n2", "2", labels=FOO), low("c", "n3", "2", priority=200)],
            members(2, "2"),
            budgets=[budget("foo", 1, app="foo")],
        ),
        {"h1", "h2"},
        ["c", "a"],
        id="what one member costs a budget is missing for the next",
    ),
    pytest.param(
        Scene([node(), node("n2")], [low("mid", "n1", "4", 200), low("low", "n2", "4", 100)], members(2, "2")),
        {"h1", "h2"},
        ["low"],
        id="the least important ones go, and the second member uses what the first one freed",
    ),
    pytest.param(
        Scene([node()], [low("l1"), low("l2"), low("same", cpu="2", priority=300)], members(3)),
        set(),
        [],
        id="equal priority is never evicted",
    ),
    pytest.param(
        Scene([node()], [low("l1", cpu="4")], [*members(1), make_pod("weak", cpu="1", priority=50)]),
        set(),
        [],
        id="the lowest priority of the members counts",
    ),
    pytest.param(
        Scene(
            [node("n1", "4"), node("n2", "2")],
            [low("l1", "n1", "4"), low("l2", "n2", "2")],
            [make_pod("s", cpu="2", priority=300), make_pod("l", cpu="4", priority=300)],
        ),
        {"s", "l"},
        ["l1", "l2"],
        id="members of different sizes",
    ),
    pytest.param(
        Scene(
            [node("n1", "4"), node("n2", "3")],
            [low("l1", "n1", "4", 50), low("l2", "n2", "3", 100)],
            [make_pod("small", cpu="2", priority=300), make_pod("large", cpu="4", priority=300)],
        ),
        {"small", "large"},
        ["l2", "l1"],
        id="the largest first, if the members do not fit in their own order",
    ),
    pytest.param(
        Scene([node("n1"), node("n2")], gang(WHOLE, ["n1", "n1", "n2", "n2"]), members(1, "3"), [G[WHOLE]]),
        {"h1"},
        ["g1", "g2", "g3", "g4"],
        id="a native group that goes as a whole",
    ),
    pytest.param(
        Scene([node("n1"), node("n2")], gang(SINGLE, ["n1", "n1", "n2", "n2"]), members(1, "3"), [G[SINGLE]]),
        {"h1"},
        1,
        id="a native group whose members go one by one",
    ),
    pytest.param(
        Scene([node("n1")], gang(CRD, ["n1"] * 4), members(1), [G[CRD]]),
        {"h1"},
        ["g4"],
        id="a gang that stays above its minimum loses only what is needed",
    ),
    pytest.param(
        Scene([node("n1"), node("n2")], gang(CRD, ["n1", "n1", "n2", "n2"]), members(2, "3"), [G[CRD]]),
        {"h1", "h2"},
        ["g1", "g2", "g3", "g4"],
        id="a gang that would fall below its minimum goes whole",
    ),
    pytest.param(
        Scene([node("n1"), node("n2")], gang(ANNOTATED, ["n1", "n2", "n2"]), members(1, "4"), [G[ANNOTATED]]),
        {"h1"},
        ["g1", "g2", "g3"],
        id="so does one that annotations declare",
    ),
    pytest.param(
        Scene(
            [node("n1", "2"), node("n2", "2"), node("n3", "2")],
            [*gang(WHOLE, ["n1", "n2"], "2"), low("alone", "n3", "2", 150)],
            members(1, "2"),
            [G[WHOLE]],
        ),
        {"h1"},
        ["g1", "g2"],
        id="priority counts before the number",
    ),
    pytest.param(
        Scene(
            [node("n1", "2"), node("n2", "2"), node("n3", "2")],
            [*gang(WHOLE, ["n1", "n2"], "2"), low("alone", "n3", "2")],
            members(1, "2"),
            [G[WHOLE]],
        ),
        {"h1"},
        ["alone"],
        id="one victim is better than one with company",
    ),
    pytest.param(
        Scene(
            [node("n1", "2"), node("n2", "2")],
            [G[WHOLE].member("g1", "2", "n1", priority=100), G[WHOLE].member("g2", "2", "n2", priority=900)],
            members(1, "2"),
            [G[WHOLE]],
        ),
        set(),
        [],
        id="a pod whose companion is more important is no victim",
    ),
    pytest.param(
        Scene(
            [node("n1", "4"), node("n2", "4")],
            [
                *(G[WHOLE].member("g1", "2", "n1", priority=100), G[WHOLE].member("g2", "1", "n1", priority=100)),
                *(low("alone", cpu="1", started_s=-1.0), low("peer", "n2", "4", 300)),
            ],
            members(1, "2"),
            [G[WHOLE]],
        ),
        {"h1"},
        ["g1", "g2"],
        id="who goes along makes room too, so that another one may stay",
    ),
    pytest.param(
        Scene(
            [node("n1", "2"), node("n2", "2"), node("n3", "2"), node("n4", "2")],
            [*gang(CRD, ["n1", "n2", "n3", "n4"], "2", priority=50)],
            members(1, "2"),
            [G[CRD]],
        ),
        {"h1"},
        1,
        id="three of four are enough: only one goes",
    ),
]


@pytest.mark.parametrize("plugins", WAYS, ids=["all nodes at once", "node by node"])
@pytest.mark.parametrize(("scene", "want_placed", "want_victims"), VICTIMS)
def test_room_for_a_gang(
    scene: Scene, want_placed: set[str], want_victims: list[str] | int, plugins: tuple[Plugin, ...]
) -> None:
    """All members or those needed find named nodes at the least price, or nobody goes."""
    found = preempt_gang(scene, *plugins)
    got = len(found.victims) if isinstance(want_victims, int) else sorted(found.victims)
    want = want_victims if isinstance(want_victims, int) else sorted(want_victims)
    assert (set(found.nodes), got) == (want_placed, want), found.message
    check_outcome(scene, found)


def test_the_most_important_victim_comes_last() -> None:
    """Companions included: the order in which evictions are ordered."""
    pods = [*gang(WHOLE, ["n1", "n2", "n2"], priority=50), low("mid", cpu="3", priority=60)]
    found = preempt_gang(Scene([node("n1"), node("n2")], pods, members(1, "4"), [G[WHOLE]]))
    assert found.victims in (("mid", "g1", "g2", "g3"), ("g1", "g2", "g3"))


MESSAGES = [
    pytest.param(
        Scene([node(cpu="2")], [low("l1"), low("l2")], members(2)),
        Code.SUCCESS,
        "found a potential placement for 2 pods of the gang on 1 nodes, preempting 2 victims",
        id="found",
    ),
    pytest.param(
        Scene([node(cpu="2")], [low("l1"), low("l2", priority=300)], members(2)),
        Code.UNRESOLVABLE,
        "room for 1 of 2 pods of the gang: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        id="evictions do not help",
    ),
    pytest.param(
        Scene([node()], [low("l1", cpu="4")], [*members(1), *members(1, preemption_policy="Never")]),
        Code.UNSCHEDULABLE,
        "not eligible due to preemptionPolicy=Never.",
        id="one member must not preempt",
    ),
    pytest.param(
        Scene(
            [node()],
            [low("l1", cpu="4")],
            [make_pod(name, cpu="1", priority=300, requests={f"example.com/{name}": 1}) for name in "ab"],
        ),
        Code.UNRESOLVABLE,
        "room for 0 of 2 pods of the gang: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        id="members that name resources which nobody else does",
    ),
    pytest.param(
        Scene(
            [node(), node("n2")],
            [replace(low("l1", cpu="4"), deleted_s=1.0, preempted=True), low("l2", "n2", "4")],
            [*members(1, "4"), replace(make_pod("h2", cpu="4", priority=300), nominated_node="n1")],
        ),
        Code.UNSCHEDULABLE,
        "not eligible due to a terminating pod on the nominated node.",
        id="victims of the last time are still leaving",
    ),
]


@pytest.mark.parametrize(("scene", "want_code", "want"), MESSAGES)
def test_what_is_said(scene: Scene, want_code: Code, want: str) -> None:
    """UNRESOLVABLE means that evictions cannot help, UNSCHEDULABLE that the gang has to wait for something."""
    found = preempt_gang(scene)
    assert (found.code, found.message) == (want_code, f"preemption: {want}")


def test_nominations_of_members_block_no_other_member() -> None:
    """The nomination of one member in an earlier round does not make another one evict more."""
    nodes = [node("n1", "2"), node("n2", "2"), node("n3", "1")]
    pods = [low("l1", "n1", "2"), low("l2", "n2", "2", 200)]
    large, small = (make_pod(name, cpu=cpu, priority=300) for name, cpu in (("large", "2"), ("small", "1")))
    scene = Scene(nodes, pods, [large, small])
    state = scene.state()
    state.nominations.set(small, "n1")
    found = preempt_gang_on(state, scene, DefaultPreemption())
    assert (found.nodes, found.victims) == ({"large": "n1", "small": "n3"}, ("l1",))
    assert state.nominations.node_of(small.uid) == "n1"


def test_members_that_run_are_no_victims_of_their_own_gang() -> None:
    """A gang makes no room for itself at its own expense, even where members differ in priority."""
    running = make_pod("h9", cpu="4", node="n1", priority=10, group="incoming")
    assert not preempt_gang(Scene([node()], [running], members(1))).nodes


# --- budgets, strictly ---

STRICT = DefaultPreemptionArgs(pdb_policy="Strict")

STRICTLY = [
    pytest.param(
        Scene([node()], [low("a", cpu="4", labels=FOO)], members(1), budgets=[budget("foo", 0, app="foo")]),
        None,
        id="a protected pod stays",
    ),
    pytest.param(
        Scene([node()], [low("a", cpu="4", labels=FOO)], members(1), budgets=[budget("foo", 1, app="foo")]),
        ["a"],
        id="a budget that allows it protects nobody",
    ),
    pytest.param(
        Scene(
            [node(), node("n2")],
            [low("a", "n1", "4", labels=FOO), low("b", "n2", "4", labels=FOO)],
            members(2, "4"),
            budgets=[budget("foo", 1, app="foo")],
        ),
        None,
        id="a budget counts over all nodes",
    ),
    pytest.param(
        Scene(
            [node()],
            [low("big", cpu="3", priority=200, labels=FOO), low("tiny", cpu="1", labels=FOO)],
            members(1, "3"),
            budgets=[budget("foo", 1, app="foo")],
        ),
        ["big"],
        id="the one eviction that is allowed goes to whom it helps",
    ),
    pytest.param(
        Scene(
            [node()],
            [low("big", cpu="2", priority=200, labels=FOO), low("tiny", cpu="2", labels=FOO)],
            members(1, "2"),
            budgets=[budget("foo", 1, app="foo")],
        ),
        ["tiny"],
        id="and to the least important one",
    ),
    pytest.param(
        Scene(
            [node(), node("n2")],
            gang(WHOLE, ["n1", "n2"], "4", labels=FOO),
            members(1),
            [G[WHOLE]],
            [budget("foo", 1, app="foo")],
        ),
        None,
        id="companions count",
    ),
]


@pytest.mark.parametrize("plugins", WAYS, ids=["all nodes at once", "node by node"])
@pytest.mark.parametrize(("scene", "want"), STRICTLY)
def test_a_strict_policy_never_breaks_a_budget(
    scene: Scene, want: list[str] | None, plugins: tuple[Plugin, ...]
) -> None:
    """Pods whose eviction would break a budget are no victims, and nobody is taken along who is protected."""
    found = preempt_gang(scene, *plugins, plugin=DefaultPreemption(STRICT))
    assert (list(found.victims) if found.nodes else None) == want


def test_a_strict_policy_knows_what_the_budget_does_not_know_yet() -> None:
    """The second preemptor does not use the allowance that the first has used up."""
    pods = [low("a", "n1", "4", labels=FOO), low("b", "n2", "4", labels=FOO)]
    scene = Scene([node(), node("n2")], pods, members(1, "4"), budgets=[budget("foo", 1, app="foo")])
    state, plugin = scene.state(), DefaultPreemption(STRICT)
    (first,) = preempt_gang_on(state, scene, plugin).victims
    other = replace(scene, members=[make_pod("other", cpu="4", priority=300)])
    state.evictions.order(f"default/{first}", "default/h1")
    state.observe_pod(replace(next(p for p in pods if p.name == first), deleted_s=NOW_S))
    assert preempt_gang_on(state, other, plugin).victims in ((), (first,))
    told = replace(budget("foo", 1, app="foo"), disrupted_pods=(first,))
    state.put_object("PodDisruptionBudget", told.key, told)
    state.remove_pod(f"default/{first}")
    state.observe_pod(low("taken", next(p.node or "" for p in pods if p.name == first), "4", 900))
    assert preempt_gang_on(state, other, plugin).victims == ({"a": "b", "b": "a"}[first],)


# --- somebody else's opinion about who may be evicted ---


def test_ranks_may_be_somebody_elses_opinion() -> None:
    """Equal priority may go if its rank is lower, and a lesser pod stays if its rank is not; it may change any time."""
    scene = Scene([node(), node("n2")], [low("in", "n1", "4", 10), low("out", "n2", "4", 300)], members(1, "4"))
    planned = {"in"}

    class Opinion:
        reranked = None

        def rank(self, record: PodRecord) -> int:
            return 10**9 if record.pod.name in planned else -(10**9)

    ranks = Opinion()
    state, plugin = scene.state(), DefaultPreemption()
    assert preempt_gang_on(state, scene, plugin, ranks=ranks).victims == ("out",)
    planned.add("out")
    assert preempt_gang_on(state, scene, plugin, ranks=ranks).victims == ()
    planned.remove("in")
    assert preempt_gang_on(state, scene, plugin, ranks=ranks).victims == ("in",)


# --- the guard ---


def test_the_guard_holds_a_gang_back_as_a_whole() -> None:
    """Too many evictions within a minute: nobody goes, everybody is tried again in time, and it is told and counted."""
    scene = Scene([node()], [low(f"l{i}", owner="web") for i in range(4)], members(2))
    state, plugin = scene.state(), DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_owner_per_minute=3))
    assert len(preempt_gang_on(state, scene, plugin).victims) == 2
    held = preempt_gang_on(state, scene, plugin, now=NOW_S + 10)
    limit = "maxEvictionsPerOwnerPerMinute allows 3 evictions of ReplicaSet default/web within a minute"
    assert held == GangOutcome(
        message=f"preemption: {limit}; waiting for 50 s.",
        code=Code.UNSCHEDULABLE,
        expires_s=NOW_S + 60,
        warnings=(("PreemptionHeldBack", limit),),
    )
    assert plugin.guarded == 1
    assert len(preempt_gang_on(state, scene, plugin, now=NOW_S + 60).victims) == 2


def test_a_gang_that_exceeds_the_limit_at_once_is_told_so() -> None:
    """Waiting would not help."""
    scene = Scene([node()], [low(f"l{i}") for i in range(4)], members(4))
    plugin = DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_minute=3))
    held = preempt_gang(scene, plugin=plugin)
    assert held.message == "preemption: it takes 4, but maxEvictionsPerMinute allows 3 evictions within a minute."
    assert held.expires_s is None
