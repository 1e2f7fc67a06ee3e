"""Queues share the cluster: order, limits, reclaim, and that evictions end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moorage.core.commands import DeletePod
from moorage.core.events import DeleteDone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue, ResourceShare
from moorage.core.selectors import selector_from_labels
from moorage.testing import make_node, make_pod
from tests.queues.recount import recount
from tests.queues.teams import GPU, Teams, make_queue, random_teams, team_pod
from tests.queues.worlds import World, make_job

WORLDS = 100


def test_a_queue_takes_back_its_share_and_no_more() -> None:
    """Two equal queues, one of which has all: the other gets its half, and then both rest."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2))
    teams.see(*(team_pod(f"a{n}", "a", created_s=float(n)) for n in range(4)))
    assert len(teams.running("a")) == 4
    teams.see(*(team_pod(f"b{n}", "b", created_s=10.0 + n) for n in range(4)))
    assert (teams.running("a"), teams.running("b")) == (["a0", "a1"], ["b0", "b1"])
    teams.rest()
    assert (teams.running("a"), teams.running("b")) == (["a0", "a1"], ["b0", "b1"])


def test_a_share_is_taken_back_whatever_else_waits_in_the_queue_that_gives() -> None:
    """A small pod of that queue comes first in the order, but the pod that has to go does not stay for it."""
    teams = Teams(make_queue("a", 2), make_queue("b", 3, priority=150))
    teams.see(*(team_pod(f"b{n}", "b", 2, created_s=2.0 + n) for n in range(2)))
    teams.see(team_pod("a0", "a"), team_pod("small", "b", created_s=1.0))
    teams.rest()
    assert teams.running() == ["a0", "b0", "small"]


def test_nobody_has_to_go_for_a_gang_where_another_gang_has_left_enough() -> None:
    """What was taken back for one pod is more than it needs: the next unit starts there."""
    queues = [
        *(make_queue(name, *terms) for name, terms in {"d0": (2,), "d1": (0,), "d2": (3, 3)}.items()),
        make_queue("q1", 5, 2, parent="d0"),
        *(make_queue(name, 0, 3, parent="d2") for name in ("q4", "q5")),
    ]
    world = World(queues, [(2, 20), (4, 20)])
    world.submit(make_job("j1", "q1", 3, 3, priority=50))
    world.submit(make_job("j2", "q5", 3, 3, priority=49))
    world.submit(
        make_job("j3", "q5", 2, 2, priority=75, created_s=1.0), make_job("j4", "q4", priority=49, created_s=1.0)
    )
    assert sorted(pod.name for pod in world.evicted) == ["j1-0", "j1-1", "j1-2"]
    world.settle()
    assert {name[:2] for name in world.placed()} == {"j2", "j3", "j4"}


def test_a_round_that_has_to_end_early_goes_on_in_the_next_turn() -> None:
    """However often turns are told to end, a queue gets all of its share, and then the engine rests."""
    teams = Teams(make_queue("a", 4), make_queue("b", 4), nodes=(4, 4))
    teams.see(*(team_pod(f"a{n}", "a", created_s=float(n)) for n in range(8)))
    teams.stop = lambda: True
    teams.see(*(team_pod(f"b{n}", "b", cpu=f"{n + 1}m", created_s=20.0 + n) for n in range(6)))
    assert (len(teams.running("a")), len(teams.running("b"))) == (4, 4)
    assert not teams.engine._rooms.unfinished


def test_room_is_made_once_pods_have_arrived_on_their_nodes() -> None:
    """A pod that was placed a moment ago has to move for the one that comes first; nobody else takes its room."""
    teams = Teams(make_queue("a", 4), make_queue("b", 5), make_queue("c", 2), nodes=(4, 4))
    lent = [replace(team_pod(f"lent{n}", "a", 2, created_s=5.0), node=f"n{n}") for n in range(2)]
    on_n0, on_n1 = ({"kubernetes.io/hostname": name} for name in ("n0", "n1"))
    small = team_pod("small", "a", preemptible=False, priority=100, node_selector=on_n0)
    large = team_pod("large", "a", 2, preemptible=False, priority=100, created_s=6.0)
    teams.see(*lent, small, large, team_pod("c0", "c"), team_pod("b0", "b", 4, created_s=7.0, node_selector=on_n1))
    teams.rest()
    assert teams.running() == ["b0", "c0", "large", "small"]


