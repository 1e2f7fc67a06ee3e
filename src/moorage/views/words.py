"""What can happen, and the words for it: one table, read by the log, the timeline, the demo and the keeper.

A row has the words for each of these readers; a reader whose column is empty does not show it. Notes and orders are
templates over the facts of a happening, or functions of them if a part may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from moorage.core.phrases import counted
from moorage.core.values import dataclass
from moorage.engine.lifecycle import State

POD, NODE = "Pod", "Node"
Facts: TypeAlias = Mapping[str, Any]


class HappeningKind(StrEnum):
    """The kinds of things that happen."""

    ATTEMPTED = "attempted"
    """The scheduler has chosen a node, and the bind is in flight."""
    PLACED = "placed"
    UNBOUND = "unbound"
    """A bind did not succeed."""
    FAILED = "failed"
    """An attempt found no node."""
    WAITS = "waits"
    """A pod has no node, for a new reason."""
    NOMINATED = "nominated"
    EVICTS = "evicts"
    """A pod is evicted or deleted by the scheduler or the keeper."""
    PREEMPTS = "preempts"
    """A pod preempts another one, which will be evicted."""
    EVICTED = "evicted"
    """A pod was evicted, preempted, or lost with its node."""
    REMOVED = "removed"
    """A pod was deleted by its owner or by a user."""
    RUNNING = "running"
    FINISHED = "finished"
    """A pod succeeded or failed."""
    COMPLETE = "complete"
    """A Job has all its completions."""
    ANNOUNCED = "announced"
    """A Kubernetes event says that a pod was evicted."""

    ADDED_WAITING = "added, waiting"
    """The watch shows a pod that needs a node; the same of changes and deletions, and of pods with a node."""
    UPDATED_WAITING = "updated, waiting"
    DELETED_WAITING = "deleted, waiting"
    """A pod that needed a node is gone or has one."""
    ADDED_PLACED = "added, placed"
    UPDATED_PLACED = "updated, placed"
    DELETED_PLACED = "deleted, placed"
    QUEUED = "queued"
    """A pod was put into one of the queues."""
    POPPED = "popped"
    TRIED = "tried"
    """An attempt begins."""
    COUNTED = "counted"
    """What a rule counted for a pod."""
    REJECTED = "rejected"
    """Nodes that a plugin rejected for a pod."""
    CONFIRMED = "confirmed"
    """The API server has accepted a bind."""

    JOINED = "joined"
    LEFT = "left"
    CORDONED = "cordoned"
    UNCORDONED = "uncordoned"
    READY = "ready"
    NOT_READY = "not ready"

    MOVES = "moves"
    """The keeper evicts a pod so that it starts elsewhere."""
    CORDONS = "cordons"
    CLOSES = "closes"
    OPENS = "opens"
    FREES = "frees"
    MARKS = "marks"
    UNMARKS = "unmarks"
    COSTS = "costs"
    """The keeper says in which order a controller should delete its pods."""
    REMEMBERS = "remembers"
    """The keeper marks a pod that fell back from spot capacity."""
    REPORTS = "reports"
    """The keeper writes the status of an object."""
    CLEARS = "clears"
    """The keeper deletes the pods of a node that is gone."""
    KEPT = "kept"
    """A Kubernetes event says what the keeper did."""

    STORY = "story"
    """An act of the demo."""
    LEASE = "lease"
    LEADS = "leads"
    STARTED = "started"
    ENDED = "ended"
    GAP = "gap"
    """Part of the journal is missing."""
    RECONFIGURED = "reconfigured"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened; `facts` are for programs, `note` is for people."""

    at_s: float
    what: HappeningKind
    kind: str = ""
    """Of the object that it is about; empty if there is none."""
    key: str = ""
    """`namespace/name` of that object, or `name` for kinds without namespaces."""
    facts: Facts = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """What it is about, with the kind unless that is obvious."""
        return self._with_kind(self.key)

    @property
    def name(self) -> str:
        """The subject without its namespace."""
        return self._with_kind(self.key.rpartition("/")[2])

    def _with_kind(self, name: str) -> str:
        return name if self.kind in (POD, NODE) else f"{self.kind} {name}".strip()

    @property
    def note(self) -> str:
        """What happened to the subject."""
        return _filled(WORDS[self.what].note, self.facts)

    @property
    def text(self) -> str:
        """One line about it, without namespaces."""
        return f"{self.name} {self.note}".strip()

    @property
    def order(self) -> str:
        """The same as an order, for the keeper's log; empty if there is none."""
        return _filled(WORDS[self.what].order, {"kind": self.kind, "subject": self.key, **self.facts})


class Line(NamedTuple):
    """A line of the log: the verbosity from which it is written, its message, and its fields by the names of facts."""

    verbosity: int
    message: str
    fields: Mapping[str, str]


