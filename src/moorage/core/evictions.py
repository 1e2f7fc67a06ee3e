"""Evictions in progress: which pods are being deleted for which preemptor, until the deletion is answered or seen.

Invariants:
- a preemptor is held exactly while at least one of its victims was neither answered nor seen to go;
- a victim is `evicting` from the moment its deletion is ordered until it is gone or the deletion has failed, so that it
  is not ordered twice, however late the watch shows the deletion timestamp.
"""

from __future__ import annotations

from typing import NamedTuple


class Released(NamedTuple):
    """A preemptor that is not held any more; `failed` if one of its victims could not be deleted."""

    preemptor: str
    failed: bool


class Evictions:
    """Victims and preemptors by uid."""

    def __init__(self) -> None:
        self._unanswered: dict[str, set[str]] = {}
        """Victim -> preemptors that wait for the answer."""
        self._waits_for: dict[str, set[str]] = {}
        """Preemptor -> victims whose deletion is unanswered."""
        self._failed: set[str] = set()
        """Held preemptors of which one victim could not be deleted."""
        self.ordered: set[str] = set()
        """Victims whose deletion was ordered and has not failed. Do not change it."""

    def holds(self, preemptor: str) -> bool:
        """Whether a preemptor has to wait for the deletion of its victims to be answered."""
        return preemptor in self._waits_for

    def evicting(self, victim: str) -> bool:
        """Whether the deletion of a pod was ordered and has not failed; the pod may still stand on its node."""
        return victim in self.ordered

    def order(self, victim: str, preemptor: str) -> bool:
        """A pod is evicted for another one; returns whether its deletion has yet to be ordered."""
        new = victim not in self.ordered
        if new:
            self.ordered.add(victim)
            self._unanswered[victim] = set()
        waiting = self._unanswered.get(victim)
        if waiting is not None:
            waiting.add(preemptor)
            self._waits_for.setdefault(preemptor, set()).add(victim)
        return new

    def answered(self, victim: str, *, ok: bool) -> list[Released]:
        """The deletion of a pod was answered, or its deletion timestamp was seen; returns the preemptors that this
        releases.
        """
        if not ok and victim in self._unanswered:
            self.ordered.discard(victim)
        released = []
        for preemptor in sorted(self._unanswered.pop(victim, ())):
            if not ok:
                self._failed.add(preemptor)
            waits_for = self._waits_for[preemptor]
            waits_for.discard(victim)
            if not waits_for:
                del self._waits_for[preemptor]
                released.append(Released(preemptor, preemptor in self._failed))
                self._failed.discard(preemptor)
        return released

    def gone(self, victim: str) -> list[Released]:
        """A pod is no longer on a node; returns the preemptors that this releases."""
        if victim not in self.ordered:
            return []
        released = self.answered(victim, ok=True)
        self.ordered.discard(victim)
        return released

    def forget(self, preemptor: str) -> None:
        """A preemptor needs no room any more; its victims are deleted nevertheless."""
        self._failed.discard(preemptor)
        for victim in self._waits_for.pop(preemptor, ()):
            self._unanswered[victim].discard(preemptor)
