"""Tie-breaking hashes are part of the plan: they must not change between machines, runs or releases."""

from __future__ import annotations

import numpy as np

from moorage.core.hashing import node_hash, pod_hash, tie_hashes


def test_hashes_are_the_same_for_ever() -> None:
    """A changed constant would change every plan that anybody recorded."""
    assert node_hash(0, "node-1") == NODE_1
    assert node_hash(1, "node-1") == NODE_1_SEED_1
    assert pod_hash(0, "default/web-0") == WEB_0
    assert pod_hash(1, "default/web-0") == WEB_0_SEED_1
    mixed = tie_hashes(WEB_0, np.array([NODE_1], dtype=np.uint64), np.empty(1, dtype=np.uint64))
    assert int(mixed[0]) == WEB_0_ON_NODE_1


def test_any_seed_is_taken() -> None:
    """Seeds come from the command line: negative and huge ones are fine."""
    assert len({node_hash(seed, "n") for seed in (0, 1, -1, 2**63, 2**64 - 2)}) == 5
    assert len({pod_hash(seed, "p") for seed in (0, 1, -1)}) == 3


def test_hashes_of_similar_names_are_spread_evenly() -> None:
    """Names that differ in a digit fall into all sixteenths of the range about equally often."""
    counts = np.bincount([node_hash(0, f"node-{i}") >> 60 for i in range(16_000)], minlength=16)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_which_node_wins_depends_on_the_pod() -> None:
    """Two pods order the same nodes differently, and not in reverse."""
    nodes = np.array([node_hash(0, f"n{i}") for i in range(50)], dtype=np.uint64)
    orders = {
        tuple(np.argsort(tie_hashes(pod_hash(0, f"default/p{i}"), nodes, np.empty_like(nodes))).tolist())
        for i in range(200)
    }
    assert len(orders) == 200
    assert len({order[0] for order in orders}) > 40


NODE_1 = 0x29EBA4BC55B7578F
NODE_1_SEED_1 = 0x9C01839BA7B54248
WEB_0 = 0xB9719AEA2B502005
WEB_0_SEED_1 = 0x9C6851D9F21EBC4
WEB_0_ON_NODE_1 = 0x783A22808AC7A652
