"""Pods that come to a simulated cluster over time, stay for a while and leave: those of traces and generators.

They are not objects of the embedded cluster, which would cost more than the decisions about them: the engine is told of
them, and its commands are answered as if a cluster had carried them out at once (`core.echo`). A pod that is evicted
comes again at once under another name, as its controller would make it, and runs for its whole time again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from heapq import heappop, heappush

from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus
from moorage.core.echo import Echo
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.core.times import earlier
from moorage.core.values import copier, dataclass

_created: Callable[[Pod, float], Pod] = copier(Pod, "created_s")
_ANSWERED = (Bind, DeletePod, PatchPodStatus)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod, when it comes, and how long it stays."""

    after_s: float
    """Seconds from the start of the simulation."""
    pod: Pod
    run_s: float | None = None
    """How long it runs from when it has a node; None: as long as the simulation takes."""


class PodArrivals:
    """The pods of a simulation that come, run and go."""

    def __init__(self, arrivals: Iterable[Arrival] = ()) -> None:
        self._to_come = sorted(arrivals, key=lambda each: each.after_s, reverse=True)
        """The next one is the last."""
        self.number = len(self._to_come)
        self._start_s: float | None = None
        self._here: dict[str, Arrival] = {}
        """Uid -> the pods that have come and not gone."""
        self._names: dict[str, tuple[str, int]] = {}
        """Uid of a pod that replaces another -> uid of the first one, and how many there were before it."""
        self._ends: list[tuple[float, str]] = []
        self._next: list[Event] = []
        self._left: dict[str, str] = {}
        """Uid of a pod that replaces another -> the node that the other one had."""
        self.moves = 0
        """How many pods got another node than the pods that they replace."""
        self._echo = Echo()

    def begin(self, start_s: float) -> None:
        """Pods come from now on."""
        self._start_s = start_s

    @property
    def last_s(self) -> float | None:
        """When the last pod comes; None if none does."""
        if self._start_s is None or not self._to_come:
            return None
        return self._start_s + self._to_come[0].after_s

    @property
    def next_s(self) -> float | None:
        """When the next pod comes or ends; None if that never happens."""
        end_s = self._ends[0][0] if self._ends else None
        if self._start_s is None or not self._to_come:
            return end_s
        return earlier(end_s, self._start_s + self._to_come[-1].after_s)

    def due(self, now_s: float) -> list[Event]:
        """What happens up to now: pods that end, then those that come."""
        events, self._next = self._next, []
        while self._ends and self._ends[0][0] <= now_s:
            uid = heappop(self._ends)[1]
            if uid in self._here:
                self._forget(uid)
                events.append(PodGone(uid))
        start_s = self._start_s
        if start_s is None:
            return events
        while self._to_come and start_s + self._to_come[-1].after_s <= now_s:
            arrival = self._to_come.pop()
            events.append(self._come(arrival, arrival.pod, now_s))
        return events

    def answered(self, command: Command, now_s: float) -> list[Event] | None:
        """What comes of a command about one of these pods; None if it is about something else."""
        uid = command.pod.uid
        arrival = self._here.get(uid)
        if arrival is None or not isinstance(command, _ANSWERED):
            return None
        events = self._echo.events((command,))
        if isinstance(command, DeletePod):
            self._replace(uid, arrival, now_s)
        elif isinstance(command, Bind):
            self.moves += self._left.pop(uid, command.node) != command.node
            if arrival.run_s is not None:
                heappush(self._ends, (now_s + arrival.run_s, uid))
        return events

    def is_single(self, command: Command) -> bool:
        """Whether the command binds one of these pods, and that one is in no gang."""
        arrival = self._here.get(command.pod.uid)
        return arrival is not None and isinstance(command, Bind) and arrival.pod.template.gang is None

    def leave(self, nodes: Collection[str], now_s: float) -> dict[str, str]:
        """Evict the pods of some nodes, as a drain does; `namespace/name` of each -> its node."""
        found: dict[str, str] = {}
        for uid in [uid for uid in self._here if self._echo.pods[uid].node in nodes]:
            pod, arrival = self._echo.pods[uid], self._here[uid]
            found[pod.key] = pod.node or ""
            self._next.append(PodGone(uid))
            self._replace(uid, arrival, now_s)
        return found

    def _come(self, arrival: Arrival, pod: Pod, now_s: float) -> Event:
        pod = _created(pod, now_s)
        self._here[pod.uid] = arrival
        self._echo.pods[pod.uid] = pod
        return PodSeen(pod)

    def _replace(self, uid: str, arrival: Arrival, now_s: float) -> None:
        first, number = self._names.pop(uid, (uid, 0))
        node = self._echo.pods[uid].node or self._left.pop(uid, None)
        self._forget(uid)
        again = replace(arrival.pod, uid=f"{first}-{number + 1}", name=f"{arrival.pod.name}-{number + 1}")
        self._names[again.uid] = first, number + 1
        if node is not None:
            self._left[again.uid] = node
        self._next.append(self._come(arrival, again, now_s))

    def _forget(self, uid: str) -> None:
        del self._here[uid], self._echo.pods[uid]
