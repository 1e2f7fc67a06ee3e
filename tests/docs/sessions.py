"""Runs the commands of a console block in one shell, as a reader would type them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.fences import ROOT, Block, Step, matches, steps_of

_MARK = "@@ step ended with"
_TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run and what they see."""

    folder: Path
    environ: Mapping[str, str]

    def with_environ(self, **more: str) -> Shell:
        """The same place, with more variables."""
        return Shell(self.folder, {**self.environ, **more})

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command and return what it printed."""
        ended = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        assert not check or ended.returncode == 0, ended.stdout + ended.stderr
        return ended


def problems_of(block: Block, shell: Shell) -> Iterator[str]:
    """Run the block; every step that fails, or prints something else than the document shows."""
    steps = steps_of(block)
    outputs = _run(steps, shell)
    for number, (step, (got, status)) in enumerate(zip(steps, outputs, strict=True)):
        shown = "\n".join(got)
        # A failure is part of the story only where the reader sees it.
        expects_failure = number + 1 < len(steps) and steps[number + 1].command == "echo $?"
        if status != 0 and not expects_failure:
            yield f"{block}: `{step.command}` ended with {status}:\n{shown}"
        elif step.want and not matches(step.want, got):
            yield f"{block}: `{step.command}` printed:\n{shown}"


def _run(steps: list[Step], shell: Shell) -> list[tuple[list[str], int]]:
    """Output and exit status of each step; background processes end with the session."""
    script = "".join(
        f"{_runnable(step.command)}\n__status=$?; printf '\\n{_MARK} %s\\n' $__status; (exit $__status)\n"
        for step in steps
    )
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=shell.folder,
        env=shell.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=_TIMEOUT_S)
    finally:
        _end_group(process.pid)
        process.wait()
    outputs: list[tuple[list[str], int]] = []
    lines: list[str] = []
    for line in printed.splitlines():
        if line.startswith(_MARK):
            outputs.append((lines[:-1] if lines and not lines[-1] else lines, int(line.removeprefix(_MARK))))
            lines = []
        else:
            lines.append(line)
    assert len(outputs) == len(steps), printed
    return outputs


def _runnable(command: str) -> str:
    """Targets of the Makefile are only looked up: `make test` runs this very test."""
    return f"make -n -C '{ROOT}' {command.removeprefix('make ')} >/dev/null" if command.startswith("make ") else command


def _end_group(leader: int) -> None:
    """End what the session left running, by the process group that it was started in."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
