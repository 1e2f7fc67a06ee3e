"""Room for units of queues that found no node: by moving pods, by reclaiming a share, by preemption inside a queue.

One search serves all three. Victims are added in the reverse order of placing until the unit fits and the result is
allowed; victims are placed again in the same what-if, and one that finds a place has only moved. The whole round is one
statement on the state as it will be once all that leave are gone; nothing is ordered before it is proven in there.
A round that is told to end keeps what it has found, and knows what need not be tried again by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from moorage.core.budgets import Budgets
from moorage.core.pods import Pod, as_pending
from moorage.core.queueorder import Precedence, precedence, within
from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.reclaiming import Loss, allowed, may_reclaim, parting
from moorage.core.state import PodRecord
from moorage.engine.context import EngineContext
from moorage.engine.sharedjobs import RunningJob, VictimOrder, VictimUnit, running_job, running_jobs
from moorage.engine.sharing import Sharing
from moorage.engine.trial import Trial
from moorage.engine.units import QueuedPod, Unit
from moorage.engine.unittree import Item
from moorage.framework.gang_capacity import kind_of

BUDGETS, STRICT = "PodDisruptionBudget", "Strict"
_MOST_TRIES = 512
"""How many sets of victims are tried for one pod."""
_LEAST_TRIES = 8
"""How many are tried even if the round should end: a search that gets nowhere in any round would never succeed."""
_MOST_ANEW = 256
"""How many of the units that still wait are placed with those that got room."""


class Order(NamedTuple):
    """What is to be done for a unit."""

    unit: Unit
    nodes: dict[str, str]
    """Pod -> its node."""
    victims: list[str]
    moves: dict[str, str]
    """Those of the victims that have a place elsewhere, and where."""
    why: list[str]
    """Of each victim."""


class _Plan(NamedTuple):
    nodes: dict[str, str]
    lost: list[VictimUnit]
    """What finds no place again, in the order in which it was taken."""
    moves: dict[str, str]


class _Claimant(NamedTuple):
    """A unit, or the part of it that is being placed."""

    unit: Unit
    leaf: QueueNode
    entries: list[QueuedPod]
    need: Amounts
    preemptible: bool
    priority: int


Allowed = Callable[[_Claimant, list[VictimUnit]], bool]
Kind = tuple[object, ...]
"""Units of one leaf with equal pods: what helps one of them helps all, in their order."""


class RoomRound:
    """One round of making room."""

    def __init__(self, context: EngineContext, sharing: Sharing, now: float, hopeless: set[tuple[str, Kind]]) -> None:
        self._hopeless = hopeless
        """What has been tried in vain, and for whom, in the state that the round starts with; grows with the round."""
        self.cut = False
        """Whether the round was told to end before everything had been tried."""
        self._tried = False
        """Whether anything has been tried: each round gets a little further."""
        self._context = context
        self._state = context.state
        self._ledger = context.state.queues
        self._sharing = sharing
        self._now = now
        self._trial = Trial(context, now)
        self._budgets = Budgets(context.state.objects.get(BUDGETS, {}).values())
        self._served: list[_Claimant] = []
        """Units that got room; a later one may have taken it from them."""
        self._promised: set[str] = set()
        """Pods that were promised a node before."""
        self._homes: dict[str, PodRecord] = {}
        """Pods that were on nodes before, and had to leave them."""
        self._blame: dict[str, tuple[Unit, str]] = {}
        """For whom, and why."""
        self._heads: dict[QueueNode, Item] = {}
        """Leaf -> the first of its units that wait."""
        self.ripe_s = inf
        """When the first pod has run for long enough that was spared because it has not."""
        self._recorded: list[VictimUnit] = []
        """The victims of the last try that was a solution."""

    def make(self, units: Iterable[Unit]) -> list[Order]:
        """What can be done for these units; the state is as before."""
        waiting = list(units)
        with self._state.statement():
            self._look_ahead()
            for step in (self._promise, self._consolidate, self._reclaim, self._preempt):
                waiting = self._serve(waiting, step)
            self._place_anew(waiting)
            return self._result()

    def _result(self) -> list[Order]:
        """Who has to go for whom, now that everything has its place; what could have stayed stays."""
        orders: dict[str, Order] = {}
        for claimant in self._served:
            nodes = {uid: node for entry in claimant.entries if (node := self._node_of(uid := entry.pod.uid))}
            if nodes:
                known = orders.setdefault(claimant.unit.uid, Order(claimant.unit, {}, [], {}, []))
                known.nodes.update(nodes)
        for uid in self._leaving():
            unit, why = self._blame[uid]
            order = orders.get(unit.uid) or next(iter(orders.values()), None)
            if order is not None:
                order.victims.append(uid)
                order.why.append(why)
                if self._node_of(uid):
                    order.moves[uid] = self._node_of(uid)
        return list(orders.values())

    def _leaving(self) -> list[str]:
        """Pods that have to leave their nodes: of a job all that do, or none if all of them could stay."""
        jobs: dict[object, list[PodRecord]] = {}
        for home in self._homes.values():
            if self._node_of(home.pod.uid) != home.node:
                jobs.setdefault(home.pod.template.gang or home.pod.uid, []).append(home)
        return [home.pod.uid for homes in jobs.values() if not self._stay(homes) for home in homes]

    def _stay(self, homes: Sequence[PodRecord]) -> bool:
        """Whether these pods can stay where they are after all."""
        state = self._state
        with state.statement() as what_if:
            for home in homes:
                row = state.row_of(home.node)
                state.remove_pod(home.pod.uid)
                self._expect(home.pod.uid, value=False)
                if row is None or self._trial.put(as_pending(home.pod), row) is None:
                    return False
            what_if.commit()
        return True

    def _node_of(self, uid: str) -> str:
        record = self._state.record(uid)
        return "" if record is None else record.node

    def _look_ahead(self) -> None:
        """The state once everything that leaves is gone and nominated pods are where they are promised to be."""
        state = self._state
        for record in state.records():
            if record.pod.deleted_s is not None or state.evictions.evicting(record.pod.uid):
                state.remove_pod(record.pod.uid)
        for pod in list(state.nominations.pods()):
            row = state.row_of(state.nominations.node_of(pod.uid) or "")
            if row is not None and state.record(pod.uid) is None and self._sharing.governs(pod):
                state.assume(pod, row)
                self._promised.add(pod.uid)

    def _serve(self, units: Iterable[Unit], step: Callable[[_Claimant], bool]) -> list[Unit]:
        """Try one way for all units in their order; those that are still without a node."""
        order, left = self._sharing.order(units), list[Unit]()
        passed: dict[QueueNode, Item] = {}
        while (item := order.pop()) is not None:
            claimant = self._claimant(item.unit, item.need)
            what = step.__name__, self._kind(claimant)
            if what not in self._hopeless and not (self._tried and self._ends()):
                self._tried = True
                self._heads = _earlier(order.heads(), passed)
                if step(claimant):
                    self._hopeless.clear()
                    if self._sharing.next_pods(item.unit):  # one pod more of it competes with all others
                        order.push(claimant.leaf, self._sharing.item(item.unit))
                    continue
                if not self.cut or not self._served:
                    self._hopeless.add(what)
            left.append(item.unit)
            passed = _earlier(passed, {claimant.leaf: item})
        return left

    def _ends(self) -> bool:
        self.cut = self._context.stopped() or self.cut
        return self.cut

    @staticmethod
    def _kind(claimant: _Claimant) -> Kind:
        return claimant.leaf, *(kind_of(entry.pod) for entry in claimant.entries)

    def _place_anew(self, waiting: Iterable[Unit]) -> None:
        """Place all that has got room or has lost it once more, in the order of queues, with the others that wait.

        Room that is made may go to another unit than the one that made it, and what would be taken back in the next
        round is not taken at all.
        """
        if all(map(self._node_of, self._homes)):
            return
        state, units = self._state, {each.unit.uid: each.unit for each in self._served}
        for uid in [entry.pod.uid for each in self._served for entry in each.entries]:
            state.remove_pod(uid)
        away = [home for uid, home in self._homes.items() if not self._node_of(uid)]
        jobs: list[_Claimant | _Returning] = [_Returning(*each) for each in self._jobs_of(away)]
        self._served, self._heads = [], {}
        order = self._sharing.order(waiting)
        units |= {item.unit.uid: item.unit for item in islice(iter(order.pop, None), _MOST_ANEW) if item is not None}
        jobs += [self._claimant(unit, self._sharing.item(unit).need) for unit in units.values()]
        nodes: dict[str, str] = {}
        while (job := self._first(jobs)) is not None:
            jobs.remove(job)
            if isinstance(job, _Returning):
                if self._return(job, nodes, home_first=True) and job.records:
                    jobs.append(job)
            elif not self._promise(job):
                kind = self._kind(job)  # room only gets less
                jobs = [each for each in jobs if isinstance(each, _Returning) or self._kind(each) != kind]
            elif self._sharing.next_pods(job.unit):
                jobs.append(self._claimant(job.unit, self._sharing.item(job.unit).need))

    def _jobs_of(self, away: Iterable[PodRecord]) -> Iterator[tuple[RunningJob, list[PodRecord]]]:
        """The jobs that lost pods, and these."""
        groups: dict[object, list[PodRecord]] = {}
        for home in away:
            groups.setdefault(home.pod.template.gang or home.pod.uid, []).append(home)
        for records in groups.values():
            gang = records[0].pod.template.gang
            standing = [] if gang is None else list(self._state.gangs.standing(gang).values())
            yield running_job(self._state, self._sharing, [*standing, *records]), records

    def _claimant(self, unit: Unit, need: Amounts) -> _Claimant:
        member = self._sharing.member(unit.pod)
        if member.leaf is None:
            raise LookupError(f"{unit.uid} belongs to no queue")
        entries = self._sharing.next_pods(unit)
        priority = -int(self._sharing.item(unit).key[0])
        return _Claimant(unit, member.leaf, entries, need, member.preemptible, priority)

    # --- the ways ---

    def _promise(self, claimant: _Claimant) -> bool:
        """Room that others are about to leave."""
        return self._conclude(claimant, self._try(claimant, [], lambda *_: True), "")

    def _consolidate(self, claimant: _Claimant) -> bool:
        """Move pods that all find a place again."""
        if not claimant.preemptible or not self._sharing.terms(claimant.unit.pod).consolidate:
            return False
        if not self._free_suffices(claimant.need):
            return False
        plan = self._search(claimant, self._preemptible, lambda _, lost: not lost)
        return self._conclude(claimant, plan, "moved so that another pod fits")

    def _reclaim(self, claimant: _Claimant) -> bool:
        """Take back from other leaves what the leaf may have."""
        leaf, need = claimant.leaf, claimant.need
        if not may_reclaim(leaf, need, preemptible=claimant.preemptible):
            return False
        multiplier = self._sharing.terms(claimant.unit.pod).reclaim_multiplier

        def fair(part: _Claimant, lost: list[VictimUnit]) -> bool:
            losses = [Loss(unit.job.leaf, unit.amounts) for unit in lost]
            return allowed(leaf, part.need, losses, multiplier, preemptible=part.preemptible)

        def others(record: PodRecord) -> bool:
            theirs = self._leaf(record)
            if theirs is None or theirs is leaf or not self._preemptible(record):
                return False
            giver = parting(leaf, theirs)[1]
            return self._ran_for(record, (node.queue.reclaim_min_runtime_s for node in giver.path))

        plan = self._search(claimant, others, fair)
        return self._conclude(claimant, plan, f"reclaimed for queue {leaf.name}")

    def _preempt(self, claimant: _Claimant) -> bool:
        """Evict less important pods of the same leaf."""
        leaf = claimant.leaf
        if not claimant.preemptible and not all(within(n.fixed, claimant.need, n.quota) for n in leaf.path):
            return False

        def lower(record: PodRecord) -> bool:
            mine = self._leaf(record) is leaf and self._preemptible(record)
            mine = mine and self._ran_for(record, (node.queue.preempt_min_runtime_s for node in leaf.path))
            return mine and -int(self._sharing.pod_key(record.pod)[0]) < claimant.priority

        plan = self._search(claimant, lower, lambda *_: True)
        return self._conclude(claimant, plan, f"preempted by a more important pod of queue {leaf.name}")

    def _preemptible(self, record: PodRecord) -> bool:
        """Pods on their way to a node are left alone; those that got room in this round are not."""
        uid = record.pod.uid
        going = self._context.bindings.get(uid) is not None or uid in self._promised
        return not going and self._sharing.member(record.pod).preemptible

    def _ran_for(self, record: PodRecord, periods: Iterable[float | None]) -> bool:
        """Whether a pod has run for as long as the first of the queues demands that says anything about it."""
        least_s = next((each for each in periods if each is not None), 0.0)
        since_s = record.pod.scheduled_s if record.pod.started_s is None else record.pod.started_s
        ripe_s = least_s + (self._now if since_s is None else since_s)
        if not least_s or ripe_s <= self._now:
            return True
        self.ripe_s = min(self.ripe_s, ripe_s)
        return False

    def _leaf(self, record: PodRecord) -> QueueNode | None:
        return self._sharing.member(record.pod).leaf

    def _free_suffices(self, need: Amounts) -> bool:
        """Whether all nodes together have enough left."""
        resources, rows = self._state.resources, self._state.rows()
        for index, amount in need:
            column = resources.known(self._ledger.tree.resources[index])
            if column is None:
                return False
            left = resources.allocatable[column, rows] - resources.requested[column, rows]
            if int(left.clip(0).sum()) < amount:
                return False
        return True

    # --- the search ---

    def _search(self, claimant: _Claimant, wanted: Callable[[PodRecord], bool], check: Allowed) -> _Plan | None:
        """Victims for the pods one after another, each time starting with those found so far."""
        jobs = running_jobs(self._state, self._sharing, wanted)
        found: _Plan | None = None
        recorded: list[VictimUnit] = []
        for count in range(1, len(claimant.entries) + 1):
            entries = claimant.entries[:count]
            part = claimant._replace(entries=entries, need=self._sharing.need([entry.pod for entry in entries]))
            found = self._extend(part, jobs, recorded, check)
            if found is None:
                return None
            recorded = self._recorded
        return found

    def _extend(
        self, part: _Claimant, jobs: Sequence[RunningJob], recorded: list[VictimUnit], check: Allowed
    ) -> _Plan | None:
        plan = self._attempt(part, recorded, check) if recorded else None
        if plan is not None:
            return plan
        known = {record.pod.uid for unit in recorded for record in unit.records}
        added: list[VictimUnit] = []
        tries = 0
        for unit in VictimOrder(self._sharing, self._ledger.settle(self._state), _without(jobs, known)):
            added.append(unit)
            for node in unit.nodes:
                tries += 1
                if tries > _MOST_TRIES or (self._ends() and tries > _LEAST_TRIES):
                    return None
                plan = self._attempt(part, [*recorded, *(each for each in added if node in each.nodes)], check)
                if plan is not None:
                    return plan
        return None

    def _attempt(self, part: _Claimant, victims: list[VictimUnit], check: Allowed) -> _Plan | None:
        plan = self._try(part, victims, check)
        if plan is not None:
            self._recorded = victims
        return plan

    def _try(self, part: _Claimant, victims: list[VictimUnit], check: Allowed) -> _Plan | None:
        """Take the victims away, place the pods and the victims in their order; None if that is no solution."""
        state = self._state
        homes = {record.pod.uid: record for unit in victims for record in unit.records}
        with state.statement():
            for record in homes.values():
                self._expect(record.pod.uid, value=True)
                state.remove_pod(record.pod.uid)
            nodes = self._place_all(part, victims)
            if nodes is None:
                return None
            lost = [
                VictimUnit(unit.job, gone, self._sharing.need([record.pod for record in gone]))
                for unit in victims
                if (gone := tuple(record for record in unit.records if record.pod.uid not in nodes))
            ]
        if not check(part, lost):
            return None
        own = {entry.pod.uid for entry in part.entries}
        moves = {uid: node for uid, node in nodes.items() if uid not in own and homes[uid].node != node}
        evicted = [home.pod for uid, home in homes.items() if uid not in nodes or uid in moves]
        if self._sharing.terms(part.unit.pod).pdb_policy == STRICT and self._budgets.refusing(evicted) is not None:
            return None
        return _Plan({uid: node for uid, node in nodes.items() if uid in own}, lost, moves)

    def _expect(self, uid: str, *, value: bool) -> None:
        """Whether a pod counts as evicted and expected back, as long as the what-if lasts."""
        before = self._ledger.expect(uid, value=value)
        if before is not value:
            self._state.undo.note(lambda: self._ledger.expect(uid, value=before))

    def _place_all(self, part: _Claimant, victims: Sequence[VictimUnit]) -> dict[str, str] | None:
        """Pod -> node of the unit's pods and of victims that found a place; None if the unit does not fit."""
        nodes: dict[str, str] = {}
        out: dict[int, tuple[RunningJob, list[PodRecord]]] = {}
        for unit in victims:
            out.setdefault(id(unit.job), (unit.job, []))[1].extend(unit.records)
        queued = [_Returning(job, records) for job, records in out.values()]
        placed = False
        while True:
            best = self._first([*(() if placed else (part,)), *queued])
            if best is None:
                return nodes
            if isinstance(best, _Claimant):
                placed = True
                for entry in best.entries:
                    record = self._trial.place(entry.pod)
                    if record is None:
                        return None
                    nodes[entry.pod.uid] = record.node
            elif not self._return(best, nodes, home_first=placed) or not best.records:
                queued.remove(best)

    def _return(self, job: _Returning, nodes: dict[str, str], *, home_first: bool) -> bool:
        """Place the next pods of a victim again, all or none."""
        records = job.next_records()
        found: dict[str, str] = {}
        with self._state.statement() as what_if:
            for record in records:
                pod = as_pending(record.pod)
                self._expect(pod.uid, value=False)
                row = self._state.row_of(record.node) if home_first else None
                place = None if row is None else self._trial.put(pod, row)
                place = place or self._trial.place(pod)
                if place is None:
                    return False
                found[pod.uid] = place.node
            what_if.commit()
        nodes.update(found)
        job.records = job.records[len(records) :]
        return True

    def _first(self, jobs: Sequence[_Claimant | _Returning]) -> _Claimant | _Returning | None:
        """The job that comes next in the order of queues, which other units that wait have their part in."""
        if len(jobs) <= 1:
            return jobs[0] if jobs else None
        leaves: dict[QueueNode, list[_Claimant | _Returning]] = {}
        below: dict[QueueNode | None, dict[QueueNode, None]] = {}
        for job in jobs:
            leaves.setdefault(job.leaf, []).append(job)
            for node in job.leaf.path:
                below.setdefault(node.parent, {})[node] = None
        first = {leaf: min(here, key=self._key) for leaf, here in leaves.items()}
        needs: dict[QueueNode, Amounts] = {}

        def place(node: QueueNode) -> Precedence:
            if node not in needs:
                needs[node] = self._leaf_need(node, first[node]) if node in first else needs[best(node)]
            return precedence(node, needs[node], self._ledger.tree.total)

        def best(parent: QueueNode | None) -> QueueNode:
            found = min(below[parent], key=place)
            place(found)
            return found

        node = best(None)
        while node not in first:
            node = best(node)
        return first[node]

    def _leaf_need(self, leaf: QueueNode, job: _Claimant | _Returning) -> Amounts:
        """What the first unit of a leaf needs: this one, or one that waits and comes before it."""
        head = self._heads.get(leaf)
        return head.need if head is not None and head.key < self._key(job) else self._need(job)

    def _key(self, job: _Claimant | _Returning) -> tuple[object, ...]:
        if isinstance(job, _Claimant):
            return self._sharing.item(job.unit).key
        return self._sharing.pod_key(job.job.pod, len(job.job.records) - len(job.records))

    def _need(self, job: _Claimant | _Returning) -> Amounts:
        return job.need if isinstance(job, _Claimant) else self._sharing.need([r.pod for r in job.next_records()])

    # --- the result ---

    def _conclude(self, claimant: _Claimant, plan: _Plan | None, why: str) -> bool:
        """Keep a solution for the rest of the round."""
        if plan is None:
            return False
        own = {entry.pod.uid for each in self._served for entry in each.entries}
        for uid in [*(record.pod.uid for unit in plan.lost for record in unit.records), *plan.moves]:
            record = self._state.record(uid)
            if record is None:
                continue
            self._blame[uid] = claimant.unit, why
            if uid not in own:
                self._homes.setdefault(uid, record)
                self._expect(uid, value=True)
            self._state.remove_pod(uid)
            if uid in plan.moves:
                self._settle(as_pending(record.pod), plan.moves[uid])
        for entry in claimant.entries:
            self._settle(entry.pod, plan.nodes[entry.pod.uid])
        self._served.append(claimant)
        return True

    def _settle(self, pod: Pod, node: str) -> None:
        row = self._state.row_of(node)
        if row is not None:
            self._expect(pod.uid, value=False)
            self._state.assume(pod, row)


class _Returning:
    """A victim that is to be placed again."""

    def __init__(self, job: RunningJob, records: Sequence[PodRecord]) -> None:
        self.job = job
        self.leaf = job.leaf
        gone = {record.pod.uid for record in records}
        self.records = [record for record in job.records if record.pod.uid in gone]

    def next_records(self) -> list[PodRecord]:
        """As many as it lacks to its minimum, else one."""
        active = len(self.job.records) - len(self.records)
        return self.records[: max(1, self.job.least - active)]


def _earlier(heads: dict[QueueNode, Item], others: dict[QueueNode, Item]) -> dict[QueueNode, Item]:
    """The first unit of each leaf."""
    for leaf, item in others.items():
        if leaf not in heads or item.key < heads[leaf].key:
            heads[leaf] = item
    return heads


def _without(jobs: Iterable[RunningJob], uids: set[str]) -> Iterator[RunningJob]:
    """The jobs without some of their pods."""
    for job in jobs:
        records = [record for record in job.records if record.pod.uid not in uids]
        if records:
            yield job if len(records) == len(job.records) else RunningJob(job.leaf, job.least, records)
