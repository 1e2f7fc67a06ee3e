"""What waiting pods of queues ask for, so that those are found that differ in what they request only."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from moorage.core.pods import Pod
from moorage.core.resources import NO_REQUESTS
from moorage.core.templatecache import TemplateCache
from moorage.engine.context import EngineContext
from moorage.engine.kinds import looks_of
from moorage.engine.roomefforts import RoomRequest
from moorage.engine.sharing import Sharing
from moorage.engine.units import Unit

_KEPT = 65_536


class Askings:
    """What units ask for, by the profiles in force."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._known: TemplateCache[tuple[Hashable | None]] = TemplateCache(_KEPT)

    def clear(self) -> None:
        """There are other profiles."""
        self._known.clear()

    def of(self, unit: Unit, sharing: Sharing) -> RoomRequest | None:
        """What a unit asks for; None if it is a gang, or like no other."""
        pod = unit.pod
        if unit.gang is not None:
            return None
        known = self._known.get(pod.template)
        looks = (self._known.keep(pod.template, (self._bare(pod),)) if known is None else known)[0]
        if looks is None:
            return None
        template, member = pod.template, sharing.member(pod)
        names = tuple(name for name, _ in pod.requests.amounts)
        like = (template.namespace, template.scheduler_name, template.priority, member.preemptible, names, looks)
        return RoomRequest(like, tuple(amount for _, amount in pod.requests.amounts))

    def _bare(self, pod: Pod) -> Hashable | None:
        """What a pod looks like but for its requests."""
        template = replace(pod.template, requests=NO_REQUESTS, asks=(), limits=())
        return looks_of(self._context, replace(pod, template=template, requests=NO_REQUESTS))
