"""The nodes that the pods of planned profiles can use, with everything gone that they may evict.

Pods of their own scheduler count as gone: which of those stay is what the plan decides. So do pods of other schedulers
that are less important. A pod with preemptionPolicy Never, or of a profile that evicts nobody, can use only nodes that
nobody has to leave. Pods that no filter can tell apart are of one kind, and the answer is kept by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.disruption.away import GONE, Away
from moorage.core.pods import Pod, PodTemplate, as_pending
from moorage.core.seating import Bits
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import RankOf, staying
from moorage.framework.contract import OwnsNodes
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.usable import usable_rows

NEVER = "Never"
_FEW_ROWS = 64
"""Up to so many changed rows are looked at alone."""
_FEW_KINDS, _MOST_TEMPLATES = 64, 8192


class _Evictor(NamedTuple):
    """Pods that may evict the same pods."""

    scheduler: str
    priority: int
    evicts: bool


class _Kind:
    """Pods that can use the same nodes."""

    def __init__(self, pod: Pod, runner: Runner, evictor: _Evictor) -> None:
        self.pod, self.runner, self.evictor = pod, runner, evictor
        """One of the pods stands for all."""
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        """bool[capacity]."""
        self.bits: Bits = 0
        self.follows = False
        """Whether it depends on more than the nodes and what stands on each."""
        self.seen: Hashable = None
        """The state as of which this is known."""


class _Stays:
    """What an evictor has to leave on every row: amounts by resource column, kept up to date."""

    def __init__(self, evictor: _Evictor) -> None:
        self.evictor = evictor
        self.amounts: dict[int, Ints] = {}


class UsableNodes:
    """The answers of one engine."""

    def __init__(self, state: ClusterState, runner_of: Callable[[Pod], Runner | None], rank_of: RankOf) -> None:
        self._state, self._runner_of, self._rank_of = state, runner_of, rank_of
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[int, _Kind] = {}
        self._next = 0
        self._most = _FEW_KINDS
        """Above so many kinds those go that are not used any more."""
        self._by_template: dict[int, tuple[PodTemplate, Hashable, int]] = {}
        """Id of a template -> the template, the state as of which its kind is known, and that."""
        self._stays: dict[_Evictor, _Stays] = {}
        self._strangers: dict[str, dict[int, tuple[str, ...]]] = {}
        """Scheduler -> row -> the pods on it that are not its own, where there are any."""
        self._now = 0.0
        self._seen: tuple[int, ...] = ()
        """Positions and versions of the state at the last `refresh`."""

    def kind_of(self, pod: Pod) -> int:
        """The number of the pod's kind."""
        template, state = pod.template, self._state
        version = (state.objects_version, state.pod_terms.version)
        known = self._by_template.get(id(template))
        if known is not None and known[1] == version:
            return known[2]
        runner = self._runner_of(pod)
        if runner is None:
            raise LookupError(f"no profile has the scheduler name {template.scheduler_name}")
        evicts = bool(runner.plugins.post_filter) and template.preemption_policy != NEVER
        evictor = _Evictor(template.scheduler_name, template.priority if evicts else 0, evicts)
        sign = (id(runner), evictor, runner.sign(Cycle(pod, state, self._now)))
        number = self._numbers.get(sign)
        if number is None:
            number = self._numbers[sign] = self._next
            self._next += 1
            self._kinds[number] = _Kind(as_pending(pod), runner, evictor)
        self._by_template[id(template)] = (template, version, number)
        return number

    def bits(self, number: int) -> Bits:
        """The rows that pods of a kind can use."""
        kind = self._kinds[number]
        if kind.seen is None:
            self._find(kind)
        return kind.bits

    @property
    def some_are_vain(self) -> bool:
        """Whether there are pods that can use no node."""
        return any(kind.seen is not None and not kind.bits for kind in self._kinds.values())

    def forget(self, used: Callable[[], Collection[int]]) -> None:
        """Drop kinds that are not used any more, and what was counted for them, if there are many."""
        if len(self._kinds) > self._most or len(self._by_template) > _MOST_TEMPLATES:
            self._by_template.clear()
            kept = set(used())
            self._numbers = {sign: number for sign, number in self._numbers.items() if number in kept}
            self._kinds = {number: kind for number, kind in self._kinds.items() if number in kept}
            self._most = max(_FEW_KINDS, 2 * len(self._kinds))
            evictors = {kind.evictor for kind in self._kinds.values()}
            self._stays = {evictor: stays for evictor, stays in self._stays.items() if evictor in evictors}

    # --- keeping up ---

    def refresh(self, now: float) -> bool:
        """Bring all answers up to date; returns whether one is different."""
        self._now, state = now, self._state
        seen = (
            state.capacity,
            state.node_log.position,
            state.pod_log.position,
            state.objects_version,
            state.pod_terms.version,
        )
        if seen == self._seen:
            return False
        before, self._seen = self._seen, seen
        alike = bool(before) and before[0] == seen[0]
        nodes = state.node_log.since(before[1]) if alike else None
        pods = state.pod_log.since(before[2]) if alike else None
        if nodes is None or pods is None:
            self._stays.clear()
            self._strangers.clear()
            return bool(sum(self._renew(kind, None) for kind in self._kinds.values() if kind.seen is not None))
        changed = dict.fromkeys((*nodes, *pods))
        rows = {name: {*nodes, *self._strange(name, changed)} for name in self._strangers}
        for stays in self._stays.values():
            for row in rows[stays.evictor.scheduler]:
                self._count(stays, row)
        found = False
        for kind in self._kinds.values():
            if kind.seen is not None:
                mine = rows.get(kind.evictor.scheduler, changed) if kind.evictor.evicts else changed
                found = self._renew(kind, mine) or found
        return found

    def _strange(self, scheduler: str, rows: Iterable[int]) -> list[int]:
        """Those of these rows that have other pods of other schedulers than before."""
        known, found = self._strangers[scheduler], []
        for row in rows:
            pods = self._others_on(scheduler, row)
            if known.get(row, ()) != pods:
                known[row] = pods
                found.append(row)
        return found

    def _others_on(self, scheduler: str, row: int) -> tuple[str, ...]:
        records = self._state.records_on(row)
        return tuple([each.pod.uid for each in records if each.pod.template.scheduler_name != scheduler])

    def _renew(self, kind: _Kind, rows: Collection[int] | None) -> bool:
        """Look again where something has changed, None: anything; returns whether the answer is different."""
        before, seen = kind.bits, self._seen_by(kind)
        if rows is None or seen != kind.seen or len(rows) > _FEW_ROWS:
            self._find(kind)
        elif rows:
            self._look(kind, np.array(sorted(rows), dtype=np.intp))
        return kind.bits != before

    def _seen_by(self, kind: _Kind) -> Hashable:
        state = self._state
        seen = (state.capacity, state.objects_version, state.pod_terms.version)
        return (*seen, state.node_log.position, state.pod_log.position) if kind.follows else seen

    def _find(self, kind: _Kind) -> None:
        kind.mask = np.zeros(self._state.capacity, dtype=np.bool_)
        self._look(kind, self._state.rows())
        kind.seen = self._seen_by(kind)

    def _look(self, kind: _Kind, rows: Rows) -> None:
        """Ask about these rows."""
        state, runner = self._state, kind.runner
        kind.mask[rows] = False
        rows = rows[state.alive[rows]]
        ignored = {each.name for each in runner.plugins.all if isinstance(each.plugin, OwnsNodes)}
        cycle = Cycle(kind.pod, state, self._now)
        if not kind.evictor.evicts:
            rows = np.array([row for row in map(int, rows) if not self._own_on(kind, row)], dtype=np.intp)
        try:
            found = usable_rows(runner, cycle, rows, self._freed(kind.evictor), ignored)
            kind.mask[found.sure] = True
            for row in map(int, found.doubtful):
                kind.mask[row] = self._could_have(kind, cycle, row)
            kind.follows = found.follows
        except Exception:  # noqa: BLE001 - a plugin's fault is told when the pod itself is tried
            kind.mask[rows] = True
            kind.follows = True
        kind.bits = int.from_bytes(np.packbits(kind.mask, bitorder="little").tobytes(), "little")

    def _could_have(self, kind: _Kind, cycle: Cycle, row: int) -> bool:
        """Whether the pod fits once everything has left the row that it may evict."""
        state = self._state
        going = [record for record in state.records_on(row) if self._may_go(kind.evictor, record)]
        if not going:
            return False
        with state.statement():
            Away(state).take(going, GONE)
            return bool(len(kind.runner.judge(cycle, np.array([row], dtype=np.intp), nominated=False).passed))

    def _own_on(self, kind: _Kind, row: int) -> bool:
        """Whether a pod of the same scheduler is going to stay on the row."""
        return any(
            record.pod.template.scheduler_name == kind.evictor.scheduler and staying(self._state, record)
            for record in self._state.records_on(row)
        )

    # --- what may be evicted ---

    def _may_go(self, evictor: _Evictor, record: PodRecord) -> bool:
        if not staying(self._state, record):
            return True
        if record.pod.template.scheduler_name == evictor.scheduler:
            return True
        return evictor.evicts and self._rank_of(record) < evictor.priority

    def _freed(self, evictor: _Evictor) -> dict[int, Ints]:
        """What could be freed on every row, by resource column."""
        stays = self._stays.get(evictor)
        if stays is None:
            stays = self._stays[evictor] = _Stays(evictor)
            known = self._strangers.setdefault(evictor.scheduler, {})
            for row in map(int, self._state.rows()):
                pods = self._others_on(evictor.scheduler, row)
                if pods:
                    known[row] = pods
                    self._count(stays, row)
        freed: dict[int, Ints] = {}
        for column, requested in enumerate(self._state.resources.requested):
            freed[column] = requested - stays.amounts[column] if column in stays.amounts else requested
        return freed

    def _count(self, stays: _Stays, row: int) -> None:
        """Count a row anew."""
        for column in stays.amounts.values():
            column[row] = 0
        for record in self._state.records_on(row):
            if self._may_go(stays.evictor, record):
                continue
            for number, amount in record.vector.pairs:
                if number not in stays.amounts:
                    stays.amounts[number] = np.zeros(self._state.capacity, dtype=np.int64)
                stays.amounts[number][row] += amount
