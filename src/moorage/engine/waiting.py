"""Answers that have to wait."""

from __future__ import annotations

from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """No answer yet: ask again when something has happened, or at this time."""

    until_s: float
