"""Carries out what `sharedroom` has found: evictions and promises; and remembers which pods are expected back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

from moorage.core.commands import PatchPodStatus
from moorage.core.disruption.ledger import WINDOW_S, EvictionLimits, owner_of
from moorage.core.pods import Pod, as_pending
from moorage.core.queuereasons import reclaim_reason
from moorage.core.queueusage import UsageRecord, UsageTerms
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.brokenpromises import BrokenPromises
from moorage.engine.context import EngineContext
from moorage.engine.evictor import SHARES, ref_of
from moorage.engine.gangturns import GangTurns
from moorage.engine.lifecycle import BACKOFF, BINDING, READY
from moorage.engine.roomaskings import Askings
from moorage.engine.roomefforts import RoomEfforts
from moorage.engine.roommemory import RoomMemory
from moorage.engine.roomparts import Order
from moorage.engine.settling import make_room
from moorage.engine.sharing import Sharing
from moorage.engine.stalegangs import StaleGangs
from moorage.engine.turn import Turn
from moorage.engine.units import Unit
from moorage.framework.contract import QueueSortPlugin, SharesQueues

_EXPECTED_S = 60.0
"""How long an evicted pod counts as asking for what it had: its controller usually replaces it sooner."""
SUCCESSOR = "successor:"
"""How the uids of pods begin that are expected back, and for which places are kept."""
_CALM_S = 0.1
"""For how long nobody claims room if nothing happens: units lose their patience then."""
_PATIENCE_S = 1.0
"""How long a round waits for binds that are in flight."""


class Evicted(NamedTuple):
    """A pod that was evicted and is expected to come back."""

    owner: str
    pod: Pod
    until_s: float
    successor: str = ""
    """The uid under which a place elsewhere is kept for it; empty if there is none."""


class MakingRoom:
    """Makes room for units of queues, round by round."""

    def __init__(self, context: EngineContext, turns: Callable[[], GangTurns]) -> None:
        """`turns` knows for which gang room is kept."""
        self._context = context
        self._state = context.state
        self._turns = turns
        self._sharing: Sharing | None = None
        self._seen: tuple[object, ...] = ()
        """What the last round was made for; another one would end like it, unless that one is unfinished."""
        self._efforts = RoomEfforts()
        self._askings = Askings(context)
        self._memory = RoomMemory(self._efforts)
        """What that round has found out about its state, if it is unfinished."""
        self.unfinished = False
        """Whether the last round was told to end early: the next call goes on."""
        self.expected: dict[str, Evicted] = {}
        """Evicted pods that are expected to come back, by uid."""
        self._again_s = inf
        """When another round may end differently even if nothing happens."""
        self._spared: set[str] = set()
        """Pods on their way to nodes that the last round has left alone."""
        self._waits_s: float | None = None
        """Since when a round has waited for binds; None if none does."""
        self._calm: tuple[object, ...] = ()
        """When no unit claimed room; empty if one did."""
        self._calm_until_s = -inf
        """Until when that is not looked at again while this is the same."""
        self._look_s = -inf
        """When units that wait for others to end are looked at again even if nothing happens."""
        self._broken = BrokenPromises(context.state)
        self._written: set[str] = set()
        """Waiting pods whose promise was written, and not withdrawn since; the watch may not have shown it yet."""
        self.rounds = 0
        """How many rounds were made so far."""
        self.stale = StaleGangs(context)
        self.usage = UsageRecord()
        """What queues used lately."""

    def equip(self, sort: QueueSortPlugin) -> None:
        """Follow the profiles in force; `sort` orders the units of a leaf."""
        context = self._context
        knows = any(runner.plugins.first(SharesQueues) for runner in context.runners.values())
        self._sharing = context.sharing = Sharing(context, sort, self._turns) if knows else None
        context.queue.shared = self._sharing if self._state.queues.active else None
        self._seen = self._calm = ()
        self._askings.clear()
        self._efforts.clear()
        self.usage.follow(UsageTerms() if self._sharing is None else self._sharing.usage_terms)
        self._count_usage()

    def pass_time(self, now: float) -> None:
        """Note what queues have, from time to time, where it matters how much they used."""
        if not self._state.queues.active:
            self.usage.samples.clear()
        elif self.usage.due(now):
            self.usage.take(self._state.queues.settle(self._state), now)
            self._count_usage()
            self._seen = ()

    def _count_usage(self) -> None:
        self._state.queues.tree.used(self.usage.terms.factor, self.usage.usage())

    def follow(self, now: float) -> None:
        """A queue came, went or changed: with the first one queues decide on the order, with the last one no more."""
        if self._share():
            self._context.queue.restart(now)

    def _share(self) -> bool:
        """Whether there are queues decides on who sorts units; returns whether that is another one now."""
        queue, active = self._context.queue, self._state.queues.active
        if (queue.shared is not None) == (active and self._sharing is not None):
            return False
        queue.shared = self._sharing if active else None
        queue.tidy()
        return True

    def tidy(self) -> None:
        """Count again what waits and is expected, after an image was read; the next round starts afresh in both."""
        self._share()
        self._seen, self._calm, self.unfinished, self._waits_s = (), (), False, None
        self._broken.clear()
        self._efforts.clear()
        self._askings.clear()
        self._count_usage()
        queues, nominations = self._state.queues, self._state.nominations
        self._written = {pod.uid for pod in nominations.pods()}
        for pod in nominations.pods() if queues.active else ():
            queues.promise(pod)
        for evicted in self.expected.values():
            if not evicted.successor:
                queues.expect(evicted.pod, value=True)

    def make(self, turn: Turn) -> bool:
        """Make room where that is possible; returns whether units may be tried at once."""
        if self._sharing is None:
            return False
        first = next(iter(self._sharing.wanting.values()), None)
        if first is not None and not self.unfinished and self._awaits_binds(first, turn.now):
            return False
        if self._calm == self._claims() and turn.now < self._calm_until_s:
            return False
        waiting = self._sharing.waiting()
        promised = self._state.nominations.count > 0  # who stands in line is promised nothing
        withdrawn = [pod for unit in waiting if not unit.line for pod in self._withdraw(unit)] if promised else []
        self._broken.keep(self._context.queue.find)
        claiming = self._claiming(waiting, turn.now)
        calm = not (claiming or withdrawn or self._broken)
        self._calm, self._calm_until_s = self._claims() if calm else (), min(turn.now + _CALM_S, self._look_s)
        again = self._make(claiming, turn)
        for pod in withdrawn:
            if self._state.nominations.node_of(pod.uid) is None and (pod.nominated_node or pod.uid in self._written):
                self._written.discard(pod.uid)
                turn.commands.append(PatchPodStatus(ref_of(pod), nominated_node=""))
        self._written &= {uid for unit in waiting for uid in unit.members} if self._written else set()
        return again

    def _claiming(self, waiting: Iterable[Unit], now: float) -> list[Unit]:
        """The units that a round is about: they are promised nothing, no promise to them failed, and they do not wait
        for pods that end by themselves.
        """
        promised, bars = self._promised, self._broken.bars
        if self._state.nominations.count or self._broken:
            waiting = [unit for unit in waiting if not bars(unit) and (unit.line or not promised(unit.members))]
        if not self._context.turnover.ends:
            return [*waiting]
        known: dict[int, bool] = {}  # by line: what is alike waits alike, with the first
        found = []
        for unit in waiting:
            patient = known.get(unit.line) if unit.line else None
            if patient is None:
                patient = known[unit.line] = self._patient(unit, now)
            if not patient:
                found.append(unit)
        return found

    def _patient(self, unit: Unit, now: float) -> bool:
        """Whether a unit waits for pods that end by themselves; it is looked at again when they should have."""
        if self._sharing is None:
            return False
        wait_s = self._sharing.waits_s(unit, now)
        if wait_s > 0 and now >= self._look_s:
            self._look_s = now + wait_s
            self._context.set_alarm(self._look_s, unit)
        return wait_s > 0

    def room_for(self, unit: Unit | None, pod: Pod, now: float) -> tuple[str, tuple[str, ...]] | None:
        """What a round for this unit alone would find for one of its pods: its node, and who would have to leave."""
        if self._sharing is None or unit is None or not self._sharing.governs(pod):
            return None
        _, orders = make_room(self._context, self._sharing, now, RoomMemory(RoomEfforts(inf)), [unit])
        self._sharing.renew()
        for order in orders:
            if pod.uid in order.nodes:
                leaving = (record for uid in order.victims if (record := self._state.record(uid)) is not None)
                return order.nodes[pod.uid], tuple(record.pod.key for record in leaving)
        return None

    def _make(self, units: list[Unit], turn: Turn) -> bool:
        """The same for these units, which are promised nothing."""
        if self._sharing is None:
            return False
        same = bool(units) and self._seen == self._world(units) and turn.now < self._again_s and not self._arrived()
        more = self.unfinished or turn.now >= self._efforts.next_s
        if not units or (same and not more):
            self.unfinished = False
            self._memory.clear()
            if not units:  # otherwise leaves that are short go on when that is due
                self._efforts.rest()
            return False
        if not same:
            self._memory.clear()
            self._efforts.changed()
        self._waits_s = None
        self.rounds += 1
        chosen = self._choose(units, self._sharing, turn.now)
        room, orders = make_room(self._context, self._sharing, turn.now, self._memory, chosen)
        self._end_efforts(orders, self._sharing, cut=room.cut)
        self._again_s = min(room.ripe_s, self._again_s) if same else room.ripe_s
        self._spared = room.spared
        self.unfinished = room.cut
        done = 0
        for order in orders:
            if not self._held_back(order, turn.now):
                self._carry_out(order, turn)
                done += 1
        if room.cut and not done:  # otherwise the next call would do the same, and so on for ever
            self._memory.hopeless |= room.vain
        if not room.cut:
            self._memory.clear()
        self._sharing.renew()
        if self._again_s < inf:
            self._context.set_alarm(self._again_s, units[0])
        self._seen = self._world(self._claiming(self._sharing.waiting(), turn.now))
        return any(not order.victims and self._context.queue.soon(order.unit) for order in orders)

    def _choose(self, units: Sequence[Unit], sharing: Sharing, now: float) -> list[Unit]:
        """Those of the units that a round searches for now."""
        leaf_of, asking_of = (lambda unit: sharing.member(unit.pod).leaf), partial(self._askings.of, sharing=sharing)
        paced = self._context.paced
        return self._efforts.choose(units, now, leaf_of, sharing.unit_key, asking_of, paced=paced)

    def _end_efforts(self, orders: Iterable[Order], sharing: Sharing, *, cut: bool) -> None:
        served = {order.unit.uid for order in orders}
        self._efforts.ended(partial(self._askings.of, sharing=sharing), served, cut=cut)

    def _awaits_binds(self, first: Unit, now: float) -> bool:
        """Whether a round has to wait until pods of queues are on their nodes. One that leaves them alone may find
        nothing for a unit, and give what it would have got to units that come after it.
        """
        if not any(map(self._underway, self._context.bindings.all())):
            self._waits_s = None
            return False
        if self._waits_s is None:
            self._waits_s = now
            self._context.set_alarm(now + _PATIENCE_S, first)
        return now < self._waits_s + _PATIENCE_S

    def _underway(self, binding: BindingCycle) -> bool:
        """Whether a pod of a queue will soon be on its node, or will not."""
        state, gang = binding.entry.state, binding.gang
        ordered = state is BINDING or (state is READY and gang is not None and gang.recorder is not None)
        return ordered and self._state.queues.governs(binding.entry.pod.template)

    def _arrived(self) -> bool:
        """Whether a pod has reached its node since, or not, that was spared while it was on its way."""
        return any(self._context.bindings.get(uid) is None for uid in self._spared)

    def _world(self, units: Iterable[Unit]) -> tuple[object, ...]:
        pods = tuple((unit.uid, *(each.pod.template for each in unit.members.values())) for unit in units)
        return *self._places(), pods

    def _places(self) -> tuple[object, ...]:
        state = self._state
        logs = (state.pod_log.position, state.node_log.position, state.objects_version, state.nominations.position)
        return *logs, len(state.evictions.ordered)

    def _claims(self) -> tuple[object, ...]:
        """What has to change for a unit to claim room that claims none, but for the time."""
        return *self._places(), 0 if self._sharing is None else self._sharing.failures

    def _promised(self, uids: Iterable[str]) -> bool:
        if not self._state.nominations.count:
            return False
        node_of = self._state.nominations.node_of
        return any(node_of(uid) is not None for uid in uids)

    def _awaits(self, unit: Unit) -> bool:
        """Whether a unit that was promised nodes is still waiting for something to leave them."""
        state, node_of = self._state, self._state.nominations.node_of
        if state.evictions.holds(unit.uid):
            return True
        rows = {state.row_of(node) for uid in unit.members if (node := node_of(uid)) is not None}
        return any(
            record.pod.deleted_s is not None or state.evictions.evicting(record.pod.uid)
            for row in rows
            if row is not None
            for record in state.records_on(row)
        )

    def _withdraw(self, unit: Unit) -> list[Pod]:
        """A unit was tried and does not fit where it was promised a place: the leader that was to make room is gone, or
        another pod took it. It competes like others that wait. Its pods; what the round promises them is written over
        the old promise, as one that is seen withdrawn in between would end the new one.
        """
        if not self._promised(unit.members) or self._awaits(unit):
            return []
        if unit.gang is not None and unit.gang == self._turns().favoured:
            return []  # it gathers room
        if unit.state is BACKOFF and not self._context.queue.soon(unit):  # it was not tried since an error
            return []
        node_of = self._state.nominations.node_of
        pods = [entry.pod for entry in unit.members.values() if node_of(entry.pod.uid) is not None]
        nodes = {pod.uid: node for pod in pods if (node := node_of(pod.uid)) is not None}
        for pod in pods:
            self._context.end_nomination(pod.uid)
        self._broken.note(unit, nodes)
        return pods

    def _held_back(self, order: Order, now: float) -> bool:
        """Whether there have been too many evictions lately: the unit is looked at again when they are not any more."""
        if self._sharing is None or not order.victims:
            return False
        victims = [record.pod for uid in order.victims if (record := self._state.record(uid)) is not None]
        limits = EvictionLimits(self._sharing.terms(order.unit.pod).max_evictions_per_minute)
        refusal = self._state.disruptions.too_many(victims, SHARES, limits, now)
        if refusal is None:
            return False
        self._again_s = min(self._again_s, now + WINDOW_S if refusal.retry_s is None else refusal.retry_s)
        return True

    def _carry_out(self, order: Order, turn: Turn) -> None:
        unit, context, state = order.unit, self._context, self._state
        pods = (entry.pod for entry in unit.members.values() if entry.pod.uid in order.nodes)
        taker = next(pods, unit.pod)
        for uid, why in zip(order.victims, order.why, strict=True):
            record = state.record(uid)
            if record is not None:
                rule = "" if uid in order.moves else self._rule(unit.pod, record.pod)
                self._expect(record.pod, order.moves.get(uid), turn.now)
                context.evictor.evict(record.pod, taker, record.node, turn, unit.uid, why + rule, by=SHARES)
        for entry in list(unit.members.values()):
            node = order.nodes.get(entry.pod.uid)
            if node is not None:
                state.nominations.set(entry.pod, node)
        self._write(order, turn, awaited=self._awaits(unit))
        context.queue.step_out(unit, turn.now)
        if not order.victims:
            context.queue.wake(unit, turn.now)

    def _write(self, order: Order, turn: Turn, *, awaited: bool) -> None:
        """Tell others, and the next leader, for whom the nodes are. If nothing has to leave them, the unit is tried at
        once, and nobody has to know.
        """
        for entry in order.unit.members.values():
            node, said = order.nodes.get(entry.pod.uid), entry.pod.nominated_node
            if node not in (None, said) and (awaited or said):
                self._written.add(entry.pod.uid)
                turn.commands.append(PatchPodStatus(ref_of(entry.pod), nominated_node=node))

    def _rule(self, taker: Pod, victim: Pod) -> str:
        """The rule by which a pod of another queue has to go, as the end of a sentence; empty inside a queue."""
        queues = self._state.queues
        ours, theirs = queues.member(taker.template).leaf, queues.member(victim.template).leaf
        if ours is None or theirs is None or ours is theirs:
            return ""
        said = reclaim_reason(queues.settle(self._state), ours, theirs)
        return f", as {said}" if said else ""

    # --- evicted pods ---

    def _expect(self, pod: Pod, node: str | None, now: float) -> None:
        """A pod is evicted; one that only moves gets a place on another node kept for its successor."""
        evicted = Evicted(owner_of(pod), pod, now + _EXPECTED_S)
        if node is None:
            self._state.queues.expect(pod, value=True)
        else:
            evicted = evicted._replace(successor=SUCCESSOR + pod.uid)
            self._state.queues.stand(pod, leaving=True)
            self._state.nominations.set(replace(as_pending(pod), uid=evicted.successor), node)
        self.expected[pod.uid] = evicted

    def came_back(self, pod: Pod) -> None:
        """A new pod waits: it may be what was evicted, and gets the place that was kept for it."""
        if not self.expected:
            return
        owner = owner_of(pod)
        for uid, evicted in self.expected.items():
            if evicted.owner == owner and uid != pod.uid:
                node = self._state.nominations.node_of(evicted.successor)
                self._unexpect(uid)
                if node is not None:
                    self._state.nominations.set(pod, node)
                return

    def stays(self, uid: str) -> None:
        """An eviction failed."""
        if uid in self.expected:
            self._unexpect(uid)
        record = self._state.record(uid)  # of one that was moved, even if its successor is here already
        if record is not None and self._state.queues.active:
            self._state.queues.stand(record.pod, leaving=record.pod.deleted_s is not None)

    def _unexpect(self, uid: str) -> None:
        evicted = self.expected.pop(uid)
        self._state.queues.expect(evicted.pod, value=False)
        if evicted.successor:
            self._context.end_nomination(evicted.successor)

    def review(self, turn: Turn) -> None:
        """Look at gangs that something happened to, and expect no more what has been gone for long."""
        if self._sharing is not None:
            self._sharing.sort_again(turn.now)
        self.stale.review(turn)
        self._forget(turn.now)

    def next_s(self) -> float | None:
        """When an evicted pod need not be expected any more, or shares follow from another usage."""
        if not self.expected and not self._state.queues.active:
            return None
        times = [each.until_s for each in self.expected.values()]
        if self._state.queues.active and self.usage.next_s is not None:
            times.append(self.usage.next_s)
        search_s = self.next_search_s()
        if search_s is not None:
            times.append(search_s)
        return min(times, default=None)

    def next_search_s(self) -> float | None:
        """When a search that was too long for one round goes on."""
        on = self._efforts.next_s < inf and self._waits_s is None and self._state.queues.active
        return self._efforts.next_s if on else None

    def _forget(self, now: float) -> None:
        for uid in [uid for uid, each in self.expected.items() if each.until_s <= now]:
            self._unexpect(uid)
