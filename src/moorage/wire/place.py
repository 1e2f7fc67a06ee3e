"""Where in the input an object or a fault stands, so that messages can point at it."""

from __future__ import annotations

from typing import Any

from moorage.core.values import dataclass

STDIN = "-"


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A file, the document in it and the item of a list in that; numbers start at 1, None where there is only one."""

    file: str
    document: int | None = None
    item: int | None = None

    def __str__(self) -> str:
        parts = [show_file(self.file)]
        if self.document is not None:
            parts.append(f"document {self.document}")
        if self.item is not None:
            parts.append(f"item {self.item}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: number and line start at 1, the value is of plain types (dict, list, str, int, ...)."""

    number: int
    line: int
    value: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """Why text could not be read; line and column start at 1, column 0 means that it is not known."""

    line: int
    column: int
    message: str

    def source(self, file: str) -> str:
        """`file:line:column`, as editors understand it."""
        return f"{show_file(file)}:{self.line}" + (f":{self.column}" if self.column else "")


def show_file(file: str) -> str:
    """The name of a file as messages print it."""
    return "standard input" if file == STDIN else file
