"""The record of a gang's start, which one of its members carries; how it is written is in `wire.gangrecords`."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.frozen import EMPTY
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class GangRecord:
    """What a record says."""

    done: bool
    """Whether as many members as needed were bound; otherwise the start is on its way."""
    term: str = ""
    """The term of leadership in which it began."""
    nodes: Mapping[str, str] = EMPTY
    """Member's name -> node."""


STARTED = GangRecord(done=True)
"""The record of a start that has succeeded."""
