"""Why a pod of a queue waits, in words: what each level has and may have, and whether others have to give way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from moorage.core.disruption.ledger import DisruptionReason, least_run_s
from moorage.core.gangs import lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.phrases import counted
from moorage.core.pods import Pod
from moorage.core.quantity import format_fine
from moorage.core.queues import bound_text
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.core.reclaiming import may_reclaim, parting
from moorage.core.state import ClusterState


def queue_reasons(state: ClusterState, pod: Pod, now_s: float) -> tuple[str, ...]:
    """A line for each level and resource, and what follows from it; nothing for a pod without a queue."""
    queues = state.queues
    if not queues.active:
        return ()
    tree = queues.settle(state)
    member = queues.member(pod.template)
    if member.leaf is None:
        return (member.problem,) if member.problem else ()
    need, what = _need(state, pod), "pod" if pod.template.gang is None else "gang"
    told = (*_levels(tree, member.leaf, need), _verdict(member.leaf, need, what, preemptible=member.preemptible))
    reclaims = may_reclaim(member.leaf, need, preemptible=member.preemptible)
    return (*told, *_spared(state, member.leaf, need, now_s)) if reclaims else told


def may_take_back(state: ClusterState, pod: Pod, now_s: float) -> bool:
    """Whether the queue of a pod that waits may take for it, or for its gang, all that others have beyond their shares:
    none of it is spared.
    """
    member = state.queues.member(pod.template) if state.queues.active else None
    if member is None or member.leaf is None:
        return False
    state.queues.settle(state)
    need = _need(state, pod)
    if not may_reclaim(member.leaf, need, preemptible=member.preemptible):
        return False
    return next(_spared(state, member.leaf, need, now_s), None) is None


def beyond_share(tree: QueueTree, leaf: QueueNode, need: Amounts) -> str:
    """The first level whose share is too small for this beside what it has, in a few words; empty if there is none.

    Made for every attempt in vain, so it only reads what was counted anyway.
    """
    more = dict(need)
    for node in leaf.path:
        for index in (*more, *(each for each in range(len(tree.resources)) if each not in more)):
            has, share, amount = node.allocated[index], node.share[index], more.get(index, 0)
            if has + amount > share and tree.resources[index] in node.queue.resources:
                wanted = "" if has >= share else f" and asks for {format_fine(tree.resources[index], amount)} more"
                return f"{_level(tree, node, index)}{wanted}"
    return ""


def _need(state: ClusterState, pod: Pod) -> Amounts:
    gang = pod.template.gang
    return state.queues.need((pod,)) if gang is None else _gang_need(state, gang, pod)


def _gang_need(state: ClusterState, key: GangKey, pod: Pod) -> Amounts:
    """What the next members of a gang need together: as many as it lacks to its minimum, or one."""
    ledger = state.queues
    others = (each for each, _, holds in ledger.entries() if each.template.gang == key and not holds)
    members = {each.uid: each for each in (*others, pod)}
    terms = terms_of(state, key, list(members.values()))
    least = len(members) if terms is None or terms.min_count is None else terms.min_count
    count = max(1, least - len(lasting(state, key)))
    return ledger.need(list(members.values())[:count])


def _spared(state: ClusterState, leaf: QueueNode, need: Amounts, now_s: float) -> Iterator[str]:
    """What queues beyond their share have that cannot be taken back, and why not; a line for each queue and reason."""
    fixed, young = Counter[str](), Counter[str]()
    least: dict[str, float] = {}
    for pod, member, holds in state.queues.entries():
        if not holds or member.leaf is None or member.leaf is leaf:
            continue
        theirs = parting(leaf, member.leaf)[1]
        if not any(theirs.allocated[index] > theirs.allocatable[index] for index, _ in need):
            continue
        period_s = least_run_s(theirs.path, DisruptionReason.RECLAIM) or 0.0
        if not member.preemptible:
            fixed[theirs.name] += 1
        elif period_s and now_s - running_since_s(pod, now_s) < period_s:
            young[theirs.name] += 1
            least[theirs.name] = period_s
    for name, count in sorted(fixed.items()):
        yield f"queue {name} is beyond its share, and {counted(count, 'pod')} of it may not be evicted"
    for name, count in sorted(young.items()):
        start = f"queue {name} is beyond its share, and {counted(count, 'pod')} of it"
        yield f"{start} cannot be evicted in the first {least[name]:g} s (reclaimMinRuntime)"


def running_since_s(pod: Pod, now_s: float) -> float:
    """Since when a pod has run; one that has not started since now."""
    since_s = pod.scheduled_s if pod.started_s is None else pod.started_s
    return now_s if since_s is None else since_s


def _levels(tree: QueueTree, leaf: QueueNode, need: Amounts) -> Iterator[str]:
    for node in leaf.path:
        for index, _ in need:
            name = tree.resources[index]
            if name in node.queue.resources:
                yield f"{_level(tree, node, index)} (quota {bound_text(name, node.quota[index], 'no end')})"


def _level(tree: QueueTree, node: QueueNode, index: int) -> str:
    name = tree.resources[index]
    has, share = (format_fine(name, each[index]) for each in (node.allocated, node.share))
    return f"queue {node.name} has {has} of its fair share of {share} {name}"


def _verdict(leaf: QueueNode, need: Amounts, what: str, *, preemptible: bool) -> str:
    start = f"with this {what} queue {leaf.name}"
    if may_reclaim(leaf, need, preemptible=preemptible):
        return f"{start} stays within its share: it may take back what others have beyond theirs"
    return f"{start} would be beyond its share: no other queue has to give anything up for it"


def reclaim_reason(tree: QueueTree, taker: QueueNode, giver: QueueNode) -> str:
    """By which rule one leaf takes something from another, and whose numbers count: those where their paths part."""
    ours, theirs = parting(taker, giver)
    for index, resource in enumerate(tree.resources):
        has, share, quota = theirs.allocated[index], theirs.share[index], theirs.quota[index]
        if has > theirs.allocatable[index]:
            kind, most = ("fair share", share) if share >= quota else ("quota", quota)
            start = f"queue {theirs.name} had {format_fine(resource, has)} {resource}"
            return f"{start} and its {kind} is {format_fine(resource, most)}"
    for index, resource in enumerate(tree.resources):
        has, quota = theirs.allocated[index], theirs.quota[index]
        if has > quota:
            start = f"queue {theirs.name} had {format_fine(resource, has)} {resource}"
            return f"{start} and its quota is {format_fine(resource, quota)}; queue {ours.name} stays within its own"
    return ""
