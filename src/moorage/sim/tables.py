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
_GAP = "  "


def shown(text: str) -> str:
    """The text on one line, with `?` for characters that are no visible ones."""
    return "".join(sign if sign.isprintable() else " " if sign in "\t\n" else "?" for sign in text)


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO, *, numbers: Collection[str] = ()
) -> None:
    """A line for each row below the titles; columns named in `numbers` stand at the right."""
    width = shutil.get_terminal_size().columns if out.isatty() else PIPE_WIDTH
    lines = _plain_lines([columns, *rows], [column in numbers for column in columns])
    if lines is None or out.isatty() or max(map(len, lines)) > width:
        lines = _styled_lines(columns, rows, width, numbers, is_screen=out.isatty())
    out.writelines(f"{line.rstrip()}\n" for line in lines)


def _plain_lines(rows: Sequence[Sequence[str]], at_right: Sequence[bool]) -> list[str] | None:
    """The lines at full width; None if not every character is known to be one cell wide."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if not all(cell.isascii() for row in cells for cell in row):
        return None
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, at_right, strict=True)
        )
        for row in cells
    ]


def _styled_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: Collection[str], *, is_screen: bool
) -> list[str]:
    """The lines with a bold title where it shows, and the last column wrapped where it is too wide."""
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second, only for this output
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Rendered apart and written by us: rich would end the process itself when the reader goes away.
    console = Console(file=StringIO(), force_terminal=is_screen, width=width, highlight=False, markup=False)
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
    return rendered.get().splitlines()
