"""May a pod be disturbed: the one place that decides it, for every reason for which Moorage evicts pods.

What is asked: whether somebody makes the pod again (`goes`), whether its disruption budgets allow it (`objection`),
whether it has run for long enough (`least_run_s`), and whether there were too many evictions lately (`too_many`).

A budget's status is written by a controller a while after a pod went. Until then the allowance that it states is too
large, so an eviction is a debt of a budget until the pod was seen to go and the budget was written since the eviction
was ordered, for a minute at most.

Searches `spend`, and the statement around them undoes it; the evictor alone says what was `ordered`, is `going` or has
`failed`. Only evictions of the last minute are remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, StrEnum, auto
from functools import partial
from itertools import filterfalse
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.budgets import Budgets
from moorage.core.objects import DAEMON_SET, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, PodDisruptionBudget
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod, PodTemplate

if TYPE_CHECKING:
    from moorage.core.queuetree import QueueNode
    from moorage.core.state import ClusterState

BUDGET = "PodDisruptionBudget"
MIRROR = "kubernetes.io/config.mirror"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
OF_THE_KUBELET = "Node"
"""The kind of the owner of static pods, which the kubelet starts by itself."""
_OF_THEIR_NODE = (DAEMON_SET, OF_THE_KUBELET)
_REPLACED_AT_ONCE = (REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET)
"""Controllers whose pods lose no work when they are replaced, as those of a Job would."""
WINDOW_S = 60.0
STRICT = "Strict"
"""The `pdbPolicy` with which no disruption budget is violated."""


class DisruptionReason(StrEnum):
    """Why a pod is to go."""

    PREEMPT = "preempt"
    """For a more important pod."""
    RECLAIM = "reclaim"
    """For a queue that takes back its share."""
    MOVE = "move"
    """To another node, so that a waiting pod fits."""
    STALE = "stale"
    """Its gang has lost too many members."""
    RELEASE = "release"
    """Its gang was started in part."""
    REPACK = "repack"
    """Its node becomes empty, or has room for others then."""
    SPOT = "spot"
    """Its node is about to go away, or spot capacity is back."""
    REPAIR = "repair"
    """Its workload deviates from its rule."""
    WINDOW = "window"
    """Its time on the node is over."""


class Takes(Enum):
    """Which pods may go for a reason."""

    ANY = auto()
    """Also such as nobody makes again: what comes first has a right to the room."""
    MADE_AGAIN = auto()
    """Pods that a controller makes again, on any node."""
    REPLACED = auto()
    """Of these only such as are replaced at once without loss of work, are no members of gangs, and do not opt out."""


TAKES: Mapping[DisruptionReason, Takes] = {
    DisruptionReason.PREEMPT: Takes.ANY,
    DisruptionReason.RECLAIM: Takes.ANY,
    DisruptionReason.MOVE: Takes.MADE_AGAIN,
    DisruptionReason.STALE: Takes.MADE_AGAIN,
    DisruptionReason.RELEASE: Takes.MADE_AGAIN,
    DisruptionReason.REPACK: Takes.REPLACED,
    DisruptionReason.SPOT: Takes.MADE_AGAIN,
    DisruptionReason.REPAIR: Takes.REPLACED,
    DisruptionReason.WINDOW: Takes.MADE_AGAIN,
}


def belongs_to_node(template: PodTemplate) -> bool:
    """Whether a pod stays as long as its node: one of a DaemonSet, or a static one."""
    return template.owner is not None and template.owner.kind in _OF_THEIR_NODE


def made_again(template: PodTemplate) -> bool:
    """Whether a controller makes such a pod again, on any node."""
    return template.owner is not None and not belongs_to_node(template) and MIRROR not in template.annotations


def opts_out(annotations: Mapping[str, str]) -> bool:
    """Whether a pod is not to be disturbed without need; autoscalers read the same annotations."""
    return annotations.get(SAFE_TO_EVICT) == "false" or annotations.get(DO_NOT_DISRUPT) == "true"


def goes(template: PodTemplate, reason: DisruptionReason, *, bare: bool = False) -> bool:
    """Whether such pods may go for a reason, as far as it depends on who makes them again; `bare`: if nobody does."""
    takes = TAKES[reason]
    if takes is Takes.ANY or (bare and template.owner is None):
        return True
    if takes is Takes.MADE_AGAIN:
        return made_again(template)
    owner = template.owner
    alone = owner is not None and owner.kind in _REPLACED_AT_ONCE and template.gang is None
    return alone and made_again(template) and not opts_out(template.annotations)


def least_run_s(path: Iterable[QueueNode], reason: DisruptionReason) -> float | None:
    """How long a pod runs before it may be reclaimed or preempted, as the first of these queues says that says anything
    about it; None if none does.
    """
    queues = (node.queue for node in path)
    said = (q.preempt_min_runtime_s if reason is DisruptionReason.PREEMPT else q.reclaim_min_runtime_s for q in queues)
    return next((each for each in said if each is not None), None)


def owner_of(pod: Pod) -> str:
    """The owner for which an eviction of this pod is counted: its controller, or the pod itself by name if it has
    none.
    """
    return owner_key(pod.template) or pod.key


class EvictionLimits(NamedTuple):
    """How many evictions there may be within a minute; 0 means no limit."""

    per_minute: int = 0
    per_owner: int = 0
    """A guard against loops: victims whose controller makes new ones that are more important than they."""


class Refusal(NamedTuple):
    """Some evictions would be too many."""

    limit: int
    owner: str | None
    """The owner that the limit is for, None if it is the overall limit."""
    retry_s: float | None
    """When they are not too many any more, seconds since the epoch; None if they are more than the limit at once."""


class Disturbance(NamedTuple):
    """One eviction of the last minute."""

    at_s: float
    pod: Pod
    by: str
    """Whose limit it counts for."""
    budgets: tuple[tuple[str, int], ...] = ()
    """Those that pay for it, by key, and how often each had been written by then."""
    going: bool = False
    """Whether the pod was seen to go."""


class DisruptionLedger:
    """What evictions cost, and which are possible."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._version = -1
        self._budgets = Budgets()
        self._recent: dict[str, Disturbance] = {}
        """By the uid of the pod, oldest first."""
        self._written: dict[str, int] = {}
        """How often budgets were written while evictions of the last minute were remembered."""
        self._count: Counter[tuple[str, str]] = Counter()
        """Evictions of the last minute by whose limit they count for, and of those by owner; "" for all owners."""
        self._spent: Ints | None = None
        self._spent_until_s = -inf
        """Until when `_spent` is right, if nothing happens."""

    @property
    def budgets(self) -> Budgets:
        """The budgets as they are."""
        version = self._state.object_versions.get(BUDGET, 0)
        if version != self._version:
            objects: Mapping[str, PodDisruptionBudget] = self._state.objects.get(BUDGET, {})
            self._budgets, self._version, self._spent_until_s = Budgets(objects.values()), version, -inf
        return self._budgets

    # --- may they go ---

    def objection(
        self, pods: Collection[Pod], reason: DisruptionReason, now: float, *, strict: bool = True, bare: bool = False
    ) -> str | None:
        """Why these pods may not go, all together; None if they may. Without `strict` budgets are not asked; `bare`:
        the reason was told to take pods that nobody makes again.
        """
        refused = [pod for pod in pods if not goes(pod.template, reason, bare=bare)]
        if refused:
            pod = min(refused, key=lambda pod: pod.key)
            return f"pod {pod.key} would not be created again, as it {_why_not(pod.template)}"
        budget = self.refusing(pods, now) if strict else None
        return None if budget is None else f"disruption budget {budget.key} does not allow that now"

    def refusing(self, pods: Iterable[Pod], now: float) -> PodDisruptionBudget | None:
        """A budget that does not allow all of these to go, beside those that have to go already; None if all do."""
        budgets = self.budgets
        return budgets.refusing(filterfalse(self._is_paid, pods), self.spent(now)) if len(budgets) else None

    def _is_paid(self, pod: Pod) -> bool:
        known = self._recent.get(pod.uid)
        return known is not None and bool(known.budgets)

    def spent(self, now: float) -> Ints | None:
        """What each budget has lost beyond what it says, by its number; None if nothing. Do not change it."""
        budgets = self.budgets
        if not self._recent or not len(budgets):
            return None
        if not now < self._spent_until_s:
            self._spent = self._owed(budgets, now)
        return self._spent

    def _owed(self, budgets: Budgets, now: float) -> Ints | None:
        self._spent_until_s = inf
        numbers = {budget.key: number for number, budget in enumerate(budgets.all)}
        spent: Ints = np.zeros(len(budgets), dtype=np.int64)
        for each in self._recent.values():
            if each.at_s + WINDOW_S <= now:
                continue
            self._spent_until_s = min(self._spent_until_s, each.at_s + WINDOW_S)
            for key, written in each.budgets:
                number = numbers.get(key)
                knows = each.going and self._written.get(key, 0) != written
                if number is not None and not knows and each.pod.name not in budgets.all[number].disrupted_pods:
                    spent[number] += 1
        return spent if spent.any() else None

    def too_many(self, pods: Sequence[Pod], by: str, limits: EvictionLimits, now: float) -> Refusal | None:
        """Why evicting these pods would be too many evictions just now."""
        self._forget(now)
        refusals = [self._excess(limits.per_minute, by, "", len(pods))]
        if limits.per_owner and self._count[by, ""] + len(pods) > limits.per_owner:
            owners = Counter(map(owner_of, pods)).items()
            refusals += [self._excess(limits.per_owner, by, owner, count) for owner, count in owners]
        return max(filter(None, refusals), key=_wait, default=None)

    def _excess(self, limit: int, by: str, owner: str, count: int) -> Refusal | None:
        """Whether so many more evictions exceed a limit."""
        excess = self._count[by, owner] + count - limit
        if not limit or excess <= 0:
            return None
        retry_s = None
        if count <= limit:
            whose = (each for each in self._recent.values() if each.by == by and owner in ("", owner_of(each.pod)))
            retry_s = [each.at_s for each in whose][excess - 1] + WINDOW_S
        return Refusal(limit, owner or None, retry_s)

    # --- they go ---

    def spend(self, pods: Iterable[Pod], by: str, now: float) -> None:
        """These are to be evicted, as far as the search goes; the statement around it undoes that."""
        self._forget(now)
        for pod in pods:
            if pod.uid not in self._recent:
                self._add(pod, by, now)
                self._state.undo.note(partial(self._drop, pod.uid))

    def ordered(self, pod: Pod, by: str, now: float) -> None:
        """The eviction of a pod was ordered."""
        self._forget(now)
        if pod.uid in self._recent:
            self._drop(pod.uid)
        self._add(pod, by, now)

    def going(self, uid: str) -> None:
        """A pod was seen to go, or is gone."""
        if (known := self._recent.get(uid)) is not None and not known.going:
            self._recent[uid], self._spent_until_s = known._replace(going=True), -inf

    def written(self, key: str, *, exists: bool = True) -> None:
        """A budget was changed, or exists no longer."""
        if not exists:
            self._written.pop(key, None)
        elif self._recent:
            self._written[key] = self._written.get(key, 0) + 1
            self._spent_until_s = -inf

    def failed(self, uid: str) -> None:
        """A pod stays: its eviction costs nothing, though it was one."""
        if (known := self._recent.get(uid)) is not None:
            self._recent[uid], self._spent_until_s = known._replace(budgets=()), -inf

    def tidy(self) -> None:
        """Count again, after an image was read."""
        self._count.clear()
        for each in self._recent.values():
            self._count.update(_counted(each))
        self._spent_until_s = -inf

    def _add(self, pod: Pod, by: str, now: float) -> None:
        budgets = self.budgets
        paying = [budgets.all[number].key for number in budgets.charged(pod)] if len(budgets) else ()
        debts = tuple((key, self._written.get(key, 0)) for key in paying)
        made = self._recent[pod.uid] = Disturbance(now, pod, by, debts)
        self._count.update(_counted(made))
        self._spent_until_s = -inf

    def _drop(self, uid: str) -> None:
        dropped = self._recent.pop(uid, None)
        for key in () if dropped is None else _counted(dropped):
            self._count[key] -= 1
            if not self._count[key]:
                del self._count[key]
        self._spent_until_s = -inf

    def _forget(self, now: float) -> None:
        """Drop what is a minute old, and what a clock that was set back has left in the future."""
        while self._recent:
            uid, first = next(iter(self._recent.items()))
            if first.at_s <= now < first.at_s + WINDOW_S:
                break
            self._drop(uid)
        while self._recent:
            uid, last = next(reversed(self._recent.items()))
            if last.at_s <= now:
                break
            self._drop(uid)
        if not self._recent:
            self._written.clear()


def _counted(each: Disturbance) -> tuple[tuple[str, str], tuple[str, str]]:
    return (each.by, ""), (each.by, owner_of(each.pod))


def _why_not(template: PodTemplate) -> str:
    if template.owner is None:
        return "has no controller"
    if not made_again(template):
        return "belongs to its node"
    return "would lose its work, its gang, or asks to be left alone"


def _wait(refusal: Refusal) -> float:
    return inf if refusal.retry_s is None else refusal.retry_s
