"""What waits to be scheduled: pods, each in a unit that is queued and tried as one, alone or with its gang."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.lifecycle import BACK, GATED, KEPT_STEPS, STEPS, TRYING, WAITING, State, Step, misstep


class Place(StrEnum):
    """Where a pod is; values are the label `queue` of kube-scheduler's metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "inflight"


_PLACES = {state: Place(state.value) for state in WAITING}


def place_of(state: State) -> Place:
    """Where a pod in this state is, in the terms of kube-scheduler's metrics."""
    return _PLACES.get(state, Place.IN_FLIGHT)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that needs a node, and what has happened to it so far."""

    pod: Pod
    unit: Unit
    """What it is queued with; a member of a gang in its binding cycle has left it."""
    first_s: float
    """When it first entered the queue."""
    state: State = State.NEW
    """Changed by `move`, of the pod or of its unit, only."""
    attempts: int = 0
    """Number of attempts."""
    misfit_s: float | None = None
    """When an attempt first failed for lack of a node."""
    ready_s: float | None = None
    """When it could first be tried; None while it has always been gated."""
    story: list[Step] = field(default_factory=list)
    """Its latest steps, oldest first."""
    told_kind: str = ""
    """The kind of reason that users were last told why it waits; empty if none was (`words`)."""
    told_s: float = 0.0
    """When that was."""

    @property
    def place(self) -> Place:
        """Where it is, in the terms of kube-scheduler's metrics."""
        return place_of(self.state)

    @property
    def message(self) -> str:
        """Why it is waiting: the last failure of its unit, or what keeps that from being tried."""
        return self.unit.message

    def move(self, state: State, now: float, cause: str) -> None:
        """Take a step; a step to the current state is ignored."""
        before = self.state
        if state is before:
            return
        if state not in STEPS[before]:
            raise misstep(before, state, self.pod.uid)
        self.state = state
        self.story.append((now, state, cause))
        if state is BACK or state is GATED:  # every long story passes one of them, and most pods never get there
            del self.story[:-KEPT_STEPS]


WORK, _PATIENCE, _MOST_DOUBLINGS = 50_000, 100, 5
"""How much extraordinary work an attempt may do: a tenth of a second, about. It is doubled after so many attempts that
were not finished, until the longest search for devices fits in.
"""


@dataclass(slots=True, eq=False)
class Unit:
    """A pod, or the waiting members of a gang: what the queue orders, and what one attempt is for.

    While its pod is in a binding cycle, a unit of one pod stays in flight; members of a gang leave theirs.
    """

    uid: str
    """That of the pod, or `gang_uid`."""
    pod: Pod
    """The pod, or the first of the members, which stands for the gang."""
    gang: GangKey | None
    """Which gang it is; None for a single pod."""
    since_s: float
    """When it last entered the queue; QueueSort uses it among equal priorities."""
    first_s: float
    """When it first entered the queue."""
    members: dict[str, QueuedPod] = field(default_factory=dict)
    """Its pods by uid, in order of arrival."""
    arrived_s: float = 0.0
    """When the latest member of a gang came."""
    state: State = State.NEW
    """Changed by `move` only."""
    misfits: int = 0
    """Failed attempts for lack of a node."""
    errors: int = 0
    """Consecutive failed attempts by error."""
    failed_by_error: bool = False
    hasty: int = 0
    """Failed attempts at the instant `since_s`, beyond the first."""
    backoff_until_s: float = 0.0
    rejected_by: frozenset[str] = frozenset()
    skip_backoff: bool = False
    """The last rejection was Pending: waking up skips the backoff."""
    ticket: int = 0
    first_ticket: int = 0
    """Of a gang: its place among units of the same key, as its first member came; 0 once it is used."""
    line: int = 0
    """The number of the line in which it stands with others of its kind; 0 if in none."""
    had_turn: bool = False
    """Whether a turn of it has ended before it could start (`gangturns`)."""
    pauses: int = 0
    """How often its attempt was not finished."""
    message: str = ""
    """The message of the last failed attempt, or why the unit may not be tried yet."""

    @property
    def key(self) -> GangKey:
        """Which gang it is, for units that are gangs."""
        if self.gang is None:
            raise LookupError(f"pod {self.pod.key} is queued without a gang")
        return self.gang

    @property
    def place(self) -> Place:
        """Where it is, in the terms of kube-scheduler's metrics."""
        return place_of(self.state)

    def move(self, state: State, now: float, cause: str) -> None:
        """Take a step with all pods; a step to the current state is ignored."""
        before = self.state
        if state is before:
            return
        if state not in STEPS[before]:
            raise misstep(before, state, self.uid)
        self.state = state
        step = (now, state, cause)
        for pod in self.members.values():
            pod.state = state
            pod.story.append(step)
            if state is TRYING:
                pod.attempts += 1
            elif state is BACK or state is GATED:
                del pod.story[:-KEPT_STEPS]


def work_of(unit: Unit) -> int:
    """How much extraordinary work the next attempt may do; more with time, so that it ends whatever else changes."""
    return WORK << min(unit.pauses // _PATIENCE, _MOST_DOUBLINGS)


def gang_uid(key: GangKey) -> str:
    """The uid of a gang, where pods have their own."""
    return f"gang:{key.by}:{key.object_key}"


def as_queued(pod: Pod, now: float, misfit_s: float | None = None) -> QueuedPod:
    """A pod for a what-if, as if it were queued by itself; no queue knows it."""
    return QueuedPod(pod, Unit(pod.uid, pod, None, now, now), now, misfit_s=misfit_s)
