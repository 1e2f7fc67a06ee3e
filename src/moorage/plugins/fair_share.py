"""FairShare: queues share the cluster.

The engine orders waiting pods by their queues, keeps queues within their limits and makes room for what a queue may
have (`engine.sharing`) for every profile that has this plugin; its arguments say how. Here is what keeps a single pod
from being placed: a limit, or the quota for pods that may not be evicted, of its queue or of one above it.

Pods without a queue are no concern of it, and nothing is done at all while there is no Queue object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from moorage.core.edits import DropLabel, LowerRequest, RaiseBound
from moorage.core.objects import NAMESPACE
from moorage.core.pods import PodTemplate
from moorage.core.quantity import fineness, format_fine
from moorage.core.queueorder import shortage
from moorage.core.queues import DEFAULT_PRIORITY, PREEMPTIBLE_LABEL, QUEUE_KINDS, queue_kind
from moorage.core.queuetree import QueueNode
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy, lowering_cost
from moorage.framework.status import Status, unresolvable

_MOST = 2**31 - 1
_YEAR_S = 31_536_000


class FairShareArgs(PluginArgs):
    """Which pods belong to which queue, and how room is made for them."""

    default_queue: Annotated[str, Field(max_length=253)] = ""
    """The queue of pods that name none, nor does their namespace; without it they have none."""
    preemptible_below: Annotated[int, Field(ge=-_MOST, le=_MOST)] = DEFAULT_PRIORITY
    """Pods of lower priority may be evicted for other queues, unless a label says otherwise."""
    consolidate: bool = True
    """Whether pods are moved to other nodes so that a waiting one fits."""
    stale_gang_seconds: Annotated[float, Field(ge=-1, le=86_400)] = 60.0
    """A gang that has lost so many members that too few are left is evicted after this time; -1: never."""
    reclaim_multiplier: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """How much further beyond its share a queue must be than the one that takes something from it."""
    pdb_policy: Literal["BestEffort", "Strict"] = "BestEffort"
    """Strict: no pod is evicted if that violates a disruption budget."""
    max_evictions_per_minute: Annotated[int, Field(ge=0, le=_MOST)] = 10_000
    """Evictions for shares in any minute; 0 means no limit."""
    wait_for_ends_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Nobody is evicted for a unit for which pods that end by themselves make room within this time, at the rate of the
    last ten seconds; 0: others are evicted at once."""
    min_runtime_seconds: Annotated[float, Field(ge=0, le=86_400)] = 5.0
    """A pod that the scheduler has placed stays for this long at least, where its queues say nothing about it. This of
    the first profile counts for all."""
    usage_factor: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How much what a queue used lately lowers its part of what the quotas leave; 0: not at all. This and the next two
    of the first profile count for all, as they share one tree of queues."""
    usage_half_life_seconds: Annotated[float, Field(ge=0, le=_YEAR_S)] = 0.0
    """After this time what was used counts half as much; 0: all of the window counts alike."""
    usage_window_seconds: Annotated[float, Field(ge=60, le=_YEAR_S)] = 604_800.0
    """What was used before does not count."""


class FairShare(Plugin):
    """Keeps queues within their limits; the engine does the rest."""

    name: ClassVar[str] = "FairShare"
    Args: ClassVar[type[PluginArgs]] = FairShareArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.OBJECT | What.POD_REMOVED | What.POD_UPDATED | What.NODE_ADDED | What.NODE_ALLOCATABLE | What.SELF
    )
    kinds: ClassVar[frozenset[str]] = frozenset({*QUEUE_KINDS, NAMESPACE})

    def __init__(self, args: FairShareArgs | None = None) -> None:
        self.args: FairShareArgs = args or FairShareArgs()

    @property
    def sharing_terms(self) -> FairShareArgs:
        """How the engine shares the cluster."""
        return self.args

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether pods of this template belong to a queue that could run into a limit."""
        return state.queues.active and state.queues.bounded(template)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse a pod that would take a queue beyond what it may have."""
        queues = cycle.state.queues
        if queues.has_room(cycle.pod) or not queues.active:
            return None
        entry = queues.about(cycle.pod)
        demand = entry.demand
        if demand.leaf is None:
            return unresolvable(demand.problem) if demand.problem else None
        found = None if entry.holds else shortage(demand.leaf, queues.needed(entry), preemptible=demand.preemptible)
        if found is None:
            return None
        node, index, is_quota = found
        resource = queues.tree.resources[index]
        bound, used = (node.quota, node.fixed) if is_quota else (node.limit, node.allocated)
        what, whose = ("quota", " for pods that may not be evicted") if is_quota else ("limit", "")
        most, has = format_fine(resource, bound[index]), format_fine(resource, used[index])
        return unresolvable(f"queue {node.name} has {has} of its {what} of {most} {resource}{whose}")

    def helps(self, template: PodTemplate, change: Change) -> bool:  # noqa: ARG002 - part of the interface
        """Any queue, and any pod that leaves, may; of those that stay one with other labels or requests."""
        before, after = change.before, change.pod
        if change.what != What.POD_UPDATED or before is None or after is None:
            return True
        return before.requests != after.requests or before.template != after.template

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Larger limits or quotas wherever they are too small, a smaller request, or a pod that may be evicted."""
        queues = rejected.state.queues
        member = queues.member(rejected.pod.template)
        if member.leaf is None:
            return
        need = queues.need((rejected.pod,))
        kinds = {node: queue_kind(rejected.state.objects, node.name) for node in member.leaf.path}
        short = [
            _Short(node, bound, queues.tree.resources[index], index, bounds[index], used[index] + amount, kinds[node])
            for node in member.leaf.path
            for index, amount in need
            for bound, bounds, used in (("limit", node.limit, node.allocated), ("quota", node.quota, node.fixed))
            if used[index] + amount > bounds[index] and not (bound == "quota" and member.preemptible)
        ]
        # What stands before the pod in its queue is served first, so a limit may have to be enough for all that waits.
        least, ample = (tuple(each.raised(all_waiting=every) for each in short) for every in (False, True))
        if least:
            yield Remedy(least, 2.0 + len(least))
        if ample != least:
            yield Remedy(ample, 3.0 + len(ample))
        yield from _smaller(rejected, short)
        if not member.preemptible and PREEMPTIBLE_LABEL in rejected.pod.template.labels:
            yield Remedy((DropLabel(PREEMPTIBLE_LABEL),), 4.0)


