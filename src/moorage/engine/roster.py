"""The live pods of each group as the watch shows them, and the ledger of those that were admitted and not seen yet.

Pods of one owner form a group. Pods without an owner form one if they have the same strategy annotation, or without
that the same labels, in the same namespace.

Invariants: a pod counts once, in the ledger or among the seen; pods that are being deleted or have finished do not
count; an entry of the ledger ends when its pod is seen, or `ledger_s` after it was made, since a pod may be refused
after us. A pod that is being created has neither uid nor name, so entries are told apart by what was written on the pod
only: among equal ones it does not matter which of them a seen pod is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod, PodTemplate
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS

PLACED_BY = "moorage.dev/placed-by"
"""On a pod, where several replicas of the webhook work: the one that placed it."""

Group = Hashable


class Look(NamedTuple):
    """What says which rule a pod has."""

    stamp: str
    node_selector: FrozenDict[str, str] = EMPTY
    node: str = ""
    """Where it stands; empty for a pod with a stamp, for which it does not matter."""


class Entry(NamedTuple):
    """A pod that was admitted."""

    look: Look
    admitted_s: float


def group_of(template: PodTemplate) -> Group:
    """The pods that this one is counted with."""
    if template.owner is not None:
        return owner_key(template)
    for key in STRATEGY_ANNOTATIONS:
        text = template.annotations.get(key)
        if text is not None:
            return template.namespace, text
    return template.namespace, template.labels


def look_of(template: PodTemplate, node: str | None = None) -> Look:
    """How a pod looks."""
    stamp = template.annotations.get(RULE_STAMP) or template.labels.get(RULE_STAMP) or ""
    return Look(stamp, template.node_selector, "" if stamp else node or "")


class Roster:
    """Everything that counts. `me` names this replica on pods, so that others' pods do not end entries of ours."""

    def __init__(self, *, ledger_s: float = 10.0, me: str = "") -> None:
        self.me = me
        self._ledger_s = ledger_s
        self._pods: dict[str, tuple[Group, Look]] = {}
        self._seen: dict[Group, Counter[Look]] = {}
        self._ledger: dict[Group, list[Entry]] = {}

    @property
    def pod_count(self) -> int:
        """Number of live pods that have been seen."""
        return len(self._pods)

    @property
    def ledger_count(self) -> int:
        """Number of pods that were admitted and not seen yet."""
        return sum(map(len, self._ledger.values()))

    def seen(self, pod: Pod) -> bool:
        """The watch shows a pod; True if it is for the first time."""
        known = self._pods.get(pod.uid)
        if pod.finished or pod.deleted_s is not None:
            # It may have come and be on its way out before we heard of it.
            if known is None:
                self._arrived(pod.template)
            self.gone(pod.uid)
            return False
        look = look_of(pod.template, pod.node)
        if known is not None:
            if known[1] != look:
                self._leave(*known)
                self._stand(pod.uid, known[0], look)
            return False
        self._arrived(pod.template)
        self._stand(pod.uid, group_of(pod.template), look)
        return True

    def gone(self, uid: str) -> None:
        """A pod does not count any more."""
        known = self._pods.pop(uid, None)
        if known is not None:
            self._leave(*known)

    def admit(self, template: PodTemplate, look: Look, now_s: float) -> None:
        """Write into the ledger that such a pod was admitted."""
        self._ledger.setdefault(group_of(template), []).append(Entry(look, now_s))

    def unseen(self, group: Group, now_s: float) -> list[Entry]:
        """The entries of a group that still hold, oldest first. Do not change the list."""
        entries = self._ledger.get(group)
        if entries is None:
            return []
        if entries[0].admitted_s + self._ledger_s <= now_s:
            entries = [entry for entry in entries if entry.admitted_s + self._ledger_s > now_s]
            self._write(group, entries)
        return entries

    def looks(self, group: Group, now_s: float) -> Iterator[tuple[Look, int]]:
        """Every look that pods of the group have, and how many have it, the ledger's included."""
        yield from self._seen.get(group, {}).items()
        for entry in self.unseen(group, now_s):
            yield entry.look, 1

    def expire(self, now_s: float) -> None:
        """Forget what has expired, also of groups that nobody asks about."""
        for group in list(self._ledger):
            self.unseen(group, now_s)

    def _arrived(self, template: PodTemplate) -> None:
        """A pod was seen for the first time: it ends the oldest entry that it may be."""
        group = group_of(template)
        entries = self._ledger.get(group)
        if entries is None or template.annotations.get(PLACED_BY, self.me) != self.me:
            return
        look = look_of(template)
        for index, entry in enumerate(entries):
            if entry.look.stamp == look.stamp:
                self._write(group, [*entries[:index], *entries[index + 1 :]])
                return

    def _write(self, group: Group, entries: list[Entry]) -> None:
        if entries:
            self._ledger[group] = entries
        else:
            del self._ledger[group]

    def _stand(self, uid: str, group: Group, look: Look) -> None:
        self._pods[uid] = group, look
        self._seen.setdefault(group, Counter())[look] += 1

    def _leave(self, group: Group, look: Look) -> None:
        counts = self._seen[group]
        counts[look] -= 1
        if not counts[look]:
            del counts[look]
            if not counts:
                del self._seen[group]
