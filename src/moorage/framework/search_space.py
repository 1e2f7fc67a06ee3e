"""The nodes of a search for victims as arrays: the victims on each if only amounts count, and which node is best then.

Columns of the arrays are the nodes of the search, n of them; rows of the arrays are the slots of the `VictimTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.values import dataclass
from moorage.core.victims import Slots

LIFT = 1 << 31
"""Added to each priority in the sum, so that negative priorities never make two victims cheaper than one."""

Ranks = tuple[Ints, Ints, Ints, Ints, Floats]


@dataclass(slots=True)
class SearchSpace:
    """The nodes of a search, n of them, with their pods of lower priority."""

    rows: Rows
    priority: Slots
    rank: Slots
    """The same array as `priority` where no rank differs from it."""
    start: Floats
    """Shape (slots, n), like `priority` and the masks."""
    lower: Mask
    violating: Mask | None

    def only(self, keep: Mask) -> SearchSpace:
        """Some of the rows."""
        if keep.all():
            return self
        violating = None if self.violating is None else self.violating[:, keep]
        priority = self.priority[:, keep]
        rank = priority if self.rank is self.priority else self.rank[:, keep]
        return SearchSpace(self.rows[keep], priority, rank, self.start[:, keep], self.lower[:, keep], violating)


class Account(NamedTuple):
    """One resource: what each pod holds, the cumulative sum over slots, and what is left without these pods."""

    taken: Slots
    summed: Slots
    """Shape (slots, n), pods of lower priority only."""
    slack: Ints
    """Shape (n,); negative where the pod does not fit even without them."""

    def only(self, keep: Mask) -> Account:
        """Some of the rows."""
        return Account(self.taken[:, keep], self.summed[:, keep], self.slack[keep])


def possible_columns(space: SearchSpace, ledger: dict[int, Account]) -> Mask:
    """Where amounts suffice without the pods of lower priority, bool[n]."""
    possible: Mask = np.ones(len(space.rows), dtype=np.bool_)
    for account in ledger.values():
        possible &= account.slack >= 0
    return possible


def choose_victims(space: SearchSpace, ledger: Sequence[Account]) -> Mask:
    """The victims if only amounts count, bool[slots, n]."""
    lefts = [account.slack.copy() for account in ledger]
    victims: Mask = space.lower.copy()
    rounds = [space.lower] if space.violating is None else [space.violating, space.lower & ~space.violating]
    begin = 0
    if space.violating is None and ledger:
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
    """The number of slots whose pods can stay on every node: none runs short before."""
    short = np.zeros(len(ledger[0].summed), dtype=np.bool_)
    for account in ledger:
        short |= (account.summed > account.slack).any(axis=1)
    return int(short.argmax()) if short.any() else len(short)


def ranks_of(space: SearchSpace, victims: Mask) -> Ranks:
    """The criteria for choosing a node, in order, each of shape (n,); smaller is better.

    Violated budgets, highest rank, sum of priorities, number of victims, and the negated start of the earliest victim
    of highest rank, as a later start is better. Columns without victims mean nothing.
    """
    first = victims.argmax(axis=0)
    columns = np.arange(victims.shape[1])
    count = victims.sum(axis=0, dtype=np.int64)
    violations = np.zeros(len(columns), dtype=np.int64)
    if space.violating is not None:
        violations = (victims & space.violating).sum(axis=0, dtype=np.int64)
    total = (space.priority * victims).sum(axis=0) + count * LIFT
    return violations, space.rank[first, columns], total, count, -space.start[first, columns]


def best_columns(ranks: Ranks, columns: Rows) -> Rows:
    """The best of the columns by these ranks; only hashes tell them apart."""
    for rank in ranks:
        if len(columns) <= 1:
            break
        values = rank[columns]
        columns = columns[values == values.min()]
    return columns
