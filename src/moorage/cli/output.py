"""What commands print, and their exit codes.

    click.ClickException
      InputError     2   wrong input: every problem is one line on stderr
      click.UsageError  2   wrong usage: one line on stderr

Results go to stdout, everything else to stderr. If the reader of stdout goes away, the command ends silently.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import click

GOOD = 0
NO = 1
"""The answer is no."""
BAD_INPUT = 2
INTERNAL_ERROR = 70
"""A fault of Moorage itself (EX_SOFTWARE)."""
INTERRUPTED = 130
"""128 + SIGINT, as in shells."""
READER_GONE = 141
"""128 + SIGPIPE, as in shells."""


class InputError(click.ClickException):
    """Input that cannot be used; `lines` are complete sentences of one line each."""

    exit_code = BAD_INPUT

    def __init__(self, lines: Iterable[object]) -> None:
        self.lines = tuple(dict.fromkeys(_one_line(str(line)) for line in lines))
        super().__init__("; ".join(self.lines))


def say_problems(error: click.ClickException) -> None:
    """Print why a command cannot continue, one line for each problem."""
    if isinstance(error, InputError):
        for line in error.lines:
            click.echo(f"error: {line}", err=True)
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
    else:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "moorage"
        message = _one_line(error.format_message()).rstrip(".")
        click.echo(f"error: {message}; see {path} --help", err=True)


def say(kind: str, lines: Iterable[object]) -> None:
    """Print warnings or notes on stderr, one line each, each once."""
    for line in dict.fromkeys(_one_line(str(line)) for line in lines):
        click.echo(f"{kind}: {line}", err=True)


def flush() -> None:
    """Flush stdout; BrokenPipeError if the reader went away."""
    sys.stdout.flush()


def drop_output() -> None:
    """Discard further output: the reader of stdout is gone, and Python would report it at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _one_line(text: str) -> str:
    """Without line breaks and terminal control sequences: these lines quote input."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
