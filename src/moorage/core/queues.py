"""Queues: who gets how much of the cluster. The values that objects become, and the queue that a pod names.

Objects of Moorage, KAI and Volcano become the same value. Of several with one name, the one of Moorage counts, then
that of KAI. How the cluster is divided is in `fairshare`, what each queue holds and waits for in `queueledger`.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide
from moorage.core.quantity import format_fine
from moorage.core.selectors import EVERYTHING, Selector
from moorage.core.values import dataclass

QUEUE = "Queue"
KAI_QUEUE = "Queue.scheduling.run.ai"
VOLCANO_QUEUE = "Queue.scheduling.volcano.sh"
QUEUE_KINDS = (QUEUE, KAI_QUEUE, VOLCANO_QUEUE)
"""The kinds that become a `Queue`; of several objects with one name the one whose kind comes first here counts."""

QUEUE_LABEL = "moorage.dev/queue"
_VOLCANO = ("scheduling.volcano.sh/queue-name",)
QUEUE_LABELS = (QUEUE_LABEL, "kai.scheduler/queue", "kueue.x-k8s.io/queue-name", *_VOLCANO)
"""Labels by which a pod, or a namespace for its pods, names a queue; the first one that is there counts."""
PREEMPTIBLE_LABEL = "moorage.dev/preemptible"
KAI_PREEMPTIBILITY = "kai.scheduler/preemptibility"
_PREEMPTIBLE = {"true": True, "false": False}
_KAI_PREEMPTIBLE = {"preemptible": True, "non-preemptible": False}
TASK_ORDER_LABEL = "moorage.dev/task-order"
_MOST_DIGITS = 9

DEFAULT_PRIORITY = 100
WEIGHT_UNIT = 1000
"""Weights are kept in thousandths, so that all arithmetic is exact."""


@dataclass(frozen=True, slots=True)
class ResourceShare:
    """What a queue has of one resource that it names. Fine amounts (`core.quantity`)."""

    quota: int = 0
    """What it is guaranteed; `UNLIMITED` if it has no end."""
    weight: int = WEIGHT_UNIT
    """Its weight in what is left when all quotas are served, in thousandths; 0: it gets none of it by right."""
    limit: int = UNLIMITED
    """What its pods may have together at most."""


UNGOVERNED = ResourceShare(UNLIMITED)
"""What holds for a resource that a queue does not name."""


@dataclass(frozen=True, slots=True)
class Queue(ClusterWide):
    """A queue. One with children divides its share among them; only leaves take pods."""

    name: str
    uid: str = ""
    parent: str = ""
    """The name of the queue that it is a part of; empty for one that shares the cluster itself."""
    priority: int = DEFAULT_PRIORITY
    resources: FrozenDict[str, ResourceShare] = FrozenDict()
    namespaces: Selector = EVERYTHING
    """The namespaces whose pods may use it."""
    preempt_min_runtime_s: float | None = None
    """How long its pods run before they may be evicted for others of the same leaf; None: as the parent says."""
    reclaim_min_runtime_s: float | None = None
    """The same for pods of other queues."""
    created_s: float = 0.0
    generation: int = 0

    def share_of(self, resource: str) -> ResourceShare:
        """What the queue has of a resource."""
        return self.resources.get(resource, UNGOVERNED)


def queue_kind(objects: Mapping[str, Mapping[str, object]], name: str) -> str:
    """The kind of the object that counts of those with this name; `objects` by kind and name."""
    return next((kind for kind in QUEUE_KINDS if name in objects.get(kind, EMPTY)), QUEUE)


def bound_text(resource: str, amount: int, no_end: str = "-1") -> str:
    """A quota or a limit as it is written."""
    return no_end if amount >= UNLIMITED else format_fine(resource, amount)


def weight_text(thousandths: int) -> str:
    """A weight as it is written."""
    return f"{thousandths / WEIGHT_UNIT:g}"


def term_text(term: str, resource: str, amount: int) -> str:
    """A quota, a limit or a weight as it is written."""
    return weight_text(amount) if term == "weight" else bound_text(resource, amount)


def queue_name(
    labels: Mapping[str, str],
    namespace_labels: Mapping[str, str] = EMPTY,
    default: str = "",
    *,
    annotations: Mapping[str, str] = EMPTY,
) -> str:
    """The queue that a pod names by its labels or by Volcano's annotation, else its namespace by its labels, else the
    default; empty for none.
    """
    for named, keys in (labels, QUEUE_LABELS), (annotations, _VOLCANO), (namespace_labels, QUEUE_LABELS):
        for key in keys if named else ():
            if named.get(key):
                return named[key]
    return default


def is_preemptible(labels: Mapping[str, str], priority: int, below: int = DEFAULT_PRIORITY) -> bool:
    """Whether a pod may be evicted for a share: what a label says, else whether its priority is lower than `below`."""
    said = _PREEMPTIBLE.get(labels.get(PREEMPTIBLE_LABEL, ""))
    if said is None:
        said = _KAI_PREEMPTIBLE.get(labels.get(KAI_PREEMPTIBILITY, ""))
    return priority < below if said is None else said


def task_order(labels: Mapping[str, str]) -> int:
    """The place of a pod among those of its job: higher ones start first and are evicted last; 0 without a number."""
    text = labels.get(TASK_ORDER_LABEL)
    if text is None:
        return 0
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else 0
