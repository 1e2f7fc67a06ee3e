"""More about a rejection than its reason: what a rule counted on a node, and what came nearest. For explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple, Self

from moorage.core.values import dataclass


class NearMiss(NamedTuple):
    """Something that nearly fits."""

    name: str
    why: tuple[str, ...]
    """What stands against it."""

    @property
    def text(self) -> str:
        """In words."""
        return "; ".join(self.why)


@dataclass(frozen=True, slots=True)
class Detail:
    """What a rule found on one node for one part of what a pod asks for."""

    subject: str
    """That part."""
    verdict: str
    """What came of it."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """What refuses -> how many things."""
    nearest: tuple[NearMiss, ...] = ()

    @property
    def text(self) -> str:
        """In a line, without the near misses."""
        counts = (f"{number} {rule}" for rule, number in self.refused.items())
        return f"{self.subject}: {'; '.join([self.verdict, *counts])}"

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "refused": [{"by": rule, "count": number} for rule, number in self.refused.items()],
            "nearest": [{"name": each.name, "why": list(each.why)} for each in self.nearest],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From its document."""
        return cls(
            document["subject"],
            document["verdict"],
            {each["by"]: each["count"] for each in document["refused"]},
            tuple(NearMiss(each["name"], tuple(each["why"])) for each in document["nearest"]),
        )
