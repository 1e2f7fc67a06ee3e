"""The nodes of a search for victims as arrays: who goes from each if only amounts count, and which node is best then.

Columns of the arrays are the nodes of the search, n of them, rows of the arrays the slots of the `VictimTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.victims import Slots

LIFT = 1 << 31
"""Added to each priority in the sum, so that two victims are never better than one for being negative."""

Ranks = tuple[Ints, Ints, Ints, Ints, Floats]


@dataclass(slots=True)
class Ground:
    """The rows of a search, n of them, with their pods of lower priority."""

    rows: Rows
    priority: Slots
    rank: Slots
    """The same array as `priority` where no rank differs from it."""
    start: Floats
    """Shape (slots, n), like `priority` and the masks."""
    lower: Mask
    violating: Mask | None

    def only(self, keep: Mask) -> Ground:
        """Some of the rows."""
        if keep.all():
            return self
        violating = None if self.violating is None else self.violating[:, keep]
        priority = self.priority[:, keep]
        rank = priority if self.rank is self.priority else self.rank[:, keep]
        return Ground(self.rows[keep], priority, rank, self.start[:, keep], self.lower[:, keep], violating)


class Account(NamedTuple):
    """One resource: what each pod holds, the same summed up from the first slot on, and what is left without them."""

    taken: Slots
    summed: Slots
    """Shape (slots, n), pods of lower priority only."""
    slack: Ints
    """Shape (n,); negative where the pod does not even fit then."""

    def only(self, keep: Mask) -> Account:
        """Some of the rows."""
        return Account(self.taken[:, keep], self.summed[:, keep], self.slack[keep])


def possible_columns(ground: Ground, ledger: dict[int, Account]) -> Mask:
    """Where the amounts suffice with all pods of lower priority away, bool[n]."""
    possible: Mask = np.ones(len(ground.rows), dtype=np.bool_)
    for account in ledger.values():
        possible &= account.slack >= 0
    return possible


def who_goes(ground: Ground, ledger: Sequence[Account]) -> Mask:
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


def _all_fit(ledger: Sequence[Account]) -> int:
    """The number of slots that can be let back in everywhere: no row runs short before."""
    short = np.zeros(len(ledger[0].summed), dtype=np.bool_)
    for account in ledger:
        short |= (account.summed > account.slack).any(axis=1)
    return int(short.argmax()) if short.any() else len(short)


def ranks_of(ground: Ground, victims: Mask) -> Ranks:
    """What decides between nodes, each shape (n,), smaller is better, the first one first.

    Broken budgets, highest rank, sum of priorities, number of victims, and the start of the earliest victim of
    highest rank, negated: a later one is better. Columns without victims mean nothing.
    """
    first = victims.argmax(axis=0)
    columns = np.arange(victims.shape[1])
    count = victims.sum(axis=0, dtype=np.int64)
    violations = np.zeros(len(columns), dtype=np.int64)
    if ground.violating is not None:
        violations = (victims & ground.violating).sum(axis=0, dtype=np.int64)
    total = (ground.priority * victims).sum(axis=0) + count * LIFT
    return violations, ground.rank[first, columns], total, count, -ground.start[first, columns]


def best_columns(ranks: Ranks, columns: Rows) -> Rows:
    """Those of the columns that nothing tells apart but a hash: the best by these ranks."""
    for rank in ranks:
        if len(columns) <= 1:
            break
        values = rank[columns]
        columns = columns[values == values.min()]
    return columns
