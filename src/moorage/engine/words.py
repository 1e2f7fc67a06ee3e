"""What people are told about gangs and units of queues that wait: conditions and FailedScheduling events, sparingly.

Where there is more work than room, attempts fail all the time, and their messages count what differs every time ("7 of
20 members fit"). Writes are for people, so:
- a pod is told again when the kind of the reason is another one, and once a minute otherwise;
- the members of a gang share one reason: each has the condition, and the one that stands for them the event;
- all that wait share a budget of writes per second, and namespaces take turns. What a pod was to be told is dropped
  when it waits no more; `left_out` counts that.
Pods that are neither in a gang nor in a queue are told at once and always, as by kube-scheduler.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.commands import Command, PatchPodStatus, RecordEvent, ref_of
from moorage.core.pods import Condition
from moorage.engine.lifecycle import WAITING
from moorage.engine.units import QueuedPod

if TYPE_CHECKING:
    from moorage.engine.context import EngineContext
    from moorage.engine.turn import Turn

PER_SECOND = 50.0
"""How many writes there are for all that wait."""
BURST = 100.0
"""How many after a time without any."""
AGAIN_S = 60.0
"""How long a pod that waits for the same kind of reason is not told of it again."""
_PAUSE_S = 0.25
"""How often writes that wait for the budget are looked at."""
_PASSING = re.compile(r" and asks for \d\S* more|\d+|(Free r|R)oom is kept for (gang \S+|it) until \S+")
"""What differs from attempt to attempt: numbers, how much a queue lacks, and whose turn it is (`gangturns`)."""


class Word(NamedTuple):
    """What a pod is to be told."""

    entry: QueuedPod
    condition: Condition
    reporter: str
    """The profile's schedulerName."""
    kind: str
    event: bool
    """Whether there is an event, too."""
    written: bool = False
    """Whether the condition is written already."""


class WaitingWords:
    """Tells pods why they wait."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self.due: dict[str, dict[str, Word]] = {}
        """By namespace and by uid of the pod, in the order in which they are told."""
        self.left_out = 0
        """How many writes were not made, as the pod waited no more when its turn came."""
        self._budget = BURST
        self._counted_s = 0.0
        """When the budget was last counted."""

    def tell(
        self,
        entry: QueuedPod,
        condition: Condition,
        reporter: str,
        turn: Turn,
        nominate: str | None = None,
    ) -> None:
        """A pod has no node for this reason; `nominate` is what status.nominatedNodeName becomes, written at once."""
        pod = entry.pod
        if not self._moderate(entry):
            told = pod.scheduled_condition == condition
            if not told or nominate is not None:
                patch = PatchPodStatus(ref_of(pod), None if told else condition, nominate, pod.generation)
                turn.commands.append(patch)
            turn.commands.append(_event(entry, condition, reporter))
            return
        kind = _kind(condition)
        if self._is_news(entry, kind, turn.now):
            word = Word(entry, condition, reporter, kind, event=pod.uid == entry.unit.pod.uid)
            self.due.setdefault(pod.template.namespace, {})[pod.uid] = word
        if nominate is not None:
            turn.commands.append(PatchPodStatus(ref_of(pod), nominated_node=nominate))

    def _moderate(self, entry: QueuedPod) -> bool:
        sharing = self._context.sharing
        return entry.unit.gang is not None or (sharing is not None and sharing.governs(entry.pod))

    def _is_news(self, entry: QueuedPod, kind: str, now: float) -> bool:
        known = entry.pod.scheduled_condition
        if entry.told_kind == "" and known is not None and known.status == "False" and _kind(known) == kind:
            entry.told_kind, entry.told_s = kind, now  # by the leader before
        due = self.due.get(entry.pod.template.namespace, ())
        return entry.pod.uid in due or entry.told_kind != kind or now >= entry.told_s + AGAIN_S

    def next_s(self, now: float) -> float | None:
        """When `speak` has something to do even if nothing happens."""
        return now + _PAUSE_S if self.due else None

    def speak(self, turn: Turn) -> None:
        """Write as much as the budget allows; what is written to a pod anyway takes its condition along."""
        if not self.due:
            return
        self._ride_along(turn.commands)
        self._budget = min(BURST, self._budget + PER_SECOND * max(0.0, turn.now - self._counted_s))
        self._counted_s = turn.now
        while self.due and self._budget >= 1.0:
            namespace, words = next(iter(self.due.items()))
            word = words.pop(next(iter(words)))
            del self.due[namespace]
            if words:
                self.due[namespace] = words  # last
            if self._context.queue.get(word.entry.pod.uid) is word.entry and word.entry.state in WAITING:
                self._say(word, turn)
            else:
                self.left_out += word.event + (not word.written)

    def _say(self, word: Word, turn: Turn) -> None:
        entry, condition = word.entry, word.condition
        pod = entry.pod
        if not word.written and pod.scheduled_condition != condition:
            turn.commands.append(PatchPodStatus(ref_of(pod), condition, None, pod.generation))
            self._budget -= 1.0
        if word.event:
            turn.commands.append(_event(entry, condition, word.reporter))
            self._budget -= 1.0
        entry.told_kind, entry.told_s = word.kind, turn.now

    def _ride_along(self, commands: list[Command]) -> None:
        for place, command in enumerate(commands):
            if not isinstance(command, PatchPodStatus) or command.token or command.gang_record is not None:
                continue
            words = self.due.get(command.pod.namespace, {})
            word = words.get(command.pod.uid)
            if word is not None and command.condition is None and word.entry.pod.scheduled_condition != word.condition:
                generation = word.entry.pod.generation
                commands[place] = replace(command, condition=word.condition, observed_generation=generation)
                words[command.pod.uid] = word._replace(written=True)


def _event(entry: QueuedPod, condition: Condition, reporter: str) -> RecordEvent:
    message = condition.message
    return RecordEvent(ref_of(entry.pod), "Warning", "FailedScheduling", "Scheduling", message, reporter)


def _kind(condition: Condition) -> str:
    return f"{condition.reason} {lasting_words(condition.message)}".rstrip()


def lasting_words(message: str) -> str:
    """A reason without what is counted in it: the same as long as its kind is."""
    return _PASSING.sub("", message)
