"""Which pods have to be evicted from which node so that a pod fits: kube-scheduler's search, over all nodes at once.

On each node all pods of lower priority are removed. If the pod fits then, they are put back one by one as long as it
still fits: first those whose eviction would violate a disruption budget, then the others, the most important ones
first. Pods that cannot be put back are the victims. Nodes are compared by `ranks_of`, and equal ones by their hash; the
smallest wins.

If victims belong to gangs, other members may have to be evicted with them, on any node. These companions count like
victims: they must be less important than the pod, they make a node worse, and a choice that has any is verified with
all of them removed (`reprieve`) before it is made. If no gang is running, all of this is skipped.

There are two ways to the same answer. If the filters read nothing but amounts, all nodes are searched together with
arrays. Otherwise each node is tried inside a statement and every filter is asked again; as that is slow, nodes are
tried in the order that amounts alone suggest, and the search ends when it has found enough candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Hashes, Ints, Mask, Rows
from moorage.core.commands import Victims, ref_of
from moorage.core.disruption.away import GONE, Away, companions_of
from moorage.core.hashing import pod_hash, tie_hashes
from moorage.core.state import ClusterState, PodRecord
from moorage.core.values import dataclass
from moorage.core.victims import RankOf, VictimTable, breaking, importance
from moorage.framework.cycle import Cycle
from moorage.framework.reasons import available, node_reasons
from moorage.framework.reprieve import Preemptor, Reprieve
from moorage.framework.runner import Judgement, Runner
from moorage.framework.search_space import (
    LIFT,
    Account,
    Ranks,
    SearchSpace,
    best_columns,
    choose_victims,
    possible_columns,
    ranks_of,
)
from moorage.framework.status import Nomination

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
ALL_CANDIDATES = "all preemption candidates"
"""Key of `cycle.memo`: present if an extender will choose among the candidates."""


class Candidate(NamedTuple):
    """A node on which the pod fits without these pods, most important first."""

    row: int
    victims: tuple[PodRecord, ...]
    violations: int
    """How many evictions violate a disruption budget, companions included."""
    companions: tuple[PodRecord, ...] = ()
    """Members of their gangs that have to be evicted with them, on this node or others."""


class EvictionRules(NamedTuple):
    """Which pods a search may evict."""

    priority: int
    """Only pods of lower rank."""
    strict: bool = False
    """No pod whose eviction violates a disruption budget."""
    spent: Ints | None = None
    """Evictions of each budget, by its number, that its status does not show yet."""


Key = tuple[int, int, int, int, float]
"""The criteria for comparing candidates: see `search_space.ranks_of`."""


@dataclass(slots=True)
class VictimsFound:
    """What a search found: the best candidate, or why none of the nodes is one."""

    best: Candidate | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    candidates: list[Candidate] = field(default_factory=list)
    """The best ones, the best first; only where the cycle asks for them."""
    needless: list[int] = field(default_factory=list)
    """Rows that were rejected although the pod fits there without evictions: an extender rejected them."""


class VictimSearch:
    """One search for one pod. `enough` says how many candidates the slow way looks for."""

    def __init__(
        self, cycle: Cycle, runner: Runner, table: VictimTable, enough: int, rules: EvictionRules | None = None
    ) -> None:
        self._cycle = cycle
        self._runner = runner
        self._table = table
        self._enough = enough
        self._rules = rules or EvictionRules(cycle.template.priority)
        self._protects = False
        """Whether budgets exclude some pods from this search altogether."""
        self._found = VictimsFound()

    def search(self, rows: Rows, skipped: frozenset[str] | None) -> VictimsFound:
        """Look at these rows; `skipped` are the plugins whose Filter is left out for the pod, None if unknown.

        Which pods are protected depends on which ones the budgets are spent on. If budgets are strict, they are first
        spent on the least important pods, then on the most important ones, of which fewer may be enough.
        """
        self._search(rows, skipped, least_first=self._rules.strict)
        if self._found.best is None and self._protects:
            self._found = VictimsFound()
            self._search(rows, skipped, least_first=False)
        return self._found

    def _search(self, rows: Rows, skipped: frozenset[str] | None, *, least_first: bool) -> None:
        space = self._search_space(rows, least_first=least_first)
        without = len(rows) - len(space.rows)
        if without:
            self._found.reasons[NO_VICTIMS] += without
        if not len(space.rows):
            return
        slack, complete = self._runner.slack(self._cycle, space.rows, skipped or frozenset())
        ledger = {column: self._account(column, space, left) for column, left in slack.items()}
        if complete and skipped is not None:
            self._search_amounts(space, ledger)
        else:
            self._search_rows(space, ledger)

    def _search_space(self, rows: Rows, *, least_first: bool) -> SearchSpace:
        """The rows that have pods of lower rank."""
        table, height = self._table, self._cycle.state.height
        here: slice | Rows = slice(height) if len(rows) == height else rows
        rank = table.rank[:, here]
        lower = rank < self._rules.priority
        if self._cycle.template.gang is not None:
            self._spare_own_gang(rows, lower)
        used = np.flatnonzero(lower.any(axis=1))
        depth = int(used[-1]) + 1 if len(used) else 0
        lower, rank = lower[:depth], rank[:depth]
        priority = rank if table.rank is table.priority else table.priority[:depth, here]
        whole = SearchSpace(rows, priority, rank, table.start[:depth, here], lower, None)
        has_some: Mask = np.any(lower, axis=0)
        space = whole.only(has_some)
        violating = table.violating(space.rows, space.lower, spent=self._rules.spent, least_first=least_first)
        if violating is None or not self._rules.strict:
            space.violating = violating
            return space
        self._protects = True
        space.lower = space.lower & ~violating
        return space.only(np.any(space.lower, axis=0))

    def _spare_own_gang(self, rows: Rows, lower: Mask) -> None:
        """A gang does not preempt its own members."""
        key = self._cycle.template.gang
        for record in () if key is None else self._cycle.state.gangs.standing(key).values():
            column = int(np.searchsorted(rows, record.row))
            if column < len(rows) and rows[column] == record.row:
                lower[self._table.records[record.row].index(record), column] = False

    def _account(self, column: int, space: SearchSpace, left: Ints) -> Account:
        """One resource without the pods of lower priority; `left` is what is left of it with them."""
        amounts = self._table.amounts(column)[: len(space.lower)]
        height = self._cycle.state.height
        taken = amounts[:, :height] if len(space.rows) == height else amounts[:, space.rows]
        summed = np.cumsum(taken * space.lower, axis=0)
        return Account(taken, summed, left + summed[-1])

    # --- all rows at once ---

    def _search_amounts(self, space: SearchSpace, ledger: dict[int, Account]) -> None:
        keep = self._runner.node_mask(self._cycle, space.rows) & possible_columns(space, ledger)
        if keep.any():
            here, kept = space, list(ledger.values())
            if not keep.all():
                here, kept = space.only(keep), [account.only(keep) for account in kept]
            self._choose(here, choose_victims(here, kept))
        if self._found.best is None:
            freed = {column: account.summed[-1] for column, account in ledger.items()}
            with self._cycle.state.statement():
                self._cycle.state.shift_amounts(space.rows, freed, -1)
                self._note(self._runner.judge(self._cycle, space.rows))

    def _choose(self, space: SearchSpace, victims: Mask) -> None:
        ranks = ranks_of(space, victims)
        columns = np.flatnonzero(ranks[3])
        if len(columns) < len(space.rows):
            self._found.needless.extend(map(int, space.rows[ranks[3] == 0]))
        grouped = self._table.grouped
        if grouped is not None:
            in_gangs: Mask = np.any(victims & grouped[: len(victims), space.rows], axis=0)
            if in_gangs.any():
                self._settle(space, victims, ranks, columns, in_gangs)
                return
        if ALL_CANDIDATES in self._cycle.memo:
            hashes = self._cycle.state.node_hashes[space.rows]
            order = self._in_order(columns, ranks, hashes)
            self._found.candidates = [self._candidate(space, victims, int(c)) for c in order[: self._enough]]
        best = best_columns(ranks, columns)
        if len(best):
            column = int(best[_hashes(self._cycle, space.rows[best]).argmin()])
            self._found.best = self._candidate(space, victims, column)

    def _in_order(self, columns: Rows, ranks: Ranks, hashes: Hashes) -> Rows:
        """These columns, best first; `ranks` and `hashes` are of all columns."""
        return columns[np.lexsort((hashes[columns], *(rank[columns] for rank in reversed(ranks))))]

    def _candidate(self, space: SearchSpace, victims: Mask, column: int) -> Candidate:
        row = int(space.rows[column])
        records = self._table.records[row]
        slots = np.flatnonzero(victims[:, column])
        violations = 0 if space.violating is None else int(space.violating[slots, column].sum())
        return Candidate(row, tuple(records[slot] for slot in slots), violations)

    # --- companions ---

    def _settle(self, space: SearchSpace, victims: Mask, ranks: Ranks, columns: Rows, in_gangs: Mask) -> None:
        """Take the best candidate, companions included; `in_gangs` are the columns that may have companions.

        Companions only make a candidate worse, so no later candidate is better than the key of the next one.
        """
        waiting: list[tuple[Key, int, Candidate]] = []
        to_be_named = ALL_CANDIDATES in self._cycle.memo
        first = next(self._offers(space, victims, ranks, columns[~in_gangs[columns]]), None)
        if first is not None and not to_be_named:
            waiting.append((first[0], -1, first[1]))
            columns = columns[in_gangs[columns]]
        for index, (key, alone) in enumerate(self._offers(space, victims, ranks, columns)):
            enough = len(waiting) >= self._enough
            if not to_be_named and self._take_first(waiting, None if enough else key):
                return
            candidate = self._accompanied(alone)
            if candidate is None:
                self._found.reasons[NO_VICTIMS] += 1
            else:
                heappush(waiting, (_key(candidate, self._table.rank_of), index, candidate))
        if to_be_named:
            self._found.candidates = [candidate for _, _, candidate in sorted(waiting)[: self._enough]]
        self._take_first(waiting)

    def _offers(
        self, space: SearchSpace, victims: Mask, ranks: Ranks, columns: Rows
    ) -> Iterator[tuple[Key, Candidate]]:
        """These columns as candidates without companions, best first, each with its key."""
        for column in map(int, self._in_order(columns, ranks, _hashes(self._cycle, space.rows))):
            broken, top, total, count, start = (rank[column] for rank in ranks)
            key = (int(broken), int(top), int(total), int(count), float(start))
            yield key, self._candidate(space, victims, column)

    def _take_first(self, waiting: list[tuple[Key, int, Candidate]], least: Key | None = None) -> bool:
        """Take the best candidate that is verified; with `least`, only if it is at least as good as that."""
        while waiting and (least is None or waiting[0][0] <= least):
            self._found.best = self._proven(heappop(waiting)[2])
            if self._found.best is not None:
                return True
        return False

    def _accompanied(self, alone: Candidate) -> Candidate | None:
        """The candidate with its companions; None if one of them must not be evicted."""
        companions = companions_of(self._cycle.state, alone.victims)
        if not companions:
            return alone
        rules, table = self._rules, self._table
        if any(table.rank_of(record) >= rules.priority for record in companions):
            return None
        broken = breaking((*alone.victims, *companions), table.budgets, rules.spent)
        if broken and rules.strict:
            return None
        more = sum(record.pod.uid in broken for record in companions)
        return Candidate(alone.row, alone.victims, alone.violations + more, companions)

    def _proven(self, candidate: Candidate) -> Candidate | None:
        """The candidate without victims that are not needed once companions are gone; None if the pod does not fit."""
        if not candidate.companions:
            return candidate
        cycle, row = self._cycle, candidate.row
        with cycle.state.statement():
            away = self._away()
            away.take((*candidate.victims, *candidate.companions), GONE)
            broken = breaking(away.ordered(), self._table.budgets, self._rules.spent)
            cycle.state.assume(cycle.pod, row)
            gone = Reprieve(self._runner, away, (Preemptor(cycle, row),)).victims(broken)
        if not gone:
            self._found.reasons[NO_VICTIMS] += 1
            return None
        victims = tuple(record for record in gone if record.row == row)
        companions = tuple(record for record in gone if record.row != row)
        return Candidate(row, victims, sum(record.pod.uid in broken for record in gone), companions)

    def _away(self) -> Away:
        return Away(self._cycle.state, with_claims=self._runner.preempts_devices)

    # --- row by row ---

    def _search_rows(self, space: SearchSpace, ledger: dict[int, Account]) -> None:
        """Try rows in the order that amounts suggest; those where amounts rule the pod out only without a candidate."""
        possible = possible_columns(space, ledger)
        ranks = ranks_of(space, choose_victims(space, list(ledger.values())))
        hashes = self._cycle.state.node_hashes[space.rows]
        order = np.lexsort((hashes, *reversed(ranks[:4]), ~possible))
        candidates: list[Candidate] = []
        clean = 0
        for column in map(int, order):
            if candidates and not possible[column]:
                break
            candidate = self._try(space, column)
            if candidate is not None:
                candidates.append(candidate)
                clean += not candidate.violations
                if clean and len(candidates) >= self._enough:
                    break
        if candidates and ALL_CANDIDATES in self._cycle.memo:
            self._found.candidates = sorted(candidates, key=_key)[: self._enough]
        while candidates and self._found.best is None:
            best = best_of(self._cycle, candidates, self._table.rank_of)
            candidates.remove(best)
            self._found.best = self._proven(best)

    def _try(self, space: SearchSpace, column: int) -> Candidate | None:
        """One row, inside a statement."""
        state, row = self._cycle.state, int(space.rows[column])
        here = space.rows[column : column + 1]
        records = self._table.records[row]
        slots = [int(slot) for slot in np.flatnonzero(space.lower[:, column])]
        broken = space.violating
        protected = {slot for slot in slots if broken is not None and broken[slot, column]}
        victims: list[int] = []
        with state.statement():
            away = self._away()
            away.take([records[slot] for slot in slots], GONE)
            judgement = self._runner.judge(self._cycle, here)
            if not len(judgement.passed):
                self._note(judgement)
                return None
            for slot in sorted(slots, key=lambda slot: (slot not in protected, slot)):
                away.put_back(records[slot])
                if not self._runner.fits(self._cycle, row):
                    away.take((records[slot],), GONE)
                    victims.append(slot)
        if not victims:
            self._found.needless.append(row)
            return None
        gone = tuple(records[slot] for slot in sorted(victims))
        candidate = self._accompanied(Candidate(row, gone, sum(slot in protected for slot in victims)))
        if candidate is None:
            self._found.reasons[NO_VICTIMS] += 1
        return candidate

    def _note(self, judgement: Judgement) -> None:
        if judgement.refusal is not None:
            self._found.reasons[judgement.refusal.message] += 1
        else:
            self._found.reasons.update(node_reasons(judgement))


def potential_rows(state: ClusterState, judgement: Judgement) -> Rows:
    """Rows on which evictions could help."""
    if judgement.refusal is None:
        return judgement.resolvable_rows()
    if judgement.refusal.resolvable:
        return state.rows()
    return np.zeros(0, dtype=np.intp)


def no_candidate(state: ClusterState, looked_at: int, reasons: Counter[str]) -> str:
    """The sentence that says why evictions help on no node; `looked_at` of them were examined."""
    counts = Counter(reasons)
    hopeless = state.node_count - looked_at
    if hopeless:
        counts[NOT_HELPFUL] += hopeless
    return available(state.node_count, counts)


def nomination_of(state: ClusterState, best: Candidate, candidates: Sequence[Candidate] = ()) -> Nomination:
    """The nomination for a candidate; the others are listed for extenders to choose from."""
    node = state.node(best.row).name
    if state.gangs:
        best = _in_company(state, best)
    gone = sorted((*best.victims, *best.companions), key=importance) if best.companions else best.victims
    uids = tuple(record.pod.uid for record in reversed(gone))
    message = f"preemption: found a potential placement for pod on node {node}, preempting {len(uids)} victims"
    return Nomination(node, uids, message, tuple(_offer(state, candidate) for candidate in candidates))


def _offer(state: ClusterState, candidate: Candidate) -> Victims:
    pods = (record.pod for record in candidate.victims)
    refs = tuple(ref_of(pod) for pod in pods)
    return Victims(state.node(candidate.row).name, refs, candidate.violations)


def _priority(record: PodRecord) -> int:
    return record.pod.template.priority


def _in_company(state: ClusterState, candidate: Candidate) -> Candidate:
    """The candidate with its companions, if it has any; for candidates that an extender returned."""
    return candidate._replace(companions=candidate.companions or companions_of(state, candidate.victims))


def best_of(cycle: Cycle, candidates: Sequence[Candidate], rank_of: RankOf = _priority) -> Candidate:
    """The candidate to take, of at least one; each has victims."""
    if cycle.state.gangs:
        candidates = [
            each._replace(companions=each.companions or companions_of(cycle.state, each.victims)) for each in candidates
        ]
    keys = [_key(candidate, rank_of) for candidate in candidates]
    best = [candidate for candidate, key in zip(candidates, keys, strict=True) if key == min(keys)]
    rows = np.array([candidate.row for candidate in best], dtype=np.intp)
    return best[int(_hashes(cycle, rows).argmin())]


def _hashes(cycle: Cycle, rows: Rows) -> Hashes:
    """The tie-breaker between equal rows: the smallest wins."""
    state = cycle.state
    hashes = state.node_hashes[rows]
    return tie_hashes(pod_hash(state.seed, cycle.pod.key), hashes, np.empty_like(hashes))


def _key(candidate: Candidate, rank_of: RankOf = _priority) -> Key:
    """The key of one candidate, companions included."""
    records = (*candidate.victims, *candidate.companions)
    ranks = [rank_of(record) for record in records]
    top = max(ranks)
    starts = [record.pod.started_s for record, rank in zip(records, ranks, strict=True) if rank == top]
    earliest = min((start for start in starts if start is not None), default=np.inf)
    total = sum(map(_priority, records)) + len(records) * LIFT
    return candidate.violations, top, total, len(records), -earliest
