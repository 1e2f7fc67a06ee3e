"""Mistakes in an expression, printed with the line that they are in."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_ERRORS = 100
_LONGEST_LINE = 16_384


class ExpressionError(Exception):
    """The expression cannot be compiled; the message has every mistake with its place."""


@dataclass(slots=True)
class Problems:
    """What is wrong with a text."""

    text: str
    _found: list[tuple[int, int, str]] = field(default_factory=list)
    count: int = 0

    def add(self, at: int, message: str) -> None:
        """Something is wrong at an offset; a negative one is no place."""
        self.count += 1
        if self.count <= MOST_ERRORS:
            self._found.append((*self.place(at), message))

    def place(self, at: int) -> tuple[int, int]:
        """The line, from 1, and the column, from 0, of an offset."""
        if at < 0:
            return -1, -1
        return self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1)

    def __str__(self) -> str:
        """All of it, in the order of the text."""
        lines = self.text.split("\n")
        shown = [self._shown(*each, lines) for each in sorted(self._found, key=lambda each: each[:2])]
        if self.count > MOST_ERRORS:
            shown.append(f"{self.count - MOST_ERRORS} more errors were truncated")
        return "\n".join(shown)

    def _shown(self, line: int, column: int, message: str, lines: list[str]) -> str:
        head = f"ERROR: <input>:{line}:{column + 1}: {message}"
        if not 1 <= line <= len(lines) or len(lines[line - 1].encode()) > _LONGEST_LINE:
            return head
        source = lines[line - 1].replace("\t", " ")
        dots = "".join("." if ord(char) < 128 else "．" for char in source[:column])
        wide = column < len(source) and ord(source[column]) >= 128
        return f"{head}\n | {source}\n | {dots}{'＾' if wide else '^'}"
