"""A larger share for the queue of a waiting pod: quotas and weights with which others have to give way to it.

Only tried where the queue would be beyond its share; and larger limits, with which others may have to give way, too, or
nodes have to come.
What stands before the pod in its queue is served first, so the quota has to be enough for all of that, and the limit
perhaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from moorage.core.edits import Edits, RaiseBound
from moorage.core.fairshare import UNLIMITED
from moorage.core.pods import Pod
from moorage.core.queues import WEIGHT_UNIT, queue_kind
from moorage.core.queuetree import Amounts, QueueNode
from moorage.engine.counterfactual.growth import MOST_NODES, fewest, growth_cost, kinds_of_nodes, more_nodes
from moorage.engine.counterfactual.scene import Fit, Scene

_QUOTA_COST, _WEIGHT_COST = 2.0, 3.2
_MOST_WEIGHT = 64
"""Larger weights are not tried."""


def share_candidates(scene: Scene, pod: Pod) -> Iterator[tuple[float, Edits]]:
    """Edits with their cost; ask while the scene reclaims."""
    queues = scene.state.queues
    member = queues.member(pod.template) if queues.active else None
    if member is None or member.leaf is None:
        return
    tree, leaf = queues.settle(scene.state), member.leaf
    least, need = _needs(scene, pod, leaf)
    entitled = partial(scene.entitled, leaf=leaf.name, need=need, preemptible=member.preemptible)
    # What the tree says now: it changes with every question.
    levels = range(1, len(leaf.path) + 1)
    kinds = {node: queue_kind(scene.state.objects, node.name) for node in leaf.path}
    raises = {node: [*_quotas(node, need, tree.resources, kinds[node])] for node in leaf.path}
    quotas = [tuple(each for node in leaf.path[:n] for each in raises[node]) for n in levels]
    weights = [
        partial(_weights, leaf.name, kinds[leaf], tree.resources[index], leaf.weight[index])
        for index, amount in need
        if tree.resources[index] in leaf.queue.resources and leaf.allocated[index] + amount > leaf.share[index]
    ]
    yield from ((_QUOTA_COST + len(edits), edits) for edits in _larger_limits(scene, leaf, least, need))
    if entitled(()):
        return
    yield from ((_QUOTA_COST + len(edits), edits) for edits in dict.fromkeys(quotas) if edits and entitled(edits))
    for raised in weights:
        found = fewest(lambda more, by=raised: edits if entitled(edits := by(more)) else None, _MOST_WEIGHT)  # type: ignore[misc]
        if found is not None:
            yield _WEIGHT_COST, found


def limits_and_nodes(scene: Scene, pod: Pod) -> Iterator[tuple[float, Edits]]:
    """Larger limits together with new nodes, as many as will do; a pod without a gang needs no more than one."""
    leaf = scene.state.queues.member(pod.template).leaf
    if leaf is None:
        return
    most = 1 if scene.unit is None else MOST_NODES
    for limits in _larger_limits(scene, leaf, *_needs(scene, pod, leaf)):
        for rank, node in enumerate(kinds_of_nodes(scene.state, pod.template)):

            def grown(count: int, limits: Edits = limits, like: str = node.name) -> Fit | None:
                return scene.trial((*limits, *more_nodes(scene.state, like, count)))

            found = fewest(grown, most)
            if found is not None:
                count = len(found.edits) - len(limits)
                yield _QUOTA_COST + len(limits) + growth_cost(count, rank), found.edits


def _needs(scene: Scene, pod: Pod, leaf: QueueNode) -> tuple[Amounts, Amounts]:
    """What a pod needs, its gang included; and what it needs together with what stands before it in its queue."""
    queues, own = scene.state.queues, scene.members or (pod,)
    return queues.need(own), queues.need((*scene.waiting_before(leaf.name), *own))


def _larger_limits(scene: Scene, leaf: QueueNode, *needs: Amounts) -> list[Edits]:
    """What lets so much into the queue, for each of the needs that does not fit into its limits."""
    resources = scene.state.queues.settle(scene.state).resources
    kinds = {node: queue_kind(scene.state.objects, node.name) for node in leaf.path}
    found = (tuple(_limits(leaf.path, need, resources, kinds)) for need in needs)
    return [edits for edits in dict.fromkeys(found) if edits]


def _limits(
    path: Iterable[QueueNode], need: Amounts, resources: Sequence[str], kinds: Mapping[QueueNode, str]
) -> Iterator[RaiseBound]:
    """Larger limits wherever they are too small."""
    for node in path:
        for index, amount in need:
            limit, wanted = node.limit[index], node.allocated[index] + amount
            if wanted > limit:
                yield RaiseBound(node.name, "limit", resources[index], limit, wanted, kinds[node])


def _quotas(node: QueueNode, need: Amounts, resources: Sequence[str], kind: str) -> Iterator[RaiseBound]:
    for index, amount in need:
        quota, wanted = node.quota[index], node.allocated[index] + amount
        if quota < wanted <= node.limit[index] and quota < UNLIMITED:
            yield RaiseBound(node.name, "quota", resources[index], quota, wanted, kind)


def _weights(leaf: str, kind: str, resource: str, before: int, more: int) -> Edits:
    """A whole weight that is so much larger."""
    return (RaiseBound(leaf, "weight", resource, before, (before // WEIGHT_UNIT + more) * WEIGHT_UNIT, kind),)
