"""Runs the plugins of one profile on one state: which nodes fit a pod, which scores best, and why others do not fit.

`decide` is the hot path and uses kept answers (`classes`, `views`). `judge` and `score_table` ask every plugin again,
in profile order; diagnosis, explain and preemption use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple, Protocol

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.hashing import pod_hash
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.values import dataclass
from moorage.core.victims import Ranks
from moorage.framework.classes import (
    ClassTable,
    LatePoints,
    OpenPoints,
    PodClass,
    make_scorers,
    pre_filter,
    says_nothing,
    wanted_scorers,
)
from moorage.framework.contract import (
    FilterPlugin,
    Named,
    PlacesGangs,
    PreemptsDevices,
    PreFilterPlugin,
    ReadsPriority,
    ReadsState,
    ReservesInState,
    SlackFilter,
    SoftFilter,
)
from moorage.framework.cycle import Cycle
from moorage.framework.instances import Instances
from moorage.framework.nominated import NominatedAmounts, NominatedPods
from moorage.framework.plugin import Point, Reads
from moorage.framework.profiles import Profile
from moorage.framework.status import Code, Reason, Rejections, Status
from moorage.framework.ties import best_of
from moorage.framework.views import ClassView, Scorer

_MANY = 1 << 40


@dataclass(frozen=True, slots=True)
class PluginRejections:
    """What one plugin rejected: the rows and, aligned with them, its rejections."""

    plugin: str
    rows: Rows
    rejections: Rejections


class Preference(NamedTuple):
    """Which of the feasible rows are left, and the soft rejections of the others."""

    rows: Rows
    passed_over: tuple[PluginRejections, ...] = ()


class _Asks(Named, Protocol):
    """What the runner asks about rows: a filter, or the soft side of one."""

    @property
    def reads(self) -> Reads:
        """As the plugin says."""

    def filter(self, cycle: Cycle, rows: Rows, /) -> Rejections | None:
        """None: all rows pass."""


class _Filters(NamedTuple):
    """Filters that are asked, none of which skips the pod."""

    filters: tuple[_Asks, ...]
    prepare: tuple[PreFilterPlugin, ...]
    """PreFilter plugins to be asked again about another state."""

    def without(self, skipped: frozenset[str]) -> _Filters:
        """Those that do not skip the pod."""
        if not skipped:
            return self
        filters = tuple([each for each in self.filters if each.name not in skipped])
        return _Filters(filters, tuple([each for each in self.prepare if each.name not in skipped]))


class _Softly:
    """The soft side of a filter, which can be asked as a filter is."""

    __slots__ = ("_plugin", "name", "reads")

    def __init__(self, plugin: SoftFilter) -> None:
        self._plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return self._plugin.filter_softly(cycle, rows)


@dataclass(frozen=True, slots=True)
class Judgement:
    """All filters asked in profile order: a later plugin saw only the rows that earlier ones passed."""

    passed: Rows
    verdicts: tuple[PluginRejections, ...] = ()
    refusal: Status | None = None
    """Set if PreFilter rejected the pod as a whole."""
    excluded_by: tuple[str, ...] = ()
    """Plugins whose PreFilter narrowed the nodes."""
    excluded: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Rows that they left out, or all rows if PreFilter rejected the pod for a reason that evictions cannot change."""
    skipped: frozenset[str] = frozenset()
    """Plugins that had nothing to say about the pod."""

    @property
    def exclusion(self) -> str:
        """Why rows were left out: the reason that people read."""
        return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.excluded_by))}]"

    @property
    def failure(self) -> str:
        """Why the attempt fails as a whole: a filter could not be evaluated. Empty if all of them were."""
        found = ((each.plugin, each.rejections.failure) for each in self.verdicts if each.rejections.failure)
        return next((f'running "{plugin}" filter plugin: {failure}' for plugin, failure in found), "")

    @property
    def resolvable(self) -> bool:
        """Whether removing pods could help on any row; what PreFilter refuses on all of them or on none."""
        if self.refusal is not None:
            return self.refusal.resolvable
        return any(not verdict.rejections.unresolvable_mask().all() for verdict in self.verdicts)

    def preferring(self, preference: Preference) -> Judgement:
        """The same with soft rejections that stand, for those who ask which rows to take and why not the others."""
        soft = []
        for verdict in preference.passed_over:
            said = verdict.rejections
            reasons = tuple(Reason(each.text, resolvable=False) for each in said.reasons)
            soft.append(PluginRejections(verdict.plugin, verdict.rows, Rejections(said.bits, reasons)))
        return replace(self, passed=preference.rows, verdicts=(*self.verdicts, *soft))

    def unresolvable_rows(self) -> set[int]:
        """Rows on which removing pods cannot help."""
        found = set(map(int, self.excluded))
        for verdict in self.verdicts:
            found.update(map(int, verdict.rows[verdict.rejections.unresolvable_mask()]))
        return found

    def resolvable_rows(self) -> Rows:
        """Rejected rows on which removing pods could help, ascending; without PreFilter's refusal."""
        found = (verdict.rows[~verdict.rejections.unresolvable_mask()] for verdict in self.verdicts)
        return np.sort(np.concatenate([self.passed[:0], *found]))


