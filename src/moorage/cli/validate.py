"""`moorage validate`: prints every problem of configuration files and manifests with its location."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import click

from moorage.cli.options import common_options, files_option
from moorage.cli.output import GOOD, NO, InputError, say
from moorage.core.phrases import counted

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.sim.checks import FileFindings


@click.command("validate", short_help="Check configuration files and manifests.")
@files_option
@common_options
def command(files: tuple[str, ...]) -> int:
    """Check configuration files, manifests and annotations, and print every problem with its location.

    Exits with 0 if there is none, with 1 if there are some, with 2 if a file cannot be read.
    """
    from moorage.cli.profiles import find_registry  # noqa: PLC0415
    from moorage.sim.checks import check_file  # noqa: PLC0415
    from moorage.sim.queues import tree_problems  # noqa: PLC0415

    contents = _read_all(files)
    registry = find_registry()
    found = [check_file(file, data, registry) for file, data in contents]
    say("note", (notice for one in found for notice in one.notices))
    together = tree_problems(queue for one in found for queue in one.queues)
    problems = list(dict.fromkeys(map(str, chain(*(one.problems for one in found), together))))
    if problems:
        click.echo("\n".join(problems))
        return NO
    click.echo(_good_news(found))
    return GOOD


def _read_all(files: Iterable[str]) -> list[tuple[str, bytes]]:
    """All files, each once; those that cannot be read are reported together."""
    from moorage.cli.profiles import read_file  # noqa: PLC0415

    contents: list[tuple[str, bytes]] = []
    unreadable: list[str] = []
    for file in dict.fromkeys(files):
        try:
            contents.append((file, sys.stdin.buffer.read() if file == "-" else read_file(file)))
        except InputError as error:
            unreadable += error.lines
    if unreadable:
        raise InputError(unreadable)
    return contents


def _good_news(found: list[FileFindings]) -> str:
    checked = sum(one.checked for one in found)
    unread = sorted({kind for one in found for kind in one.unread})
    note = f", not looked into: {', '.join(unread)}" if unread else ""
    return f"ok: {counted(checked, 'object')}{note}"
