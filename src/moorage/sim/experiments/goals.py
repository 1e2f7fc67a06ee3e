"""Which way the figures of an experiment should go."""

from __future__ import annotations

_LARGER_IS_BETTER = {"allocated", "fairness", "placed", "of-fair-share"}
_SMALLER_IS_BETTER = {
    "fragmented", "waiting-p50", "waiting-p95", "waiting-p99", "pending", "evictions", "moves", "cost",
    "spread-violations", "spread-uneven", "strategy-violations", "nodes-in-use",
}  # fmt: skip


def better_larger(measure: str) -> bool | None:
    """Whether more of a measure is better; None if neither is."""
    name = measure.removesuffix("-mean")
    if name in _LARGER_IS_BETTER:
        return True
    return False if name in _SMALLER_IS_BETTER else None
