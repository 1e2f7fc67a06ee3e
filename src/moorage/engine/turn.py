"""One call of the engine, as its parts pass it on."""

from __future__ import annotations

from dataclasses import field

from moorage.core.commands import Command
from moorage.core.values import dataclass


@dataclass(slots=True, eq=False)
class Turn:
    """The time of a call, and its commands so far."""

    now: float
    commands: list[Command] = field(default_factory=list)
