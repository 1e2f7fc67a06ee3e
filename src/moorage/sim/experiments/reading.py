"""What the parts of an experiment have in common: each has a name of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.shapes import UNREADABLE

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.+=]{0,98}[A-Za-z0-9])?", re.ASCII)
_GRAMMAR = "write up to 100 letters, digits, -, _, ., + and =, with a letter or digit at both ends"


class NamedPart(Protocol):
    """A part of an experiment."""

    name: str


Part = TypeVar("Part", bound=NamedPart)


def check_name(path: str, name: str, findings: Findings) -> bool:
    """Report a name that cannot be; whether it can."""
    fits = name == UNREADABLE or _NAME.fullmatch(name) is not None
    if not fits:
        findings.problem(path, name, _GRAMMAR)
    return fits


def checked_names(field: str, parts: Sequence[Part], findings: Findings) -> Iterator[tuple[str, str, Part]]:
    """Path, name and part; names that cannot be, or stand twice, are reported."""
    seen: set[str] = set()
    for index, part in enumerate(parts):
        path, name = f"{field}[{index}]", part.name
        if check_name(f"{path}.name", name, findings) and name in seen and name != UNREADABLE:
            findings.problem(f"{path}.name", name, "stands twice; give each a name of its own")
        seen.add(name)
        yield path, name, part
