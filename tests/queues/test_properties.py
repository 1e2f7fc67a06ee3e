"""What holds in every cluster that queues share, tried on random ones.

`MOORAGE_QUEUE_WORLDS` says how many: 10000 for a thorough run (`make properties`). A failure names its seed:
`MOORAGE_QUEUE_SEED=17` tries that world alone.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from moorage.core.fairshare import UNLIMITED
from moorage.core.invariants import check_invariants
from moorage.core.pods import Pod
from moorage.core.quantity import fineness
from moorage.core.queuetree import QueueNode, QueueTree
from moorage.engine.invariants import check_engine
from tests.queues.worlds import Job, World, found_world, random_job, random_world

WORLDS = int(os.environ.get("MOORAGE_QUEUE_WORLDS", "200"))
ONLY = os.environ.get("MOORAGE_QUEUE_SEED")
PARTS = 1 if ONLY else 4
"""Tests that share the worlds out, so that they can run side by side."""
_ORDERS = 12
"""How many orders of victims are tried."""


@pytest.mark.timeout(120 + WORLDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_what_holds_in_random_worlds(part: int) -> None:
    """After every event, and once evicted pods are back."""
    for seed in [int(ONLY)] if ONLY else range(part, WORLDS, PARTS):
        try:
            live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1074, id="room that a pod within its quota takes back"),
        pytest.param(5617, id="a share that another job of the queue needs"),
        pytest.param(5726, id="a place that a third job would need"),
        pytest.param(7746, id="room that went to another one than the pod that made it"),
    ],
)
def test_nobody_is_evicted_for_what_the_next_round_takes_back(seed: int) -> None:
    """It is not given, or given where it lasts."""
    live(seed)


@pytest.mark.timeout(120 + WORLDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_cluster_that_is_found_far_from_its_shares_comes_to_rest(part: int) -> None:
    """Full nodes, gangs that cannot start, and others that are larger than their minimum."""
    for seed in [int(ONLY)] if ONLY else range(part, WORLDS // 4, PARTS):
        try:
            found(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_pod_that_has_to_go_is_not_replaced_by_one_of_its_gang() -> None:
    """Nothing would be won by that, and the one that goes would replace it in its turn."""
    found(440)


@pytest.mark.parametrize("seed", [3, 24, 36, 62, 123, 147])
def test_rounds_that_are_always_told_to_end_do_not_go_on_for_ever(seed: int) -> None:
    """What such a round has found and given up again is not found anew by the next one."""
    draw = random.Random(seed)
    world, leaves = random_world(draw)
    world.stop = lambda: True
    for number in range(draw.randint(3, 9)):
        world.submit(random_job(draw, f"j{number}", leaves, float(number)))
        world.settle()
    check_engine(world.engine)


def live(seed: int) -> World:
    """Play one world: jobs come, some end, and all of it rests in between."""
    draw = random.Random(seed)
    world, leaves = random_world(draw)
    for number in range(draw.randint(3, 9)):
        world.submit(random_job(draw, f"j{number}", leaves, float(number)))
        rest(world)
    for name in draw.sample(sorted(world.jobs), len(world.jobs) // 3):
        world.finish(name)
        rest(world)
    check_invariants(world.engine.state)
    check_engine(world.engine)
    return world


def found(seed: int) -> None:
    """Let a cluster rest that is full from the beginning."""
    world = found_world(random.Random(seed))
    world.settle()
    world.promises.clear()  # what comes back may have more right to a place than the pod that got it
    rest(world)
    check_invariants(world.engine.state)
    check_engine(world.engine)


def rest(world: World) -> None:
    """No eviction was in vain; evictions end; and then what holds at rest does."""
    check_promises(world)
    world.settle()
    check_promises(world)
    tree = world.engine.state.queues.settle(world.engine.state)
    check_shares(tree)
    check_quotas(world, tree)
    check_idle(world, tree)


def check_promises(world: World) -> None:
    """The pod that another one was evicted for has a node."""
    placed = {pod.uid for pod in world.standing()}
    back = {pod.name for pod in world.standing()}
    for victim, taker in world.promises:
        name = world.echo.pods[taker].name if taker in world.echo.pods else ""
        assert taker in placed or name in back, f"{victim} was evicted for {taker or 'nobody'}, which is on no node"
    world.promises.clear()


def check_shares(tree: QueueTree) -> None:
    """Siblings have no more than their parent, unless by what they are guaranteed; each has what it is guaranteed, as
    far as it asks for it, and no more than it asks for and may have.
    """
    for index, resource in enumerate(tree.resources):
        for parent in [None, *tree.nodes.values()]:
            children = [node for node in tree.nodes.values() if node.parent is parent]
            amount = tree.total[index] if parent is None else parent.share[index]
            sure = [guaranteed(node, index, amount) for node in children]
            shares = [node.share[index] for node in children]
            assert sum(shares) <= max(amount, sum(sure)), (resource, parent and parent.name)
            for node, least, has in zip(children, sure, shares, strict=True):
                assert least <= has <= min(node.requested[index], node.limit[index]), (resource, node.name)


def guaranteed(node: QueueNode, index: int, amount: int) -> int:
    quota = amount if node.quota[index] >= UNLIMITED else node.quota[index]
    return min(quota, node.requested[index], node.limit[index])


def check_quotas(world: World, tree: QueueTree) -> None:
    """A job that waits alone, and with which all its queues stay within their quotas, runs if it fits once pods go that
    may be evicted and are of queues beyond their quotas, whichever of them go.
    """
    waiting = list(world.nexts())
    for job, pods in waiting if len(waiting) == 1 else ():
        path = path_of(tree, job)
        if not path or spared(world, tree, path):
            continue
        if not all(fit(node.allocated, needs(tree, pods), node.quota, node.limit) for node in path):
            continue
        draw = random.Random(job.name)
        for _ in range(_ORDERS):
            order = draw.sample(list(world.jobs.values()), len(world.jobs))
            if not packs(pods, room(world, without=beyond_quota(world, tree, path, order))):
                break
        else:
            raise AssertionError(f"{job.name} of {job.queue} waits within its quota")


def spared(world: World, tree: QueueTree, path: tuple[QueueNode, ...]) -> bool:
    """Whether a pod that may be evicted runs in a queue that is within its quota: it may be in the way of a search."""
    standing = {pod.name for pod in world.standing()}
    for job in world.jobs.values():
        theirs = path_of(tree, job)
        if job.preemptible and theirs and theirs[0] is not path[0] and any(pod.name in standing for pod in job.pods):
            parted = next(node for node in reversed(theirs) if node not in path)
            if not any(has > quota for has, quota in zip(parted.allocated, parted.quota, strict=True)):
                return True
    return False


def check_idle(world: World, tree: QueueTree) -> None:
    """Nothing is idle that a waiting job could use within its limits."""
    free = room(world)
    for job, pods in world.nexts():
        path, need = path_of(tree, job), needs(tree, pods)
        bounded = all(
            fit(node.allocated, need, node.limit) and (job.preemptible or fit(node.fixed, need, node.quota))
            for node in path
        )
        assert not (bounded and packs(pods, free)), f"{job.name} of {job.queue} waits beside idle room"


# --- plain arithmetic ---


def path_of(tree: QueueTree, job: Job) -> tuple[QueueNode, ...]:
    """The leaf of a job and the queues above it."""
    return tree.nodes[job.queue].path if job.queue else ()


def needs(tree: QueueTree, pods: Sequence[Pod]) -> list[int]:
    amounts = [Counter(dict(pod.requests.amounts)) for pod in pods]
    return [fineness(name) * sum(each[name] for each in amounts) for name in tree.resources]


def fit(amounts: Sequence[int], need: Sequence[int], *bounds: Sequence[int]) -> bool:
    return all(
        has + more <= bound[i] for bound in bounds for i, (has, more) in enumerate(zip(amounts, need, strict=True))
    )


def beyond_quota(world: World, tree: QueueTree, path: tuple[QueueNode, ...], order: Sequence[Job]) -> set[str]:
    """Names of pods that may be evicted, in this order of jobs, of the queues beside this path, as long as these are
    beyond their quotas.
    """
    gone: set[str] = set()
    standing = {pod.name: pod for pod in world.standing()}
    for node in path:
        for sibling in tree.nodes.values():
            if sibling.parent is node.parent and sibling is not node:
                gone |= surplus(tree, sibling, order, standing)
    return gone


def surplus(tree: QueueTree, queue: QueueNode, order: Sequence[Job], standing: dict[str, Pod]) -> set[str]:
    gone: set[str] = set()
    has = list(queue.allocated)
    for job in order:
        if not job.preemptible or queue not in path_of(tree, job):
            continue
        left = [pod for pod in job.pods if pod.name in standing]
        while left and any(amount > queue.quota[index] for index, amount in enumerate(has)):
            unit = left[-1:] if len(left) > job.least else left
            left = left[: -len(unit)]
            gone |= {pod.name for pod in unit}
            has = [amount - less for amount, less in zip(has, needs(tree, unit), strict=True)]
    return gone


def room(world: World, without: set[str] = frozenset()) -> dict[str, dict[str, int]]:  # type: ignore[assignment]
    """Node -> what is free of each resource."""
    state = world.engine.state
    free = {}
    for row in state.rows():
        node = state.node(int(row))
        free[node.name] = dict(node.allocatable)
    for record in state.records():
        if record.pod.name not in without:
            for name, amount in record.pod.requests.amounts:
                free[record.node][name] = free[record.node].get(name, 0) - amount
    return free


def packs(pods: Sequence[Pod], free: dict[str, dict[str, int]]) -> bool:
    """Whether the pods find room together, whatever the order."""
    if not pods:
        return True
    wants = dict(pods[0].requests.amounts)
    for left in free.values():
        if all(left.get(name, 0) >= amount for name, amount in wants.items()):
            for name, amount in wants.items():
                left[name] -= amount
            found = packs(pods[1:], free)
            for name, amount in wants.items():
                left[name] += amount
            if found:
                return True
    return False
