"""Topology domains: which rows share a value of a node label, perhaps only among the nodes that a scope admits.

A `DomainColumn` holds the value id of each row (those of the label's column), -1 where the node lacks the label or the
scope does not admit it. It is brought up to date when it is read, and notes which rows moved between domains, so that
sums over domains (`tally`) are updated and not recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from moorage.core.affinity import NodeTerm
from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.nodes import Node
from moorage.core.nodeterms import any_term
from moorage.core.selectors import selector_from_labels
from moorage.core.taints import Toleration, is_barred
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

NO_DOMAIN = -1
_ROW_BY_ROW = 32
"""Up to this many changed nodes are looked at one by one, more with one call on all rows."""
_KEPT_MOVES = 256


@dataclass(frozen=True, slots=True)
class Scope:
    """Which nodes count besides having the topology label; an empty one lets all count."""

    keys: tuple[str, ...] = ()
    """Other labels that a node must have."""
    node_selector: FrozenDict[str, str] = EMPTY
    terms: tuple[NodeTerm, ...] | None = None
    """Alternatives of which a node must match one; None asks nothing."""
    tolerations: tuple[Toleration, ...] | None = None
    """If given, nodes with other NoSchedule or NoExecute taints do not count."""

    def admits(self, node: Node) -> bool:
        """Whether one node counts."""
        labels = node.labels
        return (
            all(key in labels for key in self.keys)
            and all(labels.get(key) == value for key, value in self.node_selector.items())
            and (self.terms is None or any(term.matches(node.name, labels) for term in self.terms))
            and (self.tolerations is None or not is_barred(node.taints, self.tolerations))
        )

    def admitted(self, state: ClusterState, rows: Rows) -> Mask:
        """Which of these living rows count, shape (len(rows),)."""
        mask: Mask = np.ones(len(rows), dtype=np.bool_)
        for key in self.keys:
            column = state.labels.known(key)
            mask &= False if column is None else column.ids[rows] >= 0
        for requirement in selector_from_labels(self.node_selector).requirements:
            mask &= state.labels.matching(requirement, rows)
        if self.terms is not None:
            mask &= any_term(state, self.terms, rows)
        tolerations = self.tolerations
        if tolerations is not None:
            barred = np.array([is_barred(taints, tolerations) for taints in state.taints.sets], dtype=np.bool_)
            mask &= ~barred[state.taints.ids[rows]]
        return mask


EVERYWHERE = Scope()


class DomainMove(NamedTuple):
    """A row that came from one domain into another; NO_DOMAIN stands for none."""

    row: int
    before: int
    after: int


class DomainColumn:
    """The domains of one topology key under one scope; `refresh` before reading."""

    __slots__ = (
        "__weakref__", "_moves", "_present", "_present_at", "_present_count", "_read_to", "_values", "ids", "key",
        "labelled", "moved", "scope", "size",
    )  # fmt: skip

    def __init__(self, key: str, scope: Scope) -> None:
        self.key = key
        self.scope = scope
        self.ids: Rows = np.zeros(0, dtype=np.intp)
        """Domain of each row, intp[capacity as it was at the last refresh]."""
        self.size = 0
        """Domains are numbered below this."""
        self.labelled = 0
        """Number of rows that have a domain."""
        self.moved = 0
        """Rises with every move; keep it and hand it to `moves_since` later."""
        self._moves: list[DomainMove] = []
        self._values: list[str] | None = None
        """What the numbers of domains mean: the values of the label as of the last refresh."""
        self._read_to = -1
        self._present: Mask = np.zeros(0, dtype=np.bool_)
        self._present_count = 0
        self._present_at = (-1, -1)

    def refresh(self, state: ClusterState) -> None:
        """Bring `ids` up to date."""
        log = state.node_log
        if self._read_to == log.position:
            return
        changed = log.since(self._read_to) if self._read_to >= 0 else None
        labels = state.labels.known(self.key)
        values = None if labels is None else labels.values
        self.size = 0 if values is None else len(values)
        if values is not self._values:
            self._values = values
            self._renumber(self._all_ids(state))
            self._read_to = log.position
            return
        if len(self.ids) < state.capacity:
            missing = state.capacity - len(self.ids)
            self.ids = np.pad(self.ids, (0, missing), constant_values=NO_DOMAIN)
        if changed is None or len(changed) > _ROW_BY_ROW:
            self._take_over(self._all_ids(state))
        else:
            self._note(DomainMove(row, self.ids.item(row), self._id_of(state, row)) for row in dict.fromkeys(changed))
        self._read_to = log.position

    def id_of(self, row: int) -> int:
        """The domain of a row as of the last refresh."""
        return self.ids.item(row) if row < len(self.ids) else NO_DOMAIN

    def moves_since(self, moved: int) -> list[DomainMove] | None:
        """The moves from `moved` on, oldest first; None if they are not kept so long."""
        missing = self.moved - moved
        return self._moves[len(self._moves) - missing :] if missing <= len(self._moves) else None

    def present(self) -> Mask:
        """Which domains have a node that counts, shape (size,). Do not change the array."""
        if self._present_at != (self.moved, self.size):
            population: Ints = np.bincount(self.ids + 1, minlength=self.size + 1)
            self._present = population[1:] > 0
            self._present_count = int(np.count_nonzero(self._present))
            self._present_at = (self.moved, self.size)
        return self._present

    def domain_count(self) -> int:
        """The number of domains that have a node that counts."""
        self.present()
        return self._present_count

    def _id_of(self, state: ClusterState, row: int) -> int:
        labels = state.labels.known(self.key)
        if labels is None or not state.alive[row]:
            return NO_DOMAIN
        found: int = labels.ids.item(row)
        if found < 0 or self.scope is EVERYWHERE or self.scope.admits(state.node(row)):
            return found
        return NO_DOMAIN

    def _all_ids(self, state: ClusterState) -> Rows:
        ids: Rows = np.full(state.capacity, NO_DOMAIN, dtype=np.intp)
        labels = state.labels.known(self.key)
        if labels is not None:
            rows = np.flatnonzero(labels.ids >= 0)
            if self.scope is not EVERYWHERE:
                rows = rows[self.scope.admitted(state, rows)]
            ids[rows] = labels.ids[rows]
        return ids

    def _take_over(self, ids: Rows) -> None:
        rows = np.flatnonzero(self.ids != ids)
        if len(rows) <= _KEPT_MOVES:
            before, after = self.ids[rows], ids[rows]
            self._note(map(DomainMove, rows.tolist(), before.tolist(), after.tolist()))
            return
        self._renumber(ids)

    def _renumber(self, ids: Rows) -> None:
        """Take over ids that have nothing to do with those before; what was counted by domain is counted anew."""
        self.ids = ids
        self.labelled = int(np.count_nonzero(ids >= 0))
        self._moves = []
        self.moved += 1

    def _note(self, moves: Iterable[DomainMove]) -> None:
        for move in moves:
            if move.before != move.after:
                self.ids[move.row] = move.after
                self.labelled += (move.after >= 0) - (move.before >= 0)
                self._moves.append(move)
                self.moved += 1
        if len(self._moves) > 2 * _KEPT_MOVES:
            del self._moves[:_KEPT_MOVES]


class Domains:
    """The domain columns in use, each for as long as it is referenced."""

    def __init__(self) -> None:
        self._columns: WeakValueDictionary[tuple[str, Scope], DomainColumn] = WeakValueDictionary()

    def column(self, key: str, scope: Scope = EVERYWHERE) -> DomainColumn:
        """The column of a topology key under a scope, made on first use."""
        if scope is not EVERYWHERE and scope == EVERYWHERE:
            scope = EVERYWHERE
        found = self._columns.get((key, scope))
        if found is None:
            found = self._columns[key, scope] = DomainColumn(key, scope)
        return found
