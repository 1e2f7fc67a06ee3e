"""What the pods of every queue have, are promised, and wait for.

The state tells it of pods that come to nodes and leave them, and of nominations; the engine tells it of pods that wait
and of evictions. Nothing is kept while there is no queue. A pod counts once, whatever is said about it:

- it holds what it requests while it is on a node and stays there, or is nominated to one;
- it asks for it while it holds it or waits, and for a while after its eviction, as it is expected to come back.

Pods without a queue, and those of other schedulers, are outside: what they hold is not divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from moorage.core.columns import ResourceColumns
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import EMPTY
from moorage.core.objects import NAMESPACE, NAMESPACE_NAME_LABEL, Namespace
from moorage.core.pods import Pod, PodTemplate
from moorage.core.queues import DEFAULT_PRIORITY, QUEUE_KINDS, Queue, is_preemptible, queue_name
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.core.resourcenames import is_scalar_resource
from moorage.core.resources import Requests
from moorage.core.templatecache import TemplateCache

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

LEDGER_KINDS = frozenset({*QUEUE_KINDS, NAMESPACE})
"""Kinds of objects that the ledger has to be told of."""
_KEPT_TEMPLATES = 65_536
_KEPT_REQUESTS = 65_536
_NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


class QueueTerms(NamedTuple):
    """What a profile says about queues."""

    default_queue: str = ""
    """The queue of pods that name none, nor does their namespace."""
    preemptible_below: int = DEFAULT_PRIORITY
    """Pods without a label that says so may be evicted for a share if their priority is lower than this."""


TermsOf = Callable[[str], QueueTerms | None]
"""Scheduler name -> what its profile says about queues; None if it does not know them."""


class Membership(NamedTuple):
    """Where pods of one template belong."""

    queue: str
    """The name of the queue; empty for none."""
    leaf: QueueNode | None
    """Where they count; None outside of any share."""
    preemptible: bool
    problem: str = ""
    """Why they have to wait; empty if they need not."""


OUTSIDE = Membership("", None, preemptible=True)


class _Entry:
    """A pod that counts."""

    __slots__ = ("amounts", "asks", "expected", "holds", "leaving", "member", "pod", "promised", "stands", "waits")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.member = OUTSIDE
        self.amounts: Amounts = ()
        self.stands = self.leaving = self.promised = self.waits = self.expected = False
        self.holds = self.asks = False
        """What is counted at present."""


class QueueLedger:
    """The accounts of all queues; `tree` has the sums."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        self._objects = objects
        self.terms_of: TermsOf = _no_terms
        """Set by the engine; without it no pod belongs to a queue."""
        self._forget()

    def _forget(self) -> None:
        self.active = False
        """Whether there is any queue."""
        self.tree = QueueTree()
        self._entries: dict[str, _Entry] = {}
        self._members: TemplateCache[Membership] = TemplateCache(_KEPT_TEMPLATES)
        self._amounts: dict[Requests, Amounts] = {}
        self._outside: dict[int, int] = {}
        """What pods outside of any share hold, by resource."""
        self._stale = False
        """Whether queues came, went or moved, so that all pods have to be assigned again."""
        self._seen: tuple[object, ...] = ()
        """What the divided amounts were computed from."""

    # --- queues ---

    def note_object(self, kind: str, before: Any, after: Any) -> bool:
        """A queue or a namespace changed; returns whether this was the first queue: the ledger knows no pods yet."""
        if kind not in QUEUE_KINDS:
            if self.active and _labels(before) != _labels(after):
                self._members.clear()
                name = (before or after).name
                self._stale = self._stale or any(e.pod.template.namespace == name for e in self._entries.values())
            return False
        began = not self.active
        if not any(self._objects.get(each) for each in QUEUE_KINDS):
            self._forget()
            return False
        self.active = True
        if self._differ_in_amounts(before, after):
            self.tree.rule(after)
        elif before != after:
            self._stale = True
        return began

    def _differ_in_amounts(self, before: Queue | None, after: Queue | None) -> bool:
        """Whether a queue that counts has other numbers than before, and nothing else."""
        if self._stale or before is None or after is None:
            return False
        node = self.tree.nodes.get(after.name)
        if node is None or node.queue != before:
            return False
        if not all(map(self.tree.names, after.resources)):
            return False
        return (before.parent, before.namespaces, before.created_s) == (after.parent, after.namespaces, after.created_s)

    def reassign(self) -> None:
        """Assign all pods again, as queues, namespaces or terms are others now."""
        self._stale = True

    def settle(self, state: ClusterState) -> QueueTree:
        """The tree with shares as they are now."""
        if self._stale:
            self._build()
        resources = state.resources
        seen = (state.node_log.position, len(self.tree.resources), tuple(self._outside.items()))
        if seen != self._seen:
            self._seen = seen
            self.tree.divides(self._divided(state, resources))
        self.tree.settle()
        return self.tree

    def _divided(self, state: ClusterState, resources: ResourceColumns) -> list[int]:
        """What the nodes that are ready offer, less what is held outside of any share."""
        lost = [bool(_NOT_READY & {taint.key for taint in taints}) for taints in state.taints.sets]
        rows = state.rows()
        if any(lost):
            rows = rows[~np.array(lost)[state.taints.ids[rows]]]
        total = []
        for index, name in enumerate(self.tree.resources):
            column = resources.known(name)
            offered = 0 if column is None else int(resources.allocatable[column, rows].sum())
            total.append(max(0, offered - self._outside.get(index, 0)))
        return total

    def _build(self) -> None:
        self._stale = False
        queues: dict[str, Queue] = {}
        for kind in reversed(QUEUE_KINDS):
            queues.update(self._objects.get(kind, {}))
        self.tree.build(queues)
        self._members.clear()
        self._amounts.clear()
        self._outside.clear()
        self._seen = ()
        for entry in self._entries.values():
            entry.holds = entry.asks = False
            entry.member, entry.amounts = self.member(entry.pod.template), self.amounts(entry.pod.requests)
            self._count(entry)

    # --- which queue ---

    def member(self, template: PodTemplate) -> Membership:
        """Where pods of this template belong."""
        if self._stale:
            self._build()
        found = self._members.get(template)
        return self._members.keep(template, self._assign(template)) if found is None else found

    def _assign(self, template: PodTemplate) -> Membership:
        terms = self.terms_of(template.scheduler_name)
        if terms is None:
            return OUTSIDE
        namespace: Namespace | None = self._objects.get(NAMESPACE, {}).get(template.namespace)
        labels = EMPTY if namespace is None else namespace.labels
        name = queue_name(template.labels, labels, terms.default_queue)
        if not name:
            return OUTSIDE
        preemptible = is_preemptible(template.labels, template.priority, terms.preemptible_below)
        node = self.tree.nodes.get(name)
        if node is None:
            problem = f"queue {name} does not exist"
        elif node.children:
            problem = f"queue {name} has queues below it; only queues without any take pods"
        elif not node.queue.namespaces.matches(labels or {NAMESPACE_NAME_LABEL: template.namespace}):
            problem = f"namespace {template.namespace} may not use queue {name}"
        else:
            problem = node.problem
        return Membership(name, None if problem else node, preemptible, problem)

    def governs(self, template: PodTemplate) -> bool:
        """Whether pods of this template belong to a queue that takes them."""
        return self.active and self.member(template).leaf is not None

    def bounded(self, template: PodTemplate) -> bool:
        """Whether pods of this template may run into a limit or a quota, or into a problem of their queue."""
        member = self.member(template)
        if member.leaf is None:
            return bool(member.problem)
        bounds = (node.limit if member.preemptible else node.quota for node in member.leaf.path)
        return any(min(each) < UNLIMITED for each in bounds) or not member.preemptible

    # --- pods ---

    def stand(self, pod: Pod, *, leaving: bool) -> None:
        """A pod is on a node; `leaving` if it is being deleted."""
        entry = self._entry(pod)
        entry.stands, entry.leaving = True, leaving
        self._count(entry)

    def leave(self, uid: str) -> None:
        """A pod is on no node any more."""
        self._set(uid, "stands", value=False)

    def promise(self, pod: Pod) -> None:
        """A pod is nominated to a node."""
        entry = self._entry(pod)
        entry.promised = True
        self._count(entry)

    def unpromise(self, uid: str) -> None:
        """The nomination of a pod ended."""
        self._set(uid, "promised", value=False)

    def wait(self, pod: Pod) -> None:
        """A pod waits for a node."""
        entry = self._entry(pod)
        entry.waits = True
        self._count(entry)

    def unwait(self, uid: str) -> None:
        """A pod does not wait any more."""
        self._set(uid, "waits", value=False)

    def expect(self, uid: str, *, value: bool) -> bool:
        """Whether a pod is evicted for a share, and so expected to come back; returns what was said before."""
        entry = self._entries.get(uid)
        before = entry is not None and entry.expected
        if before is not value:
            self._set(uid, "expected", value=value)
        return before

    def counts(self, uid: str) -> bool:
        """Whether a pod holds what it requests."""
        entry = self._entries.get(uid)
        return entry is not None and entry.holds

    def _entry(self, pod: Pod) -> _Entry:
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = _Entry(pod)
        elif entry.pod.template is pod.template and entry.pod.requests is pod.requests:
            entry.pod = pod
            return entry
        else:
            self._take(entry, holds=False, asks=False)
            entry.pod = pod
        entry.member, entry.amounts = self.member(pod.template), self.amounts(pod.requests)
        return entry

    def _set(self, uid: str, what: str, *, value: bool) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        setattr(entry, what, value)
        self._count(entry)
        if not (entry.stands or entry.promised or entry.waits or entry.expected):
            del self._entries[uid]

    def amounts(self, requests: Requests) -> Amounts:
        """What counts of a pod's requests: cpu, memory, devices, and whatever queues name."""
        if self._stale:
            self._build()
        found = self._amounts.get(requests)
        if found is None:
            if len(self._amounts) >= _KEPT_REQUESTS:
                self._amounts.clear()
            tree = self.tree
            found = self._amounts[requests] = tuple(
                (index, amount)
                for name, amount in requests.amounts
                if tree.names(name) or is_scalar_resource(name)
                if (index := tree.index(name)) is not None
            )
        return found

    def _count(self, entry: _Entry) -> None:
        holds = (entry.stands and not entry.leaving and not entry.expected) or (entry.promised and not entry.stands)
        self._take(entry, holds=holds, asks=holds or entry.waits or entry.expected)

    def _take(self, entry: _Entry, *, holds: bool, asks: bool) -> None:
        leaf, amounts = entry.member.leaf, entry.amounts
        if leaf is None:
            held = entry.stands
            if entry.holds != held:
                for index, amount in amounts:
                    self._outside[index] = self._outside.get(index, 0) + (amount if held else -amount)
                entry.holds = held
            return
        if entry.holds != holds:
            self.tree.hold(leaf, amounts, 1 if holds else -1, fixed=not entry.member.preemptible)
            entry.holds = holds
        if entry.asks != asks:
            self.tree.request(leaf, amounts, 1 if asks else -1)
            entry.asks = asks

    def entries(self) -> Iterable[tuple[Pod, Membership, bool]]:
        """Pods that count, where they belong, and whether they hold what they request."""
        return ((entry.pod, entry.member, entry.holds) for entry in self._entries.values())


def _no_terms(_: str) -> None:
    """No profile knows queues."""


def _labels(namespace: Namespace | None) -> Mapping[str, str] | None:
    return None if namespace is None else namespace.labels
