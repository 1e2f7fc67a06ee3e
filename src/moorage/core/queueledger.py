"""What the pods of every queue have, are promised, and wait for.

The state tells it of pods that come to nodes and leave them, and of nominations; the engine tells it of pods that wait
and of evictions. Nothing is kept while there is no queue. A pod counts once, whatever is said about it:

- it holds what it counts for (`core.amounts`) while it is on a node and stays there, or is nominated to one;
- it asks for it while it holds it or waits, and for a while after its eviction, as it is expected to come back.

Pods without a queue, and those of other schedulers, are outside: what they hold is not divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from moorage.core.amounts import Named, PodAmounts, claim_keys, summed
from moorage.core.arrays import Rows
from moorage.core.claimusers import ClaimUsers
from moorage.core.columns import ResourceColumns
from moorage.core.devices import PoolId
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import EMPTY
from moorage.core.objects import NAMESPACE, NAMESPACE_NAME_LABEL, Namespace
from moorage.core.pods import Pod, PodTemplate
from moorage.core.queues import DEFAULT_PRIORITY, QUEUE_KINDS, Queue, is_preemptible, queue_name
from moorage.core.queuetree import Amounts, Demand, QueueNode, QueueTree, together
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
_ALL = HOLDS | ASKS
_STAYING = ~LEAVING
_PLACED = WAITS | STANDS
"""What is said of a pod that has a node and is not confirmed yet."""
_CHANGES = tuple(
    tuple(((after & HOLDS) - (before & HOLDS), (after // ASKS) - (before // ASKS)) for after in range(4))
    for before in range(4)
)
"""What was counted of a pod -> what is -> how many more hold what it counts for, and ask for it: -1, 0 or 1."""


class PodDemand(Demand):
    """What a pod counts for: one object for all pods of a template, unless some have other requests than it says, or it
    follows from claims or nodes.
    """

    __slots__ = ("counts", "member", "moves", "problem")

    def __init__(self, member: Membership, amounts: Amounts, *, moves: bool = False) -> None:
        super().__init__(member.leaf, amounts, preemptible=member.preemptible)
        self.member, self.problem = member, member.problem
        self.moves = moves
        """Whether the amounts may become others while the pod stays as it is."""
        self.counts = _OUTSIDE_COUNTED if member.leaf is None else _COUNTED
        """What is said about a pod -> what is counted of it."""


class LedgerEntry:
    """A pod that counts."""

    __slots__ = ("counted", "demand", "pod", "said")

    def __init__(self, pod: Pod, demand: PodDemand, said: int = 0, counted: int = 0) -> None:
        self.pod, self.demand = pod, demand
        self.said, self.counted = said, counted
        """What is said about it, and what of it is counted at present."""

    @property
    def holds(self) -> bool:
        """Whether it holds what it counts for."""
        return self.counted & HOLDS != 0


class QueueLedger:
    """The accounts of all queues; `tree` has the sums."""

    def __init__(
        self, objects: Mapping[str, Mapping[str, Any]], resources: ResourceColumns, counts: PodAmounts
    ) -> None:
        """`counts` says what pods count for."""
        self._objects, self._resources, self._counts = objects, resources, counts
        self.terms_of: TermsOf = _no_terms
        """See `use_terms`; without it no pod belongs to a queue."""
        self.assignments = 0
        """How often pods were assigned again, all or some."""
        self._forget()

    def _forget(self) -> None:
        self.assignments += 1
        self.active = False
        """Whether there is any queue."""
        self.tree = QueueTree()
        self._entries: dict[str, LedgerEntry] = {}
        self._members: TemplateCache[Membership] = TemplateCache(_KEPT_TEMPLATES)
        self._demands: TemplateCache[PodDemand] = TemplateCache(_KEPT_TEMPLATES)
        self._amounts: dict[Named, Amounts] = {}
        self._moving: dict[str, LedgerEntry] = {}
        """Pods that count for what follows from claims or nodes."""
        self._claims: ClaimUsers[LedgerEntry] = ClaimUsers(self._objects)
        self._sizes = -1
        """The version of the devices of nodes that fractions in MiB were compared with."""
        self._offered: frozenset[str] = frozenset()
        """What counts although no queue may name it: devices and the like, of which a node offers some."""
        self._layout = -1
        """The layout of columns from which that was read."""
        self._crowded = False
        """Whether more of it is asked for than counts."""
        self._vacated = False
        """Whether pods may have left that alone asked for a part of it: something else may count instead."""
        self._outside: dict[int, int] = {}
        """What pods outside of any share hold, by resource."""
        self._changes = 0
        """How often that changed, or another resource was found to count."""
        self._stale = False
        """Whether all pods have to be assigned again."""
        self._changed: dict[str, None] = {}
        """Queues that came, went or changed since the tree was brought up to date."""
        self.late = False
        """Whether either is so."""
        self._moment = -1
        """When what is divided was last computed, by changes of what it follows from."""
        self.latest: LedgerEntry | None = None
        """The pod that came last, or is tried now: it is asked about most. An entry of this ledger, no copy; nothing is
        said of one that is known no more."""
        self.moved: set[str] = set()
        """Pods that belong elsewhere now; see `take_moved`."""
        self.troubled = False
        """Whether some pods have had to wait since all were assigned, as something is wrong with their queue."""

    # --- queues ---

    def note_object(self, kind: str, before: Any, after: Any) -> bool:
        """A queue or a namespace changed; returns whether this was the first queue: the ledger knows no pods yet."""
        if kind not in QUEUE_KINDS:
            if self.active and _labels(before) != _labels(after):
                self._forget_members()
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
            self.late = True
        return began

    def use_terms(self, terms_of: TermsOf) -> None:
        """Pods belong to queues by these terms from now on."""
        self.terms_of = terms_of
        self.reassign()

    def reassign(self) -> None:
        """Assign all pods again, as queues, namespaces or terms are others now."""
        self._stale = self.late = True

    def settle(self, state: ClusterState) -> QueueTree:
        """The tree with shares as they are now."""
        if self._layout != self._resources.layout:
            self._read_offers()
        if self._vacated and state.undo.steps is None:  # in a what-if, the queues that it looks at have to stay
            self._fill_vacancies()
        if self.late:
            self._catch_up()
        tree = self.tree
        if self._moving:
            self._count_moving(state)
        moment = state.node_log.position + self._changes  # neither ever gets less
        if moment != self._moment:
            self._moment = moment
            tree.divides(self._divided(state))
        if tree.asking or tree.dirty:
            tree.settle()
        return tree

    def _divided(self, state: ClusterState) -> list[int]:
        """What the nodes that are ready offer, less what is held outside of any share."""
        lost = [bool(_NOT_READY & {taint.key for taint in taints}) for taints in state.taints.sets]
        rows = state.rows()
        if any(lost):
            rows = rows[~np.array(lost)[state.taints.ids[rows]]]
        published, total = self._published(state, rows), []
        for index, name in enumerate(self.tree.resources):
            offered = self._counts.offered(name, rows) + published[name]
            total.append(max(0, offered - self._outside.get(index, 0)))
        return total

    def _published(self, state: ClusterState, rows: Rows) -> Counter[str]:
        """What drivers publish for these nodes alone, or for several."""
        found, offers = Counter[str](), self._counts.offers.by_owner()
        if offers:
            for owner in ("", *(state.node(row).name for row in rows.tolist())):
                found.update(offers.get(owner, {}))
        return found

    def tidy(self) -> None:
        """Follow the queues as they are; of more resources than count, those do that would after a restart."""
        if self._crowded:
            self.reassign()
        self.catch_up()

    def catch_up(self) -> None:
        """Follow the queues as they are, if that was put off."""
        if self.late:
            self._catch_up()

    def _catch_up(self) -> None:
        """Bring the tree up to date with the queues that there are: where they changed if they are few, else all."""
        self.late = False
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
            self._forget_members()
            self._assign_again([entry for entry in self._entries.values() if entry.demand.member.queue in names])
        return True

    def _forget_members(self) -> None:
        self.assignments += 1
        self._members.clear()
        self._demands.clear()

    def take_moved(self) -> set[str]:
        """Pods that belong elsewhere than when this was last asked."""
        self.catch_up()
        moved, self.moved = self.moved, set()
        return moved

    def _queue(self, name: str) -> Queue | None:
        """The queue that counts of those with this name."""
        return next((found for kind in QUEUE_KINDS if (found := self._objects.get(kind, {}).get(name))), None)

    def _assign_again(self, entries: Iterable[LedgerEntry]) -> None:
        for entry in entries:
            demand = self._demand(entry.pod)
            if demand.member != entry.demand.member:
                self._recount(entry, demand)
                self.moved.add(entry.pod.uid)
                for key in claim_keys(entry.pod.template) if demand.moves else ():
                    self.note_claim(key)

    def _build(self) -> None:
        self._stale = self.troubled = False
        queues: dict[str, Queue] = {}
        for kind in reversed(QUEUE_KINDS):
            queues.update(self._objects.get(kind, {}))
        self.tree.build(queues)
        self._forget_members()
        self._read_offers(whole=True)
        self._outside.clear()
        self._moment = -1
        for _, entry in sorted(self._entries.items()):  # what counts must not depend on which pod came first
            known, entry.demand = entry.demand.member, self._demand(entry.pod)
            member = entry.demand.member
            if member.queue != known.queue or member.problem != known.problem:
                self.moved.add(entry.pod.uid)
            entry.counted = 0
            self._count(entry, entry.said)
        for key in self._claims.keys:
            self.note_claim(key)

    # --- which queue ---

    def member(self, template: PodTemplate) -> Membership:
        """Where pods of this template belong."""
        if self.late:
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
        self.troubled = self.troubled or problem != ""
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

    def about(self, pod: Pod) -> LedgerEntry:
        """What counts of a pod, or would if it were known. Do not change it."""
        known = self.latest
        if known is not None and known.pod is pod and known.said and not self.late:
            return known
        demand, known = self._demand(pod), self._entries.get(pod.uid)  # all may be counted again by the former
        if known is not None and known.pod is pod:
            return known
        return LedgerEntry(pod, demand) if known is None else LedgerEntry(pod, demand, known.said, known.counted)

    def need(self, pods: Iterable[Pod]) -> Amounts:
        """What pods need together, or have: of claims each once, and none that counts for their queue anyway."""
        found, claims = list[Amounts](), set[str]()
        for pod in pods:
            if not self._counts.moves(pod.template):
                found.append(self._demand(pod).amounts)
                continue
            keys = [key for key in claim_keys(pod.template) if key not in claims and self._needs(pod, key)]
            claims.update(keys)
            found.append(self._indices(self._counted(pod, keys)))
        return found[0] if len(found) == 1 else together(found)

    def _needs(self, pod: Pod, key: str) -> bool:
        """Whether the queue of a pod would have more by a claim if the pod held it."""
        before, member = self._claims.before(key, pod), self.member(pod.template)
        if before is not None and before.demand.leaf is member.leaf and before.demand.preemptible == member.preemptible:
            return False
        return self._claims.would_have(key, pod)

    def needed(self, entry: LedgerEntry) -> Amounts:
        """What a pod needs if it does not hold it yet."""
        demand = entry.demand
        return self.need((entry.pod,)) if demand.moves else demand.amounts

    def left(self, pod: Pod) -> dict[str, int]:
        """Resource -> how much more than it needs a pod may have; only those that a limit or a quota bounds for it."""
        entry, found = self.about(pod), dict[str, int]()
        leaf, preemptible = entry.demand.leaf, entry.demand.preemptible
        for node in () if leaf is None else leaf.path:
            bounds = [(index, most - node.allocated[index]) for index, most in node.caps]
            if not preemptible:
                bounds += [(index, most - node.fixed[index]) for index, most in enumerate(node.quota)]
            for index, more in bounds:
                name = self.tree.resources[index]
                found[name] = min(found.get(name, UNLIMITED), more)
        for index, amount in () if entry.holds else self.needed(entry):
            name = self.tree.resources[index]
            if name in found:
                found[name] -= amount
        return found

    def held(self, pods: Iterable[Pod]) -> Amounts:
        """What pods that hold what they count for have together."""
        return together([self.about(pod).demand.amounts for pod in pods])

    def _demand(self, pod: Pod) -> PodDemand:
        """What a pod counts for."""
        template = pod.template
        if self.late:
            self._catch_up()
        found = self._demands.get(template)
        if found is None or pod.requests is not template.requests:
            moves = self._counts.moves(template)
            found = PodDemand(*self._place(pod), moves=moves)
            if pod.requests is template.requests and not moves:
                self._demands.keep(template, found)
        return found

    def _place(self, pod: Pod) -> tuple[Membership, Amounts]:
        """Where a pod belongs and what it counts for, both by one tree: either may find that all is new."""
        builds = -1
        while builds != self.tree.builds:
            builds = self.tree.builds
            found = self.member(pod.template), self._indices(self._named(pod))
        return found

    def _named(self, pod: Pod) -> Named:
        return self._counted(pod, [key for key in claim_keys(pod.template) if self._claims.has(key, pod)])

    def _counted(self, pod: Pod, claims: Iterable[str]) -> Named:
        """What a pod counts for with these of its claims."""
        own = self._counts.own(pod)
        parts = [self._counts.claim(key) for key in claims]
        return summed((own, *parts)) if parts else own

    def has_room(self, pod: Pod) -> bool:
        """Whether a waiting pod is known to be within all limits; if not, `about` says where to look."""
        entry = self.latest
        if entry is None or entry.pod is not pod or not entry.said:
            entry = self._entries.get(pod.uid)
            if entry is None or entry.pod is not pod:
                return False
        if self.late:
            return False
        demand = entry.demand
        leaf = demand.leaf
        if leaf is None:
            return False
        if demand.preemptible and self.tree.handed < leaf.headroom:
            return True  # as is usual, without another call
        return entry.holds or (demand.preemptible and self.tree.has_room(leaf))

    def assume(self, pod: Pod) -> None:
        """A pod gets a node."""
        entry = self.latest
        if (
            entry is not None
            and entry.pod is pod
            and entry.said == WAITS
            and entry.demand.leaf is not None
            and not entry.demand.moves
        ):
            entry.said, entry.counted = _PLACED, _ALL  # as is usual: without further calls
            self.tree.hold(entry.demand, 1)
        else:
            self.stand(pod, leaving=False)

    def stand(self, pod: Pod, *, leaving: bool) -> None:
        """A pod is on a node; `leaving` if it is being deleted."""
        entry = self._entry(pod)
        self._say(entry, (entry.said | STANDS | LEAVING) if leaving else (entry.said | STANDS) & _STAYING)

    @property
    def leaving(self) -> set[str]:
        """Pods on nodes that are said to leave them."""
        return {uid for uid, entry in self._entries.items() if entry.said & STANDS and entry.said & LEAVING}

    @leaving.setter
    def leaving(self, uids: set[str]) -> None:
        for uid, entry in self._entries.items():
            if entry.said & STANDS:
                self._say(entry, entry.said | LEAVING if uid in uids else entry.said & _STAYING)

    def leave(self, uid: str) -> None:
        """A pod is on no node any more."""
        self._unsay(uid, STANDS)

    def promise(self, pod: Pod) -> None:
        """A pod is nominated to a node."""
        entry = self._entry(pod)
        self._say(entry, entry.said | PROMISED)

    def unpromise(self, uid: str) -> None:
        """The nomination of a pod ended."""
        self._unsay(uid, PROMISED)

    def wait(self, pod: Pod) -> None:
        """A pod waits for a node."""
        if pod.uid not in self._entries:
            demand = self._demand(pod)
            if demand.leaf is not None and not demand.moves:  # a new one, as is usual: without further calls
                self.latest = self._entries[pod.uid] = LedgerEntry(pod, demand, WAITS, ASKS)
                self.tree.request(demand, 1)
                return
        entry = self._entry(pod)
        self._say(entry, entry.said | WAITS)

    def unwait(self, uid: str) -> None:
        """A pod does not wait any more."""
        entry = self._entries.get(uid)
        if entry is not None and entry.said == _PLACED:  # as is usual, and nothing else is counted by that
            entry.said = STANDS
        else:
            self._unsay(uid, WAITS)

    def expect(self, pod: Pod, *, value: bool) -> bool:
        """Whether a pod is evicted for a share, and so expected to come back; returns what was said before."""
        known = self._entries.get(pod.uid)
        before = known is not None and known.said & EXPECTED != 0
        if value and not before and self.active:
            entry = known or self._entry(pod)
            self._say(entry, entry.said | EXPECTED)
        elif before and not value:
            self._unsay(pod.uid, EXPECTED)
        return before

    def counts(self, uid: str) -> bool:
        """Whether a pod holds what it requests."""
        entry = self._entries.get(uid)
        return entry is not None and entry.counted & HOLDS != 0

    def _entry(self, pod: Pod) -> LedgerEntry:
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = LedgerEntry(pod, self._demand(pod))
            if entry.demand.moves:
                self._follow(entry)
            return entry
        known = entry.pod
        if known is pod or (known.template is pod.template and known.requests is pod.requests):
            entry.pod = pod
            return entry
        demand = self._demand(pod)  # which may count all pods again, this one as it was
        self._unfollow(entry)
        entry.pod = pod
        self._recount(entry, demand)
        if demand.moves:
            self._follow(entry)
        return entry

    def _recount(self, entry: LedgerEntry, demand: PodDemand) -> None:
        """A pod counts for something else."""
        said = entry.said
        self._count(entry, 0)
        entry.demand = demand
        self._count(entry, said)

    def _unsay(self, uid: str, what: int) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        said = entry.said & ~what
        self._say(entry, said)
        if not said & _STAYING:
            del self._entries[uid]
            entry.said = 0
            self._unfollow(entry)
            self._vacated = self._vacated or self._crowded

    # --- what follows from claims and nodes ---

    def _follow(self, entry: LedgerEntry) -> None:
        self._moving[entry.pod.uid] = entry
        self._claims.add(entry)

    def _unfollow(self, entry: LedgerEntry) -> None:
        if self._moving.pop(entry.pod.uid, None) is not None:
            self._claims.remove(entry)
            for key in claim_keys(entry.pod.template):
                self.note_claim(key)

    def note_claim(self, key: str) -> None:
        """A claim came, changed or went, or another pod may be the first that has it."""
        for each in self._claims.settle(key):
            if each.said:
                self._recount(each, self._demand(each.pod))

    def note_devices(self, pools: Iterable[PoolId]) -> None:
        """Devices of these pools are others now, or classes of devices."""
        self._counts.offers.note(pools)
        self._layout = self._moment = self._sizes = -1

    def _count_moving(self, state: ClusterState) -> None:
        """Follow the sizes of devices, of which fractions in MiB and shares of devices are parts."""
        sizes = state.shares().version
        if sizes == self._sizes:
            return
        self._sizes = sizes
        for key in self._claims.keys:
            if self._counts.follows_devices(key):
                self.note_claim(key)
        for entry in [*self._moving.values()]:
            if not entry.pod.template.claims:
                self._recount(entry, self._demand(entry.pod))

    def _indices(self, amounts: Named) -> Amounts:
        """What counts of this: cpu, memory, devices that nodes or drivers offer, and whatever queues name."""
        if self.late:
            self._catch_up()
        found = self._amounts.get(amounts)
        if found is None:
            if self._layout != self._resources.layout:
                self._read_offers()
                return self._indices(amounts)
            if len(self._amounts) >= _KEPT_REQUESTS:
                self._amounts.clear()
            resources, count = self.tree.resources, len(self.tree.resources)
            found = self._amounts[amounts] = self._find_indices(amounts)
            self.tree.asks(found)
            self._changes += len(resources) != count
        return found

    def _find_indices(self, amounts: Named) -> Amounts:
        tree, offered = self.tree, self._offered
        known = [each for each in amounts if tree.names(each[0]) or each[0] in offered]
        found = tuple(sorted((index, amount) for name, amount in known if (index := tree.index(name)) is not None))
        if len(found) < len(known):
            self._crowded = self._vacated = True
        return found

    def _fill_vacancies(self) -> None:
        """Assign all pods again if something counts that nobody asks for any more."""
        self._vacated = False
        used = {index for entry in self._entries.values() for index, _ in entry.demand.amounts}
        if self._crowded and not used.issuperset(self.tree.unnamed):
            self.reassign()

    def _read_offers(self, *, whole: bool = False) -> None:
        """Look at what nodes offer; pods are counted again if that concerns any. `whole`: they are counted anyway.

        What no node offers cannot be divided. If it counted, one pod could name so much of it that nothing else would.
        """
        before, self._layout = self._offered, self._resources.layout
        self._offered = self._counts.offered_names()
        changed = self._offered ^ before
        if whole or changed:
            self._amounts.clear()
            self._demands.clear()
        if whole:
            self._crowded = False
        elif changed and any(
            name in changed and not self.tree.names(name)
            for counted in {self._named(entry.pod) for entry in self._entries.values()}
            for name, _ in counted
        ):
            self.reassign()

    def _say(self, entry: LedgerEntry, said: int) -> None:
        """This is said about a pod; count it, and others for which its claims count instead, or did."""
        known = entry.counted
        self._count(entry, said)
        if entry.demand.moves and entry.counted != known:
            if not entry.pod.template.claims:  # a fraction in MiB, which is a part of other devices now
                self._recount(entry, self._demand(entry.pod))
            for key in claim_keys(entry.pod.template):
                self.note_claim(key)

    def _count(self, entry: LedgerEntry, said: int) -> None:
        """Count what a pod holds and asks for by what is said about it, outside of any share only what it holds."""
        demand, known = entry.demand, entry.counted
        entry.said, entry.counted = said, demand.counts[said]
        counted = entry.counted
        if counted == known:
            return
        leaf = demand.leaf
        if leaf is None:
            self._count_outside(demand.amounts, counted - known)
            return
        held, asked = _CHANGES[known][counted]
        if held:
            self.tree.hold(demand, held)
        if asked:
            self.tree.request(demand, asked)

    def _count_outside(self, amounts: Amounts, sign: int) -> None:
        for index, amount in amounts:
            self._outside[index] = self._outside.get(index, 0) + sign * amount
        self._changes += 1

    def entries(self) -> Iterable[tuple[Pod, Membership, bool]]:
        """Pods that count, where they belong, and whether they hold what they request."""
        return ((entry.pod, entry.demand.member, entry.holds) for entry in self._entries.values())


def _no_terms(_: str) -> None:
    """No profile knows queues."""


def _labels(namespace: Namespace | None) -> Mapping[str, str] | None:
    return None if namespace is None else namespace.labels
