"""Kept answers: per class of equal pods, which rows pass and what they score, repaired only where rows changed.

A *class* is the tuple of what the plugins of a profile read of a pod (`Plugin.sign`). Answers of plugins that read only
the node live in a `NodeView`, shared by all classes that look equal to those plugins; answers of plugins that also read
the pods on the node are added in a `ClassView`. Plugins that read anything else are asked at every decision.

Invariant: after `refresh`, a view equals one built anew; `tests/framework/test_views.py` compares after random events.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.framework.contract import FilterPlugin, Normalize, PreScore, RowFilter, RowScore, ScorePlugin
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.ties import Ties

INFEASIBLE = -1
"""The rank of a row that some filter rejected; scores are never negative."""

_LOWEST = -(1 << 63)
"""The raw score of a row that some filter rejected."""
_KNOWN_AMOUNTS = 4096
_NO_RANK: Ints = np.zeros(0, dtype=np.int64)

_ROW_BY_ROW = 8
"""Up to this many changed rows are repaired one by one, more with one call on all of them; so are any two of a class
with raw scores, which are computed for many rows as fast as for one."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """A score plugin with its weight."""

    plugin: ScorePlugin
    weight: int
    prepares: PreScore | None = None
    """The plugin, if it has a PreScore."""
    normalizes: Normalize | None = None
    """The plugin, if its scores mean something only over the feasible rows."""
    best_stays_best: bool = False
    """Whether normalising leaves the best rows the best (`BestStaysBest`)."""


@dataclass(slots=True)
class RawColumn:
    """Raw scores of a normalising plugin, int64[capacity]; `flat` while all living rows have the same one."""

    scorer: Scorer
    normalizer: Normalize
    values: Ints
    flat: bool = True


class NodeView:
    """What the plugins that read only nodes say: `mask` bool[capacity], `fixed` int64[capacity] and raw columns."""

    def __init__(self, filters: tuple[FilterPlugin, ...], scorers: tuple[Scorer, ...]) -> None:
        self._filters = filters
        self._scorers = tuple(s for s in scorers if s.normalizes is None)
        nothing: Ints = np.zeros(0, dtype=np.int64)
        self.raws = [RawColumn(s, s.normalizes, nothing) for s in scorers if s.normalizes is not None]
        self._keyed = _with_epoch(filters, scorers)
        self.scorer_names = tuple([scorer.plugin.name for scorer in scorers])
        self.scores = bool(self._scorers)
        """Whether `fixed` can be anything but 0."""
        self.version = 0
        """Rises whenever all rows were judged again."""
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        self.fixed: Ints = np.zeros(0, dtype=np.int64)
        self.all_pass = False
        """Whether every living row passes, so that `state.rows()` itself can be used."""
        self.flat = True
        """Whether no raw column can tell living rows apart."""
        self._position = -1
        self._epochs: list[Hashable] = []

    def refresh(self, cycle: Cycle) -> None:
        """Bring the columns up to date."""
        state = cycle.state
        log = state.node_log
        if self._position == log.position and not self._keyed:
            return
        epochs = [plugin.epoch(state) for plugin in self._keyed]
        if self._position == log.position and epochs == self._epochs:
            return
        changed = log.since(self._position) if len(self.mask) == state.capacity and epochs == self._epochs else None
        if changed is None or len(changed) > state.capacity // 4:
            self._position = -1  # all rows once more, should a plugin raise now
            self._build(cycle)
        else:
            self._fill(cycle, _living(state, changed))
            self._blank(state, changed)
        self._position, self._epochs = log.position, epochs
        self.all_pass = bool(np.count_nonzero(self.mask) == state.node_count)
        self.flat = all(raw.flat for raw in self.raws)

    def _build(self, cycle: Cycle) -> None:
        state = cycle.state
        self.mask = np.zeros(state.capacity, dtype=np.bool_)
        self.fixed = np.zeros(state.capacity, dtype=np.int64)
        for raw in self.raws:
            raw.values = np.zeros(state.capacity, dtype=np.int64)
        self.version += 1
        self._fill(cycle, state.rows())

    def _fill(self, cycle: Cycle, rows: Rows) -> None:
        if not len(rows):
            return
        good = passing(self._filters, cycle, rows)
        self.mask[rows] = True if good is None else good
        self.fixed[rows] = weighted(self._scorers, cycle, rows)
        for raw in self.raws:
            raw.values[rows] = raw.scorer.plugin.score(cycle, rows)
            everywhere = raw.values[cycle.state.rows()]
            raw.flat = bool((everywhere == everywhere[0]).all())

    def _blank(self, state: ClusterState, rows: Iterable[int]) -> None:
        for row in rows:
            if not state.alive[row]:
                self.mask[row] = False


class _RowRank:
    """Asks plugins about one row: the sum of their weighted scores, or INFEASIBLE."""

    __slots__ = ("_filters", "_scorers", "asks")

    def __init__(self, filters: list[FilterPlugin], scorers: list[Scorer]) -> None:
        self._filters = [_row_filter(plugin) for plugin in filters]
        self._scorers = [(_row_score(scorer.plugin), scorer.weight) for scorer in scorers]
        self.asks = bool(filters or scorers)

    def __call__(self, cycle: Cycle, row: int) -> int:
        for passes in self._filters:
            if not passes(cycle, row):
                return INFEASIBLE
        rank = 0
        for score, weight in self._scorers:
            rank += weight * score(cycle, row)
        return rank


class PodPlugins:
    """The plugins that read the pods on a node; shared by the classes that the same plugins skip."""

    __slots__ = (
        "by_amounts",
        "by_pods",
        "filters",
        "keyed",
        "normalizing",
        "one_orders",
        "raw_rows",
        "scorer_names",
        "scorers",
    )

    def __init__(self, filters: tuple[FilterPlugin, ...], scorers: tuple[Scorer, ...]) -> None:
        self.filters = filters
        self.normalizing = tuple([scorer for scorer in scorers if scorer.normalizes is not None])
        """Their raw scores are kept; what they mean depends on the other feasible rows."""
        self.one_orders = len(self.normalizing) == 1 and self.normalizing[0].best_stays_best
        """Whether there is one of them, and it may decide without the others (`ClassView.leading`)."""
        self.scorer_names = tuple([scorer.plugin.name for scorer in scorers])
        self.keyed = _with_epoch(filters, scorers)
        self.raw_rows = tuple([_row_score(scorer.plugin) for scorer in self.normalizing])
        scorers = self.scorers = tuple([scorer for scorer in scorers if scorer.normalizes is None])
        self.by_amounts = _RowRank(
            [p for p in filters if p.reads is Reads.AMOUNTS], [s for s in scorers if s.plugin.reads is Reads.AMOUNTS]
        )
        self.by_pods = _RowRank(
            [p for p in filters if p.reads is not Reads.AMOUNTS],
            [s for s in scorers if s.plugin.reads is not Reads.AMOUNTS],
        )


class ClassView:
    """What all keepable plugins say about a class of equal pods.

    `rank` is int64[capacity]: the sum of the weighted scores that need no normalisation, INFEASIBLE where a filter
    rejects.
    """

    def __init__(self, nodes: NodeView, plugins: PodPlugins, spare: Ints | None = None) -> None:
        """Make a view; `spare` is the rank array of a dropped one, reused because fresh memory is slow."""
        self.nodes = nodes
        self._plugins = plugins
        self.rank: Ints = _NO_RANK if spare is None else spare
        self.ranks: Ints = _NO_RANK
        """`rank` without the rows above the highest living one."""
        self.feasible = 0
        """Number of rows that all kept filters pass."""
        self._level: int | None = None
        """The rank of all feasible rows; None if they differ, or did since the view was built."""
        self.ties = Ties()
        """Of `leading`."""
        self.raws = [RawColumn(s, s.normalizes, _NO_RANK) for s in plugins.normalizing if s.normalizes is not None]
        """Of the plugins that normalise and read the pods on a node; `_LOWEST` where a row is not feasible."""
        self._known: dict[bytes, int] = {}
        """Ranks by amounts, for rows whose amounts become those that another row had before."""
        self._node_position = -1
        self._pod_position = -1
        self._layout = -1
        self._epochs: list[Hashable] = []
        self._version = -1

    def refresh(self, cycle: Cycle) -> None:
        """Bring `rank` up to date."""
        state = cycle.state
        if state.shared_devices.followed:
            state.shares()  # notes rows on which devices changed hands
        node_end, pod_end = state.node_log.position, state.pod_log.position
        self.nodes.refresh(cycle)
        changed = self._changed_rows(state, node_end)
        if changed is None:
            self._version = -1  # all rows once more, should a plugin raise now
            self._build(cycle)
            self._version = self.nodes.version
        elif len(changed) <= (1 if self.raws else _ROW_BY_ROW):
            for row in changed:
                self._repair(cycle, row)
        else:
            rows = np.array(sorted(set(changed)), dtype=np.intp)
            before = np.count_nonzero(self.rank.take(rows) >= 0)
            self.rank[rows] = INFEASIBLE
            for raw in self.raws:
                raw.values[rows] = _LOWEST
            passed, total = self._judge(cycle, rows[self.nodes.mask[rows]])
            self.rank[passed] = total
            self.feasible += len(passed) - int(before)
            if self._level is not None and (total != self._level).any():
                self._level = None
        if changed is None or self._node_position != node_end:
            self._node_position, self.ranks = node_end, self.rank[: state.height]
            self.ties.forget()  # another node may have come to a row and rank as well as the one before
        self._pod_position = pod_end

    def leading(self) -> Ints | None:
        """What alone decides between the rows: ranks, or raw scores where all ranks are equal; None if nothing does."""
        if not self.raws:
            return self.ranks
        if self._level is None or not self._plugins.one_orders:
            return None
        return self.raws[0].values[: len(self.ranks)]

    @property
    def scorer_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plugins whose scores are kept here: those that read nodes only, and the others."""
        return self.nodes.scorer_names, self._plugins.scorer_names

    def feasible_rows(self) -> Rows:
        """Rows that all kept filters pass, ascending."""
        return np.flatnonzero(self.ranks >= 0)

    def _changed_rows(self, state: ClusterState, node_end: int) -> list[int] | None:
        """Rows to judge again, perhaps repeated; None if all are."""
        if self._plugins.keyed:
            epochs = [plugin.epoch(state) for plugin in self._plugins.keyed]
            if epochs != self._epochs:
                self._epochs, self._version = epochs, -1
                self._known.clear()
        if self._layout != state.resources.layout:
            self._layout = state.resources.layout
            self._known.clear()
        if self._version != self.nodes.version or len(self.rank) != state.capacity:
            return None
        changed = state.pod_log.since(self._pod_position)
        if self._node_position != node_end:
            by_nodes = state.node_log.since(self._node_position)
            changed = None if changed is None or by_nodes is None else changed + by_nodes
        return None if changed is None or len(changed) > state.capacity // 2 else changed

    def _build(self, cycle: Cycle) -> None:
        state = cycle.state
        if len(self.rank) != state.capacity:
            self.rank = np.empty(state.capacity, dtype=np.int64)
        for raw in self.raws:
            raw.values = np.full(state.capacity, _LOWEST, dtype=np.int64)
        rows = state.rows() if self.nodes.all_pass else np.flatnonzero(self.nodes.mask)
        rows, total = self._judge(cycle, rows)
        self.feasible = len(rows)
        if len(rows) == state.height:
            self.rank[: len(rows)] = total
            self.rank[len(rows) :] = INFEASIBLE
        else:
            self.rank.fill(INFEASIBLE)
            self.rank[rows] = total
        equal = self._plugins.one_orders and len(rows) > 0 and bool((total == total[0]).all())
        self._level = total.item(0) if equal else None

    def _judge(self, cycle: Cycle, rows: Rows) -> tuple[Rows, Ints]:
        """Those of the rows that pass, and their ranks."""
        self.ties.forget()
        good = passing(self._plugins.filters, cycle, rows) if len(rows) else None
        if good is not None and not good.all():
            rows = rows[good]
        if not len(rows):
            return rows, _NO_RANK
        fixed = cycle.state.pick(self.nodes.fixed, rows) if self.nodes.scores else None
        total = weighted(self._plugins.scorers, cycle, rows, fixed)
        for raw in self.raws:
            raw.values[rows] = raw.scorer.plugin.score(cycle, rows)
        return rows, total

    def _repair(self, cycle: Cycle, row: int) -> None:
        before, after = self.rank.item(row), self._rank_of(cycle, row)
        if after != before:
            self.rank[row] = after
            self.feasible += (after >= 0) - (before >= 0)
            if not self.raws:
                self.ties.changed(row, before, after)
            elif after not in (INFEASIBLE, self._level):
                self._level = None
        for raw, score in zip(self.raws, self._plugins.raw_rows, strict=True) if self.raws else ():
            previous, found = raw.values.item(row), score(cycle, row) if after >= 0 else _LOWEST
            if found != previous:
                raw.values[row] = found
                self.ties.changed(row, previous, found)

    def _rank_of(self, cycle: Cycle, row: int) -> int:
        if not self.nodes.mask.item(row):
            return INFEASIBLE
        amounts = cycle.state.resources.amounts(row)
        rank = self._known.get(amounts)
        if rank is None:
            if len(self._known) > _KNOWN_AMOUNTS:
                self._known.clear()
            rank = self._known[amounts] = self._plugins.by_amounts(cycle, row)
        if rank < 0:
            return INFEASIBLE
        if self._plugins.by_pods.asks:
            more = self._plugins.by_pods(cycle, row)
            if more < 0:
                return INFEASIBLE
            rank += more
        fixed: int = self.nodes.fixed.item(row)
        return rank + fixed


