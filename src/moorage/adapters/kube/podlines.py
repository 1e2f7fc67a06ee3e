"""What is to be done for each pod: work one after the other, and words, of which only the latest count.

Invariants:
- One command of a pod is under way at a time. Work is done in its order.
- Words wait for all work, so that they never overtake a bind. Those that come while others wait are written with them.
- Work never waits for words that were not sent: a bind or an eviction drops them, a gang's record takes over the
  nomination and drops the condition.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from moorage.core.commands import Bind, DeletePod, PatchObject, PatchPodStatus

PodCommand: TypeAlias = Bind | DeletePod | PatchPodStatus | PatchObject

WORK, EVICTIONS, WORDS = range(3)
"""The lanes: each goes before the next one."""


def lane_of(command: PodCommand) -> int:
    """The lane of a command."""
    if isinstance(command, DeletePod):
        return EVICTIONS
    if isinstance(command, PatchPodStatus) and not command.token and command.gang_record is None:
        return WORDS
    return WORK


class PodLine:
    """The commands of one pod."""

    __slots__ = ("hurry", "in_words", "in_work", "namespace", "running", "uid", "words", "work")

    def __init__(self, uid: str, namespace: str) -> None:
        self.uid = uid
        self.namespace = namespace
        self.work: deque[PodCommand] = deque()
        self.words: PatchPodStatus | None = None
        self.running = False
        self.in_work = False
        """Whether it is queued for its next work."""
        self.in_words = False
        """Whether it is queued for its words, perhaps in vain by now."""
        self.hurry = asyncio.Event()
        """Set while there is work: words that are being written should end."""

    @property
    def hurried(self) -> bool:
        """Whether there is work to do."""
        return bool(self.work)


class PodLines:
    """The commands of all pods; `put` queues a pod in a lane, and `take` is called when it comes out."""

    def __init__(self, put: Callable[[PodLine, int], None]) -> None:
        self._put = put
        self._lines: dict[str, PodLine] = {}
        self.overtaken_count = 0
        """How many words were dropped."""

    def __len__(self) -> int:
        return len(self._lines)

    def submit(self, command: PodCommand) -> None:
        """Take a command in."""
        uid = command.pod.uid
        line = self._lines.get(uid)
        if line is None:
            line = self._lines[uid] = PodLine(uid, command.pod.namespace)
        if isinstance(command, PatchPodStatus) and lane_of(command) == WORDS:
            line.words = command if line.words is None else _later(line.words, command)
        else:
            line.work.append(self._overtake(line, command))
            line.hurry.set()
        self._queue(line)

    def take(self, line: PodLine, lane: int) -> PodCommand | None:
        """What is to be done now that a pod's turn has come in a lane; None if that is done or has to wait."""
        if lane == WORDS:
            line.in_words = False
            words = None if line.running or line.work else line.words
            if words is None:
                self._settle(line)
                return None
            line.words, line.running = None, True
            return words
        line.in_work, line.running = False, True
        command = line.work.popleft()
        if not line.work:
            line.hurry.clear()
        return command

    def done(self, line: PodLine) -> None:
        """A command has ended."""
        line.running = False
        self._queue(line)
        self._settle(line)

    def unsaid(self, line: PodLine, words: PatchPodStatus) -> None:
        """Words were not written, as work came: they are written after it, unless that outdates them."""
        if all(isinstance(each, PatchObject) for each in line.work):
            line.words = words if line.words is None else _later(words, line.words)
        else:
            self.overtaken_count += 1

    def _queue(self, line: PodLine) -> None:
        if line.running:
            return
        if line.work:
            if not line.in_work:
                line.in_work = True
                self._put(line, lane_of(line.work[0]))
        elif line.words is not None and not line.in_words:
            line.in_words = True
            self._put(line, WORDS)

    def _settle(self, line: PodLine) -> None:
        """Forget a pod for which nothing is to be done."""
        if not (line.running or line.work or line.words or line.in_words):
            self._lines.pop(line.uid, None)

    def _overtake(self, line: PodLine, command: PodCommand) -> PodCommand:
        """Drop the words that are outdated by a command; the command, which may have taken something over."""
        words = line.words
        if words is None or isinstance(command, PatchObject):
            return command
        line.words = None
        self.overtaken_count += 1
        if isinstance(command, PatchPodStatus) and command.nominated_node is None:
            return replace(command, nominated_node=words.nominated_node)
        return command


def _later(words: PatchPodStatus, later: PatchPodStatus) -> PatchPodStatus:
    """Both together: of each part what was said last."""
    return replace(
        later,
        condition=words.condition if later.condition is None else later.condition,
        nominated_node=words.nominated_node if later.nominated_node is None else later.nominated_node,
        observed_generation=max(words.observed_generation, later.observed_generation),
    )
