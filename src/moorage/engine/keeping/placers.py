"""Who places the successor of a pod, and whether that is certain enough for an eviction.

By a plugin: in the profile of the pod's own scheduler, if that scheduler is Moorage's. A stock kube-scheduler may go by
the name of a profile, `default-scheduler` above all: that name is believed only if the latest pod that was bound under
it got the term of a Moorage leader with its node. Only pods that were seen waiting without a term tell: what comes with
a node, or with a term, was written by its owner. As long as none was seen, pods with an owner that had a node from the
beginning are believed.

By the webhook: if it has answered lately. Whoever carries out what the keeper orders asks it for as long as the keeper
has a reason to know (`wants_webhook`).
"""

from __future__ import annotations

from moorage.core.annotations import TERM_ANNOTATION
from moorage.core.events import WebhookAsked
from moorage.core.pods import DEFAULT_SCHEDULER, Pod
from moorage.engine.engine import Engine
from moorage.framework.instances import Hook

FRESH_S = 10.0
"""How long an answer of the webhook is believed: a few times as long as it is until the next."""


class Placers:
    """What is known of schedulers and of the webhook."""

    def __init__(self, world: Engine) -> None:
        self._world = world
        self._waiting: set[str] = set()
        """Pods of the default scheduler without a node and a term."""
        self._by_us: bool | None = None
        """Whether the latest of them that got a node got a term, too; None if none did."""
        self._found_s: dict[bool, float] = {}
        """Whether a pod that was found with a node carries a term -> when the latest such pod was created."""
        self._answered_s: float | None = None
        self._excluded: frozenset[str] | None = None
        self._wanted_s: float | None = None

    def pod_seen(self, pod: Pod) -> None:
        """A pod was added or changed."""
        template = pod.template
        if template.scheduler_name != DEFAULT_SCHEDULER:
            return
        by_us = TERM_ANNOTATION in template.annotations
        if pod.node is None:
            (self._waiting.discard if by_us else self._waiting.add)(pod.uid)
        elif pod.uid in self._waiting:
            self._waiting.discard(pod.uid)
            self._by_us = by_us
        elif template.owner is not None and template.owner.kind != "Node":
            self._found_s[by_us] = max(self._found_s.get(by_us, 0.0), pod.created_s)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._waiting.discard(uid)

    def plugin(self, pod: Pod, hook: type[Hook]) -> Hook | None:
        """The plugin with this hook that will place the pod's successor, None if none is known to."""
        name = pod.template.scheduler_name
        if name == DEFAULT_SCHEDULER and not self._is_ours():
            return None
        runner = self._world.runners.get(name)
        return None if runner is None else runner.plugins.first(hook)

    def heard(self, event: WebhookAsked, now: float) -> None:
        """The webhook was asked."""
        self._answered_s = None if event.problem else now
        self._excluded = event.excluded

    def webhook(self, pod: Pod, stamped: bool, now: float) -> bool:
        """Whether the webhook will give the pod's successor its rule; `stamped`: it has done so for its siblings."""
        self._wanted_s = now
        asked_about = stamped or (self._excluded is not None and pod.namespace not in self._excluded)
        return self._answers(now) and asked_about

    def wants_webhook(self, now: float) -> bool:
        """Whether somebody has lately wanted to know if the webhook answers."""
        return self._wanted_s is not None and now - self._wanted_s <= 2 * FRESH_S

    def awaited(self, now: float) -> bool:
        """Whether somebody has just wanted to know, and that was not known."""
        return self._wanted_s == now and not self._answers(now)

    def _is_ours(self) -> bool:
        """Whether the default scheduler is Moorage's."""
        if self._by_us is not None:
            return self._by_us
        return self._found_s.get(True, -1.0) >= self._found_s.get(False, 0.0)

    def _answers(self, now: float) -> bool:
        return self._answered_s is not None and now - self._answered_s <= FRESH_S
