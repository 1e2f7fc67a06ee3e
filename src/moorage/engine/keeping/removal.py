"""In which order a workload's pods should be removed when it is scaled down, as deletion costs.

The ReplicaSet controller removes pods with a lower deletion cost first (among pods that are ready). `keep_order` sorts
the pods of a strategy by how long they should be kept: at every smaller number, the remaining pods match the strategy's
targets for that number as closely as the present pods allow. `numbered` gives them costs that decrease in this order
and keeps as many of the present costs as it can, so that little has to be written. `host_keepers` does the same for a
rule about hosts, where it is enough that one pod on each of the required hosts stays, and `capacity_levels` for a rule
about spot and on-demand nodes.

Invariants: a rule never keeps fewer pods than the smaller of its pods and its target; costs of an order decrease
strictly and are above 0, the value of pods without a cost, so new pods are removed first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from moorage.core.capacity import Capacity
from moorage.core.strategy import Strategy, sequence

TOP = 1_000_000
ABOVE = 2 * TOP
"""What pods cost that remain longer than all others because of the capacity that they are on, and the negated cost of
those that are removed first."""
STEP = 10
"""Gap between two costs, so that a pod can be inserted without writing the others again."""
_MOST_STRATEGIES = 100

T = TypeVar("T")


class Sequences:
    """Which rule the first, second, third pod of a strategy goes to; computed once for each strategy."""

    def __init__(self) -> None:
        self._known: dict[Strategy, tuple[list[int], Iterator[int]]] = {}

    def of(self, strategy: Strategy, pods: int) -> list[int]:
        """The rules of at least this many pods. Do not change the list."""
        found = self._known.get(strategy)
        if found is None:
            if len(self._known) >= _MOST_STRATEGIES:
                self._known.clear()
            found = self._known[strategy] = [], sequence(strategy)
        rules, coming = found
        rules.extend(islice(coming, max(0, pods - len(rules))))
        return rules


def keep_order(sequence: Sequence[int], by_rule: Sequence[Sequence[T]], strays: Sequence[T] = ()) -> list[T]:
    """All pods, the one to be kept longest first.

    `sequence` is the strategy's (`Sequences.of`), `by_rule` the pods of each rule in the order in which they should be
    kept, `strays` those on nodes that match no rule.
    """
    counts = [len(pods) for pods in by_rule]
    number = sum(counts)
    wanted = [0] * len(counts)
    for rule in sequence[:number]:
        wanted[rule] += 1
    removed: list[T] = []
    for size in range(number, 0, -1):
        wanted[sequence[size - 1]] -= 1
        most = max(range(len(counts)), key=lambda rule: (counts[rule] - wanted[rule], rule))
        counts[most] -= 1
        removed.append(by_rule[most][counts[most]])
    return [*reversed(removed), *strays]


def numbered(costs: Sequence[int | None]) -> list[int]:
    """The costs that pods should have, in keep order, given those that they have."""
    kept = _longest_fall(costs)
    found = _filled(costs, kept)
    return found if found is not None else [TOP - STEP * place for place in range(1, len(costs) + 1)]


def host_keepers(pods: Sequence[tuple[Hashable, bool]], hosts: int) -> list[bool]:
    """Which pods should be marked to stay, so that pods remain on `hosts` hosts.

    `pods` has the host of each pod and whether it is marked now, preferred ones first. Marks that do no harm stay; no
    pod is marked if every host has one pod, as then any of them may be removed.
    """
    per_host = [host for host, _ in pods]
    if len(set(per_host)) == len(per_host):
        return [marked for _, marked in pods]
    covered: set[Hashable] = set()
    found = []
    for host, marked in pods:
        found.append(marked and host not in covered)
        if marked:
            covered.add(host)
    for index, host in enumerate(per_host):
        if len(covered) >= hosts:
            break
        if host not in covered:
            covered.add(host)
            found[index] = True
    return found


def capacity_levels(pods: Sequence[tuple[Capacity, bool]], kept: int | None) -> list[int]:
    """1 for pods that should remain longest, -1 for those that should be removed first, 0 for the others.

    `pods` has the capacity of each pod's node and whether it is marked to remain now, preferred ones first; `kept` of
    them should remain on on-demand nodes (None: all), the others on spot nodes. All 0 where every pod is on the same.
    """
    if len({kind for kind, _ in pods}) <= 1:
        return [0] * len(pods)
    steady = [index for index, (kind, _) in enumerate(pods) if kind is Capacity.ON_DEMAND]
    steady.sort(key=lambda index: not pods[index][1])
    found = [0] * len(pods)
    for place, index in enumerate(steady):
        found[index] = 1 if kept is None or place < kept else -1
    return found


def _longest_fall(costs: Sequence[int | None]) -> list[int]:
    """Indices of the longest strictly decreasing subsequence of usable costs."""
    ends: list[int] = []
    """The negated cost at the end of the best subsequence of each length."""
    last: list[int] = []
    """The index of that cost."""
    before: dict[int, int | None] = {}
    for place, cost in enumerate(costs):
        if cost is None or not 0 < cost < ABOVE:
            continue
        length = bisect_left(ends, -cost)
        before[place] = last[length - 1] if length else None
        if length == len(ends):
            ends.append(-cost)
            last.append(place)
        else:
            ends[length], last[length] = -cost, place
    found: list[int] = []
    current: int | None = last[-1] if last else None
    while current is not None:
        found.append(current)
        current = before[current]
    return found[::-1]


def _filled(costs: Sequence[int | None], kept: Sequence[int]) -> list[int] | None:
    """All costs with those at these indices kept and the others put in between; None if a gap is too small."""
    found: list[int] = []
    high: int | None = None
    for place in kept:
        low = costs[place] or 0
        missing = place - len(found)
        step = STEP if high is None else min(STEP, (high - low) // (missing + 1))
        if step == 0:
            return None
        found += [low + step * (missing - index) for index in range(missing)]
        found.append(low)
        high = low
    high = TOP if high is None else high
    found += [high - STEP * index for index in range(1, len(costs) - len(found) + 1)]
    return found if not found or found[-1] > 0 else None
