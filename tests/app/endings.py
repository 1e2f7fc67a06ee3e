"""Commands as processes, and what ends them, for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.app.extender_process import eventually

COMMANDS = {
    "scheduler": (["--secure-port", "0"], "scheduling"),
    "extender": (["--listen", "127.0.0.1:0"], "answering"),
    "webhook": (["--listen", "127.0.0.1:0", "--metrics-listen", "", "--health-listen", ""], "ready for placement"),
    "keeper": (["--leader-elect", "false", "--metrics-listen", "", "--health-listen", ""], "keeping"),
    "dashboard": (["--listen", "127.0.0.1:0"], "http://127"),
}


PODS = "/api/v1/namespaces/default/pods"


class Command:
    """A command that runs, and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        """Everything so far."""
        return self._log.read_text()

    def says(self, words: str) -> None:
        """Wait until it says this."""
        eventually(lambda: words in self.said or self.process.poll() is not None, words, 90)
        assert words in self.said, self.said

    def end(self) -> int:
        """Wait for its end; a hang is an error."""
        return self.process.wait(timeout=60)


@contextmanager
def started(arguments: Sequence[str], folder: Path) -> Iterator[Command]:
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(arguments, stdout=output, stderr=output) as process:
        try:
            yield Command(process, log)
        finally:
            process.kill()
