"""Keeps `controller.kubernetes.io/pod-deletion-cost` current on the pods of ReplicaSets that have a rule.

Only ReplicaSets read it. It is written when the order of removal changes, on as few pods as possible. A workload whose
own pod template carries the annotation is left alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from moorage.core.commands import PatchObject
from moorage.core.frozen import FrozenDict
from moorage.core.objects import REPLICA_SET, Workload, object_key
from moorage.core.pods import Pod
from moorage.core.shares import Shares
from moorage.core.state import ClusterState
from moorage.engine.evictor import ref_of
from moorage.engine.keeping.removal import ABOVE, TOP, host_keepers, numbered

COST = "controller.kubernetes.io/pod-deletion-cost"
REPEAT_S = 10.0
"""How long after the answer to a write without effect the pod is written again."""
MOST_UNANSWERED = 50
"""The most writes in flight for a namespace that is alone (see `core.shares`), so that evictions never wait behind a
long queue of them."""
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class DeletionCosts:
    """Orders writes, and keeps track of those in binding."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._sent: dict[str, int | None] = {}
        """Pod -> what it will cost once the write is seen."""
        self._unanswered: dict[str, PatchObject] = {}
        """Pod -> the latest write."""
        self._answered_s: dict[str, float] = {}
        """Pod whose write was answered and is not seen yet -> since when."""
        self.written = 0
        """How many writes were ordered."""

    def places(self) -> Shares:
        """The places for writes in binding."""
        places = Shares(2 * MOST_UNANSWERED)
        for command in self._unanswered.values():
            places.take_if_any(command.namespace)
        return places

    @property
    def unseen(self) -> bool:
        """Whether a write may have to be repeated."""
        return bool(self._answered_s)

    def answered(self, command: PatchObject, now: float) -> None:
        """A write on a pod was carried out, or failed; answers to older or unrelated writes are ignored."""
        uid = command.pod.uid
        if self._unanswered.get(uid) != command:
            return
        del self._unanswered[uid]
        if uid in self._sent:
            self._answered_s[uid] = now

    def overdue(self, now: float) -> list[str]:
        """Uids of pods whose write was answered and has had no effect for too long; they are forgotten here."""
        late = [uid for uid, answered_s in self._answered_s.items() if now - answered_s >= REPEAT_S]
        for uid in late:
            self._settle(uid)
        return late

    def gone(self, uid: str) -> None:
        """A pod is gone."""
        self._settle(uid)
        self._unanswered.pop(uid, None)

    def seen(self, pod: Pod) -> None:
        """A pod was changed, perhaps by us."""
        if pod.uid in self._sent and self._sent[pod.uid] == _cost(pod):
            self._settle(pod.uid)

    def for_order(self, pods: Sequence[Pod]) -> list[PatchObject]:
        """What to write so that these pods of one owner are removed in reverse order, the last one first."""
        if not pods or not self._may_be_written(pods[0]):
            return []
        have = [self._cost(pod) for pod in pods]
        return self._writes(zip(pods, have, numbered(have), strict=True))

    def for_hosts(self, pods: Sequence[Pod], hosts: int, levels: Sequence[int] = ()) -> list[PatchObject]:
        """What to write so that pods of one owner remain on `hosts` hosts; `pods` are oldest first.

        `levels` are those of `capacity_levels`, if the capacity of their nodes matters; it comes before the hosts.
        """
        if not pods or not self._may_be_written(pods[0]) or not (hosts or any(levels)):
            return []
        have = [self._cost(pod) for pod in pods]
        levels = levels or [0] * len(pods)
        marks = [False] * len(pods)
        if hosts:
            remain = (level > 0 or (level == 0 and (cost or 0) > 0) for level, cost in zip(levels, have, strict=True))
            marks = host_keepers([*zip([pod.node for pod in pods], remain, strict=True)], hosts)
        wanted = [*map(_wanted, have, marks, levels, itertools.repeat(hosts > 0))]
        return self._writes(zip(pods, have, wanted, strict=True))

    def stays_longest(self, pod: Pod) -> bool:
        """Whether the pod is marked to remain because of the capacity that it is on."""
        return (self._cost(pod) or 0) >= ABOVE

    def _writes(self, pods: Iterable[tuple[Pod, int | None, int | None]]) -> list[PatchObject]:
        made = []
        for pod, has, wanted in pods:
            if has != wanted:
                self._sent[pod.uid] = wanted
                self._unanswered[pod.uid] = command = _patch(pod, wanted)
                made.append(command)
        self.written += len(made)
        return made

    def _may_be_written(self, pod: Pod) -> bool:
        owner = pod.template.owner
        if owner is None or owner.kind != REPLICA_SET:
            return False
        workload = self._state.object(REPLICA_SET, object_key(pod.namespace, owner.name))
        return isinstance(workload, Workload) and COST not in workload.template_annotations

    def _cost(self, pod: Pod) -> int | None:
        """What the pod costs, or will cost."""
        return self._sent[pod.uid] if pod.uid in self._sent else _cost(pod)

    def _settle(self, uid: str) -> None:
        self._sent.pop(uid, None)
        self._answered_s.pop(uid, None)


def _wanted(cost: int | None, marked: bool, level: int, hosts_matter: bool) -> int | None:
    """What a pod should cost that costs so much now; a cost that says the same stays."""
    if level > 0:
        return max(cost or 0, ABOVE)
    if marked:
        return cost if cost is not None and 0 < cost < ABOVE else TOP
    if level < 0:
        return min(cost or 0, -ABOVE)
    # Without a rule about hosts, costs that somebody else wrote are left alone.
    return None if hosts_matter or cost is None or abs(cost) >= ABOVE else cost


def _cost(pod: Pod) -> int | None:
    text = pod.template.annotations.get(COST)
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _patch(pod: Pod, cost: int | None) -> PatchObject:
    annotations = FrozenDict({COST: None if cost is None else str(cost)})
    patch = FrozenDict({"metadata": FrozenDict({"annotations": annotations})})
    return PatchObject(ref_of(pod), "Pod", pod.namespace, pod.name, patch, pod.uid)
