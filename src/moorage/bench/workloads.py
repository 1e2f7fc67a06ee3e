"""Pods that look at other pods: spread over zones, affinity and anti-affinity, and gangs; and pods with devices.

Most workloads are one class of pods, so that the figure says what the rule costs on top of an ordinary decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from moorage.core.affinity import PodAffinity, PodTerm, PreferredPodTerm, SpreadConstraint
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import HOSTNAME, ZONE
from moorage.core.membership import GROUP_ANNOTATIONS, MIN_AVAILABLE
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.queues import QUEUE_LABEL, WEIGHT_UNIT, Queue, ResourceShare
from moorage.core.resources import Requests
from moorage.core.selectors import selector_from_labels
from moorage.core.shareasks import KAI_FRACTION

SCHEDULER = "moorage"
GANG = 3
"""Members of a gang."""
_TEMPLATES = 20
_LEVELS = 3
_MEMORY_BYTES = 500 << 20


def _requests(cpu_milli: int) -> Requests:
    return Requests((("cpu", cpu_milli), ("memory", _MEMORY_BYTES)), cpu_milli, _MEMORY_BYTES)


_REQUESTS = _requests(100)


def _pods(
    name: str, count: int, labels: dict[str, str], requests: Requests = _REQUESTS, **rules: object
) -> Iterator[Pod]:
    template = PodTemplate(
        scheduler_name=SCHEDULER,
        requests=requests,
        labels=FrozenDict(labels),
        **rules,  # type: ignore[arg-type]
    )
    for number in range(count):
        yield Pod(uid=f"{name}-{number}", name=f"{name}-{number}", template=template, requests=requests)


def spread_pods(count: int) -> Iterator[Pod]:
    """Pods that must be spread over the zones."""
    labels = {"app": "spread"}
    rule = SpreadConstraint(5, ZONE, hard=True, selector=selector_from_labels(labels))
    return _pods("spread", count, labels, spread=(rule,))


def affinity_pods(count: int) -> Iterator[Pod]:
    """Pods that must share a zone."""
    labels = {"app": "affinity"}
    term = PodTerm(selector_from_labels(labels), ZONE)
    return _pods("affinity", count, labels, pod_affinity=PodAffinity((term,)))


def anti_affinity_pods(count: int) -> Iterator[Pod]:
    """Pods of which no two may share a host."""
    labels = {"app": "anti-affinity"}
    term = PodTerm(selector_from_labels(labels), HOSTNAME)
    return _pods("anti-affinity", count, labels, pod_anti_affinity=PodAffinity((term,)))


def preferred_affinity_pods(count: int) -> Iterator[Pod]:
    """Pods that like to share a zone."""
    labels = {"app": "preferred"}
    term = PreferredPodTerm(10, PodTerm(selector_from_labels(labels), ZONE))
    return _pods("preferred", count, labels, pod_affinity=PodAffinity((), (term,)))


def selector_pods(count: int) -> Iterator[Pod]:
    """Pods that must be spread over zones and hosts, each with a selector of its own."""
    for number in range(count):
        labels = {"app": f"app-{number}"}
        selector = selector_from_labels(labels)
        rules = (SpreadConstraint(5, ZONE, True, selector), SpreadConstraint(1, HOSTNAME, True, selector))
        yield from _pods(f"selector-{number}", 1, labels, spread=rules)


def mixed_pods(count: int) -> Iterator[Pod]:
    """Twenty templates in turn, of every kind above, as many teams at once would send them."""
    each = -(-count // _TEMPLATES)
    streams = []
    for number in range(_TEMPLATES // 4):
        labels = {"app": f"mixed-{number}"}
        selector = selector_from_labels(labels)
        zone, host = PodTerm(selector, ZONE), PodTerm(selector, HOSTNAME)
        streams += [
            _pods(f"plain-{number}", each, {"app": f"plain-{number}"}),
            _pods(f"spread-{number}", each, labels, spread=(SpreadConstraint(5, ZONE, True, selector),)),
            _pods(f"near-{number}", each, labels, pod_affinity=PodAffinity((), (PreferredPodTerm(10, zone),))),
            _pods(f"apart-{number}", each, labels, pod_anti_affinity=PodAffinity((), (PreferredPodTerm(10, host),))),
        ]
    return islice(chain.from_iterable(zip(*streams, strict=True)), count)


def gang_pods(count: int) -> Iterator[Pod]:
    """Gangs of three, one after another, each a Job whose pods name and size it by annotations."""
    for number in range(count // GANG):
        owner = Owner("Job", f"gang-{number}", f"gang-{number}", "batch/v1")
        said = FrozenDict({GROUP_ANNOTATIONS[0]: f"gang-{number}", MIN_AVAILABLE: str(GANG)})
        yield from _pods(f"gang-{number}", GANG, {"app": "gangs"}, annotations=said, owner=owner)


def team_pods(count: int) -> Iterator[Pod]:
    """Pods of a thousand teams, which name a queue each; see `team_queues`."""
    names = [queue.name for queue in team_queues() if queue.name.count("-") == _LEVELS]
    each = -(-count // len(names))
    streams = [_pods(name, each, {QUEUE_LABEL: name}) for name in names]
    return islice(chain.from_iterable(zip(*streams, strict=True)), count)


def team_queues() -> list[Queue]:
    """Ten divisions of ten departments of ten teams, all with quotas and weights, and no limit in reach."""
    queues, above = list[Queue](), [""]
    for level in range(_LEVELS):
        amount = 10_000_000 // 10 ** (level + 1)
        share = ResourceShare(amount, WEIGHT_UNIT, 100 * amount)
        resources = FrozenDict({"cpu": share})
        made = [
            Queue(f"{parent or 'team'}-{number}", parent=parent, resources=resources)
            for parent in above
            for number in range(10)
        ]
        queues += made
        above = [queue.name for queue in made]
    return queues


def device_pods(count: int) -> Iterator[Pod]:
    """Pods with a claim of their own each, as if they were made from one template."""
    for number in range(count):
        yield from _pods(f"device-{number}", 1, {"app": "devices"}, claims=(f"device-{number}",))


def share_pods(count: int) -> Iterator[Pod]:
    """Shares of devices in ten sizes, whole ones and pods without, as a cluster that trains and serves sends them.

    They are twelve classes for the default profile, too, as they differ in cpu.
    """
    sizes = ("0.81", "0.47", "", "0.32", "1", "0.65", "0.5", "0.25", "0.9", "0.1", "", "0.76")
    each = -(-count // len(sizes))
    streams = []
    for number, size in enumerate(sizes):
        annotations, asked = FrozenDict({KAI_FRACTION: size} if size else {}), _requests(100 + number)
        streams.append(_pods(f"share-{number}", each, {"app": "shares"}, asked, annotations=annotations))
    return islice(chain.from_iterable(zip(*streams, strict=True)), count)
