"""Kubernetes' quantities as whole thousandths, read by the auditor itself."""

from __future__ import annotations

import functools
from decimal import Decimal

_SUFFIXES = {
    "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4,
}  # fmt: skip
ENDLESS = 1 << 80


@functools.cache
def milli(text: str) -> int:
    """A quantity in thousandths, rounded up."""
    if text.endswith("m"):
        return int(text[:-1])
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return int(Decimal(text.removesuffix(suffix)) * factor * 1000)
    return -int(-Decimal(text) * 1000 // 1)


def bound_milli(text: object) -> int:
    """A quota or a limit; -1 is no end."""
    found = milli(str(text))
    return ENDLESS if found < 0 else found
