"""Queues come, go and move while pods run and wait: what is brought up to date equals what is counted from scratch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from moorage.core.commands import Bind
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from moorage.core.fairshare import UNLIMITED
from moorage.core.queueorder import shortage
from moorage.core.queues import KAI_QUEUE, QUEUE, Queue
from moorage.core.selectors import selector_from_labels
from moorage.core.state import ClusterState
from moorage.engine.lifecycle import ACTIVE
from moorage.engine.turn import Turn
from moorage.testing import make_node
from tests.queues.teams import GPU, Teams, make_queue, team_pod

WORLDS = 60
NAMES = [f"q{number}" for number in range(8)]


@pytest.mark.parametrize("seed", range(WORLDS))
def test_changes_end_like_a_fresh_count(seed: int) -> None:
    """Cycles, orphans and leaves that become parents included; the order of waiting units, too."""
    draw = random.Random(seed)
    teams = Teams(*_queues(draw), nodes=(6,))
    for number in range(30):
        waiting = [each.pod.name for each in teams.engine.queue.entries()]
        events = list(_events(draw, number, waiting))
        teams.engine.handle(events, float(number), budget=draw.choice([0, 0, 0, 1 << 62]))
        _check(teams)


def test_a_pod_that_goes_before_its_attempt_is_finished_is_not_tried_again() -> None:
    """A search for devices may go on in the next call, which hears first that the pod is gone."""
    engine = Teams(make_queue("a", 4)).engine
    queue = engine.queue
    engine.handle([PodSeen(team_pod("a0", "a"))], 0.0, budget=0)
    unit = queue.pop(0.0)
    assert unit is not None
    queue.postpone(unit, 0.0)
    assert engine.handle([PodGone(unit.uid)], 1.0)[0] == []
    assert queue.pop(1.0) is None


def test_an_active_pod_whose_queue_goes_says_so_and_starts_when_it_is_back() -> None:
    teams = Teams(make_queue("a", 4), make_queue("b", 4))
    teams.engine.handle([PodSeen(team_pod(f"a{number}", "a")) for number in range(3)], 0.0, budget=1)
    gone: list[Event] = [ObjectGone(QUEUE, "a")]
    teams.engine.handle(gone, 1.0)
    states = {entry.pod.name: entry.place.name for entry in teams.engine.queue.entries()}
    assert [name for name, place in states.items() if place == "GATED"] == ["a1", "a2"]
    teams.play([ObjectSeen(QUEUE, "a", make_queue("a", 4))])
    assert teams.running() == ["a0", "a1", "a2"]


def test_a_pod_that_changes_at_once_with_its_queue_counts_as_it_is() -> None:
    """Its queue is closed for its namespace and opened again, each time in the same turn in which the pod grows."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2))
    closed, opened = make_queue("a", 2, namespaces=selector_from_labels({"team": "b"})), make_queue("a", 2)
    pod = team_pod("p", "a", 5)
    teams.engine.handle([PodSeen(pod)], 0.0)
    for queue, gpus in ((closed, 7), (opened, 9)):
        teams.engine.handle([ObjectSeen(QUEUE, "a", queue), PodSeen(team_pod("p", "a", gpus))], 1.0)
        _check(teams)
    tree = teams.engine.state.queues.tree
    assert tree.nodes["a"].requested[tree.resources.index(GPU)] == 9000


