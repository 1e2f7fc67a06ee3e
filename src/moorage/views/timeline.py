"""What happened, newest last: a bounded list of entries with numbers that only rise.

`Notes` derives entries from what is seen of pods and nodes, for clusters where nobody else tells. What is there at the
start is no news, so nothing is noted before `settled`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moorage.core.nodes import Node
from moorage.core.pods import Pod

KEPT = 2000
UNSCHEDULABLE = "Unschedulable"

PLACED, WAITS, EVICTED, REMOVED, NODE, KEEPER, LEADER, STORY = (
    "placed", "waits", "evicted", "removed", "node", "keeper", "leader", "story",
)  # fmt: skip
"""What kinds of entries there are."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened."""

    at_s: float
    what: str
    subject: str
    """The pod as `namespace/name`, the node, or whatever it is about; may be empty."""
    text: str
    is_pod: bool = False


class Timeline:
    """The latest happenings."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Happening]] = deque(maxlen=KEPT)
        self.last = 0
        """The number of the newest entry."""

    def add(self, happening: Happening) -> None:
        """Note what happened."""
        self.last += 1
        self._kept.append((self.last, happening))

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """At most so many entries after this number, newest first."""
        found: list[dict[str, Any]] = []
        for entry, each in reversed(self._kept):
            if entry <= number or len(found) >= most:
                break
            document = {"n": entry, "t": round(each.at_s, 3), "what": each.what, "subject": each.subject}
            found.append({**document, "text": each.text, "pod": each.is_pod})
        return found


class Notes:
    """Finds out what happened by comparing what is seen with what was seen before."""

    def __init__(self) -> None:
        self.settled = False

    def pod(self, before: Pod | None, pod: Pod, now: float) -> Iterator[Happening]:
        """A pod was seen."""
        if not self.settled:
            return
        if pod.node is not None and (before is None or before.node is None):
            yield Happening(now, PLACED, pod.key, f"-> {pod.node}", is_pod=True)
        said, known = _waits(pod), _waits(before)
        if said and said != known:
            yield Happening(now, WAITS, pod.key, said, is_pod=True)
        if pod.deleted_s is not None and before is not None and before.deleted_s is None:
            yield _ending(pod, now)

    def pod_gone(self, before: Pod, now: float) -> Iterator[Happening]:
        """A pod is no more."""
        if self.settled and before.deleted_s is None and not before.finished:
            yield _ending(before, now)

    def node(self, before: Node | None, node: Node, now: float) -> Iterator[Happening]:
        """A node was seen."""
        if not self.settled:
            return
        if before is None:
            yield Happening(now, NODE, node.name, "joins the cluster")
            return
        if before.unschedulable != node.unschedulable:
            yield Happening(now, NODE, node.name, "is cordoned" if node.unschedulable else "is back in service")
        if before.ready != node.ready:
            yield Happening(now, NODE, node.name, "is ready" if node.ready else "is not ready")

    def node_gone(self, name: str, now: float) -> Iterator[Happening]:
        """A node is no more."""
        if self.settled:
            yield Happening(now, NODE, name, "leaves the cluster")


def _waits(pod: Pod | None) -> str:
    """Why a pod has no node, as its scheduler says."""
    condition = None if pod is None or pod.node is not None else pod.scheduled_condition
    return condition.message if condition is not None and condition.reason == UNSCHEDULABLE else ""


def _ending(pod: Pod, now: float) -> Happening:
    place = f"from {pod.node}" if pod.node else "before it had a node"
    if pod.preempted:
        return Happening(now, EVICTED, pod.key, f"{place}, for a more important pod", is_pod=True)
    return Happening(now, REMOVED, pod.key, place, is_pod=True)