class Words(NamedTuple):
    """One row of the table."""

    note: str | Callable[[Facts], str] = ""
    chip: str = ""
    """Its name in the dashboard's timeline."""
    word: str = ""
    """Its name in the demo."""
    order: str | Callable[[Facts], str] = ""
    """The text in the keeper's log and its dry run; `kind` and `subject` are among the facts."""
    line: Line | None = None
    """The line in the scheduler's log, in kube-scheduler's words at kube-scheduler's levels."""


def _filled(words: str | Callable[[Facts], str], facts: Facts) -> str:
    return words.format_map(facts) if isinstance(words, str) else words(facts)


def _chosen(facts: Facts) -> str:
    reasons = []
    if facts.get("nodes"):
        reasons.append(f"{facts['feasible']} of {facts['nodes']} nodes fit")
    if "score" in facts:
        reasons.append(f"score {facts['score']}")
    if "waited_s" in facts:
        reasons.append(f"waited {facts['waited_s']:.1f} s")
    devices = f" with {facts['devices']}" if "devices" in facts else ""
    return f"-> {facts['node']}{devices}" + (f" ({', '.join(reasons)})" if reasons else "")


def _preempts(facts: Facts) -> str:
    place = f" on {facts['node']}" if facts.get("node") else ""
    return f"takes the place of {facts['victim']}{place}"


def _ended(facts: Facts) -> str:
    place = f"from {facts['node']}" if facts.get("node") else "before it had a node"
    return f"{place} ({facts['reason']})" if facts.get("reason") else place


def _completed(facts: Facts) -> str:
    return f"is complete, {counted(facts['succeeded'], 'pod')}"


def _moves(facts: Facts) -> str:
    room = f"room on {facts['place']}" if facts["place"] else "no room anywhere"
    if not facts["node"]:
        return f"is replaced, as it has found no node ({facts['cause']})"
    return f"leaves {facts['node']} ({facts['cause']}, {room})"


def _move(facts: Facts) -> str:
    place = facts["place"]
    room = f"there is room on node {place}" if place else "no node has room for its successor"
    if not facts["node"]:
        return f"evict pod {facts['subject']}, which has found no node ({facts['cause']})"
    return f"evict pod {facts['subject']} from node {facts['node']} ({facts['cause']}); {room}"


def _cost(facts: Facts) -> str:
    cost = facts["cost"]
    return f"give pod {facts['subject']} " + ("no deletion cost" if cost is None else f"the deletion cost {cost}")


def _held(facts: Facts) -> str:
    return f"is held by {facts['holder']}" if facts["holder"] else "is free: there is no leader"


_BIND = {"node": "node", "nodes": "evaluatedNodes", "feasible": "feasibleNodes"}
_GOING = "it is about to go away, {until} at the latest ({notice})"