def test_a_nominated_pod_that_changes_its_queue_is_nominated_as_it_is() -> None:
    """Otherwise the next what-if would count it again as it was."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2), make_queue("c", 2))
    teams.see(*(team_pod(f"b{number}", "b") for number in range(4)))
    teams.engine.handle([PodSeen(team_pod("p", "a", 2, created_s=9.0))], 1.0)
    nominations = teams.engine.state.nominations
    assert nominations.node_of("default/p") == "n0"
    changed = team_pod("p", "c", created_s=9.0)
    teams.engine.handle([PodSeen(changed)], 2.0, budget=0)
    assert nominations.pod("default/p") is changed
    _check(teams)


def test_a_pod_whose_promise_is_of_an_older_version_holds_nothing_once_it_is_gone() -> None:
    """After a what-if the promise is made again as it was first; the pod counts as it was seen last."""
    teams = Teams(make_queue("a", 1), make_queue("b"), nodes=(1,))
    engine = teams.engine
    teams.see(team_pod("victim", "b"))
    pod = team_pod("p", "a")
    engine.handle([PodSeen(pod)], 10.0)
    for at_s in (10.1, 10.2):
        pod = replace(pod, nominated_node="n0")
        engine.handle([DeleteDone("default/victim", ok=True), PodSeen(pod)], at_s)
    with engine.state.statement():
        engine.state.nominations.clear(pod.uid)
    engine.handle([NodeGone("n0"), PodGone("default/victim")], 11.0)
    new = make_node("n1", cpu="64", memory="64Gi", resources={GPU: 1})
    binds = [
        each for at_s in (12.0, 40.0) for each in engine.handle([NodeSeen(new)], at_s)[0] if isinstance(each, Bind)
    ]
    assert [each.node for each in binds] == ["n1"]
    engine.handle([BindDone(pod.uid, BindOutcome.BOUND, "n1", ""), PodSeen(replace(pod, node="n1"))], 41.0)
    gpu = engine.state.queues.tree.resources.index(GPU)
    for amount, events in ((1000, ()), (0, [PodGone(pod.uid)])):
        engine.handle(events, 42.0)
        leaf = engine.state.queues.settle(engine.state).nodes["a"]
        assert (leaf.allocated[gpu], leaf.requested[gpu]) == (amount, amount)


def _queues(draw: random.Random) -> Iterator[Queue]:
    for name in NAMES:
        if draw.random() < 0.7:
            yield _queue(draw, name)


def _queue(draw: random.Random, name: str) -> Queue:
    parent = draw.choice(["", "", "", *NAMES[:4], "nobody"])
    limit, priority = draw.choice([UNLIMITED, UNLIMITED, 2, 4]), draw.choice([100, 200])
    made = make_queue(name, draw.randint(0, 3), draw.randint(0, 2), limit, parent=parent, priority=priority)
    if draw.random() < 0.1:
        return make_queue(name, 1, parent=parent)
    return made


def _events(draw: random.Random, number: int, waiting: Sequence[str]) -> Iterator[Event]:
    for each in range(draw.randint(1, 3)):
        what, name = draw.random(), draw.choice(NAMES)
        kind = QUEUE if draw.random() < 0.8 else KAI_QUEUE
        if what < 0.5:
            yield ObjectSeen(kind, name, _queue(draw, name))
        elif what < 0.6:
            yield ObjectGone(kind, name)
        elif what < 0.7 and waiting:  # the same pod as before, but in another queue or of another size
            yield PodSeen(team_pod(draw.choice(waiting), name, draw.randint(1, 3), created_s=float(number)))
        elif what < 0.9:
            node = draw.choice([None, None, "n0"])
            yield PodSeen(team_pod(f"p{number}-{each}", name, draw.randint(1, 2), node=node, created_s=float(number)))
        else:
            yield PodGone(f"default/p{draw.randint(0, number)}-0")


def _check(teams: Teams) -> None:
    state, queue = teams.engine.state, teams.engine.queue
    fresh = _from_scratch(teams)
    tree, want = state.queues.settle(state), fresh.queues.settle(fresh)
    assert tree.nodes.keys() == want.nodes.keys()
    for name, node in want.nodes.items():
        assert _figures(tree.nodes[name], tree.resources) == _figures(node, want.resources), name
    shared = teams.engine._context.sharing
    if shared is None or not state.queues.active:
        return
    for entry in queue.entries():
        known = state.queues.about(entry.pod)
        if (
            state.queues.has_room(entry.pod) and not known.holds
        ):  # what is known of limits, against the limits themselves
            demand = known.demand
            assert demand.leaf is not None
            assert shortage(demand.leaf, demand.amounts, preemptible=demand.preemptible) is None
    teams.engine._rooms.review(Turn(teams.now))
    heads = {node.name: unit.uid for node, unit in shared._fresh().heads().items()}
    units = {entry.unit.uid: entry.unit for entry in queue.entries() if entry.unit.state is ACTIVE}
    assert {node.name: unit.uid for node, unit in shared.order(units.values()).heads().items()} == heads


def _figures(node, resources) -> tuple[object, ...]:  # type: ignore[no-untyped-def]
    amounts = [
        (resources[index], node.allocated[index], node.fixed[index], node.requested[index], node.share[index])
        for index in range(len(resources))
        if resources[index] in ("cpu", "memory", GPU)
    ]
    busy = sorted(each.name for each in node.busy.values())
    return sorted(amounts), [each.name for each in node.path], node.problem, sorted(node.children), busy, node.queue


def _from_scratch(teams: Teams) -> ClusterState:
    """Another state with the same pods and queues."""
    state, known = ClusterState(), teams.engine.state
    state.queues.use_terms(known.queues.terms_of)
    for row in known.rows():
        state.upsert_node(known.node(int(row)))
    for kind in (QUEUE, KAI_QUEUE):
        for name, queue in known.objects.get(kind, {}).items():
            state.put_object(kind, name, queue)
    if not state.queues.active:
        return state
    for record in known.records():
        state.queues.stand(record.pod, leaving=record.pod.deleted_s is not None)
    for pod in known.nominations.pods():
        state.queues.promise(pod)
    for entry in teams.engine.queue.entries():
        state.queues.wait(entry.pod)
    for evicted in teams.engine._rooms.expected.values():
        if evicted.successor:
            state.queues.stand(evicted.pod, leaving=True)
        else:
            state.queues.expect(evicted.pod, value=True)
    return state
