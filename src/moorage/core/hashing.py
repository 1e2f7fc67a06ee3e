"""Hashes that are equal on every machine and in every run; ties between nodes are broken with them."""

from __future__ import annotations

import hashlib
import uuid
import zlib

import numpy as np

from moorage.core.arrays import Hashes

_MULTIPLIER = 0x9E3779B97F4A7C15
_NUMPY_MULTIPLIER = np.uint64(_MULTIPLIER)
_MASK = (1 << 64) - 1
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def node_hash(seed: int, name: str) -> int:
    """A 64-bit hash of a node's name under a seed; computed once per node."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, salt=(seed & _MASK).to_bytes(16, "little")).digest()
    return int.from_bytes(digest, "little")


def name_uuid(seed: int, text: str) -> str:
    """A UUID that follows from a text."""
    digest = hashlib.blake2b(text.encode(), digest_size=16, salt=(seed & _MASK).to_bytes(16, "little")).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def name_suffix(seed: int, text: str) -> str:
    """Five letters, as the API server ends generated names with, that follow from a text."""
    number = node_hash(seed, text)
    return "".join(_NAME_LETTERS[(number >> 8 * place) % len(_NAME_LETTERS)] for place in range(5))


def pod_hash(seed: int, key: str) -> int:
    """A 64-bit hash of a pod's `namespace/name` under a seed; computed once per decision, so it is a cheap one."""
    return (zlib.crc32(key.encode(), seed & 0xFFFFFFFF) * _MULTIPLIER) & _MASK


def tie_hashes(pod: int, nodes: Hashes, out: Hashes) -> Hashes:
    """The hash of (pod, node) for each node; the smallest wins a tie. Shape as `nodes` and `out`."""
    np.bitwise_xor(nodes, np.uint64(pod), out=out)
    return np.multiply(out, _NUMPY_MULTIPLIER, out=out)