def test_a_waiting_pod_that_changes_its_queue_is_looked_at_again() -> None:
    """The pod of a queue without a share moves to one that may take room back."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2), make_queue("c", 0, 0))
    teams.see(*(team_pod(f"a{n}", "a", created_s=float(n)) for n in range(4)))
    pod = team_pod("x", "c", created_s=9.0)
    teams.see(pod)
    assert not teams.running("c")
    teams.see(replace(pod, template=team_pod("x", "b").template))
    assert teams.running("b") == ["x"]


def test_resources_that_no_queue_names_do_not_add_up() -> None:
    """Pods may ask for anything; what is counted for it stays small, and is gone when queues are counted anew."""
    teams = Teams(make_queue("a", 2), make_queue("b"))
    tree = teams.engine.state.queues.tree
    teams.see(*(team_pod(f"a{n}", "a", requests={f"example.com/{n}": 1}) for n in range(100)))
    assert len(tree.resources) < 50
    teams.play([PodGone(f"default/a{n}") for n in range(100)])
    teams.play([ObjectSeen(QUEUE, "c", make_queue("c"))])
    teams.see(team_pod("b0", "b"))
    assert tree.resources == ["cpu", "memory", GPU]
    assert teams.running() == ["b0"]


def test_a_queue_may_limit_any_resource() -> None:
    """A limit of ephemeral storage, named when pods run already, holds."""
    teams = Teams(make_queue("a", 4))
    teams.see(*(team_pod(f"a{n}", "a", requests={"ephemeral-storage": 1}) for n in range(2)))
    assert len(teams.running()) == 2
    shares = FrozenDict({"ephemeral-storage": ResourceShare(0, 1000, 3)})
    teams.play([ObjectSeen(QUEUE, "a", replace(make_queue("a"), resources=shares))])
    teams.see(*(team_pod(f"a{n}", "a", requests={"ephemeral-storage": 1}) for n in range(2, 5)))
    assert len(teams.running()) == 3


@pytest.mark.parametrize(("before", "after"), [("", "a"), ("a", ""), ("gone", "a"), ("a", "gone"), ("a", "b")])
def test_a_running_pod_whose_label_changes_is_counted_anew(before: str, after: str) -> None:
    """It holds what it has for the queue that it names now, and outside of any share if there is none."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2), make_queue("gone"))
    teams.see(team_pod("p", before))
    teams.play([ObjectGone(QUEUE, "gone")])
    running = next(iter(teams.engine.state.records())).pod
    teams.see(replace(running, template=team_pod("p", after, priority=1).template))
    tree = teams.engine.state.queues.settle(teams.engine.state)
    counted = {name: node.allocated[tree.resources.index(GPU)] / 1000 for name, node in tree.nodes.items()}
    assert counted == {"a": int(after == "a"), "b": int(after == "b")}
    assert tree.total[tree.resources.index(GPU)] == 1000 * (4 - (after not in tree.nodes))
    check_invariants(teams.engine.state)


def test_queues_take_turns() -> None:
    """Pods of queues with equal shares are placed in turn, however many one of them has and however old they are."""
    teams = Teams(make_queue("a"), make_queue("b"))
    teams.see(*(team_pod(f"a{n}", "a") for n in range(9)), *(team_pod(f"b{n}", "b", created_s=9.0) for n in range(2)))
    assert (len(teams.running("a")), len(teams.running("b"))) == (2, 2)


def test_limits_hold_at_every_level() -> None:
    """The limit of the parent holds for both children together, and the reason names it."""
    teams = Teams(make_queue("p", 0, 1, 3), make_queue("a", parent="p"), make_queue("b", parent="p"), nodes=(8,))
    pods = [team_pod(f"{queue}{n}", queue) for queue in "ab" for n in range(3)]
    teams.see(*pods)
    assert len(teams.running()) == 3
    entry = next(entry for entry in teams.engine.queue.entries())
    assert f"queue p has 3 of its limit of 3 {GPU}" in entry.message


def test_pods_that_may_not_be_evicted_stay_within_the_quota() -> None:
    """One runs and one waits beside idle devices; one that may be evicted runs."""
    teams = Teams(make_queue("a", 1))
    teams.see(*(team_pod(f"a{n}", "a", preemptible=False) for n in range(2)))
    assert len(teams.running()) == 1
    teams.see(team_pod("b", "a"))
    assert len(teams.running()) == 2


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        ((make_queue("other"),), "queue a does not exist"),
        ((make_queue("a"), make_queue("b", parent="a")), "queue a has queues below it"),
        ((make_queue("a", parent="b"), make_queue("b", parent="a")), "queue a is part of itself"),
        (
            (make_queue("a", parent="b"), make_queue("b", parent="c"), make_queue("c", parent="b")),
            "queue a is below",
        ),
        ((make_queue("a", parent="gone"),), "names the parent gone, which does not exist"),
        ((make_queue("a", namespaces=selector_from_labels({"team": "x"})),), "namespace default may not use queue a"),
    ],
    ids=["unknown", "no leaf", "a cycle", "below a cycle", "no parent", "another team's"],
)
def test_pods_without_a_usable_queue_wait_and_say_so(queues: tuple, want: str) -> None:  # type: ignore[type-arg]
    """Nobody else is touched: a pod without a queue is placed."""
    teams = Teams(*queues)
    teams.see(team_pod("p", "a"), team_pod("q", ""))
    assert teams.running() == ["q"]
    (entry,) = teams.engine.queue.entries()
    assert want in entry.message


