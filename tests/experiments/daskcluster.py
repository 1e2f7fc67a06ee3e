"""A Dask scheduler and workers as processes of their own, as its users start them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WITHIN_S = 120.0


class DaskProcesses:
    """A scheduler and its workers; `address` is where the scheduler listens."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        file = folder / "scheduler.json"
        self._scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        _until(file.exists, self._scheduler, "the scheduler to listen")
        self.address: str = json.loads(file.read_text())["address"]
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        self.workers = [self._start("worker", self.address, *options) for _ in range(workers)]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        number = len(list(self._folder.glob("*.log")))
        with (self._folder / f"{number}-{arguments[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments], stdout=log, stderr=log, cwd=self._folder
            )

    def stop(self) -> None:
        """End all of them."""
        for process in (*self.workers, self._scheduler):
            process.kill()
            process.wait()


def _until(condition: object, process: subprocess.Popen[bytes], what: str) -> None:
    end_s = time.monotonic() + WITHIN_S
    while not (callable(condition) and condition()):
        assert process.poll() is None, f"it ended while waiting for {what}"
        assert time.monotonic() < end_s, f"waited in vain for {what}"
        time.sleep(0.05)


@contextmanager
def dask_processes(folder: Path, workers: int = 2) -> Iterator[DaskProcesses]:
    """A cluster that ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskProcesses(folder, workers)
    try:
        yield cluster
    finally:
        cluster.stop()
