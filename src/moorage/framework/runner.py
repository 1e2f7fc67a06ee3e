"""Runs the plugins of one profile on one state: who may have the pod, who scores best, and why not.

`decide` is the hot path and uses kept answers (`views`). `judge` and `score_table` ask every plugin afresh, in profile
order; diagnosis, explain and preemption use them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.hashing import stable_hash, tie_hashes
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Point, Reads
from moorage.framework.profiles import Profile
from moorage.framework.status import Code, OnlyNodes, Reason, Rejections, Status
from moorage.framework.views import ClassView, NodeView, Scorer

_KEPT_CLASSES = 256
_KEPT_TEMPLATES = 4096
MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the pod goes: `row` is NOWHERE if nothing fits (ask `diagnose` why). `feasible` counts the fitting rows."""

    row: int
    feasible: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one plugin rejected: the rows and, aligned with them, its rejections."""

    plugin: str
    rows: Rows
    rejections: Rejections


@dataclass(frozen=True, slots=True)
class Judgement:
    """All filters asked in profile order: a later plugin saw only the rows that earlier ones passed."""

    passed: Rows
    verdicts: tuple[Verdict, ...] = ()
    refusal: Status | None = None
    """Set if PreFilter rejected the pod as a whole."""
    excluded_by: tuple[str, ...] = ()
    """Plugins whose PreFilter narrowed the nodes."""
    excluded: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Rows left out by them."""

    def unresolvable_rows(self) -> set[int]:
        """Rows on which removing pods cannot help."""
        found = set(map(int, self.excluded))
        for verdict in self.verdicts:
            fixed_bits = sum(1 << i for i, reason in enumerate(verdict.rejections.reasons) if not reason.resolvable)
            found.update(map(int, verdict.rows[(verdict.rejections.bits & fixed_bits) != 0]))
        return found


