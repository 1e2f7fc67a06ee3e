"""The life of a pod in the scheduler: every state, and every step from one to another.

A pod waits in the queue (active, backoff, unschedulable, gated), is tried, and on its way to a node passes Permit and
PreBind; members of a gang are ready until all of them may be bound. It ends bound or gone, or comes back to the queue.
Gangs have the same states: their waiting members are where they are.

Only `move` of an entry of the queue changes a state. A step that is not in the table is a mistake of the engine and
raises `InvariantError` at once. The latest steps are kept with their times and causes: what happened so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from moorage.core.invariants import InvariantError

KEPT_STEPS = 16
"""So many are kept when a pod comes back or is gated; a few more follow until then."""


class State(StrEnum):
    """Where a pod is in its life."""

    NEW = "new"
    ACTIVE = "active"
    """In the queue, to be tried."""
    BACKOFF = "backoff"
    """In the queue until its backoff is over."""
    UNSCHEDULABLE = "unschedulable"
    """In the queue until something happens that may help."""
    GATED = "gated"
    """In the queue; a PreEnqueue plugin keeps it from being tried."""
    TRYING = "trying"
    """A node is looked for; that takes longer than a turn only where extenders are asked."""
    PERMIT = "permit"
    """It has a node, and a Permit plugin lets it wait."""
    PRE_BIND = "preBind"
    """It has a node, and a PreBind plugin lets it wait."""
    READY = "ready"
    """A member of a gang that may be bound as soon as all of them may."""
    BINDING = "binding"
    """Its bind was ordered and is not answered yet."""
    BOUND = "bound"
    BACK = "back"
    """The attempt failed; it is about to wait again."""
    GONE = "gone"
    """It needs no node any more, or not from this scheduler."""


NEW, ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, TRYING, PERMIT, PRE_BIND, READY, BINDING, BOUND, BACK, GONE = State
"""Looking a member up in its enumeration takes longer than comparing it, and every pod is compared several times."""

WAITING = frozenset({ACTIVE, BACKOFF, UNSCHEDULABLE, GATED})
"""In the queue."""
ON_ITS_WAY = frozenset({PERMIT, PRE_BIND, READY, BINDING})
"""A node was chosen, and it counts there."""

_ENTERS = frozenset({ACTIVE, BACKOFF, GATED})
_WAITS = _ENTERS | {TRYING, BACK, GONE}  # BACK: the members that wait share the fate of those that come back
_ENDS = frozenset({BACK, GONE})

STEPS: Mapping[State, frozenset[State]] = {
    NEW: _ENTERS,
    ACTIVE: _WAITS,
    BACKOFF: _WAITS,
    UNSCHEDULABLE: _WAITS - {TRYING},
    GATED: _WAITS - {TRYING},
    TRYING: _ENDS | ON_ITS_WAY | {GATED},
    PERMIT: _ENDS | {PRE_BIND, READY, BINDING},
    PRE_BIND: _ENDS | {READY, BINDING},
    READY: _ENDS | {BINDING},
    BINDING: _ENDS | {BOUND},
    BACK: WAITING | {GONE},
    BOUND: frozenset(),
    GONE: frozenset(),
}
"""From each state, those that may follow."""

Step: TypeAlias = tuple[float, State, str]
"""(when, to which state, why); a plain tuple, since every pod takes several."""


def misstep(before: State, after: State, uid: str) -> InvariantError:
    """What to raise where the table does not have a step."""
    return InvariantError(f"{uid}: {before.value} -> {after.value} is no step of a pod's life")
