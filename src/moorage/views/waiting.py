"""Where a pod waits, as far as the API server can tell.

A scheduler's queue is in its memory. What others can see are gates, the PodScheduled condition, nominations, and
FailedScheduling events; from these follows where a pod must be:

    gated           it has scheduling gates
    active          it has not been tried yet, or is about to be tried again
    backoff         its last attempt ended with an error, and its backoff is not over
    unschedulable   it fits nowhere, and waits for something to change

This holds for pods of every scheduler that behaves like kube-scheduler, Moorage included. A pod that fits nowhere also
backs off if something changes that may help it; only its scheduler knows this, and here it counts as unschedulable.
"""

from __future__ import annotations

from typing import NamedTuple

from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.units import Place

_GATED, _ERROR = "SchedulingGated", "SchedulerError"


class Tried(NamedTuple):
    """What FailedScheduling events say about the attempts for a pod."""

    last_s: float
    """When the last one was."""
    times: int
    note: str


def guess(pod: Pod, tried: Tried | None = None, now_s: float = 0.0) -> tuple[Place, str]:
    """Where a pod without a node waits, and why; without `tried`, as far as the pod itself says."""
    if pod.gates:
        return Place.GATED, f"waits for the gates {', '.join(pod.gates)}"
    condition = pod.scheduled_condition
    if condition is not None and condition.reason == _GATED:
        # The API server sets it at creation, and leaves it when the gates are removed.
        condition = None
    if condition is None and tried is None:
        return Place.ACTIVE, f"not tried yet by {pod.template.scheduler_name}"
    said = (condition.message if condition is not None else "") or (tried.note if tried is not None else "")
    if condition is not None and condition.reason == _ERROR:
        backs_off = tried is not None and now_s - tried.last_s < Backoff().after(tried.times)
        return Place.BACKOFF if backs_off else Place.ACTIVE, said
    if pod.nominated_node:
        said = "; ".join(filter(None, (f"waits for room on {pod.nominated_node}", said)))
    return Place.UNSCHEDULABLE, said
