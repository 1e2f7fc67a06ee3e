"""The process we run in: memory allocator and garbage collector, set for long-lived columns and short-lived arrays."""

from __future__ import annotations

import ctypes
import gc
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's mallopt."""


def tune_process() -> None:
    """Keep freed memory for the next array, and let the garbage collector run rarely.

    Arrays of a few thousand rows come and go with every decision. glibc hands their pages back to the system each time,
    and getting them again costs more than the arithmetic (measured: 1.3 to 1.6 times the whole decision).
    Decoded objects hold no cycles, so collecting often finds nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_TRIM_THRESHOLD, 256 << 20)
            mallopt(_MMAP_THRESHOLD, 256 << 20)
            mallopt(_TOP_PAD, 16 << 20)
