"""Which pods would have to go from which node so that a pod fits: kube-scheduler's search, over all nodes at once.

On each node all pods of lower priority are thought away. If the pod fits then, they are let back in one by one as long
as it still fits: first those whose eviction would break a disruption budget, then the others, the most important ones
first. Who stays out is a victim. Among the nodes the order of `_rank` decides, and equal ones by the smallest hash.

Two ways lead to the same answer. Where the filters look at nothing but amounts, all nodes are searched together with
arrays. Otherwise each node is tried inside a statement with every filter asked again; that is slow, so those nodes are
taken in the order that amounts alone suggest, and the search ends when enough candidates were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.commands import PodRef, Victims
from moorage.core.hashing import pod_hash, tie_hashes
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import Slots, VictimTable
from moorage.framework.cycle import Cycle
from moorage.framework.reasons import node_reasons
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Nomination

NO_VICTIMS = "No preemption victims found for incoming pod"
ALL_CANDIDATES = "all preemption candidates"
"""Key of `cycle.memo`: there if somebody else will choose among the candidates."""
_LIFT = 1 << 31
"""Added to each priority in the sum, so that two victims are never better than one for being negative."""


class Candidate(NamedTuple):
    """A node on which the pod fits once these pods are gone, most important first."""

    row: int
    victims: tuple[PodRecord, ...]
    violations: int
    """How many of them break a disruption budget."""


@dataclass(slots=True)
class Found:
    """What a search found: the best candidate, or why none of the nodes is one."""

    best: Candidate | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    candidates: list[Candidate] = field(default_factory=list)
    """The best ones, the best first; only where the cycle asks for them."""
    needless: list[int] = field(default_factory=list)
    """Rows that were rejected although the pod fits there with nobody gone: an extender did that."""


@dataclass(slots=True)
class _Field:
    """The rows of a search, n of them, with their pods of lower priority."""

    rows: Rows
    priority: Slots
    start: Floats
    """Shape (slots, n), like `priority` and the masks."""
    lower: Mask
    violating: Mask | None

    def only(self, keep: Mask) -> _Field:
        """Some of the rows."""
        if keep.all():
            return self
        violating = None if self.violating is None else self.violating[:, keep]
        return _Field(self.rows[keep], self.priority[:, keep], self.start[:, keep], self.lower[:, keep], violating)


class _Account(NamedTuple):
    """One resource: what each pod holds, the same summed up from the first slot on, and what is left without them."""

    taken: Slots
    summed: Slots
    """Shape (slots, n), pods of lower priority only."""
    slack: Ints
    """Shape (n,); negative where the pod does not even fit then."""

    def only(self, keep: Mask) -> _Account:
        """Some of the rows."""
        return _Account(self.taken[:, keep], self.summed[:, keep], self.slack[keep])


class VictimSearch:
    """One search for one pod. `enough` says how many candidates the slow way looks for."""

    def __init__(self, cycle: Cycle, runner: Runner, table: VictimTable, enough: int) -> None:
        self._cycle = cycle
        self._runner = runner
        self._table = table
        self._enough = enough
        self._found = Found()

    def search(self, rows: Rows, skipped: frozenset[str] | None) -> Found:
        """Look at these rows; `skipped` are the plugins whose Filter is left out for the pod, None if unknown."""
        ground = self._ground(rows)
        without = len(rows) - len(ground.rows)
        if without:
            self._found.reasons[NO_VICTIMS] += without
        if not len(ground.rows):
            return self._found
        slack, complete = self._runner.slack(self._cycle, ground.rows, skipped or frozenset())
        ledger = {column: self._account(column, ground, left) for column, left in slack.items()}
        if complete and skipped is not None:
            self._search_amounts(ground, ledger)
        else:
            self._search_rows(ground, ledger)
        return self._found

    def _ground(self, rows: Rows) -> _Field:
        """The rows that have pods of lower priority."""
        table, state = self._table, self._cycle.state
        priority = table.priority[:, : state.height] if len(rows) == state.height else table.priority[:, rows]
        lower = priority < self._cycle.template.priority
        used = np.flatnonzero(lower.any(axis=1))
        depth = int(used[-1]) + 1 if len(used) else 0
        lower = lower[:depth]
        start = table.start[:depth, : state.height] if len(rows) == state.height else table.start[:depth, rows]
        whole = _Field(rows, priority[:depth], start, lower, None)
        has_some: Mask = np.any(lower, axis=0)
        ground = whole.only(has_some)
        ground.violating = table.violating(ground.rows, ground.lower)
        return ground

    def _account(self, column: int, ground: _Field, left: Ints) -> _Account:
        """One resource, as long as all pods of lower priority are away; `left` is what it has left with them."""
        amounts = self._table.amounts[column, : len(ground.lower)]
        height = self._cycle.state.height
        taken = amounts[:, :height] if len(ground.rows) == height else amounts[:, ground.rows]
        summed = np.cumsum(taken * ground.lower, axis=0)
        return _Account(taken, summed, left + summed[-1])

    # --- all rows at once ---

    def _search_amounts(self, ground: _Field, ledger: dict[int, _Account]) -> None:
        keep = self._runner.node_mask(self._cycle, ground.rows) & _possible(ground, ledger)
        if keep.any():
            here, kept = ground, list(ledger.values())
            if not keep.all():
                here, kept = ground.only(keep), [account.only(keep) for account in kept]
            self._choose(here, _reprieve(here, kept))
        if self._found.best is None:
            freed = {column: account.summed[-1] for column, account in ledger.items()}
            with self._cycle.state.amounts_shifted(ground.rows, freed, -1):
                self._note(self._runner.judge(self._cycle, ground.rows))

    def _choose(self, ground: _Field, victims: Mask) -> None:
        ranks = _rank(ground, victims)
        has_some: Mask = np.any(victims, axis=0)
        if not has_some.all():
            self._found.needless.extend(map(int, ground.rows[~has_some]))
        best = np.flatnonzero(has_some)
        if ALL_CANDIDATES in self._cycle.memo:
            order = best[
                np.lexsort((self._cycle.state.node_hashes[ground.rows[best]], *(r[best] for r in ranks[::-1])))
            ]
            self._found.candidates = [
                self._candidate(ground, victims, ranks[0], int(column)) for column in order[: self._enough]
            ]
        for rank in ranks:
            if len(best) <= 1:
                break
            values = rank[best]
            best = best[values == values.min()]
        if not len(best):
            return
        column = int(best[_first_by_hash(self._cycle, ground.rows[best])])
        self._found.best = self._candidate(ground, victims, ranks[0], column)

    def _candidate(self, ground: _Field, victims: Mask, violations: Ints, column: int) -> Candidate:
        row = int(ground.rows[column])
        records = self._table.records[row]
        gone = tuple(records[slot] for slot in np.flatnonzero(victims[:, column]))
        return Candidate(row, gone, int(violations[column]))

    # --- row by row ---

    def _search_rows(self, ground: _Field, ledger: dict[int, _Account]) -> None:
        """Try rows in the order that amounts suggest; where even those say no only if there is no candidate."""
        possible = _possible(ground, ledger)
        ranks = _rank(ground, _reprieve(ground, list(ledger.values())))
        hashes = self._cycle.state.node_hashes[ground.rows]
        order = np.lexsort((hashes, *reversed(ranks[:4]), ~possible))
        candidates: list[Candidate] = []
        clean = 0
        for column in map(int, order):
            if candidates and not possible[column]:
                break
            candidate = self._try(ground, column)
            if candidate is not None:
                candidates.append(candidate)
                clean += not candidate.violations
                if clean and len(candidates) >= self._enough:
                    break
        if candidates:
            self._found.best = best_of(self._cycle, candidates)
            if ALL_CANDIDATES in self._cycle.memo:
                self._found.candidates = sorted(candidates, key=_key)[: self._enough]

    def _try(self, ground: _Field, column: int) -> Candidate | None:
        """One row, inside a statement."""
        state, row = self._cycle.state, int(ground.rows[column])
        here = ground.rows[column : column + 1]
        records = self._table.records[row]
        slots = [int(slot) for slot in np.flatnonzero(ground.lower[:, column])]
        broken = ground.violating
        breaking = {slot for slot in slots if broken is not None and broken[slot, column]}
        victims: list[int] = []
        with state.statement():
            for slot in slots:
                state.remove_pod(records[slot].pod.uid)
            judgement = self._runner.judge(self._cycle, here)
            if not len(judgement.passed):
                self._note(judgement)
                return None
            for slot in sorted(slots, key=lambda slot: (slot not in breaking, slot)):
                pod = records[slot].pod
                state.assume(pod, row)
                if not self._runner.fits(self._cycle, row):
                    state.remove_pod(pod.uid)
                    victims.append(slot)
        if not victims:
            self._found.needless.append(row)
            return None
        gone = tuple(records[slot] for slot in sorted(victims))
        return Candidate(row, gone, sum(slot in breaking for slot in victims))

    def _note(self, judgement: Judgement) -> None:
        if judgement.refusal is not None:
            self._found.reasons[judgement.refusal.message] += 1
        else:
            self._found.reasons.update(node_reasons(judgement))


def _possible(ground: _Field, ledger: dict[int, _Account]) -> Mask:
    """Where the amounts suffice with all pods of lower priority away, bool[n]."""
    possible: Mask = np.ones(len(ground.rows), dtype=np.bool_)
    for account in ledger.values():
        possible &= account.slack >= 0
    return possible


def nomination_of(state: ClusterState, best: Candidate, candidates: Sequence[Candidate] = ()) -> Nomination:
    """What it means to take a candidate; the others are named for whoever is to choose among them."""
    node = state.node(best.row).name
    uids = tuple(record.pod.uid for record in reversed(best.victims))
    message = f"preemption: found a potential placement for pod on node {node}, preempting {len(uids)} victims"
    return Nomination(node, uids, message, tuple(_offer(state, candidate) for candidate in candidates))


def _offer(state: ClusterState, candidate: Candidate) -> Victims:
    pods = (record.pod for record in candidate.victims)
    refs = tuple(PodRef(pod.namespace, pod.name, pod.uid) for pod in pods)
    return Victims(state.node(candidate.row).name, refs, candidate.violations)


def best_of(cycle: Cycle, candidates: Sequence[Candidate]) -> Candidate:
    """The candidate to take, of at least one; each has victims."""
    keys = [_key(candidate) for candidate in candidates]
    best = [candidate for candidate, key in zip(candidates, keys, strict=True) if key == min(keys)]
    return best[_first_by_hash(cycle, np.array([candidate.row for candidate in best], dtype=np.intp))]


def _first_by_hash(cycle: Cycle, rows: Rows) -> int:
    """The index of the row that wins a tie."""
    state = cycle.state
    hashes = state.node_hashes[rows]
    return int(tie_hashes(pod_hash(state.seed, cycle.pod.key), hashes, np.empty_like(hashes)).argmin())


def _reprieve(ground: _Field, ledger: Sequence[_Account]) -> Mask:
    """Who has to go, bool[slots, n], where only amounts count."""
    lefts = [account.slack.copy() for account in ledger]
    victims: Mask = ground.lower.copy()
    rounds = [ground.lower] if ground.violating is None else [ground.violating, ground.lower & ~ground.violating]
    begin = 0
    if ground.violating is None and ledger:
        begin = _all_fit(ledger)
        victims[:begin] = False
        if begin:
            lefts = [account.slack - account.summed[begin - 1] for account in ledger]
    for wanting in rounds:
        for slot in begin + np.flatnonzero(wanting[begin:].any(axis=1)):
            fits = wanting[slot].copy()
            for account, left in zip(ledger, lefts, strict=True):
                fits &= left >= account.taken[slot]
            for account, left in zip(ledger, lefts, strict=True):
                np.subtract(left, account.taken[slot] * fits, out=left)
            victims[slot] ^= fits
    return victims


def _all_fit(ledger: Sequence[_Account]) -> int:
    """The number of slots that can be let back in everywhere: no row runs short before."""
    short = np.zeros(len(ledger[0].summed), dtype=np.bool_)
    for account in ledger:
        short |= (account.summed > account.slack).any(axis=1)
    return int(short.argmax()) if short.any() else len(short)


def _rank(ground: _Field, victims: Mask) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """What decides between nodes, each shape (n,), smaller is better, the first one first.

    Broken budgets, highest priority, sum of priorities, number of victims, and the start of the earliest victim of
    highest priority, negated: a later one is better. Columns without victims mean nothing.
    """
    first = victims.argmax(axis=0)
    columns = np.arange(victims.shape[1])
    count = victims.sum(axis=0, dtype=np.int64)
    violations = np.zeros(len(columns), dtype=np.int64)
    if ground.violating is not None:
        violations = (victims & ground.violating).sum(axis=0, dtype=np.int64)
    total = (ground.priority * victims).sum(axis=0) + count * _LIFT
    return violations, ground.priority[first, columns], total, count, -ground.start[first, columns]


def _key(candidate: Candidate) -> tuple[int, int, int, int, float]:
    """The same for one candidate."""
    pods = [record.pod for record in candidate.victims]
    priorities = [pod.template.priority for pod in pods]
    top = max(priorities)
    starts = [pod.started_s for pod in pods if pod.template.priority == top]
    earliest = min((start for start in starts if start is not None), default=np.inf)
    return candidate.violations, top, sum(priorities) + len(pods) * _LIFT, len(pods), -earliest
