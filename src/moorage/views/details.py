"""What rules found on the nodes that they rejected: nodes where they found the same together, the nearest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from moorage.core.phrases import listed
from moorage.core.values import dataclass
from moorage.engine.explain import NodeExplanation
from moorage.framework.details import Detail, NearMiss

SHOWN_DETAILS = 8
_SHOWN_MISSES = 3


@dataclass(slots=True)
class DetailGroup:
    """Nodes on which a rule found the same."""

    found: Detail
    nodes: list[str] = field(default_factory=list)
    misses: list[tuple[str, NearMiss]] = field(default_factory=list)
    """Node and what came nearest there."""

    @property
    def title(self) -> str:
        """Where, and what."""
        return f"{listed(self.nodes)}: {self.found.subject} {self.found.verdict}"

    @property
    def lines(self) -> list[str]:
        """What refused how many, and the nearest misses."""
        counts = [f"{number} refused: {rule}" for rule, number in self.found.refused.items()]
        nearest = sorted(self.misses, key=lambda miss: len(miss[1].why))[:_SHOWN_MISSES]
        return [*counts, *(f"nearest: {miss.name} of {node}: {miss.text}" for node, miss in nearest)]

    def document(self) -> dict[str, Any]:
        """For the dashboard."""
        return {"title": self.title, "lines": self.lines}


def detail_groups(nodes: Mapping[str, NodeExplanation]) -> list[DetailGroup]:
    """A few groups: those that lack the least first, then the larger ones."""
    found: dict[str, DetailGroup] = {}
    for name, node in nodes.items():
        for detail in node.details:
            group = found.setdefault(detail.text, DetailGroup(detail))
            group.nodes.append(name)
            group.misses += [(name, miss) for miss in detail.nearest]

    def rank(group: DetailGroup) -> tuple[int, int, str]:
        return min((len(miss.why) for _, miss in group.misses), default=99), -len(group.nodes), group.found.text

    return sorted(found.values(), key=rank)[:SHOWN_DETAILS]
