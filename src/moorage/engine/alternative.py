"""The same cluster with other decisions: what came from outside stays, what followed from decisions follows anew.

A bind succeeds and the pod is seen on its node, an eviction succeeds and the pod is gone, a status that was written is
seen. What cannot be told apart counts as having come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.echo import Echo
from moorage.core.events import BindDone, BindOutcome, Event, PodGone, PodSeen, TermBegan
from moorage.core.follow import OBJECTS_SEEN
from moorage.core.pods import Pod, as_pending


class Alternative:
    """What followed from decisions that were taken, and what follows from others."""

    def __init__(self) -> None:
        self._echo = Echo()
        self.arrived = self._echo.pods
        """Pods that needed a node when they were first seen, as they are with the new decisions; also those gone."""
        self.nodes: dict[str, str] = {}
        self.recorded_nodes: dict[str, str] = {}
        self.evictions: dict[str, str] = {}
        """Uid -> `namespace/name`."""
        self.recorded_evictions: dict[str, str] = {}
        self._given: set[str] = set()
        """Pods that had a node when they were first seen."""
        self._answers: list[Event] = []

    @property
    def waiting(self) -> bool:
        """Whether the engine has not been told everything yet."""
        return bool(self._answers)

    def answers(self) -> list[Event]:
        """What became of the latest commands."""
        answers, self._answers = self._answers, []
        return answers

    def recorded(self, commands: Iterable[Command]) -> None:
        """What was decided then."""
        for command in commands:
            uid = command.pod.uid
            if isinstance(command, Bind):
                self.recorded_nodes[uid] = command.node
            elif isinstance(command, DeletePod):
                self.recorded_evictions[uid] = command.pod.key

    def decided(self, commands: Sequence[Command]) -> None:
        """What is decided now; its consequences are the next answers."""
        for command in commands:
            if isinstance(command, Bind):
                self.nodes[command.pod.uid] = command.node
            elif isinstance(command, DeletePod):
                self.evictions[command.pod.uid] = command.pod.key
        self._answers += self._echo.events(commands)

    def come_back(self, pod: Pod) -> None:
        """An evicted pod waits again, as its controller makes another one in its place."""
        self.evictions.pop(pod.uid, None)
        self.nodes.pop(pod.uid, None)
        self._given.discard(pod.uid)
        waiting = self.arrived[pod.uid] = as_pending(pod)
        self._answers.append(PodSeen(waiting))

    def waits(self, uid: str) -> bool:
        """Whether a pod that came without a node still has none."""
        return uid in self.arrived and uid not in self.nodes

    def forget(self, uid: str) -> None:
        """A pod is gone for good; a replay needs what it knows of such pods at its end, others do not."""
        self.evictions.pop(uid, None)
        self.nodes.pop(uid, None)
        self._given.discard(uid)
        self.arrived.pop(uid, None)

    # --- from what was told then to what is told now ---

    def translated(self, events: Iterable[Event]) -> list[Event]:
        """What came from outside, as the new decisions let it look."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, PodSeen):
                pod = self._pod(event.pod)
                found += [] if pod is None else [PodSeen(pod)]
            elif isinstance(event, PodGone):
                if event.uid not in self.recorded_evictions and event.uid not in self.evictions:
                    found.append(event)
            elif isinstance(event, BindDone):
                self._corrected(event)
            elif isinstance(event, (*OBJECTS_SEEN, TermBegan)):
                found.append(event)
        return found

    def _corrected(self, event: BindDone) -> None:
        """A recorded bind that came to something else."""
        if event.outcome is BindOutcome.ELSEWHERE and event.node is not None:
            self.recorded_nodes[event.uid] = event.node
        elif event.outcome is not BindOutcome.BOUND:
            self.recorded_nodes.pop(event.uid, None)

    def _pod(self, pod: Pod) -> Pod | None:
        uid = pod.uid
        if uid in self.evictions:
            return None
        deleted_s = None if uid in self.recorded_evictions else pod.deleted_s
        if uid in self._given or (uid not in self.arrived and pod.node is not None):
            self._given.add(uid)
            return replace(pod, deleted_s=deleted_s)
        node, known = self.nodes.get(uid), self.arrived.get(uid)
        if node is None and pod.finished:
            return None  # it has run only where it was placed then
        shown = replace(
            as_pending(pod) if node is None else replace(pod, node=node, preempted=False),
            deleted_s=deleted_s,
            nominated_node=None if known is None else known.nominated_node,
            scheduled_condition=None if known is None else known.scheduled_condition,
            gang_record=None if known is None else known.gang_record,
        )
        self.arrived[uid] = shown
        return shown
