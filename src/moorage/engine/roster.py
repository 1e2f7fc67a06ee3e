"""The live pods of each group as the watch shows them, and the ledger of those that were admitted and not seen yet.

Pods form the groups that `strategy_group` says: those of one owner, and those without one that are alike.

Invariants: a pod counts once, either in the ledger or as seen; pods that are being deleted or have finished do not
count; an entry of the ledger ends when its pod is seen, or `ledger_s` after it was made, since a pod may be refused
after the webhook; there are never more entries than `limits` allows, further pods are not counted. A pod that is being
created has neither uid nor name, so entries are identified by what was written on the pod; among equal entries it does
not matter which one a seen pod ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from moorage.core.limits import LEDGER, LEDGER_OF_GROUP
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod, PodTemplate
from moorage.core.strategy import Stamp, stamp_of

PLACED_BY = "moorage.dev/placed-by"
"""Annotation of a pod: the replica of the webhook that placed it, if there are several."""

Crowd = Counter[str]
"""Node -> number of pods with the same stamp; the empty string is for pods without a node."""


class Entry(NamedTuple):
    """A pod that was admitted."""

    stamp: Stamp
    admitted_s: float


class _Standing(NamedTuple):
    group: str
    stamp: Stamp
    node: str


class Roster:
    """All pods that count. `me` names this replica on pods, so that pods of other replicas do not end its entries."""

    def __init__(self, *, ledger_s: float = 10.0, me: str = "") -> None:
        self.me = me
        self._ledger_s = ledger_s
        self._pods: dict[str, _Standing] = {}
        self._seen: dict[str, dict[Stamp, Crowd]] = {}
        self._ledger: dict[str, list[Entry]] = {}
        self._sizes: Counter[str] = Counter()
        """Number of live pods of each group that have been seen."""
        self.ledger_count = 0
        """Number of pods that were admitted and not seen yet."""

    @property
    def pod_count(self) -> int:
        """Number of live pods that have been seen."""
        return len(self._pods)

    def seen_of(self, group: str) -> int:
        """Number of live pods of a group that have been seen."""
        return self._sizes.get(group, 0)

    def seen(self, pod: Pod) -> bool:
        """The watch shows a pod; returns whether for the first time."""
        known = self._pods.get(pod.uid)
        if pod.finished or pod.deleted_s is not None:
            # It may have been created and deleted before the watch showed it.
            if known is None:
                self._arrived(pod.template)
            self.gone(pod.uid)
            return False
        group = strategy_group(pod.template)
        standing = _Standing(group, stamp_of(pod.template), pod.node or "")
        if known == standing:
            return False
        if known is not None:
            self._leave(known)
        else:
            self._arrived(pod.template)
        self._stand(pod.uid, standing)
        return known is None

    def gone(self, uid: str) -> None:
        """A pod does not count any more."""
        known = self._pods.pop(uid, None)
        if known is not None:
            self._leave(known)

    def admit(self, template: PodTemplate, stamp: Stamp, now_s: float) -> None:
        """Add such a pod to the ledger, if there is room."""
        group = strategy_group(template)
        entries = self._ledger.get(group, [])
        if self.ledger_count < LEDGER and len(entries) < LEDGER_OF_GROUP:
            entries.append(Entry(stamp, now_s))
            self._ledger[group] = entries
            self.ledger_count += 1

    def unseen(self, group: str, now_s: float) -> list[Entry]:
        """The entries of a group that have not expired, oldest first. Do not change the list."""
        entries = self._ledger.get(group)
        if entries is None:
            return []
        if entries[0].admitted_s + self._ledger_s <= now_s:
            entries = [entry for entry in entries if entry.admitted_s + self._ledger_s > now_s]
            self._write(group, entries)
        return entries

    def crowds(self, group: str, now_s: float, *, unseen: bool = True) -> Iterator[tuple[Stamp, Crowd]]:
        """The stamps of a group's pods and their nodes, with `unseen` the ledger's too. Do not change them."""
        yield from self._seen.get(group, {}).items()
        for stamp, number in Counter(entry.stamp for entry in self.unseen(group, now_s) if unseen).items():
            yield stamp, Counter({"": number})

    def expire(self, now_s: float) -> None:
        """Forget expired entries of all groups."""
        for group in list(self._ledger):
            self.unseen(group, now_s)

    def _arrived(self, template: PodTemplate) -> None:
        """A pod was seen for the first time: it ends the oldest entry that matches it."""
        group = strategy_group(template)
        entries = self._ledger.get(group)
        if entries is None or template.annotations.get(PLACED_BY, self.me) != self.me:
            return
        text = stamp_of(template).text
        for index, entry in enumerate(entries):
            if entry.stamp.text == text:
                self._write(group, [*entries[:index], *entries[index + 1 :]])
                return

    def _write(self, group: str, entries: list[Entry]) -> None:
        self.ledger_count += len(entries) - len(self._ledger[group])
        if entries:
            self._ledger[group] = entries
        else:
            del self._ledger[group]

    def _stand(self, uid: str, standing: _Standing) -> None:
        self._pods[uid] = standing
        self._sizes[standing.group] += 1
        stamps = self._seen.setdefault(standing.group, {})
        stamps.setdefault(standing.stamp, Counter())[standing.node] += 1

    def _leave(self, standing: _Standing) -> None:
        self._sizes[standing.group] -= 1
        if not self._sizes[standing.group]:
            del self._sizes[standing.group]
        stamps = self._seen[standing.group]
        crowd = stamps[standing.stamp]
        crowd[standing.node] -= 1
        if not crowd[standing.node]:
            del crowd[standing.node]
        if not crowd:
            del stamps[standing.stamp]
        if not stamps:
            del self._seen[standing.group]
