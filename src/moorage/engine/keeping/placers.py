"""Who places the successor of a pod, and whether that is certain enough for an eviction.

By a plugin: in the profile of the pod's own scheduler, if that scheduler is Moorage's. A stock kube-scheduler may go by
the name of a profile, `default-scheduler` above all: that name is believed only if the latest pod that was bound under
it carries the term of a Moorage leader.

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
        self._bound_s: dict[bool, float] = {}
        """Whether a pod of the default scheduler carries a term -> when the latest such pod was created."""
        self._answered_s: float | None = None
        self._excluded: frozenset[str] | None = None
        self._wanted_s: float | None = None

    def pod_seen(self, pod: Pod) -> None:
        """A pod was added or changed."""
        template = pod.template
        tied = template.owner is not None and template.owner.kind == "Node"
        if pod.node is None or tied or template.scheduler_name != DEFAULT_SCHEDULER:
            return
        by_us = TERM_ANNOTATION in template.annotations
        self._bound_s[by_us] = max(self._bound_s.get(by_us, 0.0), pod.created_s)

    def plugin(self, pod: Pod, hook: type[Hook]) -> Hook | None:
        """The plugin with this hook that will place the pod's successor, None if none is known to."""
        name = pod.template.scheduler_name
        if name == DEFAULT_SCHEDULER and self._bound_s.get(True, -1.0) < self._bound_s.get(False, 0.0):
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

    def _answers(self, now: float) -> bool:
        return self._answered_s is not None and now - self._answered_s <= FRESH_S
