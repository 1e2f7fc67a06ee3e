"""Jobs on the cores of this machine, one process each.

A process has one job at a time, so that it is known which job is lost if a process is killed: that job is tried again
in a new process. Processes are spawned, not forked, and do not outlive their parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Generator, Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from moorage.adapters.computing import Data, Function, Job, JobAnswer
from moorage.core.values import dataclass

MOST_DEATHS = 2
"""A job whose process ends so often is given up."""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    job: str | None = None


class LocalProcesses:
    """A runner with so many processes."""

    def __init__(self, workers: int) -> None:
        self._number = workers
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("spawn")

    @property
    def pids(self) -> list[int]:
        """Of the processes that there are."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def run(
        self, function: Function, jobs: Mapping[str, Job], data: Mapping[str, Data]
    ) -> Generator[JobAnswer, None, None]:
        """Run all jobs; see `JobRunner`."""
        waiting, deaths = deque(jobs), Counter[str]()
        try:
            while waiting or any(worker.job is not None for worker in self._workers):
                self._hand_out(waiting, function, jobs, data)
                for worker in self._ready():
                    name, value = worker.job, self._received(worker)
                    worker.job = None
                    if value is None:
                        self._remove(worker)
                        if name is not None:
                            deaths[name] += 1
                            if deaths[name] >= MOST_DEATHS:
                                yield JobAnswer(name, None, _end_of(worker.process))
                            else:
                                waiting.appendleft(name)
                    elif name is not None:
                        yield JobAnswer(name, value)
        finally:
            self.stop()

    def _hand_out(
        self, waiting: deque[str], function: Function, jobs: Mapping[str, Job], data: Mapping[str, Data]
    ) -> None:
        """Give each process without a job one, and start as many processes as are needed."""
        while waiting and len(self._workers) < self._number:
            self._workers.append(self._start(function, data))
            if sum(worker.job is None for worker in self._workers) >= len(waiting):
                break
        for worker in self._workers:
            if worker.job is None and waiting:
                worker.job = waiting.popleft()
                try:
                    worker.connection.send(tuple(jobs[worker.job]))
                except OSError:
                    continue  # it has ended, which is noticed when its answer is waited for

    def _start(self, function: Function, data: Mapping[str, Data]) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs, function, dict(data)), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _ready(self) -> list[_Worker]:
        ready = wait([worker.connection for worker in self._workers])
        return [worker for worker in self._workers if worker.connection in ready]

    def _received(self, worker: _Worker) -> dict[str, Any] | None:
        """The answer of a process; None if it has ended."""
        try:
            value: dict[str, Any] = worker.connection.recv()
        except (EOFError, OSError):
            return None
        return value

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.terminate()
        worker.process.join()

    def stop(self) -> None:
        """End all processes, whatever they are doing."""
        for worker in [*self._workers]:
            self._remove(worker)


def _end_of(process: SpawnProcess) -> str:
    code = process.exitcode
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    return f"the process that computed it {how}, {MOST_DEATHS} times; it may need more memory than there is"


def work(connection: Connection, function: Function, data: Mapping[str, Data]) -> None:
    """What a process does: jobs, until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    while True:
        try:
            asked, name = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(function(asked, data[name]))
