"""What happened in the demo, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """The kinds of things that happen."""

    STORY = "story"
    """An act of the scenario."""
    PLACED = "placed"
    WAITS = "waits"
    """A pod fits nowhere, for a reason that it was not told before."""
    PREEMPTS = "preempts"
    """A more important pod is given the place of another one, which will be evicted."""
    RUNNING = "running"
    FINISHED = "finished"
    """A pod ran to its end."""
    COMPLETE = "complete"
    """A Job has all its completions."""
    EVICTED = "evicted"
    """A pod had to go: its node was lost, or a more important pod took its place."""
    KEEPS = "keeps"
    """The keeper does something about a node, or to a pod that stands on one."""
    REMOVED = "removed"
    """Nobody wants the pod any more."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened; `facts` say it to programs, `text` to people."""

    at_s: float
    """Since the start of the demo."""
    what: What
    subject: str
    """The pod or Job, empty for a story."""
    note: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.subject} {self.note}" if self.subject else self.note

    def document(self) -> dict[str, Any]:
        """The same as one flat JSON object."""
        document: dict[str, Any] = {"at_s": round(self.at_s, 3), "what": self.what.value}
        if self.subject:
            document["subject"] = self.subject
        else:
            document["text"] = self.note
        return {**document, **self.facts}


def main_reason(message: str) -> str:
    """Why a pod waits, without what was found out about preemption."""
    return message.partition(" preemption: ")[0]


def clock_text(time_s: float) -> str:
    """Minutes and seconds."""
    minutes, seconds = divmod(int(time_s), 60)
    return f"{minutes}:{seconds:02}"
