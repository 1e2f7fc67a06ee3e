"""How many of something are on each row, and from that in each domain of the topologies in use.

Invariant: the counts of a domain are the sum over the rows that its column put there when it was last refreshed. Pod
events change one entry; nodes that moved are caught up with at the next event or question, before anything else.
"""

from __future__ import annotations

import numpy as np

from moorage.core.domains import NO_DOMAIN, DomainColumn
from moorage.core.sparsecounts import FEW, SparseCounts

_KEPT_TOPOLOGIES = 8


class Tally:
    """Counts by row (`rows`) and by domain (`by_domain`)."""

    __slots__ = ("_topologies", "rows")

    def __init__(self) -> None:
        self.rows = SparseCounts()
        self._topologies: dict[DomainColumn, _Topology] = {}

    def add(self, row: int, number: int) -> None:
        """Count `number` more (or fewer) on a row."""
        for topology in self._topologies.values():
            topology.add(self.rows, row, number)
        self.rows.add(row, number)

    def add_all(self, rows: SparseCounts) -> None:
        """Count everything that these rows hold."""
        self._topologies.clear()
        self.rows.add_all(rows)

    def by_domain(self, column: DomainColumn) -> SparseCounts:
        """The counts by domain of a refreshed column; rows without a domain do not count. Do not change them."""
        found = self._topologies.get(column)
        if found is None:
            if len(self._topologies) >= _KEPT_TOPOLOGIES:
                del self._topologies[next(iter(self._topologies))]
            found = self._topologies[column] = _Topology(column, self.rows)
        elif found.moved != column.moved:
            found.catch_up(self.rows)
        return found.counts

    def columns(self) -> list[DomainColumn]:
        """The topologies that are counted by domain at present."""
        return list(self._topologies)

    @property
    def bytes_used(self) -> int:
        """Roughly how much memory the counts take."""
        used = self.rows.bytes_used
        for topology in self._topologies.values():
            used += topology.counts.bytes_used
        return used


class _Topology:
    """The sums over the domains of one column; `moved` is how far its moves have been followed."""

    __slots__ = ("column", "counts", "moved")

    def __init__(self, column: DomainColumn, rows: SparseCounts) -> None:
        self.column = column
        self.moved = column.moved
        self.counts = _sums(column, rows)

    def add(self, rows: SparseCounts, row: int, number: int) -> None:
        """Follow a pod; `rows` does not count it yet."""
        if self.moved != self.column.moved:
            self.catch_up(rows)
        domain = self.column.id_of(row)
        if domain != NO_DOMAIN:
            self.counts.add(domain, number)

    def catch_up(self, rows: SparseCounts) -> None:
        """Follow the nodes that moved."""
        moves = self.column.moves_since(self.moved)
        self.moved = self.column.moved
        if moves is None:
            self.counts = _sums(self.column, rows)
            return
        for row, before, after in moves:
            count = rows.get(row)
            if count and before != NO_DOMAIN:
                self.counts.add(before, -count)
            if count and after != NO_DOMAIN:
                self.counts.add(after, count)


def _sums(column: DomainColumn, rows: SparseCounts) -> SparseCounts:
    found = SparseCounts()
    if not rows.places:
        return found
    indices, counts = rows.above_zero()
    if len(indices) <= FEW:
        for row, count in zip(indices.tolist(), counts.tolist(), strict=True):
            domain = column.id_of(row)
            if domain != NO_DOMAIN:
                found.add(domain, count)
        return found
    known = indices < len(column.ids)
    domains, counts = column.ids[indices[known]], counts[known]
    sums = np.bincount(domains[domains >= 0], counts[domains >= 0], minlength=0)
    for domain in np.flatnonzero(sums).tolist():
        found.add(domain, int(sums[domain]))
    return found
