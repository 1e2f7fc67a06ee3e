"""Pods that wait for nodes of the rule that the webhook gave them: since when, also after they were given up.

The keeper replaces a pod that has waited in vain. Its successor is asked about a moment later, when nothing waits any
more: so what was known of the pod is kept, until a pod of the rule gets a node or the rule has room.
"""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod
from moorage.core.strategy import Stamp, Strategy, parse_stamp, stamp_of, stamped_rule

_MOST_GIVEN_UP = 1000
_MOST_LABELS = 32
"""Of a node selector; one with more is no rule's, and is not kept."""


class Stranded:
    """Waiting pods by group (`strategy_group`) and stamp, and those that had waited for `patience_s` when they went."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: dict[str, tuple[str, Stamp, float]] = {}
        """Uid -> group, stamp, since when."""
        self._of_group: dict[str, dict[Stamp, dict[str, float]]] = {}
        self._given_up: dict[str, dict[Stamp, float]] = {}
        """Group -> stamp -> since when a pod had waited that is gone."""
        self._known = 0
        """How many stamps of all groups are given up."""

    def seen(self, pod: Pod, now_s: float) -> None:
        """A pod was added or changed."""
        stamp = stamp_of(pod.template)
        waits = _is_rule(stamp) and pod.node is None and pod.deleted_s is None and not pod.finished
        known = self._waiting.get(pod.uid)
        if not waits:
            if pod.node is not None and self._given_up:
                self._forget(strategy_group(pod.template), {stamp})
            self.gone(pod.uid, now_s, placed=pod.node is not None)
        elif known is None or known[1] != stamp:
            self._drop(pod.uid)
            group = strategy_group(pod.template)
            self._waiting[pod.uid] = group, stamp, pod.created_s
            self._of_group.setdefault(group, {}).setdefault(stamp, {})[pod.uid] = pod.created_s

    def gone(self, uid: str, now_s: float, *, placed: bool = False) -> None:
        """A pod is gone, or waits no more."""
        known = self._drop(uid)
        if known is None:
            return
        group, stamp, since_s = known
        if not placed and now_s - since_s >= self._patience_s:
            if self._known >= _MOST_GIVEN_UP:
                self._given_up.clear()
                self._known = 0
            given_up = self._given_up.setdefault(group, {})
            self._known += stamp not in given_up
            given_up[stamp] = min(since_s, given_up.get(stamp, since_s))

    def _drop(self, uid: str) -> tuple[str, Stamp, float] | None:
        """A pod waits no more for what it waited for: its group, stamp and since when."""
        known = self._waiting.pop(uid, None)
        if known is not None:
            group, stamp, _ = known
            stamps = self._of_group[group]
            del stamps[stamp][uid]
            if not stamps[stamp]:
                del stamps[stamp]
            if not stamps:
                del self._of_group[group]
        return known

    def _forget(self, group: str, stamps: Iterable[Stamp]) -> None:
        """What pods that are gone told of these stamps does not count any more."""
        known = self._given_up.get(group, {})
        for stamp in stamps:
            self._known -= known.pop(stamp, None) is not None
        if not known:
            self._given_up.pop(group, None)

    def since_s(self, group: str, strategy: Strategy, rule: int) -> float | None:
        """Since when a pod of the group has waited for this rule of its strategy; None if none has."""
        waiting = [(stamp, min(uids.values())) for stamp, uids in self._of_group.get(group, {}).items()]
        found = [*waiting, *self._given_up.get(group, {}).items()]
        return min((since_s for stamp, since_s in found if stamped_rule(strategy, stamp) == rule), default=None)

    def helped(self, group: str, strategy: Strategy, rule: int) -> None:
        """The rule has room again: pods that are gone tell nothing any more."""
        known = self._given_up.get(group, {})
        self._forget(group, [stamp for stamp in known if stamped_rule(strategy, stamp) == rule])


def _is_rule(stamp: Stamp) -> bool:
    """Whether a stamp may be one that the webhook has written."""
    return parse_stamp(stamp.text) is not None and len(stamp.node_selector) <= _MOST_LABELS
