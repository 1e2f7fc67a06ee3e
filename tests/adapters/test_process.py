"""Freed memory goes back to the system, and cycles are collected, although the process is told to do both rarely."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, weakref
from moorage.adapters import process
from moorage.bench.processcost import memory_bytes

process.GIVE_BACK_S = 0.05

class Cycle:
    pass

async def main():
    process.tune_service(asyncio.get_running_loop())
    chunks = [b"x" * 50_000 for _ in range(2_000)]
    kept = chunks[::20]
    full = memory_bytes(os.getpid())
    del chunks
    assert memory_bytes(os.getpid()) > full - (20 << 20), "the allocator keeps what was freed"
    async with asyncio.timeout(20):
        while memory_bytes(os.getpid()) > full - (70 << 20):
            await asyncio.sleep(0.01)
    assert len(kept) == 100
    cycle = Cycle()
    cycle.itself, gone = cycle, weakref.ref(cycle)
    del cycle
    async with asyncio.timeout(20):
        while gone() is not None:
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_goes_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
