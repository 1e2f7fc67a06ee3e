"""How many pods that a selector matches are on which row, without ever scanning pods.

Pods on nodes are grouped by what selectors see of them: namespace, labels, whether they are being deleted. A counter
for (namespaces, selector) is made on first use from the groups that an index by label pair finds, and from then on
follows the pod events of its groups. Counters that have not been used for long are dropped.

Invariant: a group counts its pods on known nodes; a counter counts those of its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from moorage.core.arrays import Mask, Rows
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.selectorindex import SelectorIndex, demanded_pairs
from moorage.core.selectors import Selector, part_count
from moorage.core.sparsecounts import Counts, SparseCounts
from moorage.core.tally import Tally

K = TypeVar("K")

KEPT_COUNTERS = 8192
KEPT_BYTES = 64 << 20
"""Above this, counters are dropped, least recently used first."""
_IDLE_EVENTS = 1 << 12
_FEWEST_IDLE_EVENTS = 1 << 8
"""A counter that was not used for so many pod events is dropped: every event of its groups has to update it.

The fewer groups there are, the fewer events: a counter is then soon made again.
"""
_MANY_GROUPS = 32
"""More groups than these are counted together, with one call on all of them."""
_MANY_PARTS = 64
"""A question with more is long."""
_KEPT_PARTS = 1 << 15
"""Of long questions together; above this they are dropped, least recently used first. Others are not touched."""
_TRIM_EVERY = 256
"""Memory is measured each time so many counters have been made."""


class CountQuery(NamedTuple):
    """What a counter counts."""

    namespaces: frozenset[str] | None
    """None stands for all."""
    selector: Selector
    live_only: bool = False
    """Whether pods that are being deleted do not count."""

    @property
    def parts(self) -> int:
        """How long it is: every new group of pods is compared with all of it."""
        return part_count(self.selector.requirements) + len(self.namespaces or ())


class LabelGroup:
    """Pods on nodes that look equal to every selector."""

    __slots__ = ("counters", "deleting", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: FrozenDict[str, str], deleting: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.deleting = deleting
        self.rows = SparseCounts()
        self.counters: dict[PodCounter, None] = {}


class PodCounter:
    """The pods that a question is about, by row and by domain; `dropped` once it no longer follows events."""

    __slots__ = ("dropped", "groups", "parts", "question", "tally", "used")

    def __init__(self, question: CountQuery) -> None:
        self.question = question
        self.parts = question.parts
        self.tally = Tally()
        self.groups: dict[LabelGroup, None] = {}
        self.dropped = False
        self.used = 0

    def matches(self, group: LabelGroup) -> bool:
        """Whether the pods of a group count."""
        namespaces, selector, live_only = self.question
        if live_only and group.deleting:
            return False
        return (namespaces is None or group.namespace in namespaces) and selector.matches(group.labels)


class _Flat:
    """The counts of all groups, one entry for each row of each."""

    __slots__ = ("_counts", "_groups", "_numbers", "_rows", "version")

    def __init__(self, groups: list[LabelGroup], version: int) -> None:
        self.version = version
        self._numbers = {group: number for number, group in enumerate(groups)}
        entries = [group.rows.above_zero() for group in groups]
        self._rows: Rows = np.concatenate([rows for rows, _ in entries])
        self._counts: Counts = np.concatenate([counts for _, counts in entries])
        self._groups: Rows = np.repeat(np.arange(len(groups), dtype=np.intp), [len(rows) for rows, _ in entries])

    def sums(self, groups: list[LabelGroup]) -> SparseCounts:
        """How many pods of these groups stand on which row."""
        chosen: Mask = np.zeros(len(self._numbers), dtype=np.bool_)
        chosen[[self._numbers[group] for group in groups]] = True
        entries = chosen.take(self._groups)
        sums = np.bincount(self._rows[entries], self._counts[entries])
        return SparseCounts.of(sums.astype(np.int32))


class PodCounts:
    """All groups, and the counters in use."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, FrozenDict[str, str], bool], LabelGroup] = {}
        self._latest: LabelGroup | None = None
        """The group of the last pod that came: bursts are of one group."""
        self._by_namespace: dict[str, dict[LabelGroup, None]] = {}
        self._by_pair: dict[tuple[str, str, str], dict[LabelGroup, None]] = {}
        self._counters: dict[CountQuery, PodCounter] = {}
        self._selectors: SelectorIndex[PodCounter] = SelectorIndex()
        self._made = 0
        self._long_parts = 0
        """Of all questions that are long."""
        self._clock = 0
        self._swept = 0
        """Where the clock was at the last sweep."""
        self._events = 0
        """Pods that came since then."""
        self._idle_events = _FEWEST_IDLE_EVENTS
        """So many of them lead to the next."""
        self._version = 0
        """Rises with every pod event."""
        self._flat: _Flat | None = None

    # --- pod events ---

    def stand(self, pod: Pod, row: int) -> LabelGroup:
        """A pod stands on a row now; returns the group that it must leave with."""
        template, deleting = pod.template, pod.deleted_s is not None
        group = self._latest
        if (
            group is None
            or template.labels is not group.labels
            or deleting is not group.deleting
            or (template.namespace != group.namespace)
        ):
            group = self._latest = self._group(template.namespace, template.labels, deleting)
        group.rows.add(row, 1)
        for counter in group.counters:
            counter.tally.add(row, 1)
        self._version += 1
        self._events += 1
        if self._events >= self._idle_events:
            self._sweep()
        return group

    def _group(self, namespace: str, labels: FrozenDict[str, str], deleting: bool) -> LabelGroup:
        key = (namespace, labels, deleting)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._new_group(LabelGroup(*key))
        return found

    def leave(self, group: LabelGroup, row: int) -> None:
        """A pod of the group left a row."""
        self._version += 1
        group.rows.add(row, -1)
        for counter in group.counters:
            counter.tally.add(row, -1)
        if not group.rows.total:
            self._forget_group(group)

    def _new_group(self, group: LabelGroup) -> LabelGroup:
        self._by_namespace.setdefault(group.namespace, {})[group] = None
        for key, value in group.labels.items():
            self._by_pair.setdefault((group.namespace, key, value), {})[group] = None
        for counter in self._selectors.candidates(group.labels):
            if counter.matches(group):
                group.counters[counter] = None
                counter.groups[group] = None
        return group

    def _forget_group(self, group: LabelGroup) -> None:
        self._latest = None
        del self._groups[group.namespace, group.labels, group.deleting]
        _discard(self._by_namespace, group.namespace, group)
        for key, value in group.labels.items():
            _discard(self._by_pair, (group.namespace, key, value), group)
        for counter in group.counters:
            del counter.groups[group]

    # --- counters ---

    def counter(self, question: CountQuery) -> PodCounter:
        """The counter for a question, made on first use. Ask again (or call `fresh`) at every decision."""
        found = self._counters.get(question)
        if found is None:
            self._made += 1
            if len(self._counters) >= KEPT_COUNTERS or self._made % _TRIM_EVERY == 0:
                self._trim()
            found = PodCounter(question)
            if found.parts > _MANY_PARTS:
                self._make_room(found.parts)
            self._counters[question] = self._new_counter(found)
        return self.fresh(found)

    def fresh(self, counter: PodCounter) -> PodCounter:
        """The same counter, or a new one in its place if it has been dropped; either way it counts as used."""
        if counter.dropped:
            return self.counter(counter.question)
        self._clock += 1
        counter.used = self._clock
        return counter

    def groups(self) -> Iterator[LabelGroup]:
        """All groups."""
        return iter(self._groups.values())

    def counters(self) -> Iterator[PodCounter]:
        """All counters in use."""
        return iter(self._counters.values())

    def _new_counter(self, counter: PodCounter) -> PodCounter:
        matching = [group for group in self._candidates(counter.question) if counter.matches(group)]
        for group in matching:
            group.counters[counter] = None
            counter.groups[group] = None
        if len(matching) > _MANY_GROUPS:
            counter.tally.add_all(self._flattened().sums(matching))
        else:
            for group in matching:
                counter.tally.add_all(group.rows)
        self._selectors.add(counter, counter.question.selector)
        return counter

    def _flattened(self) -> _Flat:
        """All groups as arrays, for a pod with many terms; kept until the next pod event."""
        if self._flat is None or self._flat.version != self._version:
            self._flat = _Flat(list(self._groups.values()), self._version)
        return self._flat

    def _candidates(self, question: CountQuery) -> Iterator[LabelGroup]:
        """Every group that may match."""
        namespaces: Iterable[str] = self._by_namespace if question.namespaces is None else question.namespaces
        choices = demanded_pairs(question.selector)
        for namespace in namespaces:
            if not choices:
                yield from self._by_namespace.get(namespace, ())
                continue
            found = [[self._by_pair.get((namespace, *pair), {}) for pair in pairs] for pairs in choices]
            for groups in min(found, key=lambda each: sum(map(len, each))):
                yield from groups

    def _sweep(self) -> None:
        """Drop the counters that were not used since the last time."""
        for counter in [each for each in self._counters.values() if each.used <= self._swept]:
            self._drop(counter)
        self._swept, self._events, self._flat = self._clock, 0, None
        self._idle_events = min(max(2 * len(self._groups), _FEWEST_IDLE_EVENTS), _IDLE_EVENTS)

    def _trim(self) -> None:
        """Drop the counters that were asked longest ago until they fit."""
        used = sum([counter.tally.bytes_used for counter in self._counters.values()])
        if used <= KEPT_BYTES and len(self._counters) < KEPT_COUNTERS * 7 // 8:
            return
        for counter in sorted(self._counters.values(), key=lambda each: each.used):
            if used <= KEPT_BYTES and len(self._counters) < KEPT_COUNTERS * 7 // 8:
                return
            used -= counter.tally.bytes_used
            self._drop(counter)

    def _make_room(self, parts: int) -> None:
        """For one more long question."""
        self._long_parts += parts
        if self._long_parts <= _KEPT_PARTS:
            return
        long = [each for each in self._counters.values() if each.parts > _MANY_PARTS]
        for counter in sorted(long, key=lambda each: each.used):
            if self._long_parts <= _KEPT_PARTS * 7 // 8:
                return
            self._drop(counter)

    def _drop(self, counter: PodCounter) -> None:
        counter.dropped = True
        self._long_parts -= counter.parts if counter.parts > _MANY_PARTS else 0
        del self._counters[counter.question]
        self._selectors.remove(counter)
        for group in counter.groups:
            del group.counters[counter]
        counter.groups, counter.tally = {}, Tally()


def _discard(index: dict[K, dict[LabelGroup, None]], key: K, group: LabelGroup) -> None:
    there = index[key]
    del there[group]
    if not there:
        del index[key]
