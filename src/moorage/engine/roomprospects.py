"""For which units of a round a search is worth it, by what nodes could offer (`roomoffers`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.state import ClusterState
from moorage.engine.askedamounts import Asked
from moorage.engine.roomoffers import RoomOffers
from moorage.engine.roomparts import Claimant
from moorage.engine.sharing import Sharing
from moorage.engine.units import Unit


class RoomProspects:
    """What can be known about one round before anything is searched."""

    def __init__(self, state: ClusterState, sharing: Sharing) -> None:
        self._state, self._sharing = state, sharing
        self._offers: RoomOffers | None = None
        """Of the state as it is now, if they are known."""
        self._in_vain = False

    def changed(self) -> None:
        """The state is another one."""
        self._offers, self._in_vain = None, False

    def failed(self) -> None:
        """Something was tried in vain, so that it is worth finding out what nodes could offer."""
        self._in_vain = True

    def hopeful(self, units: Iterable[Unit], claimant_of: Callable[[Unit], Claimant]) -> list[Unit]:
        """Those of the units for which something could be done."""
        offers, alike = RoomOffers(self._state, self._sharing), dict[object, _Alike]()
        ledger, sharing, found = self._state.queues, self._sharing, list[Unit]()
        lines: dict[int, bool] = {}
        """What holds for the first gang in a line holds for the others."""
        for unit in units:
            entry = ledger.about(unit.pod)
            demand = entry.demand
            if demand.leaf is None:
                continue
            if unit.gang is not None:
                if unit.line not in lines or not unit.line:
                    lines[unit.line] = self._helps(offers, claimant_of(unit))
                if lines[unit.line]:
                    found.append(unit)
                continue
            asked, priority = sharing.asked.of(unit.pod), -int(sharing.unit_key(unit)[0])
            key = demand.leaf, demand.preemptible, priority, asked is None
            known = alike.get(key)
            if known is None:
                known = alike[key] = _Alike(demand.leaf, priority, preemptible=demand.preemptible)
            known.add(unit, ledger.needed(entry), asked)
        for each in alike.values():
            if offers.helps(each.least(), each.asks):
                found += [unit for unit in each.units if self._helps(offers, claimant_of(unit))]
        return found

    def could(self, step: str, claimant: Claimant) -> bool:
        """Whether a way could help; it is not found out before something was tried in vain."""
        if self._offers is None:
            if not self._in_vain:
                return True
            self._offers = RoomOffers(self._state, self._sharing)
        return self._offers.ways[step](claimant, self._asked(claimant))

    def _helps(self, offers: RoomOffers, claimant: Claimant) -> bool:
        return bool(claimant.entries) and offers.helps(claimant, self._asked(claimant))

    def _asked(self, claimant: Claimant) -> list[Asked] | None:
        """What each of the pods asks of a node; None if amounts do not decide."""
        found = [self._sharing.asked.of(entry.pod) for entry in claimant.entries]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None


class _Alike:
    """Units without a gang of one leaf and one priority."""

    def __init__(self, leaf: QueueNode, priority: int, *, preemptible: bool) -> None:
        self.units: list[Unit] = []
        self._leaf, self._priority, self._preemptible = leaf, priority, preemptible
        self._needs: dict[Amounts, None] = {}
        self._asked: dict[Asked, None] = {}

    def add(self, unit: Unit, need: Amounts, asked: Asked | None) -> None:
        """One more; either all or none ask for amounts that are known."""
        self.units.append(unit)
        self._needs[need] = None
        if asked is not None:
            self._asked[asked] = None

    def least(self) -> Claimant:
        """One that needs the least of what any of them needs: if nothing can be done for it, nothing can for them."""
        return Claimant(self.units[0], self._leaf, [], _least(self._needs), self._preemptible, self._priority)

    @property
    def asks(self) -> list[Asked] | None:
        """What it asks of a node; None if that is not known."""
        return [_least(self._asked)] if self._asked else None


def _least(amounts: Iterable[Amounts]) -> tuple[tuple[int, int], ...]:
    """The least of each; nothing of what some do not ask for."""
    found: dict[int, int] | None = None
    for each in amounts:
        asked = dict(each)
        if found is None:
            found = asked
        else:
            found = {index: min(amount, asked[index]) for index, amount in found.items() if index in asked}
    return tuple(sorted((found or {}).items()))
