"""Which nodes are about to go away, until when, and what has been done about it.

Invariants:
- a node has a departure exactly while it has a notice; a second notice never postpones the end, but a soft notice sets
  none: a node that is only being drained waits for its pods, and the first hard notice sets the end;
- the keeper cordons a node once: if it is uncordoned while the notice stands, that is respected;
- the keeper uncordons nodes that it cordoned when the notice is withdrawn, also after a restart: the mark on the node
  counts, not the keeper's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.commands import PatchNode
from moorage.core.nodes import Node
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.keeping import marks
from moorage.engine.keeping.signals import NodeNotice, Signals

CANDIDATE_TAINT = "DeletionCandidateOfClusterAutoscaler"
"""Cluster Autoscaler intends to remove the node; another pod would prevent that."""
REPEAT_S = 10.0
"""How long after a write without effect a node is written again."""


@dataclass(slots=True)
class Departure:
    """A node that is about to go away."""

    node: str
    words: str
    since_s: float
    until_s: float
    seen: set[str] = field(default_factory=set)
    hard: bool = False
    """Whether the node goes away at that time, drained or not; otherwise pods may opt out of being moved."""

    def last_chance(self, now: float, margin_s: float) -> bool:
        """Whether the remaining pods will be lost with the node unless something is done now."""
        return self.hard and now >= self.until_s - margin_s


class Departures:
    """All nodes that are about to go away."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._departures: dict[str, Departure] = {}
        self._to_write: dict[str, Node] = {}
        """Nodes that lack their marks, or have some too many."""
        self._written_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._departures)

    def __contains__(self, node: str) -> bool:
        return node in self._departures

    def __iter__(self) -> Iterator[Departure]:
        return iter(self._departures.values())

    def get(self, node: str) -> Departure | None:
        """The departure of this node, None if it stays."""
        return self._departures.get(node)

    def rows(self, state: ClusterState) -> Mask:
        """Rows of nodes that are about to go away, bool[capacity]."""
        mask: Mask = np.zeros(state.capacity, dtype=np.bool_)
        for name in self._departures:
            row = state.row_of(name)
            if row is not None:
                mask[row] = True
        return mask

    def staying(self, state: ClusterState) -> Mask:
        """Rows of nodes to which pods may be moved without need, bool[capacity]."""
        found = state.alive & ~self.rows(state)
        for number, taints in enumerate(state.taints.sets):
            if any(taint.key == CANDIDATE_TAINT for taint in taints):
                found &= state.taints.ids != number
        return found

    @property
    def unwritten(self) -> bool:
        """Whether there are nodes to be written."""
        return bool(self._to_write)

    def see(self, node: Node, now: float) -> None:
        """A node was added or changed."""
        notices = self._signals.notices(node)
        if not notices:
            self._departures.pop(node.name, None)
            self._note(node, wanted=marks.is_marked(node))
            return
        departure = self._departures.get(node.name)
        if departure is None:
            departure = self._departures[node.name] = _departure(node, notices, now)
        _apply(departure, notices, now)
        written_s = marks.time_s(node, marks.UNTIL)
        outdated = written_s is not None and abs(written_s - departure.until_s) > 1.0
        self._note(node, wanted=outdated or not marks.is_marked(node))

    def gone(self, node: str) -> None:
        """A node is gone."""
        self._departures.pop(node, None)
        self._to_write.pop(node, None)
        self._written_s.pop(node, None)

    def write(self, now: float) -> list[PatchNode]:
        """What has to be written on nodes now."""
        due = [n for n in self._to_write.values() if now >= self._written_s.get(n.name, -REPEAT_S) + REPEAT_S]
        for node in due:
            self._written_s[node.name] = now
        return [self._patch(node) for node in due]

    def _patch(self, node: Node) -> PatchNode:
        departure = self._departures.get(node.name)
        if departure is None:
            ours = marks.CORDONED in node.annotations
            return PatchNode(node.name, node.uid, False if ours and node.unschedulable else None, marks.STAYING)
        cordon = not node.unschedulable and not marks.is_marked(node)
        annotations = marks.leaving(departure.words, departure.since_s, departure.until_s, cordon=cordon)
        return PatchNode(node.name, node.uid, True if cordon else None, annotations)

    def _note(self, node: Node, *, wanted: bool) -> None:
        if wanted:
            before = self._to_write.get(node.name)
            self._to_write[node.name] = node
            if before is None:
                self._written_s.pop(node.name, None)
        elif self._to_write.pop(node.name, None) is not None:
            self._written_s.pop(node.name, None)


def _apply(departure: Departure, notices: Sequence[NodeNotice], now: float) -> None:
    """Apply new notices."""
    for notice in notices:
        if notice.words in departure.seen:
            continue
        departure.seen.add(notice.words)
        until_s = now + notice.notice_s
        if notice.soft:
            departure.until_s = departure.until_s if departure.hard else min(departure.until_s, until_s)
        else:
            departure.until_s = min(departure.until_s, until_s) if departure.hard else until_s
            departure.hard = True
    departure.hard = any(not notice.soft for notice in notices)


def _departure(node: Node, notices: Sequence[NodeNotice], now: float) -> Departure:
    """A new departure; the times that an earlier keeper wrote on the node are kept."""
    since_s, until_s = marks.time_s(node, marks.SINCE), marks.time_s(node, marks.UNTIL)
    if since_s is None or until_s is None:
        return Departure(node.name, notices[0].words, now, now + notices[0].notice_s)
    words = node.annotations.get(marks.NOTICE, notices[0].words)
    hard = any(not notice.soft for notice in notices)
    return Departure(node.name, words, since_s, until_s, {notice.words for notice in notices}, hard)
