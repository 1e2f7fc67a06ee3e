"""Pods that the extender has answered for and whose node it does not know yet.

kube-scheduler never says which node it chose: a pod is under way until the watch shows it bound or gone, until another
request for it comes, or until it counts as given up. It belongs to groups; requests for other pods of a group wait.

Invariants:
- All requests together wait no longer than `patience_s` for one pod, however many there are.
- A pod is under way for at most `_LONGEST_S`. One that has a nominated node and is held up (a volume is being
  provisioned for it, say) gets `_LONGEST_NOMINATED_S`.
- If callers are not authenticated (`certified` is False), a group waits for its pods for `_UNCERTAIN_S` in any
  `_DISTRUST_S`, unless the watch shows one of them bound. Forged requests cannot hold up others for longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field

from moorage.core.pods import Pod
from moorage.core.values import dataclass

_DOUBT_S = 2.0
"""PodScheduled=False that is seen this soon after an answer may be about the attempt before: schedulers write it in the
background."""
_LONGEST_S = 60.0
_UNCERTAIN_S = 5.0
_DISTRUST_S = 60.0
_LONGEST_NOMINATED_S = 600.0


@dataclass(slots=True)
class AnsweredPod:
    """One pod under way."""

    pod: Pod
    """As it was in the request."""
    groups: tuple[Hashable, ...]
    answered_s: float
    patience_s: float
    """How long requests may still wait for it."""
    given_up_s: float
    """From then on it is not under way any more."""


@dataclass(slots=True)
class Underway:
    """All pods under way."""

    patience_s: float = 1.0
    certified: bool = False
    """Whether callers are known to be schedulers."""
    _pods: dict[str, AnsweredPod] = field(default_factory=dict)
    _groups: dict[Hashable, dict[str, AnsweredPod]] = field(default_factory=dict)
    _since: dict[Hashable, float] = field(default_factory=dict)
    """Group -> since when it has been waiting because of callers that are not authenticated; oldest first."""

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Pod | None:
        """The pod with this uid, if it is under way."""
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
        """The watch shows the pod on a node, so the request for it was genuine."""
        answered = self._pods.get(uid)
        for group in () if answered is None else answered.groups:
            self._since.pop(group, None)
        self.arrived(uid)

    def arrived(self, uid: str) -> None:
        """The pod is bound or gone, or there is another request for it."""
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
        """The other pods of these groups that are under way."""
        found: dict[str, AnsweredPod] = {}
        for group in groups:
            found |= self._groups.get(group, {})
        for uid in [uid for uid, answered in found.items() if answered.given_up_s <= now]:
            self.arrived(uid)
            del found[uid]
        found.pop(pod.uid, None)
        return list(found.values())
