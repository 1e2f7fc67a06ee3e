"""The process we run in: memory allocator and garbage collector, set for long-lived columns and short-lived arrays."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from functools import cache
from itertools import cycle
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's mallopt."""
GIVE_BACK_S = 60.0
"""How often freed memory goes back to the system."""
_GENERATIONS = (1,) * 9 + (2,)
"""What is looked at for cycles: what came since the last time, and each tenth time everything since the start."""


def tune_process() -> None:
    """Keep freed memory for the next array, and let the garbage collector run rarely.

    Arrays of a few thousand rows come and go with every decision. glibc hands their pages back to the system each time,
    and getting them again costs more than the arithmetic (measured: 1.3 to 1.6 times the whole decision).
    Decoded objects hold no cycles, so collecting often finds nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    mallopt = _libc("mallopt")
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        mallopt(_MMAP_THRESHOLD, 256 << 20)
        mallopt(_TOP_PAD, 16 << 20)


def tune_service(loop: asyncio.AbstractEventLoop) -> None:
    """Tune a process that runs for long, and return its freed memory from time to time.

    Freed memory that is kept lies between what is in use, so that large buffers do not find it; and connections and
    failed requests leave cycles behind, of which the collector would let 200,000 objects gather. Without this a process
    grew by a MiB a minute under churn although what it used did not.
    """
    tune_process()
    trim = _libc("malloc_trim")
    generations = cycle(_GENERATIONS)

    def later() -> None:
        gc.collect(next(generations))
        if trim is not None:
            trim(0)
        loop.call_later(GIVE_BACK_S, later)

    loop.call_later(GIVE_BACK_S, later)


@cache
def _libc(name: str) -> Any:
    """A function of the C library, None where it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
