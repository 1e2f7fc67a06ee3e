"""Pods that an extender has answered for and whose place it does not know yet.

kube-scheduler never says which node it chose: a pod is on its way until the watch shows it bound or gone, until it is
asked about again, or until it counts as given up. It belongs to groups; who asks for a pod of the same group waits.

Invariants:
- All calls together wait no longer than `patience_s` for one pod, however many ask.
- A pod is on its way for `_LONGEST_S` at most. One that is held up behind a promised node (a volume is being made for
  it, say) gets `_LONGEST_NOMINATED_S`.
- Where it is not certain who asks (`certified`), a group waits for its pods for `_UNCERTAIN_S` in any `_DISTRUST_S`,
  unless the watch shows one of them bound: whoever makes questions up holds nobody up for longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from moorage.core.pods import Pod

_DOUBT_S = 2.0
"""PodScheduled=False that is seen so soon after an answer may still be about the attempt before it: schedulers write
it in the background."""
_LONGEST_S = 60.0
_UNCERTAIN_S = 5.0
_DISTRUST_S = 60.0
_LONGEST_NOMINATED_S = 600.0


@dataclass(slots=True)
class AnsweredPod:
    """One pod on its way."""

    pod: Pod
    """As it was when it was asked about."""
    groups: tuple[Hashable, ...]
    answered_s: float
    patience_s: float
    """How long calls may still wait for it."""
    given_up_s: float
    """From then on it is not on its way any more."""


@dataclass(slots=True)
class Underway:
    """All pods on their way."""

    patience_s: float = 1.0
    certified: bool = False
    """Whether it is certain that a scheduler asks."""
    _pods: dict[str, AnsweredPod] = field(default_factory=dict)
    _groups: dict[Hashable, dict[str, AnsweredPod]] = field(default_factory=dict)
    _since: dict[Hashable, float] = field(default_factory=dict)
    """Group -> since when it waits on the word of somebody uncertain; the oldest first."""

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Pod | None:
        """The pod of this uid, if it is on its way."""
        found = self._pods.get(uid)
        return None if found is None else found.pod

    def left(self, pod: Pod, groups: Iterable[Hashable], now: float) -> None:
        """The pod was given nodes to choose from."""
        self.arrived(pod.uid)
        given_up_s = now + _LONGEST_S
        if not self.certified:
            given_up_s = self._uncertain_until(tuple(groups), now)
            if given_up_s <= now:
                return
        answered = AnsweredPod(pod, tuple(groups), now, self.patience_s, given_up_s)
        self._pods[pod.uid] = answered
        for group in answered.groups:
            self._groups.setdefault(group, {})[pod.uid] = answered

    def _uncertain_until(self, groups: tuple[Hashable, ...], now: float) -> float:
        """Until when these groups wait for one of their pods."""
        while self._since and next(iter(self._since.values())) <= now - _DISTRUST_S:
            del self._since[next(iter(self._since))]
        return min(self._since.setdefault(group, now) for group in groups) + _UNCERTAIN_S

    def bound(self, uid: str) -> None:
        """The watch shows the pod on a node: whoever asked about it meant it."""
        answered = self._pods.get(uid)
        for group in () if answered is None else answered.groups:
            self._since.pop(group, None)
        self.arrived(uid)

    def arrived(self, uid: str) -> None:
        """The pod is bound, gone, or asked about again."""
        answered = self._pods.pop(uid, None)
        for group in () if answered is None else answered.groups:
            members = self._groups[group]
            del members[uid]
            if not members:
                del self._groups[group]

    def still_waits(self, pod: Pod) -> None:
        """The pod was seen without a node."""
        answered = self._pods.get(pod.uid)
        if answered is None or pod.resource_version == answered.pod.resource_version:
            return
        condition = pod.scheduled_condition
        longest_s = _LONGEST_S
        if pod.nominated_node:
            longest_s = _LONGEST_NOMINATED_S
        elif condition is not None and condition.status == "False":
            longest_s = _DOUBT_S
        given_up_s = answered.answered_s + longest_s
        answered.given_up_s = given_up_s if self.certified else min(given_up_s, answered.given_up_s)

    def awaited(self, pod: Pod, groups: Iterable[Hashable], now: float) -> list[AnsweredPod]:
        """The other pods of these groups that are on their way."""
        found: dict[str, AnsweredPod] = {}
        for group in groups:
            found |= self._groups.get(group, {})
        for uid in [uid for uid, answered in found.items() if answered.given_up_s <= now]:
            self.arrived(uid)
            del found[uid]
        found.pop(pod.uid, None)
        return list(found.values())
