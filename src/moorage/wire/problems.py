"""One thing that is wrong with some input, said in one line that names the file, the field, the value and the remedy.

Readers of manifests and of configuration collect these instead of stopping at the first one.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Final, Literal

from moorage.core.values import dataclass

_SHOWN_CHARACTERS = 120


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final[Literal[Absent.ABSENT]] = Absent.ABSENT
"""Stands for a value that is not there, or that would say nothing: the line leaves it out."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where. Equal problems are equal values, so that repetitions can be dropped."""

    source: str
    """The file, with the place in it where there are several."""
    path: str
    """The field, e.g. `spec.containers[0].image`; empty when the whole document is meant."""
    value: object
    """The offending value, or `ABSENT`."""
    message: str
    """What is expected, or what to do."""

    def __str__(self) -> str:
        parts = [self.source, self.path, "" if self.value is ABSENT else render_value(self.value), self.message]
        return ": ".join(one_line(part) for part in parts if part)


def render_value(value: object) -> str:
    """The value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = str(type(value).__name__)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def one_line(text: str) -> str:
    """The text without line breaks and control characters, so that a problem never spans lines."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
