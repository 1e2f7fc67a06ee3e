"""How many nodes can be empty at most: a bound that holds whatever is moved where.

Pods of emptied nodes need what they request, and emptied nodes give no room. So with x_n = 1 for an emptied node n, and
c_n what n could give to pods that move (what its own movable pods take, plus what is free), the sum of x_n c_n over all
n is at most what is free on all open nodes, in every resource. Of this linear program every vector of prices of the
resources that is not negative gives a bound (weak duality): what is free at these prices, plus what each node is worth
more than its c_n. A few hundred steps of descent look for good prices; each of them is a proof.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.repacking.census import Census, amounts

_STEPS = 400
_TINY = 1e-9

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bound:
    """The proof: prices of resources, and what follows from them."""

    most: int
    """So many nodes, empty ones included, can be without pods that count."""
    worth: dict[int, float]
    """Row that could be emptied -> what its room is worth at the prices; 1.0 is as much as a node."""


def bound(state: ClusterState, census: Census) -> Bound:
    """The bound for the nodes of a census."""
    rows = [*census.movers]
    if not rows:
        return Bound(0, {})
    resources = state.resources
    free = np.maximum(resources.allocatable - resources.requested, 0)
    room = free[:, census.open].sum(axis=1).astype(np.float64)
    taken = np.array([amounts(state, census.movers[row]) for row in rows], dtype=np.float64)
    given = taken + free[:, rows].T
    stuck = ((taken > 0) & (room <= 0)).any(axis=1)
    known = room > 0
    scaled = given[:, known] / room[known]
    value, prices = _least(scaled[~stuck])
    worth = scaled @ prices
    return Bound(int(value + _TINY), dict(zip(rows, worth.tolist(), strict=True)))


def _least(needs: Floats) -> tuple[float, Floats]:
    """The least bound that was found, and its prices; `needs` is float64[nodes, resources] as shares of all room."""
    nodes, resources = needs.shape

    def at(prices: Floats) -> float:
        return float(prices.sum() + np.maximum(0.0, 1.0 - needs @ prices).sum())

    best_prices: Floats = np.zeros(resources)
    best = float(nodes)
    for start in _starts(needs):
        prices, value = start, at(start)
        if value < best:
            best, best_prices = value, prices
        for step in range(1, _STEPS + 1):
            slope = 1.0 - needs[needs @ prices < 1.0].sum(axis=0)
            length = float(np.linalg.norm(slope))
            if length < _TINY:
                break
            # Polyak's step towards a value a little below the best one.
            aim = best - max(0.5, best * 0.02) / step
            prices = np.maximum(0.0, prices - slope * max(at(prices) - aim, _TINY) / length**2)
            value = at(prices)
            if value < best:
                best, best_prices = value, prices
    return best, best_prices


def _starts(needs: Floats) -> Sequence[Floats]:
    """The best prices for each resource alone: where the smallest nodes have used up all of it."""
    found = []
    for column in range(needs.shape[1]):
        sizes = np.sort(needs[:, column])
        place = int(np.searchsorted(np.cumsum(sizes), 1.0))
        if place < len(sizes) and sizes[place] > _TINY:
            prices = np.zeros(needs.shape[1])
            prices[column] = 1.0 / sizes[place]
            found.append(prices)
    return found