@dataclass(slots=True)
class _Class:
    """How the plugins of the profile deal with one class of equal pods."""

    view: ClassView
    open_pre_filters: tuple[Any, ...]
    """Asked at every decision, in profile order."""
    open_filters: tuple[Any, ...]
    open_scorers: tuple[Scorer, ...]
    skipped: frozenset[str]
    """Keepable plugins whose PreFilter said Skip."""
    only: tuple[tuple[str, OnlyNodes], ...]
    refusal: Status | None
    plain: bool = False
    """Whether the kept ranks alone decide."""
    templates: list[PodTemplate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain = not (self.open_pre_filters or self.open_filters or self.open_scorers or self.only or self.refusal)


class Runner:
    """One profile on one state."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self.profile = profile
        self._state = state
        self._scorers = tuple(
            Scorer(plugin, profile.weight(plugin.name), hasattr(plugin, "normalize"))
            for plugin in profile.at(Point.SCORE)
        )
        seen: dict[str, Any] = {}
        for point in (Point.PRE_FILTER, Point.FILTER, Point.SCORE):
            seen.update((plugin.name, plugin) for plugin in profile.at(point))
        self._by_name = {plugin.name: plugin for plugin in profile.plugins}
        self._kept = tuple(plugin for plugin in seen.values() if plugin.reads is not Reads.CLUSTER)
        self._by_template: OrderedDict[PodTemplate, _Class] = OrderedDict()
        self._by_signs: OrderedDict[tuple[Hashable, ...], _Class] = OrderedDict()
        self._node_views: OrderedDict[tuple[Hashable, ...], NodeView] = OrderedDict()

    def plugin(self, name: str) -> Plugin | None:
        """The plugin of this name, if the profile has it."""
        return self._by_name.get(name)

    # --- the hot path ---

    def decide(self, cycle: Cycle) -> Decision:
        """Find the best row for the pod, with kept answers where plugins allow it."""
        found = self._class_of(cycle)
        view = found.view
        view.refresh(cycle)
        if found.plain and not self._state.nominations and all(raw.flat for raw in view.nodes.raws):
            return self._best(cycle, view.rank)
        return self._decide_open(cycle, found)

    def _best(self, cycle: Cycle, rank: Ints) -> Decision:
        top = rank.max() if len(rank) else NOWHERE
        if top < 0:
            return Decision(NOWHERE, 0)
        ties = np.flatnonzero(rank == top)
        return Decision(self._break_tie(cycle, ties), int(np.count_nonzero(rank >= 0)))

    def _break_tie(self, cycle: Cycle, rows: Rows) -> int:
        if len(rows) == 1:
            return int(rows[0])
        pod_hash = stable_hash(self._state.seed, cycle.pod.key)
        return int(rows[tie_hashes(pod_hash, self._state.node_hashes[rows]).argmin()])

    def _decide_open(self, cycle: Cycle, found: _Class) -> Decision:
        refusal, only, skipped = self._pre_filter(cycle, found)
        if refusal is not None:
            return Decision(NOWHERE, 0)
        rows = found.view.feasible_rows()
        if only:
            rows = rows[np.isin(rows, self._rows_named(only))]
        rows = self._without_promised(cycle, rows)
        for plugin in found.open_filters:
            if len(rows) and plugin.name not in skipped:
                rejections = plugin.filter(cycle, rows)
                if rejections is not None:
                    rows = rows[rejections.bits == 0]
        if len(rows) <= 1:
            return Decision(int(rows[0]) if len(rows) else NOWHERE, len(rows))
        totals = found.view.rank[rows]
        for raw in found.view.nodes.raws:
            totals = totals + raw.scorer.weight * raw.scorer.plugin.normalize(cycle, raw.values[rows])
        for _, scores in self._scores(cycle, found.open_scorers, rows):
            totals = totals + scores
        return Decision(self._break_tie(cycle, rows[totals == totals.max()]), len(rows))

    def fits(self, cycle: Cycle, row: int) -> bool:
        """Whether one row passes every filter, with the pods promised to it counted and without them."""
        return bool(len(self.judge(cycle, np.array([row], dtype=np.intp)).passed))

    # --- asking afresh ---

    def judge(self, cycle: Cycle, rows: Rows, *, promised: bool = True) -> Judgement:
        """Ask every filter in profile order about these rows, nothing kept.

        With `promised`, pods of equal or higher priority that are promised a row count as present there, and the row
        must pass without them too.
        """
        refusal, only, skipped = self._pre_filter(cycle, None)
        if refusal is not None:
            return Judgement(rows[:0], refusal=refusal)
        excluded = rows[:0]
        if only:
            keep = np.isin(rows, self._rows_named(only))
            rows, excluded = rows[keep], rows[~keep]
        verdicts: list[Verdict] = []
        crowded = self._promised_rows(cycle, rows) if promised else {}
        for row, pods in crowded.items():
            self._judge_crowded(cycle, row, pods, skipped, verdicts)
        lost = {int(row) for verdict in verdicts for row in verdict.rows}
        if lost:
            rows = rows[~np.isin(rows, np.fromiter(lost, dtype=np.intp))]
        rows = self._judge_plain(cycle, rows, skipped, verdicts)
        return Judgement(rows, tuple(verdicts), None, tuple(name for name, _ in only), excluded)

    def _judge_plain(self, cycle: Cycle, rows: Rows, skipped: frozenset[str], verdicts: list[Verdict]) -> Rows:
        for plugin in self.profile.at(Point.FILTER):
            if not len(rows):
                break
            if plugin.name in skipped:
                continue
            rejections = plugin.filter(cycle, rows)
            if rejections is None:
                continue
            bad = rejections.bits != 0
            if bad.any():
                verdicts.append(Verdict(plugin.name, rows[bad], Rejections(rejections.bits[bad], rejections.reasons)))
                rows = rows[~bad]
        return rows

    def _judge_crowded(
        self, cycle: Cycle, row: int, pods: list[Pod], skipped: frozenset[str], verdicts: list[Verdict]
    ) -> None:
        with self._state.statement():
            for pod in pods:
                self._state.assume(pod, row)
            self._judge_plain(cycle, np.array([row], dtype=np.intp), skipped, verdicts)

    def score_table(self, cycle: Cycle, rows: Rows) -> dict[str, Ints]:
        """Every plugin's normalised score times its weight for these (feasible) rows, in profile order."""
        return dict(self._scores(cycle, self._scorers, rows))

    def _scores(self, cycle: Cycle, scorers: Iterable[Scorer], rows: Rows) -> list[tuple[str, Ints]]:
        table: list[tuple[str, Ints]] = []
        active: list[Scorer] = []
        for scorer in scorers:
            pre_score = getattr(scorer.plugin, "pre_score", None)
            status = pre_score(cycle, rows) if pre_score is not None else None
            if status is None or status.code is not Code.SKIP:
                active.append(scorer)
        for scorer in active:
            scores = scorer.plugin.score(cycle, rows)
            if scorer.normalizes:
                scores = scorer.plugin.normalize(cycle, scores)
            table.append((scorer.plugin.name, scores * scorer.weight))
        return table

    def _pre_filter(
        self, cycle: Cycle, found: _Class | None
    ) -> tuple[Status | None, list[tuple[str, OnlyNodes]], frozenset[str]]:
        """Run PreFilter: of a class only what was not kept, in the end what the first refusing plugin said."""
        plugins = self.profile.at(Point.PRE_FILTER) if found is None else found.open_pre_filters
        if found is not None and found.refusal is not None:
            return found.refusal, [], frozenset()
        only = list(found.only) if found is not None else []
        skipped = set(found.skipped) if found is not None else set()
        for plugin in plugins:
            answer = plugin.pre_filter(cycle)
            if isinstance(answer, OnlyNodes):
                only.append((plugin.name, answer))
            elif answer is not None and answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer is not None and answer.code is not Code.SUCCESS:
                return Status(answer.code, answer.reasons, plugin.name), [], frozenset()
        return None, only, frozenset(skipped)

    def _rows_named(self, only: Iterable[tuple[str, OnlyNodes]]) -> Rows:
        names = frozenset.intersection(*(nodes.names for _, nodes in only))
        rows = (self._state.row_of(name) for name in names)
        return np.array([row for row in rows if row is not None], dtype=np.intp)

    # --- promised rows ---

    def _promised_rows(self, cycle: Cycle, rows: Rows) -> dict[int, list[Pod]]:
        """Row -> pods promised to it that count for this pod."""
        nominations = self._state.nominations
        found: dict[int, list[Pod]] = {}
        if not nominations or not len(rows):
            return found
        wanted = set(map(int, rows))
        for name in nominations.nodes():
            row = self._state.row_of(name)
            if row is None or row not in wanted:
                continue
            pods = [
                pod
                for pod in nominations.on(name)
                if pod.uid != cycle.pod.uid
                and pod.template.priority >= cycle.template.priority
                and self._state.record(pod.uid) is None
            ]
            if pods:
                found[row] = pods
        return found

    def _without_promised(self, cycle: Cycle, rows: Rows) -> Rows:
        crowded = self._promised_rows(cycle, rows)
        if not crowded:
            return rows
        bad = [row for row in crowded if not self.fits(cycle, row)]
        return rows[~np.isin(rows, np.array(bad, dtype=np.intp))] if bad else rows

    # --- classes ---

    def _class_of(self, cycle: Cycle) -> _Class:
        template = cycle.template
        found = self._by_template.get(template)
        if found is not None:
            self._by_template.move_to_end(template)
            return found
        signs = tuple(plugin.sign(template) for plugin in self._kept)
        found = self._by_signs.get(signs)
        if found is None:
            found = self._by_signs[signs] = self._make_class(cycle, signs)
            if len(self._by_signs) > _KEPT_CLASSES:
                _, old = self._by_signs.popitem(last=False)
                for stale in old.templates:
                    self._by_template.pop(stale, None)
        else:
            self._by_signs.move_to_end(signs)
        self._by_template[template] = found
        found.templates.append(template)
        if len(self._by_template) > _KEPT_TEMPLATES:
            gone, of = self._by_template.popitem(last=False)
            of.templates.remove(gone)
        return found

    def _make_class(self, cycle: Cycle, signs: tuple[Hashable, ...]) -> _Class:
        refusal, only, skipped = None, [], set()
        open_pre_filters = []
        for plugin in self.profile.at(Point.PRE_FILTER):
            if plugin.reads is Reads.CLUSTER or not hasattr(plugin, "filter"):
                open_pre_filters.append(plugin)
                continue
            answer = plugin.pre_filter(cycle)
            if isinstance(answer, OnlyNodes):
                only.append((plugin.name, answer))
            elif answer is not None and answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer is not None and answer.code is not Code.SUCCESS:
                refusal = refusal or Status(answer.code, answer.reasons, plugin.name)
        filters = [plugin for plugin in self.profile.at(Point.FILTER) if plugin.name not in skipped]
        scorers, open_scorers = self._split_scorers(cycle)
        nodes = self._node_view(
            signs,
            tuple(plugin for plugin in filters if plugin.reads is Reads.NODE),
            tuple(scorer for scorer in scorers if scorer.plugin.reads is Reads.NODE),
        )
        view = ClassView(
            nodes,
            tuple(plugin for plugin in filters if plugin.reads is Reads.PODS),
            tuple(scorer for scorer in scorers if scorer.plugin.reads is Reads.PODS),
        )
        open_filters = tuple(plugin for plugin in filters if plugin.reads is Reads.CLUSTER)
        return _Class(
            view, tuple(open_pre_filters), open_filters, open_scorers, frozenset(skipped), tuple(only), refusal
        )

    def _split_scorers(self, cycle: Cycle) -> tuple[list[Scorer], tuple[Scorer, ...]]:
        """Scorers whose answers are kept, and those asked every time; those that skip this class are left out."""
        kept: list[Scorer] = []
        asked: list[Scorer] = []
        for scorer in self._scorers:
            plugin = scorer.plugin
            if plugin.reads is Reads.CLUSTER or (plugin.reads is Reads.PODS and scorer.normalizes):
                asked.append(scorer)
                continue
            status = plugin.pre_score(cycle, self._state.rows()) if hasattr(plugin, "pre_score") else None
            if status is None or status.code is not Code.SKIP:
                kept.append(scorer)
        return kept, tuple(asked)

    def _node_view(
        self, signs: tuple[Hashable, ...], filters: tuple[Any, ...], scorers: tuple[Scorer, ...]
    ) -> NodeView:
        by_name = dict(zip((plugin.name for plugin in self._kept), signs, strict=True))
        key = (
            tuple((plugin.name, by_name[plugin.name]) for plugin in filters),
            tuple((scorer.plugin.name, by_name[scorer.plugin.name]) for scorer in scorers),
        )
        found = self._node_views.get(key)
        if found is None:
            found = self._node_views[key] = NodeView(filters, scorers)
            if len(self._node_views) > _KEPT_CLASSES:
                self._node_views.popitem(last=False)
        else:
            self._node_views.move_to_end(key)
        return found


def rejected_mask(judgement: Judgement, capacity: int) -> Mask:
    """Rows that some filter rejected, bool[capacity]."""
    mask: Mask = np.zeros(capacity, dtype=np.bool_)
    for verdict in judgement.verdicts:
        mask[verdict.rows] = True
    return mask


def reasons_of(rejections: Rejections, index: int) -> list[Reason]:
    """The reasons whose bits are set for one row."""
    bits = int(rejections.bits[index])
    return [reason for i, reason in enumerate(rejections.reasons) if bits >> i & 1]
