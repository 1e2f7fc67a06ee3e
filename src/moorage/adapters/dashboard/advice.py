"""What would help a waiting pod, for the page of a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from moorage.adapters.dashboard.backend import Refused
from moorage.engine.counterfactual import suggest
from moorage.views.world import World
from moorage.wire.rewriting import Rewriter

log = structlog.get_logger()
Raw = Callable[[str, str, str], Mapping[str, Any] | None]
"""(kind, namespace, name) -> the whole object, None if it is not known."""


def adviser(raw: Raw) -> Callable[[World, str, float], list[dict[str, Any]]]:
    """Finds suggestions; `raw` returns the few objects that a suggestion changes."""

    def advise(world: World, key: str, now: float) -> list[dict[str, Any]]:
        pod = world.pod(key)
        if pod is None:
            raise Refused(f"there is no pod {key} any more")
        if pod.node is not None or world.engine.runner_of(pod) is None:
            return []
        found = suggest(world.engine, pod, now, Rewriter(raw))
        for fault in world.engine.faults.take():
            log.error("a plugin failed", fault=fault)
        return [each.document() for each in found]

    return advise
