"""Queues share the cluster: the order of units that belong to one, and room for what a queue may have.

`state.queues` counts what queues have and ask for. Here waiting units are sorted by their queues (`unittree`); units
that found no node are noted, and once there is nothing left to try, room is made for them (`sharedroom`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from moorage.core.gangs import group_object, lasting, own_priority, terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.queueledger import HOLDS, Membership, QueueTerms
from moorage.core.queuereasons import beyond_share
from moorage.core.queues import task_order
from moorage.core.queuetree import Amounts
from moorage.core.queueusage import UsageTerms
from moorage.engine.askedamounts import AskedAmounts
from moorage.engine.context import EngineContext
from moorage.engine.failures import Failure
from moorage.engine.gangturns import GangTurns
from moorage.engine.lifecycle import ACTIVE, BACKOFF, UNSCHEDULABLE
from moorage.engine.units import QueuedPod, Unit
from moorage.engine.unittree import Item, UnitTree
from moorage.engine.waking import Waking
from moorage.engine.words import AGAIN_S, lasting_words
from moorage.framework.changes import Change, What
from moorage.framework.contract import QueueSortPlugin, SharesQueues, SharingTerms, SlackFilter
from moorage.framework.status import Code

_LATER_S = 1e12
"""Added to the age of jobs that have as many members as they need: they come after those that have not."""
_PATIENCE, _GANG_PATIENCE = 3.0, 6.0
"""For how many times as long as others should take to end a pod waits for that, and a gang, which needs a turn."""
_TRIED = frozenset({UNSCHEDULABLE, BACKOFF})


class Sharing:
    """Units that belong to queues, in order."""

    def __init__(self, context: EngineContext, sort: QueueSortPlugin, turns: Callable[[], GangTurns]) -> None:
        """`sort` orders the units of a leaf; `turns` knows which gangs have to wait for one."""
        self._turns = turns
        self._context = context
        self._state = context.state
        self._ledger = context.state.queues
        self._sort = sort
        self._plugins = {
            name: plugin
            for name, runner in context.runners.items()
            if (plugin := runner.plugins.first(SharesQueues)) is not None
        }
        self._fallback = None if context.fallback is None else context.fallback.plugins.first(SharesQueues)
        self._ledger.use_terms(self._terms_of)
        self._units = UnitTree(self._ledger.tree)
        self._builds = -1
        self.waits, self.leaves = self._ledger.wait, self._ledger.unwait
        """A pod waits, or was changed while it does; it waits no more."""
        self.asked = AskedAmounts(context)
        self._waking = Waking(context, self.asked)
        self.wanting: dict[str, Unit] = {}
        """Units that found no node, and for which room has to be made."""
        self.failures = 0
        """How often units found none."""
        self._change: Change | None = None
        self._in_vain: dict[str, bool] = {}
        """Which gangs need not be tried after this change, as far as that was asked."""

    def _plugin(self, scheduler_name: str) -> SharesQueues | None:
        return self._plugins.get(scheduler_name, self._fallback)

    def _terms_of(self, scheduler_name: str) -> QueueTerms | None:
        plugin = self._plugin(scheduler_name)
        if plugin is None:
            return None
        return QueueTerms(plugin.sharing_terms.default_queue, plugin.sharing_terms.preemptible_below)

    @property
    def usage_terms(self) -> UsageTerms:
        """How much it counts what queues used lately: as the first profile says that knows queues."""
        terms = next(iter(self._plugins.values())).sharing_terms
        factor = round(terms.usage_factor * 1000)
        return UsageTerms(factor, terms.usage_half_life_seconds, terms.usage_window_seconds)

    @property
    def min_runtime_s(self) -> float:
        """How long pods run at least whose queues say nothing about it: as the first profile says that knows queues."""
        return next(iter(self._plugins.values())).sharing_terms.min_runtime_seconds

    def terms(self, pod: Pod) -> SharingTerms:
        """How the profile of a pod that belongs to a queue shares."""
        plugin = self._plugin(pod.template.scheduler_name)
        if plugin is None:
            raise LookupError(f"the profile of {pod.template.scheduler_name} knows no queues")
        return plugin.sharing_terms

    # --- membership ---

    def member(self, pod: Pod) -> Membership:
        """Where a pod belongs."""
        return self._ledger.member(pod.template)

    def governs(self, pod: Pod) -> bool:
        """Whether a pod belongs to a queue, so that room is made for it here."""
        return self._ledger.governs(pod.template)

    def gate(self, unit: Unit) -> tuple[str, str] | None:
        """The plugin that keeps a unit from being tried and why; None if it may be."""
        evictions, ledger, pod = self._state.evictions, self._ledger, unit.pod
        if unit.gang is None and not evictions.holds(unit.uid):
            assigned = not (ledger.late or pod.gates)  # the queue of a pod without gates was looked for when it came
            if (assigned and not ledger.troubled) or not ledger.about(pod).demand.problem:
                return None
        members = {self.member(entry.pod) for entry in unit.members.values()}
        plugin = self._plugin(pod.template.scheduler_name)
        if plugin is None:
            return None
        problem = next((each.problem for each in sorted(members, key=lambda each: each.queue) if each.problem), "")
        if not problem and len({each.queue for each in members}) > 1:
            problem = f"its members name different queues: {', '.join(sorted(each.queue or '-' for each in members))}"
        if problem:
            return plugin.name, problem
        if evictions.holds(unit.uid):
            return plugin.name, "waiting for the evictions that make room for it"
        return None

    # --- the order ---

    def takes(self, unit: Unit) -> bool:
        """Add an active unit; False if it belongs to no queue."""
        pod, ledger = unit.pod, self._ledger
        entry = account = ledger.latest
        if entry is None or entry.pod is not pod or not entry.said or ledger.late:  # not as is usual: it has just come
            entry, account = ledger.about(pod), None  # which may be a copy
        leaf = entry.demand.leaf
        if leaf is None:
            return False
        if self._units.tree.builds == self._builds:  # otherwise all are sorted in when the order is asked for
            if unit.gang is None:
                need = () if entry.counted & HOLDS else ledger.needed(entry)
                self._units.push(leaf, (self.key(pod, pod.created_s), unit.ticket, unit, need, account))
            else:
                self._units.push(leaf, self.item(unit))
        return True

    def peek(self) -> tuple[Any, ...] | None:
        """The key of the unit that comes next."""
        item = self._fresh().peek()
        return None if item is None else item[0]

    def pop(self) -> Item | None:
        """Take out the unit that comes next."""
        tree, units = self._ledger.settle(self._state), self._units
        if tree is not units.tree or tree.builds != self._builds or tree.reshaped:
            units = self._fresh()
        item = units.pop()
        if item is not None:
            self._ledger.latest = item[4]
        return item

    def _fresh(self) -> UnitTree:
        """The units, with shares as they are now."""
        tree = self._ledger.settle(self._state)
        if tree is not self._units.tree or tree.builds != self._builds:
            self._units, self._builds = UnitTree(tree), tree.builds
            away = self._context.queue.away()
            for number, unit in {id(entry.unit): entry.unit for entry in self._context.queue.entries()}.items():
                leaf = self.member(unit.pod).leaf
                if unit.state is ACTIVE and leaf is not None and number not in away:
                    self._units.push(leaf, self.item(unit))
        elif tree.reshaped:
            self._units.reshape()
        return self._units

    def sort_again(self, now: float) -> None:
        """Sort active units again that belong elsewhere than before, as queues or namespaces changed."""
        moved, queue = self._ledger.take_moved(), self._context.queue
        if moved:
            for unit in {unit.uid: unit for uid in sorted(moved) if (unit := queue.find(uid)) is not None}.values():
                queue.sort_again(unit, now)
            self._units.note_gone()

    @property
    def moved(self) -> set[str]:
        """Pods that belong elsewhere than before, and whose units were not sorted again yet."""
        return self._ledger.moved

    @moved.setter
    def moved(self, uids: set[str]) -> None:
        self._ledger.moved = uids

    @property
    def leaving(self) -> set[str]:
        """Pods on nodes that count no more, as they are being deleted or have a place elsewhere."""
        return self._ledger.leaving

    @leaving.setter
    def leaving(self, uids: set[str]) -> None:
        self._ledger.leaving = uids

    def tidy(self) -> None:
        """Follow the queues as they are, so that an image need not tell which of them have changed."""
        self._ledger.tidy()

    def renew(self, pods: Iterable[Pod] = ()) -> None:
        """Sort active units again; these pods wait."""
        self._builds = -1
        for pod in pods:
            if not pod.gates:
                self.waits(pod)

    def order(self, units: Iterable[Unit]) -> UnitTree:
        """Other units in the same order."""
        self._fresh().peek()  # notes what changed so far, before the others do
        found = UnitTree(self._ledger.tree)
        for unit in units:
            leaf = self.member(unit.pod).leaf
            if leaf is not None:
                found.push(leaf, self.item(unit))
        return found

    def item(self, unit: Unit) -> Item:
        """A unit with its place in its leaf."""
        return self.unit_key(unit), unit.ticket, unit, self.next_need(unit), None

    def unit_key(self, unit: Unit) -> tuple[Any, ...]:
        """The place of a unit in its leaf."""
        pod = unit.pod
        return self.key(pod, pod.created_s) if unit.gang is None else self.gang_key(unit.gang, pod)

    def next_need(self, unit: Unit) -> Amounts:
        """What the next pods of a unit need more than they are promised."""
        pods = (unit.pod,) if unit.gang is None else [entry.pod for entry in self._next(unit)]
        return self.need([pod for pod in pods if not self._ledger.counts(pod.uid)])

    def gang_key(self, key: GangKey, pod: Pod, active: int | None = None) -> tuple[Any, ...]:
        """The place of a gang in its leaf; `pod` stands for it, `active` is how many members run if that is not now."""
        terms = terms_of(self._state, key, (pod,))
        least = 1 if terms is None or terms.min_count is None else terms.min_count
        active = len(lasting(self._state, key)) if active is None else active
        priority = own_priority(self._state, key)
        if priority is not None and priority != pod.template.priority:
            pod = replace(pod, template=replace(pod.template, priority=priority))
        group = group_object(self._state, key)
        created_s = pod.created_s if group is None else group.created_s
        since_s = created_s + _LATER_S * (active >= least) + _LATER_S * (active > least)
        return *self._sort.queue_key(pod, since_s), *key

    def pod_key(self, pod: Pod, active: int | None = None) -> tuple[Any, ...]:
        """The place of the job of a running pod in its leaf; of a gang as if so many members ran."""
        if pod.template.gang is not None:
            return self.gang_key(pod.template.gang, pod, active)
        return self.key(pod, pod.created_s + _LATER_S * (active != 0))

    def key(self, pod: Pod, since_s: float) -> tuple[Any, ...]:
        """The place in its leaf of a pod that has waited since then.

        No two units have the same: a gang may have the name of a pod, or of a gang that is declared otherwise.
        """
        return self._sort.queue_key(pod, since_s) + (pod.template.namespace, pod.name, pod.uid)  # noqa: RUF005 - faster

    def next_pods(self, unit: Unit) -> list[QueuedPod]:
        """The pods of a unit that are placed next, together: as many as it lacks to its minimum, else one; none if it
        lacks more than wait.
        """
        return sorted(self._next(unit), key=_in_job)

    def next_members(self, key: GangKey, entries: Sequence[QueuedPod]) -> list[QueuedPod]:
        """The same of these waiting members of a gang."""
        return sorted(self._first(key, entries), key=_in_job)

    def _next(self, unit: Unit) -> Sequence[QueuedPod]:
        """The pods of a unit that are placed next, in any order: that is looked at far more often."""
        entries = [entry for uid, entry in unit.members.items() if self._state.record(uid) is None]
        if unit.gang is None:
            return entries
        found, terms = self._first(unit.gang, entries), terms_of(self._state, unit.gang, (unit.pod,))
        least = 0 if terms is None or terms.min_count is None else terms.min_count
        return () if len(found) + len(lasting(self._state, unit.gang)) < least else found

    def _first(self, key: GangKey, entries: Sequence[QueuedPod]) -> Sequence[QueuedPod]:
        terms = terms_of(self._state, key, [entry.pod for entry in entries])
        least = len(entries) if terms is None or terms.min_count is None else terms.min_count
        count = max(1, least - len(lasting(self._state, key)))
        return entries if count >= len(entries) else sorted(entries, key=_in_job)[:count]

    def need(self, pods: Iterable[Pod]) -> Amounts:
        """What pods need together."""
        return self._ledger.need(pods)

    # --- units without a node ---

    def waits_s(self, unit: Unit, now: float) -> float:
        """How long a unit waits for pods that end by themselves before others are evicted for it; 0 if not at all.

        Both do so for a few times as long at most, a gang until a turn in which it gathered room has ended in vain.
        """
        wait_s = self.terms(unit.pod).wait_for_ends_seconds
        if not wait_s or unit.had_turn:
            return 0.0
        entries = self._next(unit)
        if self._context.turnover.expected_s((entry.pod for entry in entries), now) > wait_s:
            return 0.0
        since_s = min((each.misfit_s for each in entries if each.misfit_s is not None), default=now)
        patience = _PATIENCE if unit.gang is None else _GANG_PATIENCE
        return wait_s if now < since_s + patience * wait_s else 0.0

    def worth_trying(self, unit: Unit, change: Change, now: float) -> bool:
        """Whether a change can help a unit to find a node at all."""
        plugin = self._plugin(unit.pod.template.scheduler_name) if unit.uid in self.wanting else None
        if plugin is None:
            return True
        if change.what == What.POD_REMOVED and unit.line and unit.gang is not None:
            if change is not self._change:
                self._change = change
                self._in_vain.clear()
            if unit.uid not in self._in_vain:  # it is asked for each plugin that rejected the gang
                self._in_vain[unit.uid] = self._is_in_vain(unit, unit.gang, now)
            if self._in_vain[unit.uid]:
                return False
        return self._waking.worth_trying(unit, change, self.wanting.values(), plugin.name)

    def _is_in_vain(self, unit: Unit, gang: GangKey, now: float) -> bool:
        """Whether a gang that waits for its turn would fail as before."""
        pods = [entry.pod for entry in self._next(unit)] if self._turns().is_in_line(gang) else []
        return bool(pods) and self.fails_again(unit, pods, len(pods), now)

    def wants(self, unit: Unit) -> None:
        """Room has to be made for a unit."""
        self.wanting[unit.uid] = unit
        self.failures += 1

    def wants_room(self, unit: Unit, failure: Failure) -> Failure:
        """A unit found no node; returns the failure, which changes of queues can help against, too."""
        if failure.code is not Code.ERROR:
            self.wants(unit)
        plugin = self._plugin(unit.pod.template.scheduler_name)
        return failure if plugin is None else replace(failure, rejected_by=failure.rejected_by | {plugin.name})

    def reason(self, pods: Sequence[Pod], failure: Failure) -> str:
        """Why the queue of pods that were tried together gets no room for them, in front of what nodes say; empty if
        its share is large enough, if room would not help, or if it is the plugin that refuses them, which says more.
        """
        plugin, leaf = self._plugin(pods[0].template.scheduler_name), self.member(pods[0]).leaf
        refuses = plugin is not None and plugin.name in failure.rejected_by
        if leaf is None or refuses or not failure.room_helps or failure.code is not Code.UNSCHEDULABLE:
            return ""
        found = beyond_share(self._ledger.tree, leaf, self.need(pods))
        return f"{found}; " if found else ""

    def fails_again(self, gang: Unit, pods: Sequence[Pod], least: int, now: float) -> bool:
        """Whether an attempt to place so many members of a gang in line would end like the last one: nodes had too
        little left, and have; what was said of the queue is still so, but for numbers; and these need not be told
        again.
        """
        plugin = self._plugin(gang.pod.template.scheduler_name)
        if plugin is None or plugin.name not in gang.rejected_by:  # it was not to get room, as nodes were on their way
            return False
        if any(entry.misfit_s is None for entry in gang.members.values()):
            return False  # one that has just come knows nothing yet
        if any(entry.told_kind and now >= entry.told_s + AGAIN_S for entry in gang.members.values()):
            return False
        leaf, plugins = self.member(gang.pod).leaf, self._context.responsible(gang.pod).plugins
        lacked = any(each.name in gang.rejected_by for each in plugins.having(SlackFilter))
        if not gang.line or leaf is None or not lacked or self.asked.suffices(pods, least):
            return False
        beyond = beyond_share(self._ledger.tree, leaf, self.need(pods))
        said, _, _ = gang.message.partition(f"pod group {gang.key.object_key}")
        return lasting_words(said) == lasting_words(f"{beyond}; " if beyond else "")

    def waiting(self) -> list[Unit]:
        """Units for which room has to be made."""
        queue = self._context.queue
        doubtful = [unit for unit in self.wanting.values() if not unit.line or unit.state is not UNSCHEDULABLE]
        for unit in doubtful:  # the others stand in line, and so in the queue
            if not queue.holds(unit) or unit.state not in _TRIED:
                del self.wanting[unit.uid]
        return list(self.wanting.values())


def _in_job(entry: QueuedPod) -> tuple[int, str]:
    return pod_order(entry.pod)


def pod_order(pod: Pod) -> tuple[int, str]:
    """The place of a pod among those of its job."""
    return -task_order(pod.template.labels), pod.name
