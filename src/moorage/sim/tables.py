"""Tables for people, on a screen or in a pipe.

Names and messages come from files and clusters, and are not trusted: what a terminal would take for a command, or what
would turn text around, is never printed.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from io import StringIO
from typing import TextIO

PIPE_WIDTH = 1000
"""Characters of a line if the width of the screen is unknown: in effect no limit."""


def shown(text: str) -> str:
    """The text on one line, with `?` for characters that are no visible ones."""
    return "".join(sign if sign.isprintable() else " " if sign in "\t\n" else "?" for sign in text)


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO, *, numbers: Collection[str] = ()
) -> None:
    """A line for each row below the titles; columns named in `numbers` stand at the right."""
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second, only for this output
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    width = shutil.get_terminal_size().columns if out.isatty() else PIPE_WIDTH
    # Rendered apart and written by us: rich would end the process itself when the reader goes away.
    console = Console(file=StringIO(), force_terminal=out.isatty(), width=width, highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # Names must not be cut where a message can be wrapped instead.
        last = number == len(columns) - 1
        title = Text(shown(column))
        table.add_column(title, no_wrap=not last, overflow="fold", justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    with console.capture() as rendered:
        console.print(table)
    out.writelines(f"{line.rstrip()}\n" for line in rendered.get().splitlines())