def test_a_pod_starts_when_its_queue_comes() -> None:
    """The pod that waits for its queue is woken by it."""
    teams = Teams(make_queue("other"))
    teams.see(team_pod("p", "a"))
    assert not teams.running()
    teams.play([ObjectSeen(QUEUE, "a", make_queue("a"))])
    assert teams.running() == ["p"]


def test_a_change_of_quotas_moves_the_border() -> None:
    """What a queue is guaranteed from now on it takes back."""
    teams = Teams(make_queue("a", 4), make_queue("b", 0))
    teams.see(*(team_pod(f"a{n}", "a", created_s=float(n)) for n in range(4)))
    teams.see(team_pod("b0", "b"))
    assert not teams.running("b")
    teams.play([ObjectSeen(QUEUE, "a", make_queue("a", 3)), ObjectSeen(QUEUE, "b", make_queue("b", 1))])
    assert (len(teams.running("a")), teams.running("b")) == (3, ["b0"])


def test_pods_run_for_a_while_before_they_are_reclaimed() -> None:
    """With reclaimMinRuntime the other queue gets nothing until the pods have run for that long."""
    teams = Teams(make_queue("a", 2, reclaim_min_runtime_s=60.0), make_queue("b", 2))
    teams.see(*(replace(team_pod(f"a{n}", "a", node="n0"), started_s=0.0) for n in range(4)))
    teams.see(team_pod("b0", "b"))
    assert not teams.running("b")
    teams.now = 61.0
    teams.play([])
    assert teams.running("b") == ["b0"]


@pytest.mark.parametrize("above_s", [None, 600.0], ids=["its own time alone", "the time of the queue itself counts"])
def test_pods_run_for_a_while_before_they_are_preempted_inside_their_queue(above_s: float | None) -> None:
    """With preemptMinRuntime a more important pod waits until less important ones have run for that long."""
    parent = make_queue("top", 4, preempt_min_runtime_s=above_s)
    teams = Teams(parent, make_queue("a", 4, parent="top", preempt_min_runtime_s=60.0))
    teams.see(*(replace(team_pod(f"a{n}", "a", node="n0"), started_s=0.0) for n in range(4)))
    teams.see(team_pod("urgent", "a", priority=90))
    assert "urgent" not in teams.running()
    teams.now = 61.0
    teams.play([])
    assert "urgent" in teams.running()


def test_the_order_follows_what_pods_without_a_queue_leave() -> None:
    """They take from the total that dominant shares are parts of."""
    share = ResourceShare(UNLIMITED, 1000, UNLIMITED)
    teams = Teams(*(Queue(name, resources=FrozenDict({"cpu": share, "memory": share})) for name in "ab"), nodes=())
    teams.engine.handle([NodeSeen(make_node("n0", cpu="10", memory="10Gi"))], 0.0, budget=0)
    pods = [
        ("a0", "4", "1Gi", "n0"),
        ("b0", "1", "5Gi", "n0"),
        ("a1", "100m", "128Mi", None),
        ("b1", "100m", "128Mi", None),
    ]
    for name, cpu, memory, node in pods:
        pod = make_pod(name, cpu=cpu, memory=memory, node=node, labels={QUEUE_LABEL: name[0]}, scheduler_name="moorage")
        teams.engine.handle([PodSeen(pod)], 0.1, budget=0)
    sharing = teams.engine._context.sharing
    assert sharing is not None
    firsts = [sharing.peek()]
    outside = make_pod("outside", cpu="4", node="n0", scheduler_name="moorage")
    teams.engine.handle([PodSeen(outside)], 0.2, budget=0)
    firsts.append(sharing.peek())
    assert [first is not None and "a1" in first for first in firsts] == [True, False]


def test_a_moved_pod_whose_eviction_fails_counts_again() -> None:
    """Even if another pod of its owner has come for the place that was kept for it."""
    teams = Teams(make_queue("a", 8), nodes=(2, 2))
    movable = [team_pod(f"x{n}", "a", node=f"n{n}", owner="rs") for n in range(2)]
    teams.engine.handle([PodSeen(pod) for pod in movable], 0.0, budget=0)
    commands, _ = teams.engine.handle([PodSeen(team_pod("big", "a", 2, created_s=5.0))], 1.0)
    moved = next(command.pod for command in commands if isinstance(command, DeletePod))
    teams.engine.handle([PodSeen(team_pod("x2", "a", owner="rs", created_s=6.0))], 1.1)
    teams.engine.handle([DeleteDone(moved.uid, ok=False, message="no")], 1.2)
    assert teams.engine.state.queues.counts(moved.uid)