class Runner:
    """One profile on one state."""

    def __init__(self, profile: Profile, state: ClusterState, ranks: Callable[[], Ranks | None] = lambda: None) -> None:
        """`ranks` returns what decides which pods may be evicted, if priorities alone do not."""
        self.profile = profile
        self.plugins = plugins = Instances(profile)
        self.priorities = plugins.first(ReadsPriority)
        """The plugin that determines the priority."""
        self.gangs = plugins.first(PlacesGangs)
        """The plugin that has members of gangs placed together."""
        self.places_gangs = self.gangs is not None
        self.preempts_devices = any(each.preempts_devices for each in plugins.having(PreemptsDevices))
        self.in_state = frozenset(each.name for each in plugins.having(ReservesInState) if each.reserves_in_state)
        """Names of plugins whose Reserve holds everything in the state."""
        """Whether pods are evicted for their devices."""
        self._ranks = ranks
        self._state = state
        self._nominated = NominatedPods(state)
        self._scorers = make_scorers(plugins, profile.weights)
        self._classes = ClassTable(plugins, self._scorers)
        for each in plugins.having(ReadsState):
            each.attach(state)
        self._soft = {each.name: _Softly(each) for each in plugins.filter if isinstance(each, SoftFilter)}
        self._slack = {each.name: each for each in plugins.filter if isinstance(each, SlackFilter)}

    @property
    def ranks(self) -> Ranks | None:
        """What a preemptor's priority must exceed to evict a pod; None if that is the pod's own priority."""
        return self._ranks()

    def late(self, cycle: Cycle) -> LatePoints:
        """The plugins that have something to do for the pod once its node is chosen."""
        asked: OpenPoints = cycle.asked or self._classes.asked(cycle)
        return asked.late

    def evaluations(self) -> Counter[tuple[Point, str]]:
        """How many decisions each plugin took part in, by extension point; kept answers count."""
        return self._classes.evaluations()

    # --- the hot path ---

    def decide(self, cycle: Cycle) -> int:
        """The best row for the pod, NOWHERE if nothing fits (`judge` says why); sets `cycle.feasible`."""
        found = self._classes.find(cycle)
        found.attempts += 1
        view = found.view
        view.refresh(cycle)
        asked = cycle.asked = self._classes.asked(cycle)
        if found.plain and view.nodes.flat and not self._state.nominations.count and cycle.only is None:
            leading = view.leading()
            if leading is not None:
                if not asked.open:
                    return self._best(cycle, view, leading)
                if asked.only_pre_filters and says_nothing(asked.pre_filters, cycle):
                    asked.attempts += 1
                    return self._best(cycle, view, leading)
        return self._decide_open(cycle, found, asked)

    def _best(self, cycle: Cycle, view: ClassView, leading: Ints) -> int:
        cycle.feasible = view.feasible
        if not view.feasible:
            return NOWHERE
        return view.ties.pick(pod_hash(self._state.seed, cycle.pod.key), leading, self._state.node_hashes)

    def _decide_open(self, cycle: Cycle, found: PodClass, asked: OpenPoints) -> int:
        view, rows = found.view, self._passing(cycle, found, asked)
        if asked.soft:
            rows = self.prefer(cycle, rows).rows
        cycle.feasible = len(rows)
        if len(rows) <= 1:
            return int(rows[0]) if len(rows) else NOWHERE
        totals = self._state.pick(view.rank, rows)
        for raw in view.raws if view.nodes.flat else (*view.nodes.raws, *view.raws):
            totals = totals + raw.scorer.weight * raw.normalizer.normalize(cycle, self._state.pick(raw.values, rows))
        for scores in self._scores(cycle, asked.scorers, rows).values():
            totals = totals + scores
        return self._highest(cycle, rows, totals)

    def _passing(self, cycle: Cycle, found: PodClass, asked: OpenPoints) -> Rows:
        """The rows that pass every filter, from kept answers where there are any; `found.view` is up to date."""
        asked.attempts += 1
        said = found.kept
        if said.refusal is None and asked.pre_filters:
            said = said.and_then(pre_filter(asked.pre_filters, cycle))
        view = found.view
        rows = self._state.rows() if view.feasible == self._state.node_count else view.feasible_rows()
        if said.refusal is not None:
            return rows[:0]
        names = said.nodes
        if names is not None:
            rows = rows[np.isin(rows, self._rows_named(names))]
        if cycle.only is not None:
            rows = rows[cycle.only[rows]]
        rows = self._without_nominated(cycle, rows)
        for plugin in asked.filters:
            if len(rows) and plugin.name not in said.skipped:
                rejections = plugin.filter(cycle, rows)
                if rejections is not None:
                    rows = rows[rejections.bits == 0]
        return rows

    def alike(self, cycle: Cycle) -> int:
        """Equal for pods that no plugin whose answers are kept can tell apart; good until the next decision."""
        return id(self._classes.find(cycle))

    def looks(self, cycle: Cycle) -> Hashable | None:
        """Equal for pods that no plugin can tell apart, but for their queue; None if that cannot be said of the pod."""
        return self._classes.looks(cycle)

    def asked_filters(self, cycle: Cycle) -> Sequence[FilterPlugin]:
        """The filters that read the whole cluster and have something to say about such a pod at present."""
        return self._classes.asked(cycle).filters

    def sign(self, cycle: Cycle) -> Hashable:
        """Equal for pods that the same nodes pass, whatever stands on them."""
        return self._classes.sign(cycle)

    def room(self, cycle: Cycle, rows: Rows) -> Ints:
        """How many pods like this each of the rows can hold as far as amounts go, 0 where a filter rejects it."""
        found = self._classes.find(cycle)
        found.view.refresh(cycle)
        good = np.zeros(self._state.capacity, dtype=np.bool_)
        good[self._passing(cycle, found, self._classes.asked(cycle))] = True
        most: Ints = np.where(good[rows], _MANY, 0)
        amounts = dict(self._state.resources.vector(cycle.template.requests).pairs)
        left, _ = self.slack(cycle, rows, found.kept.skipped)
        for column, amount in left.items():
            np.minimum(most, np.where(amount < 0, 0, amount // max(amounts.get(column, 1), 1) + 1), out=most)
        return most

    def takes(self, cycle: Cycle, row: int) -> bool:
        """Whether a row that was chosen already passes every filter; as fast as `decide`, and sets what that sets."""
        found = self._classes.find(cycle)
        found.attempts += 1
        found.view.refresh(cycle)
        asked = cycle.asked = self._classes.asked(cycle)
        cycle.feasible = found.view.feasible
        if (
            not (asked.pre_filters or asked.filters)
            and found.plain
            and not self._state.nominations.count
            and cycle.only is None
        ):
            return bool(found.view.rank.item(row) >= 0)
        return self.fits(cycle, row)

    def _highest(self, cycle: Cycle, rows: Rows, totals: Ints) -> int:
        return best_of(rows, totals, pod_hash(self._state.seed, cycle.pod.key), self._state.node_hashes)

    def fits(self, cycle: Cycle, row: int) -> bool:
        """Whether one row passes every filter, with the pods nominated to it counted and without them."""
        return bool(len(self.judge(cycle, np.array([row], dtype=np.intp)).passed))

    # --- without kept answers ---

    def judge(self, cycle: Cycle, rows: Rows, *, nominated: bool = True) -> Judgement:
        """Ask every filter in profile order about these rows, without kept answers.

        With `nominated`, pods that are nominated to a row and bind this one count as present there, and the row must
        pass without them too.
        """
        said = pre_filter(self.plugins.pre_filter, cycle)
        excluded = rows[:0]
        narrowed_by = tuple(name for name, _ in said.only)
        if said.refusal is not None:
            hopeless = rows if said.refusal.code is Code.UNRESOLVABLE else excluded
            return Judgement(rows[:0], (), said.refusal, narrowed_by, hopeless)
        names = said.nodes
        if names is not None:
            keep = np.isin(rows, self._rows_named(names))
            rows, excluded = rows[keep], rows[~keep]
        if cycle.only is not None:
            narrowed_by = (*narrowed_by, *(each.name for each in self.plugins.queue_sort))
            rows, excluded = rows[cycle.only[rows]], np.sort(np.concatenate([excluded, rows[~cycle.only[rows]]]))
        verdicts: list[PluginRejections] = []
        filters = _Filters(self.plugins.filter, self._classes.open_pre_filters).without(said.skipped)
        rows = self._filter_twice(cycle, rows, filters, verdicts, nominated=nominated)
        return Judgement(rows, tuple(verdicts), None, narrowed_by, excluded, said.skipped)

    def prefer(self, cycle: Cycle, rows: Rows) -> Preference:
        """What soft rejections leave of feasible rows (ascending).

        Plugins are asked in profile order, each about the rows that the earlier ones left. Its rejections stand if they
        leave a row; otherwise they are dropped. So there is a row left if there was one.
        """
        soft = self._classes.asked(cycle).soft if self._soft and len(rows) > 1 else ()
        passed_over: list[PluginRejections] = []
        for name in soft:
            prepares = tuple([each for each in self.plugins.pre_filter if each.name == name])
            if name not in pre_filter(prepares, cycle).skipped:
                verdicts: list[PluginRejections] = []
                left = self._filter_twice(cycle, rows, _Filters((self._soft[name],), prepares), verdicts)
                if len(left):
                    rows = left
                    passed_over += verdicts
        return Preference(rows, tuple(passed_over))

    def _filter_twice(
        self,
        cycle: Cycle,
        rows: Rows,
        filters: _Filters,
        verdicts: list[PluginRejections],
        *,
        nominated: bool = True,
    ) -> Rows:
        """The rows that pass, with the pods nominated to them and without; `verdicts` gets what rejects the others."""
        crowded = self._nominated.among(cycle, rows) if nominated else None
        if crowded is not None:
            self._filter_crowded(cycle, crowded, filters, verdicts)
        if verdicts:
            rows = rows[~np.isin(rows, np.concatenate([verdict.rows for verdict in verdicts]))]
        return self._filter(cycle, rows, filters, verdicts)

    def _filter_crowded(
        self,
        cycle: Cycle,
        crowded: NominatedAmounts,
        filters: _Filters,
        verdicts: list[PluginRejections],
    ) -> None:
        """Judge rows with the pods nominated to them, all at once where the active filters look at one row only."""
        rows = crowded.rows
        widest = max((each.reads for each in filters.filters), default=Reads.NODE)
        if widest <= Reads.AMOUNTS:
            with self._state.statement():
                self._state.shift_amounts(rows, crowded.amounts)
                self._filter(cycle, rows, filters, verdicts)
        elif widest is Reads.PODS:
            with self._state.statement():
                for row in rows:
                    self._assume_nominated(cycle, int(row))
                self._filter(cycle, rows, filters, verdicts)
        else:
            for index, row in enumerate(rows):
                with self._state.statement():
                    self._assume_nominated(cycle, int(row))
                    self._filter_again(cycle, rows[index : index + 1], filters, verdicts)
            pre_filter(self._classes.open_pre_filters, cycle)

    def _assume_nominated(self, cycle: Cycle, row: int) -> None:
        for pod in self._nominated.pods(cycle, row):
            self._state.assume(pod, row)

    def _filter_again(self, cycle: Cycle, rows: Rows, filters: _Filters, verdicts: list[PluginRejections]) -> None:
        """Judge rows of a state that PreFilter has not seen; plugins that skipped the pod skip it here too."""
        said = pre_filter(filters.prepare, cycle)
        if said.refusal is None:
            self._filter(cycle, rows, filters.without(said.skipped), verdicts)
            return
        reason = Reason(said.refusal.message, resolvable=said.refusal.resolvable)
        verdicts.append(
            PluginRejections(said.refusal.plugin, rows, Rejections(np.ones(len(rows), dtype=np.int64), (reason,)))
        )

    def node_mask(self, cycle: Cycle, rows: Rows) -> Mask:
        """Which of the rows pass the filters that read nothing but the node, shape (len(rows),)."""
        view = self._classes.find(cycle).view
        view.refresh(cycle)
        return view.nodes.mask[rows]

    def slack(self, cycle: Cycle, rows: Rows, skipped: frozenset[str]) -> tuple[dict[int, Ints], bool]:
        """Resource column -> how much more the rows can hold beside the pod and the pods nominated to them.

        Also whether that is all that matters: no active filter reads anything about the pods on a row but amounts.
        """
        found: dict[int, Ints] = {}
        complete = True
        for plugin in self.plugins.filter:
            if plugin.name in skipped or plugin.reads is Reads.NODE:
                continue
            counting = self._slack.get(plugin.name)
            if counting is None:
                complete = False
                continue
            for column, amounts in counting.slack(cycle, rows):
                found[column] = np.minimum(found[column], amounts) if column in found else np.array(amounts)
        crowded = self._nominated.among(cycle, rows)
        if crowded is not None:
            here = np.searchsorted(rows, crowded.rows)
            for column, amounts in crowded.amounts.items():
                if column in found:
                    found[column][here] -= amounts
        return found, complete

    def _filter(self, cycle: Cycle, rows: Rows, filters: _Filters, verdicts: list[PluginRejections]) -> Rows:
        """The rows that pass; what rejects the others is added to `verdicts`."""
        for plugin in filters.filters:
            if not len(rows):
                break
            rejections = plugin.filter(cycle, rows)
            if rejections is None:
                continue
            bad = rejections.bits != 0
            if bad.all():
                verdicts.append(PluginRejections(plugin.name, rows, rejections))
                return rows[:0]
            if bad.any():
                some = Rejections(rejections.bits[bad], rejections.reasons, rejections.failure)
                verdicts.append(PluginRejections(plugin.name, rows[bad], some))
                rows = rows[~bad]
        return rows

    def score_table(self, cycle: Cycle, rows: Rows) -> dict[str, Ints]:
        """Every plugin's normalised score times its weight for these (feasible) rows, in profile order."""
        return self._scores(cycle, self._scorers, rows)

    def best_of(self, cycle: Cycle, rows: Rows, more: Ints | None = None) -> int:
        """The row that the profile would choose among these feasible ones (ascending); sets `cycle.feasible`.

        `more` are points in addition to those of the plugins, int64[len(rows)].
        """
        left = self.prefer(cycle, rows).rows
        if len(left) < len(rows):
            more = None if more is None else more[np.isin(rows, left)]
            rows = left
        cycle.feasible = len(rows)
        if len(rows) == 1:
            return int(rows[0])
        totals: Ints = np.zeros(len(rows), dtype=np.int64) if more is None else more
        for scores in self.score_table(cycle, rows).values():
            totals = totals + scores
        return self._highest(cycle, rows, totals)

    def _scores(self, cycle: Cycle, scorers: Iterable[Scorer], rows: Rows) -> dict[str, Ints]:
        table: dict[str, Ints] = {}
        for scorer in wanted_scorers(scorers, cycle, rows):
            scores = scorer.plugin.score(cycle, rows)
            if scorer.normalizes is not None:
                scores = scorer.normalizes.normalize(cycle, scores)
            table[scorer.plugin.name] = scores if scorer.weight == 1 else scores * scorer.weight
        return table

    def _rows_named(self, names: Iterable[str]) -> Rows:
        rows = (self._state.row_of(name) for name in names)
        return np.array([row for row in rows if row is not None], dtype=np.intp)

    def _without_nominated(self, cycle: Cycle, rows: Rows) -> Rows:
        """The rows that pass with the pods nominated to them, too."""
        crowded = self._nominated.among(cycle, rows)
        if crowded is None:
            return rows
        bad = crowded.rows[~np.isin(crowded.rows, self.judge(cycle, crowded.rows).passed)]
        return rows[~np.isin(rows, bad)] if len(bad) else rows
