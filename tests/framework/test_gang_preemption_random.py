"""Preemption by and of gangs on random small clusters, compared with what must hold in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moorage.core.pods import Pod
from moorage.framework.plugin import Plugin
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
    fits_all,
    preempt_gang,
    preempt_gang_on,
)
from tests.plugins.preempting import budget, preempt_on

WAYS: Sequence[tuple[Plugin, ...]] = ((), (InterPodAffinity(),))
"""All nodes at once, and with a filter that reads the whole cluster."""

PRIORITIES = st.sampled_from([-5, 0, 10, 20])


@st.composite
def scenes(draw: st.DrawFn, *, even: bool) -> Scene:
    """Small full clusters with gangs in them; `even`: members of a gang share a priority, incoming ones a size."""
    cpus = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    nodes = [
        make_node(f"n{number}", cpu=str(cpu), pods=draw(st.sampled_from([5, 10]))) for number, cpu in enumerate(cpus)
    ]
    ways = draw(st.lists(st.sampled_from([SINGLE, WHOLE, CRD, ANNOTATED]), max_size=2))
    gangs = [Gang(f"g{number}", way, draw(st.integers(1, 4))) for number, way in enumerate(ways)]
    shared = {each.name: draw(PRIORITIES) for each in gangs}
    pods: list[Pod] = []
    for number, cpu in enumerate(cpus):
        left = cpu - draw(st.integers(0, 1))
        while left > 0:
            size = draw(st.integers(1, left))
            left -= size
            fields: dict[str, Any] = {
                "priority": draw(PRIORITIES),
                "labels": draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}])),
                "started_s": draw(st.sampled_from([1.0, 2.0])),
            }
            mine = draw(st.sampled_from([None, *gangs]))
            if mine is None:
                started_s = fields.pop("started_s")
                alone = make_pod(f"p{len(pods)}", cpu=str(size), node=f"n{number}", **fields)
                pods.append(replace(alone, started_s=started_s))
            else:
                fields["priority"] = shared[mine.name] if even else fields["priority"]
                pods.append(mine.member(f"p{len(pods)}", str(size), f"n{number}", **fields))
    sizes = st.just(draw(st.integers(1, 3))) if even else st.integers(1, 3)
    count = draw(st.integers(1, 4))
    waiting = [make_pod(f"w{i}", cpu=str(draw(sizes)), priority=20, group="incoming") for i in range(count)]
    budgets = [budget(f"b{i}", draw(st.integers(0, 2)), app=app) for i, app in enumerate(draw(st.sets(APPS)))]
    return Scene(nodes, pods, waiting, gangs, budgets, needed=draw(st.integers(1, count)))


APPS = st.sampled_from(["a", "b"])


def room(scene: Scene) -> int:
    """How many members of one size fit if all lesser pods go."""
    size, total = scene.members[0].requests.get("cpu"), 0
    for each in scene.nodes:
        staying = [pod for pod in scene.pods if pod.node == each.name and pod.template.priority >= 20]
        cpu = each.allocatable["cpu"] - sum(pod.requests.get("cpu") for pod in staying)
        total += max(min(cpu // size, each.allocatable["pods"] - len(staying)), 0)
    return total


@settings(max_examples=300)
@given(scene=scenes(even=True), slowly=st.booleans())
def test_room_is_found_if_there_is_any(scene: Scene, slowly: bool) -> None:
    """Members of one size: as many as possible are aimed at, and refused are only gangs that cannot fit."""
    found = preempt_gang(scene, *WAYS[slowly])
    possible = room(scene)
    assert scene.needed is not None
    want = len(scene.members) if possible >= len(scene.members) else scene.needed if possible >= scene.needed else 0
    assert len(found.nodes) == want, found.message
    check_outcome(scene, found)


@settings(max_examples=300)
@given(scene=scenes(even=False), slowly=st.booleans(), strict=st.booleans())
def test_what_is_done_is_right(scene: Scene, slowly: bool, strict: bool) -> None:
    """Whatever the sizes, priorities and budgets: proven, strictly less important, whole gangs, and nobody in vain."""
    args = DefaultPreemptionArgs(pdb_policy="Strict" if strict else "BestEffort")
    found = preempt_gang(scene, *WAYS[slowly], plugin=DefaultPreemption(args))
    check_outcome(scene, found)
    for each in scene.budgets if strict else ():
        gone = [p for p in scene.pods if p.name in found.victims and each.selector.matches(p.template.labels)]
        assert len(gone) <= each.disruptions_allowed


@settings(max_examples=200)
@given(scene=scenes(even=False), slowly=st.booleans())
def test_single_pods_too_are_right(scene: Scene, slowly: bool) -> None:
    """A pod that is in no gang: it fits afterwards, companions go with their gangs, and nobody in vain."""
    pod = make_pod("alone", cpu="2", priority=20)
    scene = replace(scene, members=[pod], needed=None)
    assume(not any(fits_all(scene.nodes, [*scene.pods, replace(pod, node=each.name)]) for each in scene.nodes))
    found = preempt_on(scene.state(), pod, DefaultPreemption(), *WAYS[slowly])
    nodes = {} if found.node is None else {"alone": found.node}
    check_outcome(scene, GangOutcome(nodes, found.victims))


@settings(max_examples=100)
@given(first=scenes(even=False), data=st.data())
def test_a_plugin_that_searched_before_answers_like_a_new_one(first: Scene, data: st.DataObject) -> None:
    """Ranks follow the gangs when members come and go and when their objects change."""
    state, plugin = first.state(), DefaultPreemption()
    preempt_gang_on(state, first, plugin)
    gone = data.draw(st.sets(st.sampled_from([pod.name for pod in first.pods]))) if first.pods else set()
    gangs = [replace(each, least=data.draw(st.integers(1, 4))) for each in first.gangs if each.way != ANNOTATED]
    gangs += [each for each in first.gangs if each.way == ANNOTATED]
    for name in sorted(gone):
        state.remove_pod(f"default/{name}")
    for each in gangs:
        each.declare(state)
    scene = replace(first, pods=[pod for pod in first.pods if pod.name not in gone], gangs=gangs)
    assert preempt_gang_on(state, scene, plugin) == preempt_gang(scene)
