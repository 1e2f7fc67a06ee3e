"""How a cluster changes over time: resources, queues, pending pods, binds, evictions, waiting times, cost, leaders.

A world tells what happens, with the time; `tick` measures what is kept anyway, at most once per interval. Nothing here
looks at all pods. The number of series is bounded: of resources some that nodes offer or have offered last, of reasons
the most frequent ones, while the others are added up, of queues the largest (`queueseries`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from moorage.core.capacity import Capacity, CapacityTypes
from moorage.core.columns import CPU_COLUMN
from moorage.core.disruption.ledger import OF_THE_KUBELET
from moorage.core.pods import Pod
from moorage.core.resources import CPU, MEMORY
from moorage.core.state import ClusterState
from moorage.views.costs import CostMeter, HourlyCost
from moorage.views.pending import Pending
from moorage.views.queueseries import QueueSeries
from moorage.views.rings import Rings, Stretch, Values
from moorage.views.words import Happening, HappeningKind

CAPACITY, REQUESTED, ALLOCATED = "capacity ", "requested ", "allocated "
"""Prefixes of the gauges of a resource: what nodes offer, what all pods request, what pods on nodes request."""
WAITING = "waiting "
"""Prefix of the gauges of reasons."""
OTHER_REASONS = "other reasons"
BINDS, EVICTIONS = "binds", "evictions"
SPOT_CPU, COST, ON_DEMAND_COST = "spot cpu", "cost", "cost on demand"
WAITED = "waited "
"""Prefix of the counts of pods that were bound, by how long they had waited."""
NODES, PODS = "nodes", "pods"

MOST_RESOURCES = 8
"""That nodes offer at a time; as many again are remembered."""
MOST_REASONS = 10
MOST_LEADERS = 500
MINUTE_S = 60.0
_LATE_S = 10.0
"""A pod that is older than this when it is first seen has waited since it was created."""

BOUNDS_S: tuple[float, ...] = tuple(round(0.05 * 1.25**power, 6) for power in range(65))
"""Upper bounds of the intervals that waiting times are counted in: from 50 ms to 22 hours."""

_EVICTED = frozenset({HappeningKind.EVICTED, HappeningKind.EVICTS})
_LEADERSHIP = frozenset({HappeningKind.LEASE, HappeningKind.LEADS, HappeningKind.STARTED, HappeningKind.ENDED})


class Leader(NamedTuple):
    """From this moment on, this process leads."""

    at_s: float
    lease: str
    holder: str
    """Empty if there is no leader."""


class Series:
    """The series of one world."""

    def __init__(self, state: ClusterState, types: CapacityTypes, costs: CostMeter, rings: Rings) -> None:
        self.rings = rings
        self.pending = Pending()
        self.leaders: deque[Leader] = deque(maxlen=MOST_LEADERS)
        self.version = 0
        """Rises with every interval."""
        self.currency = ""
        self._state = state
        self._types = types
        self._costs = costs
        # The rings may have been another world's before.
        self._last_seen = dict.fromkeys(_named(rings, WAITING), -math.inf)
        """When pods last waited for each reason that has a gauge."""
        self._last_seen.pop(OTHER_REASONS, None)
        self._offered = dict.fromkeys(_named(rings, CAPACITY))
        """The resources that have gauges; those that nodes have offered last come last."""
        self._queues = QueueSeries(rings)

    # --- what happens ---

    def waits(self, pod: Pod, reason: str, now_s: float) -> None:
        """A pod has no node, for this reason."""
        since_s = pod.created_s if now_s - pod.created_s > _LATE_S else now_s
        self.pending.file(pod, reason, since_s)

    def gone(self, uid: str) -> None:
        """A pod was deleted, or has finished."""
        self.pending.leave(uid)

    def placed(self, pod: Pod, now_s: float, *, is_new: bool) -> None:
        """A pod has a node; it may never have been seen without one."""
        wait = self.pending.leave(pod.uid)
        if wait is not None:
            self._bound(now_s, now_s - wait.since_s)
        elif is_new and pod.scheduled_s is not None and not _is_static(pod):
            self._bound(pod.scheduled_s, pod.scheduled_s - pod.created_s)

    def _bound(self, at_s: float, waited_s: float) -> None:
        self.rings.count(BINDS, at_s)
        self.rings.count(f"{WAITED}{min(bisect_left(BOUNDS_S, waited_s), len(BOUNDS_S) - 1)}", at_s)

    def happened(self, happening: Happening) -> None:
        """Count evictions, and note who leads."""
        if happening.what in _EVICTED or happening.facts.get("evicts"):
            self.rings.count(EVICTIONS, happening.at_s)
        elif happening.what in _LEADERSHIP:
            self._leads(happening)

    def _leads(self, happening: Happening) -> None:
        facts = happening.facts
        holder = facts.get("holder", "")
        if happening.what is HappeningKind.LEADS:
            holder = f"term {facts['term']}"
        if holder or self.leaders:
            self.leaders.append(Leader(happening.at_s, happening.key, str(holder)))

    # --- what is kept ---

    def tick(self, now_s: float) -> None:
        """Time goes on: if another interval has begun, measure."""
        if self.rings.is_due(now_s):
            self.measure(now_s)
            self.version += 1

    def measure(self, now_s: float) -> None:
        """The gauges have had their present values since the last event."""
        self.rings.hold(dict(self._gauges(now_s)), now_s)

    def _gauges(self, now_s: float) -> Iterator[tuple[str, float]]:
        state, resources = self._state, self._state.resources
        yield NODES, state.node_count
        yield PODS, state.pod_count
        offered, taken = resources.allocatable.sum(axis=1).tolist(), resources.requested.sum(axis=1).tolist()
        shown = [column for column, name in enumerate(resources.names) if offered[column] and is_charted(name)]
        shown = shown[:MOST_RESOURCES]
        self._remember([resources.names[column] for column in shown])
        for column in shown:
            name = resources.names[column]
            yield CAPACITY + name, offered[column]
            yield ALLOCATED + name, taken[column]
            yield REQUESTED + name, taken[column] + self.pending.requested[name]
        yield from self._reasons(now_s)
        kinds = self._types.column(state)
        if kinds.any():
            yield SPOT_CPU, int(resources.requested[CPU_COLUMN][kinds == Capacity.SPOT].sum())
        yield from self._cost(self._costs.now())
        yield from self._queues.gauges(state)

    def _remember(self, names: list[str]) -> None:
        """These are offered; what was offered longest ago is forgotten where there are too many."""
        for name in names:
            self._offered.pop(name, None)
            self._offered[name] = None
        while len(self._offered) > 2 * MOST_RESOURCES:
            oldest = next(iter(self._offered))
            del self._offered[oldest]
            for prefix in (CAPACITY, ALLOCATED, REQUESTED):
                self.rings.forget(prefix + oldest)

    def _cost(self, cost: HourlyCost | None) -> Iterator[tuple[str, float]]:
        if cost is not None:
            self.currency = cost.currency
            yield COST, cost.total
            yield ON_DEMAND_COST, cost.total + cost.saved

    def _reasons(self, now_s: float) -> Iterator[tuple[str, float]]:
        """The most frequent reasons; what there is no room for is added up."""
        frequent = dict(self.pending.reasons.most_common(MOST_REASONS))
        self._last_seen |= dict.fromkeys(frequent, now_s)
        while len(self._last_seen) > MOST_REASONS:
            oldest = min(self._last_seen, key=lambda reason: (reason in frequent, self._last_seen[reason]))
            del self._last_seen[oldest]
            self.rings.merge(WAITING + oldest, WAITING + OTHER_REASONS)
        for reason in self._last_seen:
            yield WAITING + reason, frequent.get(reason, 0)
        others = self.pending.reasons.total() - sum(frequent.values())
        if others or WAITING + OTHER_REASONS in self.rings.gauges():
            yield WAITING + OTHER_REASONS, others


def _named(rings: Rings, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in rings.gauges() if name.startswith(prefix)]


def is_charted(name: str) -> bool:
    """Whether a resource has a chart: cpu, memory, and what vendors and device plugins offer."""
    return name in (CPU, MEMORY) or ("/" in name and not name.startswith("attachable-volumes"))


def _is_static(pod: Pod) -> bool:
    owner = pod.template.owner
    return owner is not None and owner.kind == OF_THE_KUBELET


def minutes(stretch: Stretch) -> Stretch:
    """Binds, evictions and waits of the minute that ends with each interval, or of the interval where it is longer."""
    width = max(1, round(MINUTE_S / stretch.step_s))
    counted = {name: values for name, values in stretch.series.items() if name.startswith((BINDS, EVICTIONS, WAITED))}
    series: dict[str, Values] = {}
    for name, values in counted.items():
        reached = np.pad(values.cumsum(), (width, 0))
        series[name] = reached[width:] - reached[:-width]
    return Stretch(stretch.step_s, stretch.ends_s, series)


def per_minute(lately: Stretch, name: str) -> Values:
    """A rate of each minute, float64[intervals]; NaN where too little of the time is known."""
    width = max(1, round(MINUTE_S / lately.step_s))
    begins_s = np.concatenate([lately.ends_s[:1] - lately.step_s, lately.ends_s[:-1]])
    first = np.maximum(np.arange(len(begins_s)) - width + 1, 0)
    known_s = lately.ends_s - begins_s[first]
    rates = np.full(len(known_s), np.nan)
    np.divide(np.nan_to_num(lately.of(name)) * MINUTE_S, known_s, out=rates, where=known_s > lately.step_s / 2)
    return rates


def percentiles(stretch: Stretch, shares: tuple[float, ...]) -> list[Values]:
    """How long pods had waited that were bound in each interval, float64[intervals] for each share of them.

    NaN where none was bound. Times are exact to the bounds between which they are counted.
    """
    counts = np.array([np.nan_to_num(stretch.of(f"{WAITED}{place}")) for place in range(len(BOUNDS_S))])
    total = counts.sum(axis=0)
    reached = counts.cumsum(axis=0)
    bounds = np.array([0.0, *BOUNDS_S])
    found = []
    for share in shares:
        wanted = share * total
        place = (reached < wanted).sum(axis=0).clip(max=len(BOUNDS_S) - 1)
        inside = np.take_along_axis(counts, place[None], axis=0)[0]
        before = np.take_along_axis(reached, place[None], axis=0)[0] - inside
        part = np.divide(wanted - before, inside, out=np.zeros_like(total), where=inside > 0)
        values = bounds[place] + part * (bounds[place + 1] - bounds[place])
        found.append(np.where(total > 0, values, np.nan))
    return found
