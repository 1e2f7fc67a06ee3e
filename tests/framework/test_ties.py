"""Among equally good nodes the smallest hash wins, however the ties came about."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.core.arrays import Hashes, Ints
from moorage.core.hashing import node_hash, pod_hash, tie_hashes
from moorage.framework.ties import Ties

HASHES: Hashes = np.array([node_hash(0, f"n{i}") for i in range(24)], dtype=np.uint64)


def fresh_pick(pod: int, ranks: Ints) -> int:
    best = np.flatnonzero(ranks == ranks.max())
    mixed = tie_hashes(pod, HASHES[best], np.empty(len(best), dtype=np.uint64))
    return int(best[int(mixed.argmin())])


@given(
    start=st.lists(st.integers(-1, 3), min_size=2, max_size=24).filter(lambda ranks: max(ranks) >= 0),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("pick"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("take"), st.integers(0, 9), st.integers(-1, 3)),
            st.tuples(st.just("set"), st.integers(0, 23), st.integers(-1, 4)),
            st.tuples(st.just("forget"), st.just(0), st.just(0)),
        ),
        max_size=40,
    ),
)
@example(start=[0, 0], steps=[("set", 0, 2), ("pick", 0, 0), ("set", 1, 3), ("take", 0, 2), ("pick", 0, 0)])
def test_ties_kept_over_changes_equal_ties_found_anew(start: list[int], steps: list[tuple[str, int, int]]) -> None:
    """`take` lowers (or changes) the rank of the picked row, as a burst of equal pods does."""
    ranks: Ints = np.array(start, dtype=np.int64)
    ties = Ties()
    for what, number, value in steps:
        if ranks.max() < 0:
            break
        pod = pod_hash(0, f"default/p{number}")
        if what == "forget":
            ties.forget()
        elif what == "set":
            change(ties, ranks, number % len(ranks), value)
        else:
            want = fresh_pick(pod, ranks)
            assert ties.pick(pod, ranks, HASHES) == want
            if what == "take":
                change(ties, ranks, want, value)


def change(ties: Ties, ranks: Ints, row: int, after: int) -> None:
    before = int(ranks[row])
    if before != after:
        ranks[row] = after
        ties.changed(row, before, after)


def test_a_single_best_row_needs_no_hash() -> None:
    """The only best row wins whatever its hash."""
    ranks: Ints = np.array([3, 9, 4], dtype=np.int64)
    assert {Ties().pick(pod_hash(0, f"default/p{i}"), ranks, HASHES) for i in range(20)} == {1}


def test_ties_spread_over_all_nodes() -> None:
    """No node is preferred: many pods on equal nodes come close to an even spread."""
    ranks: Ints = np.zeros(24, dtype=np.int64)
    picks = Counter(Ties().pick(pod_hash(0, f"default/p{i}"), ranks, HASHES) for i in range(4800))
    assert set(picks) == set(range(24))
    assert min(picks.values()) > 100
    assert max(picks.values()) < 320
