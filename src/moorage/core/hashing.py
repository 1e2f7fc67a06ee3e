"""Hashes that are equal on every machine and in every run; ties between nodes are broken with them."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from moorage.core.arrays import Hashes

_MULTIPLIER = 0x9E3779B97F4A7C15
_NUMPY_MULTIPLIER = np.uint64(_MULTIPLIER)
_MASK = (1 << 64) - 1


def node_hash(seed: int, name: str) -> int:
    """A 64-bit hash of a node's name under a seed; computed once per node."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, salt=(seed & _MASK).to_bytes(16, "little")).digest()
    return int.from_bytes(digest, "little")


def pod_hash(seed: int, key: str) -> int:
    """A 64-bit hash of a pod's `namespace/name` under a seed; computed once per decision, so it is a cheap one."""
    return (zlib.crc32(key.encode(), seed & 0xFFFFFFFF) * _MULTIPLIER) & _MASK


def tie_hashes(pod: int, nodes: Hashes, out: Hashes) -> Hashes:
    """The hash of (pod, node) for each node; the smallest wins a tie. Shape as `nodes` and `out`."""
    np.bitwise_xor(nodes, np.uint64(pod), out=out)
    return np.multiply(out, _NUMPY_MULTIPLIER, out=out)
