"""Repacking by the keeper: plans carried out move by move, budgets, rests, and what another keeper finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from moorage.core.commands import EvictPod, PatchNode, RecordEvent
from moorage.core.events import EvictOutcome, NodePatched, PodGone
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.taints import Taint
from moorage.engine.keeping import marks
from moorage.engine.keeping.repack import CHECK_S, CLOSE_S, LOOK_S, REFUSED_S, REPEAT_S
from moorage.framework.keeping import RepackAim, Repacking
from moorage.testing import make_node, make_pod
from tests.engine.keeping import Shore, budget, member, replica_set


def shore(number: int = 3, *more: Pod, **settings: Any) -> Shore:
    """Nodes n0, n1, ... of 4 cpus, each with a pod of 1 cpu; repacking is on, and every pod has an owner of its own."""
    given = {"settle_s": 5.0, **settings}
    shore = Shore(repack=Repacking(**given))
    nodes = [make_node(f"n{i}") for i in range(number)]
    shore.see(*nodes, *(member(f"p{i}", f"n{i}", app=f"a{i}") for i in range(number)), *more)
    return shore


def closed(shore: Shore) -> set[str]:
    """Nodes that carry the mark."""
    return {name for name, node in shore.nodes.items() if marks.REPACK in node.annotations}


def begin(shore: Shore) -> None:
    """Until a plan has closed its nodes."""
    shore.wait(2 * LOOK_S)
    shore.write()


def play(shore: Shore, seconds: float = 60.0) -> list[str]:
    """Carry out every order, each successor where there was room; the names of the pods that were moved."""
    moved = []
    end = shore.now + seconds
    while shore.now < end:
        shore.wait(1.0)
        shore.write()
        for command in shore.of(EvictPod):
            moved.append(command.pod.name)
            assert command.place is not None
            shore.move(command.pod.name, command.place)
    return moved


def test_nothing_is_repacked_unless_it_is_asked_for() -> None:
    """The default."""
    shore = Shore()
    shore.see(*(make_node(f"n{i}") for i in range(3)))
    shore.see(*(member(f"p{i}", f"n{i}") for i in range(3)))
    assert shore.wait(120) == []
    assert shore.wakeup is None


def test_nodes_are_closed_emptied_and_opened_again() -> None:
    """Three pods fit on one node: two nodes become empty with two moves, and are open in the end."""
    there = shore()
    begin(there)
    assert len(closed(there)) == 2
    assert all(there.nodes[name].unschedulable for name in closed(there))
    assert len(play(there)) == 2
    assert len({pod.node for pod in there.pods.values()}) == 1
    assert not closed(there)
    assert not any(node.unschedulable for node in there.nodes.values())
    assert there.keeper.repack.emptied == 2


def test_a_node_is_closed_when_the_cordon_of_this_plan_is_answered() -> None:
    """Late answers about the node, to the end of an earlier plan or to what a notice wrote, are none to it."""
    there = shore()
    there.wait(2 * LOOK_S)
    cordons = there.of(PatchNode)
    assert {command.unschedulable for command in cordons} == {True}
    for command in cordons:
        opening = replace(command, unschedulable=False, annotations=FrozenDict({marks.REPACK: None}))
        noticed = replace(command, annotations=FrozenDict({marks.CORDONED: "true"}))
        other = replace(command, annotations=FrozenDict({marks.REPACK: "another plan"}))
        there.tell(*(NodePatched(each, ok=True) for each in (opening, noticed, other)), NodePatched(command, ok=False))
    there.wait(2)
    assert there.evicted == []
    there.write()
    there.wait(2)
    assert len(there.evicted) == 1


def test_one_move_at_a_time_and_the_next_when_the_successor_runs() -> None:
    """The second eviction waits for the first successor."""
    there = shore()
    begin(there)
    there.wait(10)
    assert len(there.evicted) == 1
    successor = there.move(there.evicted[0], None)
    assert there.wait(5) == [] or not there.evicted
    there.see(replace(successor, node=next(name for name in there.nodes if name not in closed(there)), phase="Running"))
    there.wait(1)
    assert len(there.evicted) == 1


def test_moves_per_hour_hold() -> None:
    """Two moves are wanted, one is allowed within an hour."""
    there = shore(moves_per_hour=1)
    begin(there)
    assert len(play(there, 120)) == 1


def test_successors_are_not_moved_again_soon() -> None:
    """Once packed, young pods stay where they are even if a plan would gain from their move."""
    there = shore()
    begin(there)
    play(there)
    for pod in [*there.pods.values()][1:]:
        there.tell(PodGone(pod.uid))
    assert play(there, 300) == []


def test_budgets_and_opt_outs_hold() -> None:
    """No pod of `web` may be disrupted."""
    there = Shore(repack=Repacking(settle_s=5.0))
    there.see(*(make_node(f"n{i}") for i in range(3)))
    there.tell(budget(0), replica_set(3))
    there.see(*(member(f"p{i}", f"n{i}") for i in range(3)))
    assert there.wait(60) == []


def test_a_plan_that_gains_too_little_is_not_begun() -> None:
    """One of three nodes would become empty; half of them should."""
    there = Shore(repack=Repacking(settle_s=5.0, least_gain=0.5))
    there.see(*(make_node(f"n{i}") for i in range(3)))
    there.see(
        member("big", "n0", app="a", cpu="3"), member("large", "n1", app="b", cpu="3"), member("p", "n2", app="c")
    )
    assert there.wait(60) == []


def test_a_pod_that_waits_gets_room_before_nodes_are_emptied() -> None:
    """One move frees a node for it; the node is open again, and the pod is nominated to it."""
    there = shore(3, member("wide", None, app="wide", cpu="4"))
    begin(there)
    assert len(closed(there)) == 1
    (freed,) = closed(there)
    assert "room for default/wide" in there.nodes[freed].annotations[marks.REPACK]
    assert play(there, 20) == [next(f"p{i}" for i in range(3) if f"n{i}" == freed)]
    assert not closed(there)
    assert all(pod.node != freed for pod in there.pods.values())


def test_nodes_are_not_emptied_while_a_pod_waits() -> None:
    """Nothing would help the pod, but the empty node might have been for it."""
    there = shore(3, member("huge", None, app="huge", cpu="64"), aims=(RepackAim.EMPTY,))
    assert there.wait(60) == []


def test_a_plan_ends_when_a_pod_has_to_wait() -> None:
    """Its nodes are opened for it."""
    there = shore()
    begin(there)
    assert closed(there)
    there.see(member("new", None, app="new", cpu="4", created_s=there.now))
    there.wait(2 * LOOK_S)
    there.write()
    assert not closed(there)


def test_a_plan_goes_on_while_a_pod_waits_for_its_scheduler_only() -> None:
    """There is a place for it on nodes that are open: the plan is not in its way."""
    there = shore()
    begin(there)
    before = closed(there)
    there.see(member("new", None, app="new", cpu="1", created_s=there.now))
    there.wait(2 * LOOK_S)
    there.write()
    assert closed(there) == before


def test_a_pod_that_goes_though_no_answer_came_is_followed() -> None:
    """The answer to the eviction was lost: the successor is awaited, and no second pod is moved meanwhile."""
    there = shore()
    begin(there)
    there.wait(2)
    (name,) = there.evicted
    pod = next(each for each in there.pods.values() if each.name == name)
    there.see(replace(pod, deleted_s=there.now))
    there.answer(name, EvictOutcome.FAILED)
    there.wait(5)
    assert there.evicted == []
    place = next(node for node in there.nodes if node not in closed(there))
    gone = there.pods[pod.uid]
    there.tell(PodGone(pod.uid))
    there.see(replace(gone, uid="next", name="next", node=place, deleted_s=None, created_s=there.now))
    there.wait(2)
    assert len(there.evicted) == 1


def test_a_gain_that_does_not_last_means_a_rest() -> None:
    """The emptied nodes are filled again at once: an event says so, and nothing is planned for a while."""
    there = shore()
    begin(there)
    play(there, 20)
    empty = {*there.nodes} - {pod.node for pod in there.pods.values()}
    there.see(*(member(f"back-{name}", name, app=f"b-{name}") for name in empty))
    there.wait(CHECK_S)
    said = [event.reason for event in there.of(RecordEvent)]
    assert said.count("RepackMissed") == 1
    before = len(there.ordered)
    there.wait(900)
    assert len(there.ordered) == before


def test_another_keeper_opens_what_the_first_one_closed() -> None:
    """Nothing but the marks was left behind."""
    there = shore()
    begin(there)
    before = closed(there)
    assert before
    there.ordered.clear()
    there.restart()
    opened = [command for command in there.of(PatchNode) if command.unschedulable is False]
    assert {command.node for command in opened} == before


def test_a_node_that_gets_a_notice_stays_closed() -> None:
    """The plan gives it up, and it is not opened: it goes away."""
    there = shore()
    begin(there)
    name = min(closed(there))
    there.see(replace(there.nodes[name], taints=(Taint("aws-node-termination-handler/spot-itn", "", "NoSchedule"),)))
    for _ in range(4):
        there.write()
        there.wait(10)
    assert there.nodes[name].unschedulable
    assert marks.REPACK not in there.nodes[name].annotations


def test_a_refused_eviction_is_tried_again_later_each_time() -> None:
    """The budget had the last word; the pod is moved later, and the API server is not asked every second."""
    there = shore(number=2)
    begin(there)
    there.wait(2)
    pauses = []
    for _ in range(4):
        (name,) = there.evicted
        there.answer(name, EvictOutcome.REFUSED)
        refused_s = there.now
        while not there.evicted:
            there.wait(1)
        pauses.append(there.now - refused_s)
    assert pauses[0] >= REFUSED_S
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses))


def test_closing_a_node_is_ordered_once_until_it_is_answered() -> None:
    """A busy API server answers late; asking again would only add to that."""
    there = shore()
    there.wait(2 * LOOK_S)
    names = [command.node for command in there.of(PatchNode)]
    assert len(names) == len({*names}) == 2


def test_a_plan_is_given_up_if_its_nodes_cannot_be_closed() -> None:
    """Nothing was evicted."""
    there = shore()
    there.wait(2 * LOOK_S + CLOSE_S)
    assert there.keeper.repack.plan_now is None
    assert not there.evicted


def test_empty_nodes_stay_empty() -> None:
    """The profile prefers empty nodes: they are closed, too, while others are emptied."""
    there = shore()
    there.see(make_node("e0"), make_node("e1"))
    begin(there)
    assert {"e0", "e1"} < closed(there)
    assert len(play(there)) == 2
    assert len({pod.node for pod in there.pods.values()}) == 1
    assert not closed(there)


def test_empty_nodes_that_no_successor_would_choose_stay_open() -> None:
    """They are too small: closing them would only keep other pods away."""
    there = Shore(repack=Repacking(settle_s=5.0))
    pods = [member(f"p{i}", f"n{i}", app=f"a{i}") for i in range(3)]
    there.see(*(make_node(f"n{i}") for i in range(3)), make_node("small", cpu="500m"), *pods)
    begin(there)
    assert len(closed(there)) == 2
    assert "small" not in closed(there)
    assert len(play(there)) == 2
    assert len({pod.node for pod in there.pods.values()}) == 1


def test_a_budget_that_allows_nothing_for_a_moment_costs_a_plan_no_node() -> None:
    """A pod lost its place, and the rest is proven anew while the budget of another has not recovered from a move."""
    there = Shore(repack=Repacking(settle_s=5.0))
    there.tell(budget(1), replica_set(2), acting=False)
    there.see(
        *(make_node(f"n{i}") for i in range(3)),
        make_node("n3", cpu="5", memory="2Gi"),
        make_node("n4", cpu="16", memory="32Gi"),
        member("a0", "n0", memory="10Gi"),
        member("a1", "n1", memory="10Gi"),
        member("b0", "n2", app="b", cpu="4", memory="1Mi"),
        make_pod("c", node="n3", cpu="1"),
        make_pod("d", node="n4", cpu="13"),
    )
    begin(there)
    assert closed(there) == {"n0", "n1", "n2"}
    there.wait(1)
    (first,) = there.evicted
    assert first.startswith("a")
    there.tell(budget(0))
    there.see(make_pod("x", node="n3", cpu="1"))
    there.move(first, "n4")
    there.wait(2 * REPEAT_S)
    there.write()
    assert closed(there) == {"n0", "n1"}
    there.tell(budget(1))
    assert len(play(there)) == 1
    assert not {"n0", "n1"} & {pod.node for pod in there.pods.values()}
