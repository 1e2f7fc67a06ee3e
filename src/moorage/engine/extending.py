"""The extender's answers to a stock kube-scheduler: which nodes fit, how good they are, which evictions would help.

Only the plugins that kube-scheduler does not have are called; they read a state that events keep up to date, as in the
engine. No clock and no I/O: the server passes the time, and asks again when `filter` returns `Wait`.

Requests are not trusted: only pods that the watch has shown are answered for, and other requests wait only for pods
that the watch shows as pending (see `underway`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.commands import PodRef
from moorage.core.controllers import API_GROUPS
from moorage.core.disruption.away import GONE, Away
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.follow import follow
from moorage.core.frozen import FrozenDict
from moorage.core.objects import object_key
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.values import dataclass
from moorage.engine.announcing import Announcing
from moorage.engine.faults import failed
from moorage.engine.underway import AnsweredPod, Underway
from moorage.engine.waiting import Wait
from moorage.engine.warnings import Warnings
from moorage.framework.classes import pre_filter
from moorage.framework.contract import AwaitsPods
from moorage.framework.cycle import Cycle
from moorage.framework.defaults import DEFAULT_PLUGINS, KUBE_SCHEDULER_PLUGINS
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code

UNKNOWN_NODE = "node(s) have not been seen by the extender yet"
UNKNOWN_POD = "node(s) cannot be judged: the pod has not been seen by the extender yet"
TOP_SCORE = 10
"""The highest score of an extender; the scores of plugins go up to 100."""
_ASKED = frozenset({Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE})
_MOST_STRANGERS = 4096


class PluginFault(Exception):  # noqa: N818 - the fault is the plugin's, not ours
    """A plugin failed, and the protocol has no field for that; the text is one line."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which nodes fit, and why the others do not."""

    kept: tuple[int, ...] = ()
    """Positions in the request, in its order."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Node -> a reason that removing pods might resolve."""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Node -> a reason that removing pods cannot resolve."""
    error: str = ""
    """Set if a plugin failed; the other fields are then meaningless."""


_LEFT_OUT = KUBE_SCHEDULER_PLUGINS.union(plugin.name for plugin in DEFAULT_PLUGINS)


def extender_profile(profile: Profile) -> Profile:
    """The profile without the default set, and without extension points that extenders do not have.

    The caller has run kube-scheduler's own plugins; gangs and queues are about its queue, which is not ours.
    """
    by_point = {
        point: tuple(plugin for plugin in plugins if plugin.name not in _LEFT_OUT)
        for point, plugins in profile.by_point.items()
        if point in _ASKED
    }
    weights = {name: weight for name, weight in profile.weights.items() if name not in _LEFT_OUT}
    return Profile(profile.scheduler_name, FrozenDict(by_point), FrozenDict(weights))


class Extending(Announcing):
    """One profile on one state, asked by one kube-scheduler.

    `longest_wait_s` limits how long `filter` waits for a pod, `certified` says whether callers are authenticated.
    """

    def __init__(
        self, profile: Profile, *, longest_wait_s: float = 1.0, certified: bool = False, seed: int = 0
    ) -> None:
        super().__init__()
        self.profile = extender_profile(profile)
        self.state = ClusterState(seed)
        self.underway = Underway(longest_wait_s, certified)
        self._runner = Runner(self.profile, self.state)
        self._waiting = self._runner.plugins.having(AwaitsPods)
        self._kinds = frozenset(kind for plugin in self.profile.plugins for kind in plugin.kinds)
        self._top_total = max(1, sum(self._runner.profile.weights.values())) * TOP_SCORE
        self._warnings = Warnings()
        self._pending: dict[str, Pod] = {}
        """uid -> the pod, as the watch shows it without a node."""
        self._strangers: set[tuple[str, str]] = set()
        """Namespaces and uids of owners that did not appear in time; requests do not wait for them again."""

    # --- events in ---

    def handle(self, event: Event) -> None:
        """Apply an event of the API server; answers to commands are ignored."""
        follow(self.state, event)
        match event:
            case PodSeen(pod):
                self._pod_seen(pod)
            case PodGone(uid):
                self._pending.pop(uid, None)
                self.underway.arrived(uid)
                self.state.nominations.clear(uid)

    def _pod_seen(self, pod: Pod) -> None:
        if pod.node is not None or pod.finished or pod.deleted_s is not None:
            self._pending.pop(pod.uid, None)
            (self.underway.arrived if pod.node is None else self.underway.bound)(pod.uid)
            self.state.nominations.clear(pod.uid)
            return
        self._pending[pod.uid] = pod
        self.underway.still_waits(pod)
        if pod.nominated_node:
            self.state.nominations.set(pod, pod.nominated_node)
        else:
            self.state.nominations.clear(pod.uid)

    def bound(self, uid: str, node: str) -> None:
        """The extender bound the pod itself, so its node is known before the watch shows it."""
        pod, row = self._pending.pop(uid, None), self.state.row_of(node)
        self.underway.arrived(uid)
        if pod is not None and row is not None and self.state.record(uid) is None:
            self.state.assume(pod, row)

    def bind_refusal(self, pod: PodRef, node: str) -> str:
        """Why a pod must not be bound to a node; empty if it may be."""
        found = self._pending.get(pod.uid)
        if found is None or (found.namespace, found.name) != (pod.namespace, pod.name):
            return f"pod {pod.namespace}/{pod.name} of this uid does not wait for a node, as far as the watch shows"
        if self.state.row_of(node) is None:
            return f"node {node} has not been seen by the extender yet"
        return ""

    def _known(self, pod: Pod) -> bool:
        """Whether the watch has shown this pod."""
        found = self._pending.get(pod.uid)
        record = self.state.record(pod.uid) if found is None else None
        if record is not None:
            found = record.pod
        return found is not None and found.key == pod.key

    # --- filter ---

    def filter(self, pod: Pod, nodes: Sequence[str], now: float, waited_s: float = 0.0) -> Filtered | Wait:
        """Judge nodes by name; `waited_s` says how long this request has been waiting."""
        if not self._known(pod):
            left_s = self.underway.patience_s - waited_s
            return Wait(now + left_s) if left_s > 0 else Filtered(failed=dict.fromkeys(nodes, UNKNOWN_POD))
        self.underway.arrived(pod.uid)
        until_s = self._owner_due_s(pod.template, now, waited_s)
        if until_s is not None:
            return Wait(until_s)
        try:
            groups = self._groups_of(pod.template)
            awaited = self.underway.awaited(pod, groups, now) if groups else []
            if awaited:
                return self._hold_back(awaited, nodes, now, waited_s)
            cycle = Cycle(pod, self.state, now)
            filtered = self._judged(cycle, nodes)
        except Exception as error:  # noqa: BLE001 - the caller decides what a plugin's fault means
            return Filtered(error=failed(error))
        if filtered.kept and groups:
            self._leave(pod.uid, now)
        if cycle.warnings:
            self._warnings.tell(cycle, self.profile.scheduler_name, self._commands)
        return filtered

    def _leave(self, uid: str, now: float) -> None:
        """The pod is under way; its groups are read from the watched pod, not from the request."""
        pod = self._pending.get(uid)
        groups = () if pod is None else self._groups_of(pod.template)
        if pod is not None and groups:
            self.underway.left(pod, groups, now)

    def _groups_of(self, template: PodTemplate) -> tuple[Hashable, ...]:
        found = ((plugin.name, plugin.awaits(template, self.state)) for plugin in self._waiting)
        return tuple((name, group) for name, group in found if group is not None)

    def _hold_back(
        self, awaited: Sequence[AnsweredPod], nodes: Sequence[str], now: float, waited_s: float
    ) -> Filtered | Wait:
        """Wait for other pods as long as there is patience left for one of them; then reject all nodes for now."""
        left_s = max(answered.patience_s for answered in awaited) - waited_s
        if left_s > 0:
            return Wait(min(now + left_s, *(answered.given_up_s for answered in awaited)))
        for answered in awaited:
            answered.patience_s -= waited_s
        reason = f"node(s) cannot be judged until pod {awaited[0].pod.key} is bound"
        return Filtered(failed=dict.fromkeys(nodes, reason))

    def _owner_due_s(self, template: PodTemplate, now: float, waited_s: float) -> float | None:
        """Until when to wait for a controller that the watch has not shown yet; None if there is none to wait for."""
        stranger = self._unknown_owner(template)
        if stranger is None or (template.namespace, stranger.uid) in self._strangers:
            return None
        if waited_s < self.underway.patience_s:
            return now + self.underway.patience_s - waited_s
        if len(self._strangers) >= _MOST_STRANGERS:
            self._strangers.clear()
        self._strangers.add((template.namespace, stranger.uid))
        return None

    def _unknown_owner(self, template: PodTemplate) -> Owner | None:
        """The first owner in the chain that plugins might read and that does not exist."""
        owner = template.owner
        while owner is not None and owner.kind in self._kinds:
            if owner.api_version.rpartition("/")[0] != API_GROUPS.get(owner.kind):
                return None  # a kind of another API group
            workload = self.state.object(owner.kind, object_key(template.namespace, owner.name))
            if workload is None or workload.uid != owner.uid:
                return owner
            owner = workload.owner
        return None

    def _judged(self, cycle: Cycle, nodes: Sequence[str]) -> Filtered:
        rows, known = self._rows_of(nodes)
        judgement = self._runner.judge(cycle, known)
        refusal = judgement.refusal
        if refusal is not None and refusal.code is Code.ERROR:
            return Filtered(error=f"running plugin {refusal.plugin}: {refusal.message}")
        judgement = judgement.preferring(self._runner.prefer(cycle, judgement.passed))
        passed = np.zeros(self.state.capacity + 1, dtype=np.bool_)
        passed[judgement.passed] = True
        kept = np.flatnonzero(passed[rows])
        if len(kept) == len(nodes):
            return Filtered(tuple(kept.tolist()))
        failed = {nodes[place]: UNKNOWN_NODE for place in np.flatnonzero(rows == NOWHERE).tolist()}
        unresolvable: dict[str, str] = {}
        place_of = np.zeros(self.state.capacity, dtype=np.intp)
        place_of[rows[rows != NOWHERE]] = np.flatnonzero(rows != NOWHERE)
        for rejected, reason, resolvable in _reasons(judgement, known):
            names = [nodes[place] for place in place_of[rejected].tolist()]
            (failed if resolvable else unresolvable).update(dict.fromkeys(names, reason))
        return Filtered(tuple(kept.tolist()), failed, unresolvable)

    def _rows_of(self, nodes: Sequence[str]) -> tuple[Rows, Rows]:
        """The row of every node, NOWHERE if it is unknown; and the known rows, ascending, once each."""
        rows = self.state.rows_of(nodes)
        asked = np.zeros(self.state.capacity + 1, dtype=np.bool_)  # the last element is for unknown nodes
        asked[rows] = True
        return rows, np.flatnonzero(asked[:-1])

    # --- prioritize ---

    def prioritize(self, pod: Pod, nodes: Sequence[str], now: float) -> list[int]:
        """Scores from 0 to 10 in the order of the request: a tenth of the plugins' score, rounded down.

        With several plugins it is their mean by weight. Unknown nodes get 0, and so do all nodes for an unknown pod.
        Raises `PluginFault` if a plugin fails.
        """
        if not self._known(pod):
            return [0] * len(nodes)
        cycle = Cycle(pod, self.state, now)
        rows, known = self._rows_of(nodes)
        totals: Ints = np.zeros(self.state.capacity + 1, dtype=np.int64)
        try:
            pre_filter(self._runner.plugins.pre_filter, cycle)  # plugins may use in Score what they prepared there
            for scores in self._runner.score_table(cycle, known).values():
                totals[known] += scores
        except Exception as error:
            raise PluginFault(failed(error)) from error
        found: list[int] = (totals[rows] // self._top_total).clip(0, TOP_SCORE).tolist()
        return found

    # --- preempt ---

    def preempt(self, pod: Pod, victims: Mapping[str, Collection[str]], now: float) -> list[str]:
        """The nodes (of node -> uids of the pods to evict) on which the pod would pass without those pods."""
        if not self._known(pod):
            return []
        try:
            return [node for node, uids in victims.items() if self._passes_without(pod, node, uids, now)]
        except Exception as error:
            raise PluginFault(failed(error)) from error

    def _passes_without(self, pod: Pod, node: str, uids: Collection[str], now: float) -> bool:
        row = self.state.row_of(node)
        if row is None:
            return False
        cycle = Cycle(pod, self.state, now)
        pre_filter(self._runner.plugins.pre_filter, cycle)  # plugins may remember there who stands now
        with self.state.statement():
            away = Away(self.state, with_claims=self._runner.preempts_devices)
            away.take(map(self.state.record, uids), GONE)
            return self._runner.fits(cycle, row)


def _reasons(judgement: Judgement, asked: Rows) -> list[tuple[Rows, str, bool]]:
    """Rows that were rejected for the same reasons, the reasons, and whether removing pods might resolve them."""
    refusal = judgement.refusal
    if refusal is not None:
        return [(asked, refusal.message, refusal.code is not Code.UNRESOLVABLE)]
    found: list[tuple[Rows, str, bool]] = []
    if len(judgement.excluded):
        found.append((judgement.excluded, judgement.exclusion, False))
    for verdict in judgement.verdicts:
        bits = verdict.rejections.bits
        for value in np.unique(bits).tolist():
            reasons = verdict.rejections.given(value)
            text = ", ".join(reason.text for reason in reasons)
            found.append((verdict.rows[bits == value], text, all(reason.resolvable for reason in reasons)))
    return found
