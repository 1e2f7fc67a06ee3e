"""Who of the pods that were thought away may stay after all, so that nobody is evicted in vain.

Pods are let back in unit by unit as long as every guest, a pod for which room is made, still fits where it was put:
units whose eviction breaks a disruption budget first, pods that leave anyhow last, the more important ones first. A
unit is a single pod, or what left of a gang that goes as a whole or shrinks to no less than its minimum.

Invariants:
- all of this happens inside a statement of the caller, in which the guests are assumed;
- who is let back in stands on its row again afterwards, who has to go does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from moorage.core.gangs import lasting, taken_along, terms_of
from moorage.core.membership import GangKey
from moorage.core.state import NOWHERE, ClusterState, PodRecord
from moorage.core.victims import importance, staying
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner


class Guest(NamedTuple):
    """A pod and the row on which it is assumed."""

    cycle: Cycle
    row: int


class ReprievedUnit(NamedTuple):
    """Pods that are let back in together, most important first."""

    members: tuple[PodRecord, ...]
    least: int
    """So many of them, at least, or none."""


class Away:
    """Pods thought away inside a statement, with the rows that they stood on."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.records: dict[str, PodRecord] = {}
        self.rows: dict[str, int] = {}
        """By uid; NOWHERE for a pod on a node that is not known, which takes no room and is left where it is."""

    def remove(self, records: Iterable[PodRecord]) -> None:
        """Think these away, too."""
        for record in records:
            uid = record.pod.uid
            if uid not in self.records:
                self.records[uid], self.rows[uid] = record, record.row
                if record.row != NOWHERE:
                    self.state.remove_pod(uid)

    def ordered(self) -> list[PodRecord]:
        """All of them, most important first."""
        return sorted(self.records.values(), key=importance)


def companions_of(state: ClusterState, victims: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
    """Who has to go along with these, in a stable order; a victim that leaves anyhow takes nobody along."""
    if not state.gangs:
        return ()
    return tuple(taken_along(state, [record for record in victims if staying(state, record)]))


class Reprieve:
    """One pass for some guests over the pods that are away."""

    def __init__(
        self, runner: Runner, away: Away, guests: Sequence[Guest], holds: Callable[[], bool] = lambda: True
    ) -> None:
        """`holds` says whether what else is asked for is still given, with the guests in their places."""
        self._holds = holds
        self._runner = runner
        self._state = away.state
        self._away = away
        self._guests = guests
        self._on_row: dict[int, list[Guest]] = {}
        for guest in guests:
            self._on_row.setdefault(guest.row, []).append(guest)

    def victims(self, breaking: frozenset[str]) -> list[PodRecord] | None:
        """Who has to go, most important first; None if the guests do not fit together. `breaking` are uids.

        Most filters look at one row only, so at first only the guests beside a pod are judged again when it is let in,
        and everybody in the end. If that fails, everybody is judged every time.
        """
        units = self._units(breaking)
        with self._state.statement() as hopeful:
            gone = self._let_in(units, everybody=False)
            if self._fit(self._guests):
                hopeful.commit()
                return sorted(gone, key=importance)
        gone = self._let_in(units, everybody=True)
        return sorted(gone, key=importance) if self._fit(self._guests) else None

    # --- units ---

    def _units(self, breaking: frozenset[str]) -> list[ReprievedUnit]:
        state = self._state
        units: list[ReprievedUnit] = []
        gangs: dict[GangKey, list[PodRecord]] = {}
        for record in self._away.ordered():
            key = record.pod.template.gang
            if key is None or not staying(state, record):
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
        """How many of a gang's members have to come back if one of them does."""
        terms = terms_of(self._state, key, [member.pod for member in members])
        remaining = [record for record in lasting(self._state, key) if record.pod.uid not in self._away.records]
        return 0 if terms is None else int(min(terms.least_left - len(remaining), len(members)))

    # --- letting in ---

    def _let_in(self, units: Iterable[ReprievedUnit], *, everybody: bool) -> list[PodRecord]:
        """Returns who could not be let in."""
        return [record for unit in units for record in self._try(unit, everybody=everybody)]

    def _try(self, unit: ReprievedUnit, *, everybody: bool) -> Sequence[PodRecord]:
        refused: list[PodRecord] = []
        with self._state.statement() as what_if:
            for record in unit.members:
                uid = record.pod.uid
                row = self._away.rows[uid]
                if row == NOWHERE:
                    continue
                self._state.assume(record.pod, row)
                if not self._fit(self._guests if everybody else self._on_row.get(row, ())):
                    self._state.remove_pod(uid)
                    refused.append(record)
                    if len(unit.members) - len(refused) < unit.least:
                        return unit.members
            what_if.commit()
        return refused

    def _fit(self, guests: Sequence[Guest]) -> bool:
        """Whether these can come one after the other, in their order."""
        fits = True
        for guest in guests:
            self._state.remove_pod(guest.cycle.pod.uid)
        for guest in guests:
            fits = fits and self._runner.fits(guest.cycle, guest.row)
            self._state.assume(guest.cycle.pod, guest.row)
        return fits and self._holds()
