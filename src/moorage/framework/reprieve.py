"""Which of the pods that were removed for a search can stay after all, so that none is evicted in vain.

Pods are put back unit by unit as long as every preemptor, a pod that gets the room, still fits where it was assumed:
first units whose eviction violates a disruption budget, last pods that are leaving anyway, the more important ones
first. A unit is a single pod, or the removed members of a gang, which is evicted whole or keeps its minimum.

Invariants:
- all of this happens inside a statement of the caller, in which the preemptors are assumed;
- afterwards, pods that were put back are on their rows again, and victims are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from moorage.core.disruption.away import GONE, Away, let_go
from moorage.core.gangs import lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.state import NOWHERE, PodRecord
from moorage.core.victims import importance, staying
from moorage.framework.cycle import Cycle
from moorage.framework.holding import hold
from moorage.framework.runner import Runner


class Preemptor(NamedTuple):
    """A pod and the row on which it is assumed."""

    cycle: Cycle
    row: int


class ReprievedUnit(NamedTuple):
    """Pods that are put back together, most important first."""

    members: tuple[PodRecord, ...]
    least: int
    """The least number of them to put back, if any."""


class Reprieve:
    """One pass for some preemptors over the removed pods."""

    def __init__(
        self,
        runner: Runner,
        away: Away,
        preemptors: Sequence[Preemptor],
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """`holds` checks any further condition with the preemptors in their places."""
        self._holds = holds
        self._runner = runner
        self._state = away.state
        self._away = away
        self._preemptors = preemptors
        self._on_row: dict[int, list[Preemptor]] = {}
        for preemptor in preemptors:
            self._on_row.setdefault(preemptor.row, []).append(preemptor)

    def victims(self, breaking: frozenset[str]) -> list[PodRecord] | None:
        """The victims, most important first; None if the preemptors do not fit together. `breaking` are uids.

        Most filters read one row only, so when a pod is put back, only the preemptors on its row are judged again, and
        all of them in the end. If that fails, all preemptors are judged every time.
        """
        units = self._units(breaking)
        with self._state.statement() as hopeful:
            gone = self._put_back(units, every_preemptor=False)
            if self._fit(self._preemptors):
                hopeful.commit()
                return sorted(gone, key=importance)
        gone = self._put_back(units, every_preemptor=True)
        return sorted(gone, key=importance) if self._fit(self._preemptors) else None

    # --- units ---

    def _units(self, breaking: frozenset[str]) -> list[ReprievedUnit]:
        state = self._state
        units: list[ReprievedUnit] = []
        gangs: dict[GangKey, list[PodRecord]] = {}
        for record in self._away.ordered():
            key = record.pod.template.gang
            if key is None or not staying(state, record) or record.pod.uid in state.gangs.moving:
                units.append(ReprievedUnit((record,), 1))
            else:
                gangs.setdefault(key, []).append(record)
        for key, members in gangs.items():
            least = self._least(key, members)
            if least <= 1:
                units.extend(ReprievedUnit((member,), 1) for member in members)
            else:
                units.append(ReprievedUnit(tuple(members), least))

        def place(unit: ReprievedUnit) -> tuple[bool, bool, tuple[int, float, str]]:
            spared = any(member.pod.uid in breaking for member in unit.members)
            return not spared, not staying(state, unit.members[0]), importance(unit.members[0])

        return sorted(units, key=place)

    def _least(self, key: GangKey, members: Sequence[PodRecord]) -> int:
        """How many of a gang's members have to be put back if one of them is."""
        terms = terms_of(self._state, key, [member.pod for member in members])
        remaining = [record for record in lasting(self._state, key) if record.pod.uid not in self._away]
        return 0 if terms is None else int(min(terms.least_left - len(remaining), len(members)))

    # --- putting pods back ---

    def _put_back(self, units: Iterable[ReprievedUnit], *, every_preemptor: bool) -> list[PodRecord]:
        """Returns the pods that could not be put back."""
        return [record for unit in units for record in self._try(unit, every_preemptor=every_preemptor)]

    def _try(self, unit: ReprievedUnit, *, every_preemptor: bool) -> Sequence[PodRecord]:
        refused: list[PodRecord] = []
        with self._state.statement() as what_if:
            for record in unit.members:
                row = self._away.row_of(record.pod.uid)
                self._away.put_back(record)
                if row == NOWHERE:
                    continue  # on a node that is not known it takes no room
                if not self._fit(self._preemptors if every_preemptor else self._on_row.get(row, ())):
                    self._away.take((record,), GONE)
                    refused.append(record)
                    if len(unit.members) - len(refused) < unit.least:
                        return unit.members
            what_if.commit()
        return refused

    def _fit(self, preemptors: Sequence[Preemptor]) -> bool:
        """Whether these fit one after the other, in their order."""
        fits = True
        for preemptor in preemptors:
            let_go(self._state, preemptor.cycle.pod.uid)
        for cycle, row in preemptors:
            fits = fits and self._runner.fits(cycle, row) and hold(self._runner, cycle, row)
            if not fits:
                self._state.assume(cycle.pod, row)
        return fits and self._holds()
