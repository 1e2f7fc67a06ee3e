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
_FEW_CHANGED = 64
"""How many queues may have changed at once for each to be looked at by itself."""
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


STANDS, LEAVING, PROMISED, WAITS, EXPECTED = 1, 2, 4, 8, 16
"""What is said about a pod."""
HOLDS, ASKS = 1, 2
"""What is counted of it."""


def _counted(said: int) -> int:
    stays = said & STANDS and not said & (LEAVING | EXPECTED)
    if stays or (said & PROMISED and not said & STANDS):
        return HOLDS | ASKS
    return ASKS if said & (WAITS | EXPECTED) else 0


_COUNTED = tuple(map(_counted, range(2 * EXPECTED)))
_OUTSIDE_COUNTED = tuple(HOLDS if said & STANDS else 0 for said in range(2 * EXPECTED))
_STAYING = ~LEAVING


class _Entry:
    """A pod that counts."""

    __slots__ = ("amounts", "counted", "leaf", "member", "pod", "said")

    def __init__(self, pod: Pod, member: Membership, amounts: Amounts) -> None:
        self.pod = pod
        self.member = member
        self.leaf = member.leaf
        self.amounts = amounts
        self.said = self.counted = 0
        """What is said about it, and what of it is counted at present."""


class QueueLedger:
    """The accounts of all queues; `tree` has the sums."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]], resources: ResourceColumns) -> None:
        self._objects, self._resources = objects, resources
        self.terms_of: TermsOf = _no_terms
        """See `use_terms`; without it no pod belongs to a queue."""
        self._forget()

    def _forget(self) -> None:
        self.active = False
        """Whether there is any queue."""
        self.tree = QueueTree()
        self._entries: dict[str, _Entry] = {}
        self._members: TemplateCache[Membership] = TemplateCache(_KEPT_TEMPLATES)
        self._amounts: dict[Requests, Amounts] = {}
        self._offered: frozenset[str] = frozenset()
        """What counts although no queue may name it: devices and the like, of which a node offers some."""
        self._layout = -1
        """The layout of columns from which that was read."""
        self._crowded = False
        """Whether more of it is asked for than counts."""
        self._outside: dict[int, int] = {}
        """What pods outside of any share hold, by resource."""
        self._outside_changes = 0
        """How often that changed."""
        self._stale = False
        """Whether all pods have to be assigned again."""
        self._changed: dict[str, None] = {}
        """Queues that came, went or changed since the tree was brought up to date."""
        self._late = False
        """Whether either is so."""
        self._seen: tuple[int, int, int] | None = None
        """What the divided amounts were computed from."""
        self._moved: set[str] = set()
        """Pods that belong elsewhere now."""

    # --- queues ---

    def note_object(self, kind: str, before: Any, after: Any) -> bool:
        """A queue or a namespace changed; returns whether this was the first queue: the ledger knows no pods yet."""
        if kind not in QUEUE_KINDS:
            if self.active and _labels(before) != _labels(after):
                self._members.clear()
                name = (before or after).name
                self._assign_again([e for e in self._entries.values() if e.pod.template.namespace == name])
            return False
        began = not self.active
        if not any(self._objects.get(each) for each in QUEUE_KINDS):
            self._forget()
            return False
        self.active = True
        if began:
            self.reassign()
        elif before != after:
            self._changed[(before or after).name] = None
            self._late = True
        return began

    def use_terms(self, terms_of: TermsOf) -> None:
        """Pods belong to queues by these terms from now on."""
        self.terms_of = terms_of
        self.reassign()

    def reassign(self) -> None:
        """Assign all pods again, as queues, namespaces or terms are others now."""
        self._stale = self._late = True

    def settle(self, state: ClusterState) -> QueueTree:
        """The tree with shares as they are now."""
        if self._layout != self._resources.layout:
            self._read_offers()
        if self._late:
            self._catch_up()
        tree = self.tree
        seen = state.node_log.position, len(tree.resources), self._outside_changes
        if seen != self._seen:
            if self._seen is None or seen[:2] != self._seen[:2]:
                tree.touched.update(tree.nodes.values())  # dominant shares are parts of something else now
            self._seen = seen
            tree.divides(self._divided(state, state.resources))
        tree.settle()
        return tree

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

    def _catch_up(self) -> None:
        """Bring the tree up to date with the queues that there are: where they changed if they are few, else all."""
        self._late = False
        changed, self._changed = self._changed, {}
        if self._stale or len(changed) > _FEW_CHANGED or not self._change(changed):
            self._build()

    def _change(self, changed: Iterable[str]) -> bool:
        """Take over single queues; False if all have to be looked at."""
        tree, names = self.tree, set[str]()
        if not tree.unused() <= {index for index, amount in self._outside.items() if amount}:
            return False
        for name in changed:
            node = tree.nodes.get(name)
            before, after = None if node is None else node.queue, self._queue(name)
            if before == after:
                continue
            if not tree.counts_like(before, after):
                return False
            found = tree.drop(name) if after is None else tree.put(after)
            if found is None:
                return False
            names |= found
        if names:
            self._members.clear()
            self._assign_again([entry for entry in self._entries.values() if entry.member.queue in names])
        return True

    def take_moved(self) -> set[str]:
        """Pods that belong elsewhere than when this was last asked."""
        if self._late:
            self._catch_up()
        moved, self._moved = self._moved, set()
        return moved

    def _queue(self, name: str) -> Queue | None:
        """The queue that counts of those with this name."""
        return next((found for kind in QUEUE_KINDS if (found := self._objects.get(kind, {}).get(name))), None)

    def _assign_again(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            member = self.member(entry.pod.template)
            if member != entry.member:
                self._count(entry, gone=True)
                entry.member, entry.leaf = member, member.leaf
                self._count(entry)
                self._moved.add(entry.pod.uid)

    def _build(self) -> None:
        self._stale = False
        queues: dict[str, Queue] = {}
        for kind in reversed(QUEUE_KINDS):
            queues.update(self._objects.get(kind, {}))
        self.tree.build(queues)
        self._members.clear()
        self._read_offers(whole=True)
        self._outside.clear()
        self._seen = None
        for entry in self._entries.values():
            entry.counted = 0
            member = self.member(entry.pod.template)
            if member[0] != entry.member[0] or member[3] != entry.member[3]:
                self._moved.add(entry.pod.uid)
            entry.member, entry.leaf, entry.amounts = member, member.leaf, self.amounts(entry.pod.requests)
            self._count(entry)

    # --- which queue ---

    def member(self, template: PodTemplate) -> Membership:
        """Where pods of this template belong."""
        if self._late:
            self._catch_up()
        found = self._members.get(template)
        return self._members.keep(template, self._assign(template)) if found is None else found

    def _assign(self, template: PodTemplate) -> Membership:
        terms = self.terms_of(template.scheduler_name)
        if terms is None:
            return OUTSIDE
        namespace: Namespace | None = self._objects.get(NAMESPACE, {}).get(template.namespace)
        labels = EMPTY if namespace is None else namespace.labels
        name = queue_name(template.labels, labels, terms.default_queue, annotations=template.annotations)
        if not name:
            return OUTSIDE
        preemptible = is_preemptible(template.labels, template.priority, terms.preemptible_below)
        node = self.tree.nodes.get(name)
        if node is None:
            problem = f"queue {name} does not exist"
        elif node.lost:
            problem = node.problem
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

    def about(self, pod: Pod) -> tuple[Membership, Amounts, bool]:
        """Where a pod belongs, what counts of its requests, and whether it holds that."""
        entry = self._entries.get(pod.uid)
        if entry is not None and not self._late:
            known = entry.pod
            if known is pod or (known.template is pod.template and known.requests is pod.requests):
                return entry.member, entry.amounts, entry.counted & HOLDS != 0
        return *self._place(pod), self.counts(pod.uid)

    def _place(self, pod: Pod) -> tuple[Membership, Amounts]:
        """Where a pod belongs and what counts of its requests, both by one tree: either may find that all is new."""
        builds = -1
        while builds != self.tree.builds:
            builds = self.tree.builds
            found = self.member(pod.template), self.amounts(pod.requests)
        return found

    def has_room(self, pod: Pod) -> bool:
        """Whether a waiting pod is known to be within all limits; if not, `about` says where to look."""
        entry = self._entries.get(pod.uid)
        if entry is None or entry.pod is not pod or entry.leaf is None or self._late:
            return False
        return entry.counted & HOLDS != 0 or (entry.member[2] and self.tree.has_room(entry.leaf))

    def stand(self, pod: Pod, *, leaving: bool) -> None:
        """A pod is on a node; `leaving` if it is being deleted."""
        entry = self._entry(pod)
        entry.said = (entry.said | STANDS | LEAVING) if leaving else (entry.said | STANDS) & _STAYING
        self._count(entry)

    def leave(self, uid: str) -> None:
        """A pod is on no node any more."""
        self._unsay(uid, STANDS)

    def promise(self, pod: Pod) -> None:
        """A pod is nominated to a node."""
        entry = self._entry(pod)
        entry.said |= PROMISED
        self._count(entry)

    def unpromise(self, uid: str) -> None:
        """The nomination of a pod ended."""
        self._unsay(uid, PROMISED)

    def wait(self, pod: Pod) -> None:
        """A pod waits for a node."""
        entry = self._entry(pod)
        entry.said |= WAITS
        self._count(entry)

    def unwait(self, uid: str) -> None:
        """A pod does not wait any more."""
        self._unsay(uid, WAITS)

    def expect(self, uid: str, *, value: bool) -> bool:
        """Whether a pod is evicted for a share, and so expected to come back; returns what was said before."""
        entry = self._entries.get(uid)
        if entry is None:
            return False
        before = entry.said & EXPECTED != 0
        if value and not before:
            entry.said |= EXPECTED
            self._count(entry)
        elif before and not value:
            self._unsay(uid, EXPECTED)
        return before

    def counts(self, uid: str) -> bool:
        """Whether a pod holds what it requests."""
        entry = self._entries.get(uid)
        return entry is not None and entry.counted & HOLDS != 0

    def _entry(self, pod: Pod) -> _Entry:
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = _Entry(pod, *self._place(pod))
            return entry
        known = entry.pod
        if known is pod or (known.template is pod.template and known.requests is pod.requests):
            entry.pod = pod
            return entry
        place = self._place(pod)  # first, as it may count all pods again, this one as it was
        self._count(entry, gone=True)
        entry.pod, (entry.member, entry.amounts) = pod, place
        entry.leaf = entry.member.leaf
        return entry

    def _unsay(self, uid: str, what: int) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.said &= ~what
        self._count(entry)
        if not entry.said & _STAYING:
            del self._entries[uid]
            if self._crowded and any(index in self.tree.unnamed for index, _ in entry.amounts):
                self.reassign()  # another pod's resource may count instead

    def amounts(self, requests: Requests) -> Amounts:
        """What counts of a pod's requests: cpu, memory, devices that nodes offer, and whatever queues name."""
        if self._late:
            self._catch_up()
        found = self._amounts.get(requests)
        if found is None:
            if self._layout != self._resources.layout:
                self._read_offers()
                return self.amounts(requests)
            if len(self._amounts) >= _KEPT_REQUESTS:
                self._amounts.clear()
            found = self._amounts[requests] = self._find_amounts(requests)
            self.tree.asks(found)
        return found

    def _find_amounts(self, requests: Requests) -> Amounts:
        tree, offered = self.tree, self._offered
        known = [each for each in requests.amounts if tree.names(each[0]) or each[0] in offered]
        found = tuple(sorted((index, amount) for name, amount in known if (index := tree.index(name)) is not None))
        if len(found) < len(known):
            self._crowded = True
            used = {
                index for each in (*(entry.amounts for entry in self._entries.values()), found) for index, _ in each
            }
            if not used.issuperset(tree.unnamed):
                self.reassign()
        return found

    def _read_offers(self, *, whole: bool = False) -> None:
        """Look at what nodes offer; pods are counted again if that concerns any. `whole`: they are counted anyway.

        What no node offers cannot be divided. If it counted, one pod could name so much of it that nothing else would.
        """
        before, self._layout = self._offered, self._resources.layout
        self._offered = frozenset(name for name in self._resources.names if name and is_scalar_resource(name))
        changed = self._offered ^ before
        if whole or changed:
            self._amounts.clear()
        if whole:
            self._crowded = False
        elif changed and any(
            name in changed and not self.tree.names(name)
            for requests in {entry.pod.requests for entry in self._entries.values()}
            for name, _ in requests.amounts
        ):
            self.reassign()

    def _count(self, entry: _Entry, *, gone: bool = False) -> None:
        """Count what a pod holds and asks for, nothing once it is `gone`; outside of any share only what it holds."""
        leaf, said = entry.leaf, 0 if gone else entry.said
        counted = (_OUTSIDE_COUNTED if leaf is None else _COUNTED)[said]
        differs = counted ^ entry.counted
        if not differs:
            return
        entry.counted = counted
        if leaf is None:
            sign = 1 if counted else -1
            for index, amount in entry.amounts:
                self._outside[index] = self._outside.get(index, 0) + sign * amount
            self._outside_changes += 1
            return
        if differs & HOLDS:
            self.tree.hold(leaf, entry.amounts, 1 if counted & HOLDS else -1, fixed=not entry.member[2])
        if differs & ASKS:
            self.tree.request(leaf, entry.amounts, 1 if counted & ASKS else -1)

    def entries(self) -> Iterable[tuple[Pod, Membership, bool]]:
        """Pods that count, where they belong, and whether they hold what they request."""
        return ((entry.pod, entry.member, entry.counted & HOLDS != 0) for entry in self._entries.values())


def _no_terms(_: str) -> None:
    """No profile knows queues."""


def _labels(namespace: Namespace | None) -> Mapping[str, str] | None:
    return None if namespace is None else namespace.labels
