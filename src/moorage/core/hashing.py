"""Hashes that are equal on every machine and in every run; ties between nodes are broken with them."""

from __future__ import annotations

import hashlib

import numpy as np

from moorage.core.arrays import Hashes

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def stable_hash(seed: int, text: str) -> int:
    """A 64-bit hash of a text under a seed."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(16, "little", signed=True)).digest()
    return int.from_bytes(digest, "little")


def tie_hashes(pod_hash: int, node_hashes: Hashes) -> Hashes:
    """The hash of (pod, node) for each node; the smallest wins a tie. Overwrites `node_hashes` with it."""
    np.bitwise_xor(node_hashes, np.uint64(pod_hash), out=node_hashes)
    return np.multiply(node_hashes, _MULTIPLIER, out=node_hashes)
