"""What the keeper writes on objects, so that it can continue after a restart.

On a node: since when and until when it is leaving, and whether the keeper cordoned it. On a pod: that its predecessor's
node went away, and that it should return to spot capacity.
"""

from __future__ import annotations

from datetime import UTC, datetime

from moorage.core import times
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node

CORDONED = "moorage.dev/keeper-cordoned"
NOTICE = "moorage.dev/keeper-notice"
SINCE = "moorage.dev/keeper-since"
UNTIL = "moorage.dev/keeper-until"
FALLBACK = "moorage.dev/fallback-from"
"""On a pod: the node that its predecessor had to leave."""

REPACK = "moorage.dev/keeper-repack"
"""On a node that the keeper closed while it repacks: why."""


def leaving(words: str, since_s: float, until_s: float, *, cordon: bool) -> FrozenDict[str, str | None]:
    """Annotations of a node that is about to go away."""
    marks: dict[str, str | None] = {NOTICE: words, SINCE: _text(since_s), UNTIL: _text(until_s)}
    if cordon:
        marks[CORDONED] = "true"
    return FrozenDict(marks)


STAYING: FrozenDict[str, str | None] = FrozenDict({CORDONED: None, NOTICE: None, SINCE: None, UNTIL: None})
"""Annotations of a node that stays after all."""


def is_marked(node: Node) -> bool:
    """Whether the keeper has written anything on the node."""
    return any(key in node.annotations for key in (CORDONED, NOTICE, UNTIL))


def time_s(node: Node, mark: str) -> float | None:
    """The time that was written on the node, None if there is none or it cannot be parsed."""
    return times.time_s(node.annotations.get(mark))


def _text(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
