"""Times as the API server's MicroTime fields carry them: UTC with six decimals."""

from __future__ import annotations

import functools
from datetime import UTC, datetime


def micro_time(moment_s: float) -> str:
    """A moment of the wall clock as text. Events need one per pod, so the seconds are kept."""
    second_s, micro = divmod(round(moment_s * 1e6), 1_000_000)
    return f"{_second(second_s)}.{micro:06}Z"


@functools.lru_cache(maxsize=8)
def _second(moment_s: int) -> str:
    return datetime.fromtimestamp(moment_s, UTC).replace(tzinfo=None).isoformat()
