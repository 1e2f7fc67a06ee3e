"""Fills virtual environments, for the Makefile: `python requirements/install.py [--alone] FOLDER LOCK [LOCK ...]`.

The locks name every package with its hashes. Moorage itself is installed so that changes of the sources are effective;
with `--alone` it is left out.
What takes longer than two seconds says what it is doing, or what it waits for, and a registry that cannot be reached is
one line with the remedy. Needs nothing but Python.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SILENCE_S = 2.0
"""After this long without a word, a line says what is going on."""
_PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check")
_PACKAGE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*==", re.MULTILINE)
_BROKEN = r"Retrying .* broken by .*?(?P<why>[^ :'\"][^:'\"]*?)['\")]*: /"
_WORDS = {
    re.compile(r"Looking in indexes: (?P<index>[^\s,]+)"): "waiting for {index}",
    re.compile(r"Collecting (?P<package>[^\s=<>!~;(]+)"): "looking for {package} on {index}",
    re.compile(r"Processing \S*?(?P<package>[^\s/]+\.whl)"): "reading {package}",
    re.compile(r"Downloading (?P<file>\S+)(?P<size>( \(.*\))?)"): "downloading {file}{size}",
    re.compile(r"Installing collected packages"): "unpacking",
    re.compile(_BROKEN): "{index} does not answer ({why}); trying again",
}
"""What pip says, and what it means."""


class Transcript:
    """What a step prints, and what it means for people who wait."""

    def __init__(self, doing: str, tell: Callable[[str], None]) -> None:
        self.doing = doing
        self.tell = tell
        self._last: deque[str] = deque(maxlen=20)

    def hear(self, line: str) -> None:
        """Take a line over."""
        self._last.append(line)

    def status(self) -> str:
        """What is going on."""
        return self.doing

    def failure(self) -> str:
        """Why it ended, with the remedy."""
        errors = [line.partition("ERROR: ")[2] for line in self._last if "ERROR: " in line]
        reason = errors[0] if errors else " ".join(" ".join(self._last).split())
        return f"{self.doing}: {reason or 'no reason was given'}; run make again, after `make clean` if need be"


class PipTranscript(Transcript):
    """What pip prints while it installs; what makes people wait is told at once."""

    def __init__(self, packages: int, tell: Callable[[str], None]) -> None:
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
        source = os.environ.get("PIP_FIND_LINKS", index) if "PIP_NO_INDEX" in os.environ else index
        self._known = {"index": re.sub("//[^/]*@", "//", source)}
        super().__init__("waiting for {index}".format(**self._known), tell)
        self._packages = packages
        self._collected = 0

    def hear(self, line: str) -> None:
        """Take a line over."""
        super().hear(line)
        for pattern, meaning in _WORDS.items():
            if found := pattern.search(line):
                self._known |= {key: value for key, value in found.groupdict().items() if value is not None}
                self._collected += "package" in pattern.groupindex
                self.doing = meaning.format(**self._known)
                if "why" in pattern.groupindex:
                    self.tell(self.doing)

    def status(self) -> str:
        """How far it is, and what is going on."""
        return f"{min(self._collected, self._packages)} of {self._packages} packages, {self.doing}"

    def failure(self) -> str:
        """Why it ended; if the registry is the reason, its address and the ways around it."""
        if "why" not in self._known and "No matching distribution" not in " ".join(self._last):
            return super().failure()
        reason = self._known.get("why") or next(line for line in self._last if "ERROR" in line)
        return (
            f"the packages could not be loaded from {self._known['index']}: {reason}; connect to the network, or set "
            "PIP_INDEX_URL to a mirror, or PIP_NO_INDEX=1 and PIP_FIND_LINKS to a folder of wheels, and run make again"
        )


class Steps:
    """Prints what is done, with the seconds since the start."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._done = 0
        self._start = time.monotonic()

    def begin(self, what: str) -> None:
        """The next step."""
        self._done += 1
        print(f"[{self._done}/{self._number}] {what}", flush=True)

    def say(self, what: str) -> None:
        """Something about this step."""
        print(f"      {time.monotonic() - self._start:3.0f} s  {what}", flush=True)


def run(command: Sequence[str | Path], transcript: Transcript) -> None:
    """Run a step; while it is silent, its transcript says what it is about, and if it fails, why."""
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    spoken = time.monotonic()
    while (line := _next(lines)) is not None:
        if line:
            transcript.hear(line)
        if time.monotonic() - spoken >= SILENCE_S:
            transcript.tell(transcript.status())
            spoken = time.monotonic()
    if child.wait():
        raise SystemExit(f"error: {transcript.failure()}")


def _next(lines: queue.Queue[str | None]) -> str | None:
    """A line, empty if there is none for a moment, None at the end."""
    try:
        return lines.get(timeout=SILENCE_S / 4)
    except queue.Empty:
        return ""


def install(folder: Path, locks: Sequence[Path], *, alone: bool) -> None:
    """Make the environment where there is none, and put everything into it."""
    steps = Steps(3 if alone else 4)
    python = folder / "bin/python"
    steps.begin(f"{folder}: a virtual environment with Python {sys.version.split()[0]}")
    if not (folder / "bin/pip").exists():
        run([sys.executable, "-m", "venv", "--clear", folder], Transcript("with pip", steps.say))
    packages = sum(len(_PACKAGE.findall(lock.read_text())) for lock in locks)
    steps.begin(f"the packages of {' and '.join(lock.name for lock in locks)}, {packages} at most")
    chosen = [part for lock in locks for part in ("-r", lock)]
    options = ("install", "--no-compile", "--progress-bar", "off", "--require-hashes")
    run([python, *_PIP, *options, *chosen], PipTranscript(packages, steps.say))
    if not alone:
        steps.begin("Moorage itself")
        own = ("install", "--no-deps", "--no-index", "--no-build-isolation", "--editable", ROOT)
        run([python, *_PIP, *own], Transcript("building", steps.say))
    steps.begin("compiling, so that every command starts fast")
    compiling = ("-m", "compileall", "-q", "-j", "0", "-x", r"/tests?/", folder / "lib")
    run([python, *compiling, *(() if alone else (ROOT / "src",))], Transcript("compiling", steps.say))


def main(arguments: Sequence[str]) -> None:
    """Read the command line."""
    alone = "--alone" in arguments
    folder, *locks = (Path(each) for each in arguments if each != "--alone")
    install(folder, locks, alone=alone)


if __name__ == "__main__":
    main(sys.argv[1:])
