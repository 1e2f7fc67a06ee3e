"""What the reading of a document found: problems, which end it, and notices, which are only said."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.wire.problems import Problem

_KEY_OF_ENTRY = "[key]"
"""What pydantic adds to the place of an entry whose key is wrong."""


class Findings:
    """Collects what is found in one document; paths are those of its fields."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.notices: list[Problem] = []

    def problem(self, path: str, value: object, message: str) -> None:
        """Something that must be changed."""
        self.problems.append(Problem(self.source, path, value, message))

    def notice(self, path: str, value: object, message: str) -> None:
        """Something that is accepted but does not do what one might think."""
        self.notices.append(Problem(self.source, path, value, message))

    def touches(self, path: str) -> bool:
        """Whether a problem is known here, above or below: then what else seems wrong may only be its consequence."""
        return any(_within(problem.path, path) or _within(path, problem.path) for problem in self.problems)


def field_path(parts: Sequence[str | int], start: str = "") -> str:
    """`profiles[1].plugins.score` from its parts, below `start`."""
    path = start
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != _KEY_OF_ENTRY:
            path += f".{part}" if path else part
    return path


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def positive(seconds: float | None, path: str, findings: Findings) -> float | None:
    """A duration, which must be longer than nothing if it is given."""
    if seconds is not None and seconds <= 0:
        findings.problem(path, f"{seconds:g}s", "must be longer than 0s")
    return seconds


def at_least(number: int | None, least: int, path: str, findings: Findings) -> int | None:
    """A number, which must not be smaller if it is given."""
    if number is not None and number < least:
        findings.problem(path, number, f"must be {least} or more")
    return number
