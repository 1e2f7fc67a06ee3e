"""Completion in the shells themselves, asked as a user does: with the tabulator key."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moorage.cli.completion import SHELLS
from moorage.cli.main import COMMANDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE_S = 60.0
STARTS = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "--interactive"],
}
PREPARES = {"bash": "", "zsh": "autoload -U compinit; compinit -u -D; ", "fish": ""}
TURNS_ON = {
    "bash": 'eval "$(moorage completion bash)"',
    "zsh": 'eval "$(moorage completion zsh)"',
    "fish": "moorage completion fish | source",
}


_OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""The terminal becomes the controlling one, without which fish does not start."""


class Terminal:
    """A shell in a terminal of its own, whose `moorage` is the one of these sources."""

    def __init__(self, shell: str, folder: Path) -> None:
        program = folder / "bin/moorage"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m moorage "$@"\n')
        program.chmod(0o755)
        environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ "}
        environ |= {"HOME": str(folder), "INPUTRC": os.devnull, "PYTHONDONTWRITEBYTECODE": ""}
        self._master, slave = pty.openpty()
        executable = shutil.which(shell)
        assert executable is not None
        command = [sys.executable, "-c", _OWN_TERMINAL, executable, *STARTS[shell]]
        self._child = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            cwd=EXAMPLES.parent,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._master, keys.encode())

    def until(self, text: str) -> None:
        """Wait for a text on the screen; what was there before does not count any more."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            left = deadline - time.monotonic()
            ready = select.select([self._master], [], [], max(left, 0))[0]
            assert ready, f"{text!r} never came: {self.seen!r}"
            self.seen += os.read(self._master, 65536).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def close(self) -> None:
        """Let the terminal go, and the shell with it."""
        self._child.kill()
        self._child.wait()
        os.close(self._master)


@pytest.mark.parametrize("shell", [each for each in SHELLS if shutil.which(each)])
def test_the_tabulator_completes_commands_options_values_and_files(shell: str, tmp_path: Path) -> None:
    """Half a word becomes the word, in every shell that is installed here."""
    terminal = Terminal(shell, tmp_path)
    try:
        terminal.type(f"{PREPARES[shell]}{TURNS_ON[shell]}; echo turned-'on'\n")
        terminal.until("turned-on")
        for half, whole in (
            ("moorage simu\t", "late"),
            ("--fail\t", "-on-pending"),
            ("-o js\t", "on"),
            ("-f examples/clus\t", "ter.yaml"),
        ):
            terminal.type(half)
            terminal.until(whole)
        terminal.type(" | tail -n 1\n")
        terminal.until('"scheduled":4')
    finally:
        terminal.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_every_shell(shell: str) -> None:
    """It is made from the command line itself, and asks it."""
    command = [sys.executable, "-m", "moorage", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert f"_MOORAGE_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused_by_one_line() -> None:
    """With the ones that there are."""
    command = [sys.executable, "-m", "moorage", "completion", "tcsh"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'bash', 'zsh', 'fish'" in done.stderr


def test_every_command_is_offered() -> None:
    """The words that a shell gets are the commands of the help."""
    asked = {**os.environ, "_MOORAGE_COMPLETE": "bash_complete", "COMP_WORDS": "moorage ", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "moorage"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=asked)
    assert set(done.stdout.split()) == {f"plain,{name}" for name in COMMANDS}
