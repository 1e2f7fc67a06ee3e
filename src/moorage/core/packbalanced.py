"""Even splits of a gang of equal pods: as many members in each domain of a level, in few of its domains.

All of them lie in one domain of the level above: the one whose smallest share is largest, then the one that needs the
fewest domains. 16 pods run better as 8 and 8 in two racks than as 15 and 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.packalike import Rooms, pack_alike, rooms_of, suits
from moorage.core.packing import Packing, Question, fit_levels, value_of


def pack_balanced(question: Question, level: int) -> Packing | None:
    """An even split over domains of the level; None if no domain above holds all, or the gang is of several roles."""
    if not suits(question) or not question.total:
        return None
    room = rooms_of(question)[level]
    wanted = question.total // room.unit
    best: tuple[tuple[int, int, int], dict[int, int]] | None = None
    for parent in np.unique(room.parents):
        inside = np.flatnonzero((room.parents == parent) & (room.units > 0))
        shares = _shares(inside, room, wanted)
        if shares is not None:
            key = (-min(shares.values()), len(shares), sum(room.units[[*shares]].tolist()))
            if best is None or key < best[0]:
                best = key, shares
    if best is None:
        return None
    counts = np.zeros_like(question.offers.caps)
    for domain, units in best[1].items():
        nodes = np.flatnonzero(room.of_node == domain)
        counts[:, nodes] = _inside(question, nodes, units * room.unit)
    fits = fit_levels(question, counts)
    value = value_of(question, counts, fits)
    return Packing(counts, value, value[:1], fits)


def _shares(domains: Rows, room: Rooms, wanted: int) -> dict[int, int] | None:
    """How many units each of the domains gets; None if they do not hold all."""
    held = room.units[domains]
    order = np.argsort(-held, kind="stable")
    needed = int(np.searchsorted(np.cumsum(held[order]), wanted)) + 1
    if needed > len(domains):
        return None
    share = min(wanted // needed, int(held[order[needed - 1]]))
    able = [int(each) for each in order if held[each] >= share]
    chosen = able[-needed:]
    while sum(held[chosen].tolist()) < wanted:  # the next larger one in place of the smallest
        able.remove(chosen[-1])
        chosen = able[-needed:]
    given = {int(domains[each]): share for each in chosen}
    left = wanted - share * needed
    while left:
        for each in chosen:
            if left and given[int(domains[each])] < held[each]:
                given[int(domains[each])] += 1
                left -= 1
    return given


def _inside(question: Question, nodes: Rows, count: int) -> Ints:
    """The members of one domain."""
    role = replace(question.roles[0], count=count, least=count)
    found = pack_alike(
        Question(question.offers.at(nodes), (role,), tuple(replace(each, required=None) for each in question.scopes))
    )
    if found is None:
        raise AssertionError("a domain has less room than was counted")
    return found.counts
