"""Queues: which pods are theirs, what these count for, and the bounds of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tests.crossings.audit.devices import CLAIM, claim_names, extended_class, wants_of
from tests.crossings.audit.fractions import GPU, share_of
from tests.crossings.audit.quantities import ENDLESS, bound_milli
from tests.crossings.audit.scene import Object, Scene, is_leaving, labels, namespace_of, priority, requests, spec
from tests.crossings.audit.whatif import WhatIf

LABEL, FIXED = "moorage.dev/queue", "moorage.dev/preemptible"
_BY_CLASS = "deviceclass.resource.kubernetes.io/"


Holds: TypeAlias = dict[str, tuple[Counter[str], Counter[str]]]
"""Queue -> what its pods have, and those of them that may not be evicted."""


def queue_of(scene: Scene, pod: Object) -> str:
    """The queue of a pod; empty if it has none."""
    if not scene.of("Queue"):
        return ""
    space = scene.of("Namespace").get(("", namespace_of(pod))) or {}
    return labels(pod).get(LABEL) or labels(space).get(LABEL) or ""


def path(scene: Scene, name: str) -> list[Object]:
    """The queue and those above it."""
    found: list[Object] = []
    while name:
        queue = scene.of("Queue").get(("", name))
        if queue is None or queue in found:
            break
        found.append(queue)
        name = spec(queue).get("parent") or ""
    return found


def is_usable(scene: Scene, name: str) -> bool:
    """Whether pods of this queue may start: it is there and has no others below it."""
    queues = scene.of("Queue")
    return ("", name) in queues and not any(spec(each).get("parent") == name for each in queues.values())


def is_fixed(pod: Object) -> bool:
    """Whether it may not be evicted for a share."""
    said = labels(pod).get(FIXED)
    return said == "false" if said else priority(pod) >= 100


def amounts(scene: Scene, pod: Object, counted: set[tuple[str, str]] | None = None) -> Counter[str]:
    """What a pod counts for in its queue, in thousandths. A shared claim counts for its first user: `counted` has those
    that have been met.
    """
    found: Counter[str] = Counter(requests(pod))
    if share_of(pod):
        found[GPU] = share_of(pod)
    for name, template in claim_names(pod):
        key = (namespace_of(pod), name)
        if template:
            source = scene.of("ResourceClaimTemplate").get((namespace_of(pod), template))
            asked = {} if source is None else spec(source)["spec"]
        else:
            claim = scene.of(CLAIM).get(key)
            if counted is not None and key in counted:
                continue
            asked = {} if claim is None else spec(claim)
        if counted is not None:
            counted.add(key)
        for want in wants_of(asked):
            found[resource_of(scene, want.class_name)] += 1000 * want.number
    for resource in requests(pod):
        if extended_class(scene, resource):
            found[_BY_CLASS + extended_class(scene, resource)] += 0
    return found


def resource_of(scene: Scene, class_name: str) -> str:
    """Under which name devices of a class count."""
    found = scene.of("DeviceClass").get(("", class_name)) or {}
    return str(spec(found).get("extendedResourceName") or _BY_CLASS + class_name)


def held(scene: Scene, pods: Iterable[Object]) -> Holds:
    """Queue -> what its pods hold together, and those of them that may not be evicted; also of queues above. Pods that
    are leaving count no more.
    """
    found: Holds = {}
    counted: set[tuple[str, str]] = set()
    for pod in pods:
        name = queue_of(scene, pod)
        if not name or is_leaving(pod):
            continue
        has = amounts(scene, pod, counted)
        for queue in path(scene, name):
            everything, fixed = found.setdefault(queue["metadata"]["name"], (Counter(), Counter()))
            everything.update(has)
            if is_fixed(pod):
                fixed.update(has)
    return found


class Excess(NamedTuple):
    """A bound that is broken."""

    queue: str
    resource: str
    fixed: bool
    """Whether it is the quota for pods that may not be evicted, not the limit."""
    has: int
    bound: int

    def __str__(self) -> str:
        what = "quota for fixed pods" if self.fixed else "limit"
        return f"queue {self.queue} has {self.has}m {self.resource}, its {what} is {self.bound}m"


def excesses(scene: Scene, name: str, holds: Holds) -> Iterator[Excess]:
    """Every bound on the way up from a queue that is broken."""
    for queue in path(scene, name):
        label = queue["metadata"]["name"]
        everything, fixed = holds.get(label, (Counter(), Counter()))
        for resource, share in (spec(queue).get("resources") or {}).items():
            limit = bound_milli(share["limit"]) if "limit" in share else ENDLESS
            quota = bound_milli(share.get("quota", 0))
            if everything[resource] > limit:
                yield Excess(label, resource, False, everything[resource], limit)
            if fixed[resource] > quota:
                yield Excess(label, resource, True, fixed[resource], quota)


def queue_refuses(view: WhatIf, pod: Object) -> str:
    """Why the queue of a pod does not let it start; empty if it does."""
    scene = view.scene
    name = queue_of(scene, pod)
    if not name:
        return ""
    if not is_usable(scene, name):
        return "no such queue"
    others = [other for other, _ in view.standing()]
    before, after = held(scene, others), held(scene, [*others, pod])
    return next((str(each) for each in excesses(scene, name, after) if grows(each, before, after)), "")


def beyond_quota(scene: Scene, name: str, holds: Holds) -> list[str]:
    """The resources of which a queue has more than its quota."""
    queue = scene.of("Queue").get(("", name))
    shares = {} if queue is None else spec(queue).get("resources") or {}
    has = holds.get(name, (Counter(), Counter()))[0]
    return [resource for resource, share in shares.items() if has[resource] > bound_milli(share.get("quota", 0))]


def beside(scene: Scene, victim: str, claimant: str) -> str:
    """The queue on the way up from that of a victim that stands beside one of the claimant; empty if there is none."""
    mine = {queue["metadata"]["name"] for queue in path(scene, claimant)}
    below = ""
    for queue in path(scene, victim):
        if queue["metadata"]["name"] in mine:
            return below
        below = queue["metadata"]["name"]
    return below


def grows(excess: Excess, before: Holds, after: Holds) -> bool:
    """Whether there is more of what is too much than before."""
    had = before.get(excess.queue, (Counter(), Counter()))[excess.fixed]
    return after[excess.queue][excess.fixed][excess.resource] > had[excess.resource]
