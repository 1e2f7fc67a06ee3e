"""What a process has used, as Linux tells it in /proc: CPU time and memory."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def only_child(pid: int) -> int | None:
    """The process that a supervisor runs; None before it started and after it ended."""
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def cpu_s(pid: int) -> float:
    """CPU seconds of the process so far, in user and kernel mode; 0 when it is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def peak_memory_bytes(pid: int) -> int:
    """The most resident memory that the process ever had; 0 when it is gone."""
    return _status_bytes(pid, "VmHWM:")


def memory_bytes(pid: int) -> int:
    """The resident memory of the process now; 0 when it is gone."""
    return _status_bytes(pid, "VmRSS:")


def _status_bytes(pid: int, field: str) -> int:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), 0)
