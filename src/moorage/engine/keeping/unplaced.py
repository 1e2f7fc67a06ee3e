"""Pods that wait in vain for nodes of their rule are replaced, so that default scheduling can place their successors.

The webhook gives a pod the labels of its rule as nodeSelector, which cannot be changed any more. Where no node with
them could take the pod, and none is on its way (`core.takers`), it lets later pods through unchanged after
`fallbackAfter`; but those that it has sent there before would wait for ever. When one has waited for so long, all pods
of its workload that wait in vain are replaced; that is done once in `moveAgainAfter`, whatever becomes of it.
"""

from __future__ import annotations

from moorage.core.commands import EvictPod, KeeperCommand
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.core.strategies import strategy_of
from moorage.core.strategy import stamp_of, stamped_rule
from moorage.core.takers import expected_s, lack_of
from moorage.engine.evictor import ref_of
from moorage.engine.keeping.fallback import is_movable
from moorage.engine.keeping.moves import Moves
from moorage.engine.keeping.notes import KeeperReason, note
from moorage.framework.keeping import KeeperConfiguration

CAUSE = "unplaced"
SLACK_S = 5.0
"""How much later than the webhook, which has to be certain by then; creation times are in whole seconds."""


class Unplaced:
    """The concern of pods that were given a rule and have no node."""

    def __init__(self, settings: KeeperConfiguration, state: ClusterState, moves: Moves) -> None:
        self._settings = settings
        self._state = state
        self._moves = moves
        self._waiting: dict[str, Pod] = {}
        """By uid."""
        self._helped_s: dict[str, float] = {}
        """Owner (`owner_key`) -> when its pods were replaced."""

    def pod_seen(self, pod: Pod) -> None:
        """A pod was added or changed."""
        if pod.node is None and is_movable(pod) and stamp_of(pod.template).text:
            self._waiting[pod.uid] = pod
        else:
            self.pod_gone(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._waiting.pop(uid, None)

    def next_s(self) -> float | None:
        """When a pod will have waited long enough; None if none waits."""
        return min((self._due_s(pod) for pod in self._waiting.values()), default=None)

    def plan(self, now: float) -> list[KeeperCommand]:
        """What to evict now: all pods of a workload that wait for nodes of a rule."""
        commands: list[KeeperCommand] = []
        due = {owner_key(pod.template) for pod in self._waiting.values() if self._due_s(pod) <= now}
        lacks: dict[PodTemplate, str] = {}
        for pod in [pod for pod in self._waiting.values() if owner_key(pod.template) in due]:
            lack = lacks.get(pod.template)
            if lack is None:
                lack = lacks[pod.template] = self._lack(pod.template, now)
            if not lack:
                continue
            self._helped_s[owner_key(pod.template)] = now
            text = f"{lack[0].upper()}{lack[1:]}: default scheduling places the next pod"
            commands.append(note(pod, KeeperReason.STRATEGY_FALLBACK, text, warning=True))
            self._moves.ask(pod.uid)
            commands.append(EvictPod(ref_of(pod), "", CAUSE))
            del self._waiting[pod.uid]
        self._helped_s = {
            owner: at_s for owner, at_s in self._helped_s.items() if now - at_s < self._settings.move_again_after_s
        }
        return commands

    def _due_s(self, pod: Pod) -> float:
        """When the pod is looked at: it has waited, and its workload has not just been helped."""
        helped_s = self._helped_s.get(owner_key(pod.template))
        again_s = 0.0 if helped_s is None else helped_s + self._settings.move_again_after_s
        return max(pod.created_s + self._settings.fallback_s + SLACK_S, again_s)

    def _lack(self, template: PodTemplate, now: float) -> str:
        """Why such pods wait in vain for nodes of their rule; empty if they do not, or may not."""
        holding = strategy_of(self._state, template)
        if holding is None or holding.strategy is None:
            return ""
        number = stamped_rule(holding.strategy, stamp_of(template))
        if number is None:
            return ""
        rule = holding.strategy.rules[number]
        lack = lack_of(self._state, template, rule)
        if lack is None or expected_s(self._state, template, rule, now) is not None:
            return ""
        return lack.told(rule, "of its rule")
