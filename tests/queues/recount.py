"""What queues have and may have, counted by plain loops over everything; the ledger has to agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moorage.core.fairshare import Claim, divide
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue
from moorage.core.state import ClusterState

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
PARTS = {"cpu": 1, "memory": 1, "nvidia.com/gpu": 1000}
"""Into how many parts queues divide a unit of what pods request."""
Counts = dict[str, Counter[str]]


def recount(state: ClusterState, waiting: Sequence[Pod]) -> tuple[Counts, dict[str, dict[str, int]]]:
    """Queue -> what its pods have or are promised, and its fair share, by resource; `waiting` have no node."""
    queues: dict[str, Queue] = state.objects[QUEUE]
    allocated: Counts = {name: Counter() for name in queues}
    requested: Counts = {name: Counter() for name in queues}
    for record in state.records():
        for name in _path(queues, record.pod):
            allocated[name].update(_counted(record.pod))
            requested[name].update(_counted(record.pod))
    for pod in waiting:
        for name in _path(queues, pod) if state.record(pod.uid) is None else ():
            requested[name].update(_counted(pod))
            if state.nominations.node_of(pod.uid) is not None:
                allocated[name].update(_counted(pod))
    shares: dict[str, dict[str, int]] = {name: {} for name in queues}
    for resource in RESOURCES:
        offered = sum(state.node(int(row)).allocatable.get(resource, 0) for row in state.rows())
        _share_out(queues, requested, shares, "", resource, offered * PARTS[resource])
    return allocated, shares


def _counted(pod: Pod) -> dict[str, int]:
    return {name: amount * PARTS[name] for name, amount in pod.requests.amounts}


def _path(queues: dict[str, Queue], pod: Pod) -> list[str]:
    path = [pod.template.labels[QUEUE_LABEL]]
    while queues[path[-1]].parent:
        path.append(queues[path[-1]].parent)
    return path


def _share_out(
    queues: dict[str, Queue],
    requested: Counts,
    shares: dict[str, dict[str, int]],
    parent: str,
    resource: str,
    amount: int,
) -> None:
    children = [queue for queue in queues.values() if queue.parent == parent]
    claims = []
    for queue in children:
        terms = queue.share_of(resource)
        wanted = min(terms.limit, requested[queue.name][resource])
        claims.append(Claim(queue.name, wanted, terms.quota, terms.weight, queue.priority, queue.created_s))
    for name, share in divide(amount, claims, unit=PARTS[resource]).items():
        shares[name][resource] = share
        _share_out(queues, requested, shares, name, resource, share)