WORDS: Mapping[HappeningKind, Words] = {
    HappeningKind.ATTEMPTED: Words(_chosen, "placed", line=Line(3, "Attempting to bind pod to node", _BIND)),
    HappeningKind.PLACED: Words(_chosen, "placed", "placed", line=Line(2, "Successfully bound pod to node", _BIND)),
    HappeningKind.UNBOUND: Words(line=Line(4, "Pod was not bound", {**_BIND, "outcome": "outcome", "message": "err"})),
    HappeningKind.FAILED: Words(line=Line(2, "Unable to schedule pod; no fit; waiting", {"message": "err"})),
    HappeningKind.WAITS: Words("{message}", "waits", "waits"),
    HappeningKind.NOMINATED: Words("is nominated to {node}", "waits", order="nominate pod {subject} to node {node}"),
    HappeningKind.EVICTS: Words(
        lambda facts: f"for {facts['preemptor']}" if facts["preemptor"] else str(facts["message"]),
        "evicted",
        order="delete pod {subject} although a budget covers it: {message}",
        line=Line(2, "Evicting pod", {"preemptor": "preemptor", "reason": "reason"}),
    ),
    HappeningKind.PREEMPTS: Words(_preempts, "evicted", "preempts"),
    HappeningKind.EVICTED: Words(_ended, "evicted", "evicted"),
    HappeningKind.REMOVED: Words(_ended, "removed", "removed"),
    HappeningKind.RUNNING: Words("on {node}", word="running"),
    HappeningKind.FINISHED: Words("on {node}", "finished", "finished"),
    HappeningKind.COMPLETE: Words(_completed, "story", "complete"),
    HappeningKind.ANNOUNCED: Words("{message}", "evicted"),
    HappeningKind.ADDED_WAITING: Words(line=Line(3, "Add event for unscheduled pod", {})),
    HappeningKind.UPDATED_WAITING: Words(line=Line(4, "Update event for unscheduled pod", {})),
    HappeningKind.DELETED_WAITING: Words(line=Line(3, "Delete event for unscheduled pod", {})),
    HappeningKind.ADDED_PLACED: Words(line=Line(3, "Add event for scheduled pod", {})),
    HappeningKind.UPDATED_PLACED: Words(line=Line(4, "Update event for scheduled pod", {})),
    HappeningKind.DELETED_PLACED: Words(line=Line(3, "Delete event for scheduled pod", {})),
    HappeningKind.QUEUED: Words(
        line=Line(5, "Pod moved to an internal scheduling queue", {"cause": "cause", "queue": "queue"})
    ),
    HappeningKind.POPPED: Words(line=Line(4, "About to try and schedule pod", {})),
    HappeningKind.TRIED: Words(line=Line(3, "Attempting to schedule pod", {})),
    HappeningKind.COUNTED: Words(line=Line(4, "Rule counted", {"plugin": "plugin", "counted": "counted"})),
    HappeningKind.REJECTED: Words(
        line=Line(4, "Nodes rejected", {"plugin": "plugin", "count": "count", "reason": "reason", "nodes": "nodes"})
    ),
    HappeningKind.CONFIRMED: Words(line=Line(5, "Finished binding for pod, can be expired", {"uid": "podKey"})),
    HappeningKind.JOINED: Words("joins the cluster", "node"),
    HappeningKind.LEFT: Words("leaves the cluster", "node"),
    HappeningKind.CORDONED: Words("is cordoned", "node"),
    HappeningKind.UNCORDONED: Words("is back in service", "node"),
    HappeningKind.READY: Words("is ready", "node"),
    HappeningKind.NOT_READY: Words("is not ready", "node"),
    HappeningKind.MOVES: Words(_moves, "keeper", "keeps", _move),
    HappeningKind.CORDONS: Words("is cordoned ({notice})", "keeper", "keeps", f"cordon node {{subject}}: {_GOING}"),
    HappeningKind.CLOSES: Words("is cordoned ({why})", "keeper", "keeps", "cordon node {subject}: {why}"),
    HappeningKind.OPENS: Words(
        "is uncordoned", "keeper", "keeps", "uncordon node {subject}: repacking is done with it"
    ),
    HappeningKind.FREES: Words("is uncordoned", "keeper", "keeps", "uncordon node {subject}: it stays after all"),
    HappeningKind.MARKS: Words(order=f"mark node {{subject}}: {_GOING}"),
    HappeningKind.UNMARKS: Words(order="unmark node {subject}: it stays after all"),
    HappeningKind.COSTS: Words(order=_cost),
    HappeningKind.REMEMBERS: Words(order="mark pod {subject}: it fell back from spot capacity"),
    HappeningKind.REPORTS: Words(order="write the status of {kind} {subject}"),
    HappeningKind.CLEARS: Words(order="delete the pods of node {subject} if a read confirms that it is gone: {pods}"),
    HappeningKind.KEPT: Words("{message}", "keeper"),
    HappeningKind.STORY: Words("{text}", "story", "story"),
    HappeningKind.LEASE: Words(_held, "leader"),
    HappeningKind.LEADS: Words("this scheduler leads, term {term}", "leader"),
    HappeningKind.STARTED: Words("Moorage {version} started", "story"),
    HappeningKind.ENDED: Words("{reason}", "story"),
    HappeningKind.GAP: Words("part of the journal before this is missing", "story"),
    HappeningKind.RECONFIGURED: Words("another configuration was put in force", "story"),
}


LIFE: Mapping[State, str] = {
    State.NEW: "is not queued yet",
    State.ACTIVE: "is queued, to be tried ({cause})",
    State.BACKOFF: "backs off ({cause})",
    State.UNSCHEDULABLE: "waits for a change that may help",
    State.GATED: "may not be tried yet ({cause})",
    State.TRYING: "is tried",
    State.PERMIT: "has a node and waits in Permit ({cause})",
    State.PRE_BIND: "has a node and waits in PreBind ({cause})",
    State.READY: "has node {cause} and waits for the other members of its gang",
    State.BINDING: "is being bound to {cause}",
    State.BOUND: "is bound to {cause}",
    State.BACK: "comes back: {cause}",
    State.GONE: "needs no node of this scheduler any more",
}
"""What a step of a pod's life means; `cause` is what its entry in the queue says (`engine.lifecycle`)."""


EVICTED = "evicted"
"""How the cause begins where a pod is gone because the scheduler evicts it."""


def step_note(state: State, cause: str) -> str:
    """A step in words."""
    if state is State.GONE and cause.startswith(EVICTED):
        return f"is {cause}"
    return LIFE[state].format(cause=cause).replace(" ()", "").removesuffix(": ")


def main_reason(message: str) -> str:
    """Why a pod is pending, without the part about preemption."""
    return message.partition(" preemption: ")[0]
