"""What a journal costs: `python -m moorage.bench.journal [WORKLOAD ...]`.

The workloads of `moorage bench core`, each call of the engine followed by its record as in the scheduler's loop. CPU of
the deciding thread is measured, as its time is what decisions compete for; compressing and writing happen in another
thread and are told apart. CPU time is hardly disturbed by other work on the machine, so one run each is enough.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from moorage.adapters.journal.writer import Journal
from moorage.adapters.process import tune_process
from moorage.bench.core import WORKLOADS, equip, make_engine
from moorage.core.commands import Bind
from moorage.core.events import Event, PodSeen
from moorage.core.values import dataclass

_BATCH = 64
_NODES = 5000
_MICROS = 1e6


@dataclass(frozen=True, slots=True)
class JournalRow:
    """CPU of a decision, and what its record adds to it."""

    workload: str
    decisions: int
    decision_us: float
    record_us: float
    """In the thread that decides."""
    writing_us: float
    """In the thread that compresses and writes."""
    record_bytes: float


def measure(workload: str, folder: Path, nodes: int = _NODES) -> JournalRow:
    """Run one workload with a journal in `folder`."""
    tune_process()
    engine = make_engine(nodes, 0)
    chosen = WORKLOADS[workload]
    pods = list(chosen.pods(min(chosen.decisions, nodes * chosen.per_node)))
    echo = equip(engine, chosen, nodes, pods)
    began_s = time.process_time()
    journal = Journal(folder, engine, "", seed=0, version="")
    answers: list[Event] = []
    deciding_s = recording_s = others_s = 0.0
    bound = start = 0
    while answers or start < len(pods):
        events = [*answers, *(PodSeen(pod) for pod in pods[start : start + _BATCH])]
        first_s = time.thread_time()
        commands, _ = engine.handle(events, now=float(start))
        second_s = time.thread_time()
        journal.turn(events, float(start), _BATCH, commands)
        third_s = time.thread_time()
        deciding_s, recording_s = deciding_s + second_s - first_s, recording_s + third_s - second_s
        bound += sum(isinstance(command, Bind) for command in commands)
        answers = echo.events(commands)
        others_s += time.thread_time() - third_s
        start += _BATCH
    own_s = time.thread_time()
    journal.close()
    own_s = time.thread_time() - own_s
    writing_s = time.process_time() - began_s - deciding_s - recording_s - others_s - own_s
    size = sum(path.stat().st_size for path in folder.iterdir())
    each = _MICROS / bound
    return JournalRow(workload, bound, deciding_s * each, recording_s * each, writing_s * each, size / bound)


def main() -> None:
    """Measure and print a table."""
    sys.stdout.write(
        f"{'workload':<20}{'decision us':>12}{'record us':>12}{'share':>8}{'writing us':>12}{'bytes':>8}\n"
    )
    for workload in sys.argv[1:] or ("equal", "different", "spread", "mixed", "gangs"):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(workload, Path(folder))
        share = row.record_us / row.decision_us
        figures = f"{row.decision_us:>12.1f}{row.record_us:>12.2f}{share:>8.1%}{row.writing_us:>12.2f}"
        sys.stdout.write(f"{row.workload:<20}{figures}{row.record_bytes:>8.0f}\n")


if __name__ == "__main__":
    main()
