"""Room for units of queues that found no node: by moving pods, by reclaiming a share, by preemption inside a queue.

One search serves all three. Victims are added in the reverse order of placing until the unit fits and the result is
allowed; victims are placed again in the same what-if, and one that finds a place has only moved. The whole round is one
statement on the state as it will be once all that leave are gone; nothing is ordered before it is proven in there.
A round that is told to end keeps what it has found, and knows what need not be tried again by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf

from moorage.core.arrays import Rows
from moorage.core.disruption.away import GONE, Away
from moorage.core.disruption.claims import free_abandoned
from moorage.core.disruption.ledger import STRICT, DisruptionReason, least_run_s
from moorage.core.pods import Pod, as_pending
from moorage.core.quantity import fineness
from moorage.core.queueorder import shortage, within
from moorage.core.queuereasons import running_since_s
from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.reclaiming import NOW, Loss, allowed, may_reclaim, parting
from moorage.core.state import PodRecord
from moorage.engine.budgetguard import BudgetGuard
from moorage.engine.contest import Contest
from moorage.engine.context import EngineContext
from moorage.engine.departures import RoundDepartures
from moorage.engine.domainroom import DomainRoom
from moorage.engine.gangvictims import GangVictims
from moorage.engine.refusals import Kind, Refusals, kind_of_claimant
from moorage.engine.roomefforts import SearchPart
from moorage.engine.roommemory import RoomMemory
from moorage.engine.roomparts import (
    Allowed,
    Claimant,
    ClaimPlan,
    Held,
    Order,
    Returning,
    always,
    enough_free,
    frees_enough,
    is_plain,
    largest_part,
    movable,
    nothing,
)
from moorage.engine.roomplacing import RoomPlacing
from moorage.engine.roomprospects import RoomProspects
from moorage.engine.roomrights import RoomRights
from moorage.engine.sharedjobs import (
    RunningJob,
    StandingJob,
    Standings,
    VictimOrder,
    VictimPool,
    VictimUnit,
    jobs_of,
    without,
)
from moorage.engine.sharing import Sharing
from moorage.engine.trial import Trial
from moorage.engine.units import Unit

_MOST_TRIES = 512
"""How many sets of victims are tried for one pod."""
_LEAST_TRIES = 8
"""How many are tried even if the round should end: a search that gets nowhere in any round would never succeed."""
_FEW_MEMBERS = 8
"""Up to so many pods, all are placed again with every victim that is added."""
_MOST_PER_TRY = 64
"""One set of victims is tried at least for so many units that wait, even if the round should end: every turn looks at
all of them, and the more there are the fewer turns there may be.
"""
_MOST_ANEW = 256
"""How many of the units that still wait are placed with those that got room."""
_MOST_CONTESTS = 8
"""How often they compete without kinds of units that may not have what they got."""

_Place = Callable[[Claimant, Sequence[VictimUnit], Away], dict[str, str] | None]


class RoomRound:
    """One round of making room."""

    def __init__(
        self,
        context: EngineContext,
        sharing: Sharing,
        now: float,
        memory: RoomMemory,
        refusals: Refusals,
    ) -> None:
        self._refusals, self._memory, self._efforts = refusals, memory, memory.efforts
        self.undone = False
        """Whether the next round would take back what this one gives; then the refusals say so."""
        self._stretch, self._foresees = SearchPart(0, inf), False
        """Whether this is the round after the one that is being made."""
        self._hopeless = memory.hopeless
        """What has been tried in vain, and for whom, in the state that the round starts with; grows with the round."""
        self.vain: set[tuple[str, Kind]] = set()
        """What had been tried when something first helped, and what that was: hopeless, too, if nothing comes of it."""
        self.cut = False
        """Whether the round was told to end before everything had been tried."""
        self._tries = 0
        """How many searches there were, and sets of victims that were tried."""
        self._least = 1
        """How many there have to be before the round ends early."""
        self._context = context
        self._state = context.state
        self._ledger = context.state.queues
        self._sharing = sharing
        self._now = now
        self._min_runtime_s = context.turnover.least_s(sharing.min_runtime_s, now)
        self._trial = Trial(context, now)
        self._placing, self._prospects = RoomPlacing(context.state, self._trial), RoomProspects(context.state, sharing)
        self._guard = BudgetGuard(context.state, now)
        self._served: list[Claimant] = []
        """Units that got room; a later one may have taken it from them."""
        self._given: list[Claimant] = []
        """Units that got room in the round before the one that is foreseen."""
        self._promised: set[str] = set()
        """Pods that were promised a node before."""
        self._departures = RoundDepartures(context.state, self._trial, self._placing)
        """Pods that had to leave their nodes."""
        self.ripe_s = inf
        """When the first pod has run for long enough that was spared because it has not."""
        self.spared: set[str] = set()
        """Pods that were spared because they are on their way to a node."""
        self._recorded: list[VictimUnit] = []
        """The victims of the last try that was a solution."""
        self._pool: VictimPool | None = None
        """What may be taken, from the first search on."""

    def make(self, units: Sequence[Unit], looks: int) -> list[Order]:
        """What can be done for these units; so many looks at what the next round would do. The state is as before."""
        suited = partial(self._memory.suited, next_pods=self._sharing.next_pods, could_fit=self._could_fit)
        if not self._memory.worth:
            with self._state.statement():
                self._look_ahead()
                hopeful = self._prospects.hopeful(units, self._next)
            if not suited(hopeful):
                return []
            self._memory.worth = True
        units = suited(units)
        self._least += len(units) // _MOST_PER_TRY
        with self._state.statement():
            self._look_ahead()
            self._pass(units)
            while looks and self._departures.leaving() and not self.cut and self._foresee(units):
                looks -= 1
            return self._departures.orders(self._served, lambda pod: self._sharing.member(pod).leaf)

    def _could_fit(self, unit: Unit, pod: Pod) -> bool:
        leaf = self._sharing.member(unit.pod).leaf
        if leaf is not None:
            self._efforts.looked(leaf)
        return self._trial.could_fit(pod)

    def _pass(self, waiting: list[Unit]) -> None:
        self._prospects.changed()
        for step in (self._promise, self._consolidate, self._reclaim, self._preempt):
            waiting = self._serve(waiting, step)
        self._place_anew(waiting)
        self._departures.go_home()
        self._prospects.changed()

    def _foresee(self, units: Sequence[Unit]) -> bool:
        """Play the next round. Units that lose their room in it get none; if some only move, they go there at once.

        Returns whether they do, so that the round after the next one has to be looked at.
        """
        given, departures, hopeless, refusals = self._standing(), self._departures, self._hopeless, self._refusals
        before = {entry.pod.uid: departures.node_of(entry.pod.uid) for each in given for entry in each.entries}
        self._served, self._departures, self._hopeless = (
            [],
            RoundDepartures(self._state, self._trial, self._placing),
            set(),
        )
        self._given, self._pool, self._refusals = given, None, Refusals()  # the next round knows of none
        self._foresees = True
        with self._state.statement() as what_if:
            self._pass([unit for unit in units if self._sharing.next_pods(unit)])
            left = {uid: node for uid in before if (node := departures.node_of(uid))}
            moves = len(left) == len(before) and left != before and not self.cut
            if moves:
                what_if.commit()
                departures.add(self._departures, before)
        kept = [each for each in given if all(entry.pod.uid in left for entry in each.entries)]
        self._foresees = False
        self._departures, self._hopeless, self._given, self._refusals = departures, hopeless, [], refusals
        self._served = [*given, *self._served] if moves else given
        self.undone = not self.cut and refusals.learn(given, kept)
        return moves

    def _refused(self, claimant: Claimant) -> bool:
        """Whether as many units like this one have got room as would keep it."""
        kind = kind_of_claimant(claimant)
        most = self._refusals.most(kind)
        return most is not None and sum(kind_of_claimant(each) == kind for each in self._standing()) >= most

    def _standing(self) -> list[Claimant]:
        """Units that got room and still have it."""
        node_of = self._departures.node_of
        served = (*self._given, *self._served)
        return [each for each in served if all(node_of(entry.pod.uid) for entry in each.entries)]

    def _look_ahead(self) -> None:
        """The state once everything that leaves is gone and nominated pods are where they are promised to be."""
        state, leaving = self._state, list[PodRecord]()
        for record in state.records():
            if record.pod.deleted_s is not None or state.evictions.evicting(record.pod.uid):
                leaving.append(record)
        Away(state).take(leaving, GONE)
        free_abandoned(state)
        for pod in list(state.nominations.pods()):
            row = state.row_of(state.nominations.node_of(pod.uid) or "")
            if row is not None and state.record(pod.uid) is None:
                self._trial.hold(pod, row)
                self._promised.add(pod.uid)

    def _serve(self, units: Iterable[Unit], step: Callable[[Claimant], bool]) -> list[Unit]:
        """Try one way for all units in their order; those that are still without a node."""
        if self._is_over():
            return list(units)
        order, left = self._sharing.order(units), list[Unit]()
        turns: Counter[str] = Counter()
        while not self._is_over() and (item := order.pop()) is not None:
            _, _, unit, need, _ = item
            claimant = self._claimant(unit, need)
            what = step.__name__, kind_of_claimant(claimant)
            open_ = claimant.entries and what not in self._hopeless and not self._refused(claimant)
            if open_ and not (self._tries and self._ends() and self._is_over()):
                if self._helps(step, what, claimant):
                    self._prospects.changed()
                    self.vain = self.vain or {*self._hopeless, what}
                    self._hopeless.clear()
                    turns[unit.uid] += 1
                    more = bool(self._sharing.next_pods(unit))  # each competes with all others
                    if more and turns[unit.uid] < len(unit.members):
                        order.push(claimant.leaf, self._sharing.item(unit))
                    elif more:  # others keep taking its room, and it theirs
                        left.append(unit)
                    continue
                self._prospects.failed()
            left.append(unit)
        return [*left, *order.rest()]

    def _helps(self, step: Callable[[Claimant], bool], what: tuple[str, Kind], claimant: Claimant) -> bool:
        """Try one way for one unit, if that is worth it and its leaf may; what is in vain is noted."""
        efforts, leaf, before = self._efforts, claimant.leaf, self._tries
        if self._prospects.could(what[0], claimant):
            still = not self._served and not self._foresees
            if not efforts.allows(leaf, what, still=still):
                self.cut = efforts.goes_on(leaf) or self.cut
                return False
            most = efforts.left(leaf, still=still) if len(claimant.entries) == 1 else inf
            self._stretch = SearchPart(0 if self._foresees or most == inf else efforts.behind(leaf, what), most)
            if step(claimant):
                return True
            efforts.charge(leaf, self._tries - before)
            if self._stretch.paused:
                efforts.pause(leaf, what, self._stretch.passed)
                self.cut = efforts.goes_on(leaf) or self.cut
                return False
        efforts.vain(leaf, what)
        if not self.cut or not self._served:
            self._hopeless.add(what)
        return False

    def _is_over(self) -> bool:
        """Whether the round was told to end, and has got a little further."""
        return self.cut and self._tries >= self._least

    def _ends(self) -> bool:
        self.cut = self._context.stopped() or self.cut
        return self.cut

    def _place_anew(self, waiting: Sequence[Unit]) -> None:
        """Place all that has got room or has lost it once more, in the order of queues, with the others that wait.

        Room that is made may go to another unit than the one that made it, if that one could have made it, too; and
        what would be taken back in the next round is not taken at all.
        """
        away, made, barred = self._departures.nowhere(), self._served, set[Kind]()
        makers = {each.unit.uid: number for number, each in reversed([*enumerate(made)])}
        before = self._places(made)
        for _ in range(_MOST_CONTESTS if away else 0):
            with self._state.statement() as what_if:
                self._compete(waiting, away, barred)
                same = self._places(self._served) == before
                served = sorted(self._served, key=lambda each: makers.get(each.unit.uid, len(made)))
                rights = RoomRights(self._sharing, self._trial, self._placing, self._departures)
                wrong = [] if same else rights.without(served)
                if not wrong:
                    what_if.commit()
                    return
            self._served, self._pool = made, None
            if any(each.unit.uid in makers for each in wrong):
                return
            barred |= set(map(kind_of_claimant, wrong))

    def _places(self, claimants: Iterable[Claimant]) -> dict[str, str]:
        return {entry.pod.uid: self._departures.node_of(entry.pod.uid) for each in claimants for entry in each.entries}

    def _compete(self, waiting: Iterable[Unit], away: Iterable[PodRecord], barred: Container[Kind]) -> None:
        """All that has got room or has lost it competes for it, but for kinds that may not have it.

        A gang that lost pods gets these back before it gets others instead.
        """
        units = {each.unit.uid: each.unit for each in self._served}
        takers = {each.leaf for each in self._served if each.reclaims}
        for uid in [entry.pod.uid for each in self._served for entry in each.entries]:
            self._trial.let_go(uid)
        back = [Returning(*each) for each in jobs_of(self._state, self._sharing, away)]
        later: dict[object, list[Unit]] = {}
        losing = {each.gang for each in back} - {None}
        self._served = []
        order = self._sharing.order(waiting)
        units |= {item[2].uid: item[2] for item in islice(iter(order.pop, None), _MOST_ANEW) if item is not None}
        for unit in self._contestants(units.values(), takers):
            later.setdefault(unit.gang if unit.gang in losing else None, []).append(unit)
        nodes: dict[str, str] = {}
        contest = self._contest([*back, *map(self._next, later.pop(None, ()))])
        while (job := contest.first()) is not None:
            if isinstance(job, Returning):
                returned = self._return(job, nodes, self._departures.pods, home_first=True)
                others = () if job.records else map(self._next, later.get(job.gang, ()))
                contest.done(job, *([job] if returned and job.records else others))
            elif not job.entries or self._is_out(job, barred) or not self._promise(job):
                contest.discard(job.leaf, partial(self._differs, kind_of_claimant(job)))  # room only gets less
            else:
                contest.done(job, *([self._next(job.unit)] if self._sharing.next_pods(job.unit) else ()))

    def _is_out(self, job: Claimant, barred: Container[Kind]) -> bool:
        return kind_of_claimant(job) in barred or self._refused(job)

    def _contestants(self, units: Iterable[Unit], takers: Container[QueueNode]) -> Iterator[Unit]:
        """Units that stand for their queues. Of a queue that takes back a share, only those do that there is room for:
        what is given to others on account of a unit that cannot start would be taken back again, without end.
        """
        fits: dict[Kind, bool] = {}
        for unit in units:
            claimant = self._next(unit)
            kind = kind_of_claimant(claimant)
            if kind not in fits:
                fits[kind] = claimant.leaf not in takers or self._fits(claimant)
            if fits[kind]:
                yield unit

    def _fits(self, claimant: Claimant) -> bool:
        return bool(claimant.entries) and self._try(claimant, [], always) is not None

    def _next(self, unit: Unit) -> Claimant:
        return self._claimant(unit, self._sharing.next_need(unit))

    def _differs(self, kind: Kind, job: Claimant | Returning) -> bool:
        return isinstance(job, Returning) or kind_of_claimant(job) != kind

    def _claimant(self, unit: Unit, need: Amounts) -> Claimant:
        member = self._sharing.member(unit.pod)
        if member.leaf is None:
            raise LookupError(f"{unit.uid} belongs to no queue")
        entries = self._sharing.next_pods(unit)
        priority = -int(self._sharing.unit_key(unit)[0])
        return Claimant(unit, member.leaf, entries, need, member.preemptible, priority)

    # --- the ways ---

    def _promise(self, claimant: Claimant) -> bool:
        """Room that others are about to leave."""
        return self._conclude(claimant, self._try(claimant, [], always), "")

    def _consolidate(self, claimant: Claimant) -> bool:
        """Move pods that all find a place again."""
        if not claimant.preemptible or not self._sharing.terms(claimant.unit.pod).consolidate:
            return False
        if not enough_free(self._state, claimant.need):
            return False
        pool = self._victims()
        plan = self._search(claimant, {each: movable(pool.standing(each)) for each in pool.leaves}, nothing)
        return self._conclude(claimant, plan, "moved so that another pod fits")

    def _reclaim(self, claimant: Claimant) -> bool:
        """Take back from other leaves what the leaf may have."""
        leaf, need = claimant.leaf, claimant.need
        if not may_reclaim(leaf, need, preemptible=claimant.preemptible):
            return False
        multiplier = self._sharing.terms(claimant.unit.pod).reclaim_multiplier

        def fair(part: Claimant, lost: list[VictimUnit], before: Held) -> bool:
            losses = [Loss(unit.job.leaf, unit.amounts) for unit in lost]
            return allowed(leaf, part.need, losses, multiplier, preemptible=part.preemptible, before=before)

        pool = self._victims()
        victims = {
            each: self._ripe(pool.standing(each), least_run_s(parting(leaf, each)[1].path, DisruptionReason.RECLAIM))
            for each in pool.leaves
            if each is not leaf
        }
        plan = self._search(claimant, victims, fair)
        claimant = claimant._replace(reclaims=plan is not None and bool(plan.lost))
        return self._conclude(claimant, plan, f"reclaimed for queue {leaf.name}")

    def _preempt(self, claimant: Claimant) -> bool:
        """Evict less important pods of the same leaf."""
        leaf = claimant.leaf
        if not claimant.preemptible and not all(within(n.fixed, claimant.need, n.quota) for n in leaf.path):
            return False
        gang = claimant.unit.gang  # members of different priorities do not replace each other
        lower = [
            each
            for each in self._victims().standing(leaf)
            if -int(each.key[0]) < claimant.priority and (gang is None or each.job.pod.template.gang != gang)
        ]
        victims = {leaf: self._ripe(lower, least_run_s(leaf.path, DisruptionReason.PREEMPT))}
        plan = self._search(claimant, victims, always)
        return self._conclude(claimant, plan, f"preempted by a more important pod of queue {leaf.name}")

    def _victims(self) -> VictimPool:
        if self._pool is None:
            self._pool = VictimPool(self._state, self._sharing, self._preemptible)
        return self._pool

    def _preemptible(self, record: PodRecord) -> bool:
        """Pods on their way to a node are left alone; those that got room in this round are not."""
        uid = record.pod.uid
        if self._context.bindings.get(uid) is not None:
            self.spared.add(uid)
            return False
        return uid not in self._promised and self._sharing.member(record.pod).preemptible

    def _ripe(self, jobs: Sequence[StandingJob], said_s: float | None) -> Sequence[StandingJob]:
        """Jobs that have run for as long as their queues say, if they do; of younger ones only what they have above
        their minimum.
        """
        since_s = self._placed_s if said_s is None else self._runs_since_s
        found, ripe_s = self._victims().ripe(
            jobs, since_s, self._min_runtime_s if said_s is None else said_s, self._now
        )
        self.ripe_s = min(self.ripe_s, ripe_s)
        return found

    def _placed_s(self, record: PodRecord) -> float:
        return self._context.turnover.placed_s.get(record.pod.uid, -inf)

    def _runs_since_s(self, record: PodRecord) -> float:
        return running_since_s(record.pod, self._now)

    # --- the search ---

    def _search(self, claimant: Claimant, victims: Standings, check: Allowed) -> ClaimPlan | None:
        """Victims for the pods: such that no budget is violated, if there are any; else others, if there may be."""
        self._tries += 1
        if self._served and (plan := self._try(claimant, [], always)) is not None:
            return plan  # others have left enough
        guard = self._guard
        guard.on = guard.matters
        plan = self._find(claimant, victims, check)
        if plan is None and guard.on and self._sharing.terms(claimant.unit.pod).pdb_policy != STRICT:
            guard.on = False
            plan = self._find(claimant, victims, check)
        return plan

    def _find(self, claimant: Claimant, victims: Standings, check: Allowed) -> ClaimPlan | None:
        """Victims for the pods one after another, each time starting with those found so far."""
        domains = self._placing.domains([entry.pod for entry in claimant.entries])
        if domains is not None:
            return self._search_domains(claimant, domains, victims, check)
        if len(claimant.entries) > _FEW_MEMBERS:
            grown = self._grow(claimant, victims, check)
            return None if grown is None else self._try(claimant, grown, check)
        found: ClaimPlan | None = None
        recorded: list[VictimUnit] = []
        for count in range(1, len(claimant.entries) + 1):
            found = self._extend(self._part(claimant, count), victims, recorded, check)
            if found is None:
                return None
            recorded = self._recorded
        return found

    def _search_domains(
        self, claimant: Claimant, domains: Sequence[Rows], victims: Standings, check: Allowed
    ) -> ClaimPlan | None:
        tree = self._ledger.settle(self._state)
        names = tree.resources
        columns = [self._state.resources.known(name) for name in names]
        need = [(index, -(-amount // fineness(names[index]))) for index, amount in claimant.need]
        room = DomainRoom(self._state, victims, lambda units: self._try(claimant, units, check), self._ends)
        return room.find(domains, need, columns, lambda inside: VictimOrder(self._sharing, tree, inside))

    def _part(self, claimant: Claimant, count: int) -> Claimant:
        entries = claimant.entries[:count]
        return claimant._replace(entries=entries, need=self._sharing.need([entry.pod for entry in entries]))

    def _extend(
        self, part: Claimant, victims: Standings, recorded: list[VictimUnit], check: Allowed
    ) -> ClaimPlan | None:
        plan = self._attempt(part, recorded, check) if recorded else None
        if plan is not None:
            return plan
        known = {record.pod.uid for unit in recorded for record in unit.records}
        touching: dict[str, list[VictimUnit]] = {}
        sure = len(part.entries) == 1 and is_plain(self._state, part.entries[0].pod)
        tries, left = 0, without(victims, self._sharing, known) if known else victims
        for unit in VictimOrder(self._sharing, self._ledger.settle(self._state), left):
            nodes = [n for n in unit.nodes if not self._guard.protects([*recorded, *touching.get(n, ()), unit])]
            for node in nodes:
                touching.setdefault(node, []).append(unit)
            for node in nodes:
                if tries and sure and not self._could_hold(part.entries[-1].pod, node, touching[node]):
                    continue
                tries += 1
                if tries > _MOST_TRIES or self._stretch.ends(told=self._ends() and tries > _LEAST_TRIES):
                    return None
                if self._stretch.is_behind():
                    continue
                plan = self._attempt(part, [*recorded, *touching[node]], check)
                if plan is not None:
                    return plan
        return None

    def _grow(self, claimant: Claimant, victims: Standings, check: Allowed) -> list[VictimUnit] | None:
        """The same for many pods: those that have a place keep it while the next one gets its own."""
        tree = self._ledger.settle(self._state)
        if not claimant.preemptible and not all(within(n.fixed, claimant.need, n.quota) for n in claimant.leaf.path):
            return None
        before = {node: list(node.allocated) for leaf in (claimant.leaf, *victims) for node in leaf.path}
        lost, need = list[VictimUnit](), Counter[int]()

        def place(pod: Pod) -> bool:
            need.update(dict(self._sharing.need([pod])))
            return self._trial.place(pod) is not None

        def take(pod: Pod, units: list[VictimUnit]) -> bool:
            part = claimant._replace(need=tuple(need.items()), preemptible=True)
            with self._state.statement() as what_if:
                gone = self._replace(pod, units)
                if gone is None or not check(part, [*lost, *gone], before):
                    return False
                what_if.commit()
            lost.extend(gone)
            return True

        order = self._guard.pass_on(VictimOrder(self._sharing, tree, victims))
        search = GangVictims(order, place, self._could_hold, take, self._enough)
        with self._state.statement():
            return search.find([entry.pod for entry in claimant.entries])

    def _could_hold(self, pod: Pod, node: str, units: Sequence[VictimUnit]) -> bool:
        """Whether a try is worth it: the pod may fit on the node once these are gone, or into a limit of its queues."""
        demand = self._ledger.about(pod).demand
        short = None if demand.leaf is None else shortage(demand.leaf, self._sharing.need([pod]), preemptible=True)
        if short is not None and any(short[0] in unit.job.leaf.path for unit in units):
            return True  # and then start on any node
        return frees_enough(self._state, pod, node, units)

    def _enough(self, tries: int) -> bool:
        return tries >= _MOST_TRIES or (self._ends() and tries >= _LEAST_TRIES)

    def _replace(self, pod: Pod, units: Sequence[VictimUnit]) -> list[VictimUnit] | None:
        """Place a pod instead of these, and of them what still fits; what does not, None if the pod has no place."""
        self._tries += 1
        away = self._clear(record for unit in units for record in unit.records)
        if self._trial.place(pod) is None:
            return None
        nodes: dict[str, str] = {}
        for unit in reversed(units):
            back = Returning(unit.job, unit.records)
            while back.records and self._return(back, nodes, away, home_first=True):
                pass
        return self._lost(units, nodes)

    def _clear(self, records: Iterable[PodRecord]) -> Away:
        away = self._trial.away()
        for record in records:
            self._departures.expect(record.pod, value=True)
            away.take((record,), GONE)
        return away

    def _lost(self, units: Sequence[VictimUnit], nodes: Mapping[str, str]) -> list[VictimUnit]:
        """What found no place again."""
        return [
            VictimUnit(unit.job, gone, self._sharing.need([record.pod for record in gone]))
            for unit in units
            if (gone := tuple(record for record in unit.records if record.pod.uid not in nodes))
        ]

    def _attempt(self, part: Claimant, victims: list[VictimUnit], check: Allowed) -> ClaimPlan | None:
        plan = self._try(part, victims, check)
        if plan is not None:
            self._recorded = victims
        return plan

    def _try(self, part: Claimant, victims: list[VictimUnit], check: Allowed) -> ClaimPlan | None:
        """Take the victims away, place the pods and the victims in their order; None if that is no solution.

        Where nobody may lose anything, no order has to be kept: then the pods may come first, too.
        """
        self._tries += 1
        found = self._try_in_order(part, victims, check, self._place_all)
        return (
            self._try_in_order(part, victims, check, self._place_first) if found is None and check is nothing else found
        )

    def _try_in_order(
        self, part: Claimant, victims: list[VictimUnit], check: Allowed, place: _Place
    ) -> ClaimPlan | None:
        state = self._state
        homes = {record.pod.uid: record for unit in victims for record in unit.records}
        with state.statement():
            away = self._clear(homes.values())
            nodes = place(part, victims, away)
            if nodes is None:
                return None
            lost = self._lost(victims, nodes)
            stay = {uid for uid in homes if away.stays(uid)}
        if not check(part, lost, NOW):
            return None
        if self._guard.refuses(home.pod for uid, home in homes.items() if uid not in stay):
            return None
        placed = {uid: node for uid, node in nodes.items() if uid not in stay}
        return ClaimPlan(placed, lost, frozenset(homes.keys() & placed.keys()))

    def _place_all(self, part: Claimant, victims: Sequence[VictimUnit], away: Away) -> dict[str, str] | None:
        """Pod -> node of the unit's pods and of victims that found a place; None if the unit does not fit."""
        nodes: dict[str, str] = {}
        contest = self._contest([part, *_returning(victims)])
        placed = False
        while (best := contest.first()) is not None:
            if isinstance(best, Returning):
                back = self._return(best, nodes, away, home_first=placed)
                contest.done(best, *([best] if back and best.records else ()))
                continue
            placed = True
            found = self._placing.place([entry.pod for entry in best.entries], victims)
            if found is None:
                return None
            nodes.update(found)
            contest.done(best)
        return nodes if self._placing.may_start([entry.pod for entry in part.entries]) else None

    def _place_first(self, part: Claimant, victims: Sequence[VictimUnit], away: Away) -> dict[str, str] | None:
        """The same with the unit before the victims, of which the largest come first; None if they do not fit, too, or
        if the unit comes first anyway.
        """
        back, pods = _returning(victims), [entry.pod for entry in part.entries]
        if self._contest([part, *back]).first() is part:
            return None
        nodes = self._placing.place(pods, victims)
        total = self._ledger.tree.total
        for job in sorted(back, key=lambda job: -largest_part(self._need(job), total)):
            while nodes is not None and job.records:
                nodes = nodes if self._return(job, nodes, away, home_first=True) else None
        return nodes if nodes is not None and self._placing.may_start(pods) else None

    def _contest(self, jobs: Iterable[Claimant | Returning]) -> Contest[Claimant | Returning]:
        return Contest(jobs, self._ledger.tree.total, self._key, self._need)

    def _return(self, job: Returning, nodes: dict[str, str], away: Away, *, home_first: bool) -> bool:
        """Place the next pods of a victim again, all or none."""
        records = job.next_records()
        with self._state.statement() as what_if:
            for record in records:
                self._departures.expect(record.pod, value=False)
            found = self._placing.place_again(records, away, home_first=home_first)
            if found is None:
                return False
            what_if.commit()
        nodes.update(found)
        job.records = job.records[len(records) :]
        return True

    def _key(self, job: Claimant | Returning) -> tuple[object, ...]:
        if isinstance(job, Claimant):
            return self._sharing.unit_key(job.unit)
        return self._sharing.pod_key(job.job.pod, len(job.job.records) - len(job.records) + job.job.spared)

    def _need(self, job: Claimant | Returning) -> Amounts:
        return job.need if isinstance(job, Claimant) else self._sharing.need([r.pod for r in job.next_records()])

    # --- the result ---

    def _conclude(self, claimant: Claimant, plan: ClaimPlan | None, why: str) -> bool:
        """Keep a solution for the rest of the round."""
        if plan is None:
            return False
        own = {entry.pod.uid for each in self._served for entry in each.entries}
        leaving = [record.pod.uid for unit in plan.lost for record in unit.records]
        touched = {entry.pod.uid: entry.pod for entry in claimant.entries}
        leaving += (uid for uid in plan.placed if uid in plan.moves)
        for record in filter(None, map(self._state.record, leaving)):
            if self._departures.note(record, claimant.unit, why, stood=record.pod.uid not in own):
                self._guard.spend(record.pod)
            touched[record.pod.uid] = record.pod
        for uid, node in plan.placed.items():
            self._settle(as_pending(touched[uid]) if uid in plan.moves else touched[uid], node)
        if self._pool is not None:
            for pod in touched.values():
                self._pool.note(pod)
        self._served.append(claimant)
        return True

    def _settle(self, pod: Pod, node: str) -> None:
        row = self._state.row_of(node)
        if row is not None:
            self._departures.expect(pod, value=False)
            self._trial.hold(pod, row)


def _returning(victims: Iterable[VictimUnit]) -> list[Returning]:
    """The jobs of victims; those of a later pod know their job without what was taken for earlier ones."""
    out: dict[object, tuple[RunningJob, list[PodRecord]]] = {}
    for unit in victims:
        job = unit.job
        out.setdefault((job.leaf, job.pod.template.gang or job.pod.uid), (job, []))[1].extend(unit.records)
    return [Returning(job, records) for job, records in out.values()]
