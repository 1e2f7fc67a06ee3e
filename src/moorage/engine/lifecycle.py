"""The life of a pod in the scheduler: every state, and every step from one to another.

A pod waits in the queue (active, backoff, unschedulable, gated), is tried, and passes Permit and PreBind in its binding
cycle; members of a gang are ready until all of them may be bound. It ends bound or gone, or comes back to the queue.
Gangs have the same states: waiting members are where their gang is.

Only `move` of a unit or of its pods changes a state. A step that is not in the table is a bug of the engine and
raises `InvariantError` at once. The latest steps are kept with their times and causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from moorage.core.invariants import InvariantError

KEPT_STEPS = 16
"""How many are kept when a pod comes back or is gated; a few more are added until the next time."""


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
    """In an attempt; that takes longer than a turn only where extenders are called."""
    PERMIT = "permit"
    """It has a node, and a Permit plugin holds it."""
    PRE_BIND = "preBind"
    """It has a node, and a PreBind plugin holds it."""
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
"""As names of the module, since looking a member up in its enumeration takes longer than comparing it."""

WAITING = frozenset({ACTIVE, BACKOFF, UNSCHEDULABLE, GATED})
"""In the queue."""
ON_ITS_WAY = frozenset({PERMIT, PRE_BIND, READY, BINDING})
"""In a binding cycle: a node was chosen, and the pod is assumed there."""

_ENTERS = frozenset({ACTIVE, BACKOFF, GATED})
_WAITS = _ENTERS | {TRYING, BACK, GONE}  # BACK: waiting members go with those that come back
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
"""State -> the states that may follow."""

Step: TypeAlias = tuple[float, State, str]
"""(when, to which state, why); a plain tuple, since every pod takes several."""


def misstep(before: State, after: State, uid: str) -> InvariantError:
    """The error for a step that is not in the table."""
    return InvariantError(f"{uid}: {before.value} -> {after.value} is no step of a pod's life")