def passing(filters: Iterable[FilterPlugin], cycle: Cycle, rows: Rows) -> Mask | None:
    """Which of the rows all of these filters pass, shape (len(rows),); None if all rows pass."""
    mask: Mask | None = None
    for plugin in filters:
        rejections = plugin.filter(cycle, rows)
        if rejections is not None:
            good: Mask = rejections.bits == 0
            mask = good if mask is None else np.logical_and(mask, good, out=mask)
    return mask


def weighted(scorers: Iterable[Scorer], cycle: Cycle, rows: Rows, start: Ints | None = None) -> Ints:
    """`start` plus weight times score of each, for scores that need no normalisation, int64[len(rows)]."""
    total, is_own = start, False
    for scorer in scorers:
        scores = scorer.plugin.score(cycle, rows)
        if scorer.weight != 1:
            scores = scores * scorer.weight
        if total is None:
            total = scores
        else:
            total, is_own = np.add(total, scores, out=total if is_own else None), True
    return np.zeros(len(rows), dtype=np.int64) if total is None else total


def _living(state: ClusterState, rows: Iterable[int]) -> Rows:
    return np.array(sorted(row for row in set(rows) if state.alive[row]), dtype=np.intp)


_Keyed: TypeAlias = FilterPlugin | ScorePlugin


def _with_epoch(filters: Iterable[FilterPlugin], scorers: Iterable[Scorer]) -> tuple[_Keyed, ...]:
    everyone: tuple[_Keyed, ...] = (*filters, *(scorer.plugin for scorer in scorers))
    plugins = {id(plugin): plugin for plugin in everyone}
    return tuple(plugin for plugin in plugins.values() if getattr(plugin.epoch, "__func__", None) is not Plugin.epoch)


def _row_filter(plugin: FilterPlugin) -> Callable[[Cycle, int], bool]:
    if isinstance(plugin, RowFilter):
        return plugin.filter_row

    def one_row(cycle: Cycle, row: int) -> bool:
        rejections = plugin.filter(cycle, np.array([row], dtype=np.intp))
        return rejections is None or not rejections.bits[0]

    return one_row


def _row_score(plugin: ScorePlugin) -> Callable[[Cycle, int], int]:
    if isinstance(plugin, RowScore):
        return plugin.score_row
    return lambda cycle, row: int(plugin.score(cycle, np.array([row], dtype=np.intp))[0])
