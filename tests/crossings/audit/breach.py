"""What was seen and must not be."""

from __future__ import annotations

from typing import NamedTuple


class Breach(NamedTuple):
    """One breach of one rule."""

    rule: str
    what: str
    at_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"