class _Short(NamedTuple):
    """A limit or a quota that is too small."""

    node: QueueNode
    bound: str
    resource: str
    number: int
    most: int
    needed: int
    kind: str

    def raised(self, *, all_waiting: bool) -> RaiseBound:
        """The same, large enough for the pod, or for all that waits in the queue."""
        needed = self.needed
        if all_waiting and self.bound == "limit":
            needed = max(needed, self.node.requested[self.number])
        return RaiseBound(self.node.name, self.bound, self.resource, self.most, needed, self.kind)


def _smaller(rejected: Rejected, short: Iterable[_Short]) -> Iterator[Remedy]:
    """Smaller requests, of which there is enough."""
    lacking: dict[str, int] = {}
    for each in short:
        units = -(-(each.needed - each.most) // fineness(each.resource))
        lacking[each.resource] = max(lacking.get(each.resource, 0), units)
    wanted = {name: rejected.pod.template.requests.get(name) for name in lacking}
    if lacking and all(wanted[name] > amount for name, amount in lacking.items()):
        lowered = {name: wanted[name] - amount for name, amount in lacking.items()}
        cost = sum(lowering_cost(wanted[name], amount) for name, amount in lowered.items())
        yield Remedy(tuple(LowerRequest(name, amount) for name, amount in lowered.items()), cost)