def test_promises_of_a_leader_that_was_killed_hold_nobody_back() -> None:
    """Nodes were promised to four pods, and the leader was killed after the second of four evictions."""
    teams = Teams(make_queue("a", 4), make_queue("b", 4), nodes=(4, 4))
    running = [replace(team_pod(f"b{n}", "b", created_s=float(n)), node=f"n{n % 2}") for n in range(6)]
    promised = [replace(team_pod(f"a{n}", "a"), nominated_node=f"n{n % 2}") for n in range(4)]
    teams.see(*running, *promised)
    assert (len(teams.running("a")), len(teams.running("b")), len(teams.evicted)) == (4, 4, 2)


def test_splitting_a_job_gains_nothing() -> None:
    """Many small jobs of a queue get what few large ones get."""
    few, many = Teams(make_queue("a"), make_queue("b")), Teams(make_queue("a"), make_queue("b"))
    for teams, size in ((few, 2), (many, 1)):
        teams.see(*(team_pod(f"b{n}", "b", created_s=float(n)) for n in range(4)))
        teams.see(*(team_pod(f"a{n}", "a", size, created_s=10.0 + n) for n in range(4 // size)))
        teams.rest()
    assert len(few.running("a")) * 2 == len(many.running("a")) == 2


@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_holds_in_random_worlds(seed: int) -> None:
    """Whatever comes and goes: the ledger agrees with a recount, limits and shares hold, no eviction is in vain, and
    when demand stands still evictions end.
    """
    draw = random.Random(seed)
    teams, pods = random_teams(draw)
    for pod in pods:
        before = len(teams.evicted), teams.binds()
        teams.see(pod)
        assert teams.binds() > before[1] or len(teams.evicted) == before[0]
        _check(teams)
    teams.rest()
    _check(teams)
    for pod in draw.sample(pods, len(pods) // 3):
        teams.end(pod)
        _check(teams)
    teams.rest()
    _check(teams)


def _check(teams: Teams) -> None:
    """Compare what is kept up to date with plain loops over everything."""
    state = teams.engine.state
    check_invariants(state)
    tree = state.queues.settle(state)
    waiting = [entry.pod for entry in teams.engine.queue.entries()]
    kept = {pod.uid: pod for pod in state.nominations.pods() if state.record(pod.uid) is None}
    expected = [kept.get(f"successor:{pod.uid}", pod) for pod in teams.evicted]
    allocated, shares = recount(state, [*waiting, *expected])
    for name, node in tree.nodes.items():
        for resource in shares[name]:
            index = tree.resources.index(resource)
            assert node.allocated[index] == allocated[name][resource], (name, resource)
            assert node.share[index] == shares[name][resource], (name, resource)
            assert node.allocated[index] <= node.limit[index]
            assert node.fixed[index] <= node.quota[index]
            children = [child for child in tree.nodes.values() if child.parent is node]
            sure = sum(min(child.quota[index], child.requested[index], child.limit[index]) for child in children)
            assert sum(child.share[index] for child in children) <= max(node.share[index], sure)
    assert all(node.quota[0] <= UNLIMITED for node in tree.nodes.values())
    assert all(entry.pod.template.labels.get(QUEUE_LABEL) is not None for entry in teams.engine.queue.entries())


def test_a_gang_that_cannot_start_does_not_keep_its_queue_from_its_quota() -> None:
    """Its queue would come after the pod that has to go, and so would all others of the queue."""
    world = World([make_queue("a", 3), make_queue("b", 3)], [(5, 20), (1, 20)])
    world.submit(make_job("big", "a", gpus=4))
    world.submit(*(make_job(f"a{n}", "a", created_s=1.0) for n in range(2)))
    world.submit(make_job("gang", "b", 2, 2, gpus=4, created_s=2.0), make_job("small", "b", created_s=3.0))
    world.settle()
    assert "small-0" in world.placed()
    assert len(world.placed()) == 3


def test_resources_beyond_those_that_count_do_not_keep_a_share_from_being_taken_back() -> None:
    """Pods that leave in a what-if make room for other resources to count, but only once it has ended."""
    names = [f"example.com/r{number:02}" for number in range(40)]
    world = World([make_queue("a", 2), make_queue("b", 2)], [])
    world.play([NodeSeen(make_node("n", cpu="64", resources={GPU: 4} | dict.fromkeys(names, 10)))])
    for queue in "ab":
        parts = [dict.fromkeys(names[at : at + 10], 1) | {GPU: 1} for at in range(0, 40, 10)]
        world.see(*(team_pod(f"{queue}{n}", queue, requests=part, created_s=float(n)) for n, part in enumerate(parts)))
    assert sorted(world.placed()) == ["a0", "a1", "b0", "b1"]
