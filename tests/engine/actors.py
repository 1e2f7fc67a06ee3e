"""Test plugins for the points after Filter: they hold, refuse, raise and take notes as told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.commands import Command
from moorage.core.pods import Pod
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import SKIP, Hold, Nomination, Reason, Rejections, Status

Answer = Status | Hold | None
Say = Callable[[Cycle], Any]


class Reserver(Plugin):
    """Notes reserve and unreserve in a common diary; refuses as told."""

    name: ClassVar[str] = "Reserver"

    def __init__(self, called: str, diary: list[str], say: Say = lambda _: None) -> None:
        super().__init__()
        self.name = called  # type: ignore[misc] # one class stands for several plugins here
        self._diary = diary
        self._say = say

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        self._diary.append(f"{self.name} reserves {cycle.pod.name} on {cycle.state.node(row).name}")
        answer: Status | None = self._say(cycle)
        return answer

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002 - part of the interface
        self._diary.append(f"{self.name} unreserves {cycle.pod.name}")


class Permitter(Plugin):
    """Permit as told."""

    name: ClassVar[str] = "Permitter"

    def __init__(self, say: Say, wakes: What = What.ANY) -> None:
        super().__init__()
        self.say = say
        self.wakes = wakes  # type: ignore[misc] # one class stands for several plugins here
        self.kinds = frozenset({"Signal"})  # type: ignore[misc]

    def permit(self, cycle: Cycle, row: int) -> Answer:  # noqa: ARG002 - part of the interface
        answer: Answer = self.say(cycle)
        return answer


class PreBinder(Plugin):
    """PreBind as told."""

    name: ClassVar[str] = "PreBinder"
    kinds: ClassVar[frozenset[str]] = frozenset({"Signal"})

    def __init__(self, say: Say) -> None:
        super().__init__()
        self.say = say

    def pre_bind(self, cycle: Cycle, row: int) -> Answer:  # noqa: ARG002 - part of the interface
        answer: Answer = self.say(cycle)
        return answer


class PostFilter(Plugin):
    """PostFilter as told."""

    name: ClassVar[str] = "PostFilter"

    def __init__(self, say: Say) -> None:
        super().__init__()
        self.say = say

    def post_filter(self, cycle: Cycle, runner: Any, diagnosis: Any) -> Nomination | Status | None:  # noqa: ARG002
        answer: Nomination | Status | None = self.say(cycle)
        return answer


class Gatekeeper(Plugin):
    """PreEnqueue as told, woken by Signal objects."""

    name: ClassVar[str] = "Gatekeeper"
    wakes: ClassVar[What] = What.OBJECT
    kinds: ClassVar[frozenset[str]] = frozenset({"Signal"})

    def __init__(self, say: Callable[[Pod], Status | None]) -> None:
        super().__init__()
        self.say = say

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self.say(pod)


class Raiser(Plugin):
    """Raises at one point, for pods whose label says so."""

    name: ClassVar[str] = "Raiser"

    def maybe(self, point: str, pod: Pod) -> None:
        if pod.template.labels.get("raises") == point:
            raise ValueError(f"{point} is broken\nin two lines")

    def pre_enqueue(self, pod: Pod) -> None:
        self.maybe("pre_enqueue", pod)

    def pre_filter(self, cycle: Cycle) -> None:
        self.maybe("pre_filter", cycle.pod)

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        self.maybe("filter", cycle.pod)
        if cycle.template.labels.get("raises") in ("post_filter", "helps"):
            return Rejections(np.ones(len(rows), dtype=np.int64), (Reason("nowhere"),))
        return None

    def post_filter(self, cycle: Cycle, runner: Any, diagnosis: Any) -> None:  # noqa: ARG002 - part of the interface
        self.maybe("post_filter", cycle.pod)

    def score(self, cycle: Cycle, rows: Rows) -> Any:
        self.maybe("score", cycle.pod)
        return np.zeros(len(rows), dtype=np.int64)

    def reserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002
        self.maybe("reserve", cycle.pod)

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002
        self.maybe("unreserve", cycle.pod)

    def permit(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002
        self.maybe("permit", cycle.pod)

    def pre_bind(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002
        self.maybe("pre_bind", cycle.pod)

    def bind(self, cycle: Cycle, row: int) -> Command | Status:  # noqa: ARG002
        self.maybe("bind", cycle.pod)
        return SKIP

    def post_bind(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002
        self.maybe("post_bind", cycle.pod)

    def helps(self, template: Any, change: Any) -> bool:  # noqa: ARG002
        if template.labels.get("raises") == "helps":
            raise ValueError("helps is broken")
        return False
