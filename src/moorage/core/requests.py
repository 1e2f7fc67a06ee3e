"""The effective request of a pod, as kube-scheduler 1.37 computes it.

- Main containers add up. Init containers run one after the other, so the largest counts; a restartable one (a sidecar)
  stays and adds to everything that starts after it, and to the main containers.
- Pod-level requests replace the sums of cpu, memory and huge pages. The overhead of the runtime class comes on top.
- A bound pod may be in the middle of an in-place resize: the largest of the sums over spec, allocated and actual
  requests counts; when the kubelet has called the resize infeasible, the spec does not.

Amounts are in the units of `moorage.core.resources`. A resource named with 0 differs from one not named at all: only
the latter gets a default in the score's variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from moorage.core.frozen import FrozenDict
from moorage.core.quantity import INT64_MAX
from moorage.core.resources import (
    CPU,
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    MEMORY,
    Requests,
    make_requests,
)
from moorage.core.values import dataclass

Amounts = Mapping[str, int]

NO_AMOUNTS: Amounts = FrozenDict()
SCORE_DEFAULTS: Amounts = FrozenDict({CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY_BYTES})
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The requests of one container by spec and, where the kubelet has reported them, by status."""

    name: str
    requests: Amounts = NO_AMOUNTS
    restartable: bool = False
    """An init container with restartPolicy Always: a sidecar."""
    allocated: Amounts | None = None
    """status.allocatedResources: what the kubelet has agreed to."""
    actual: Amounts | None = None
    """status.resources.requests: what the container runtime has applied."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """Everything of a pod that decides what it takes from its node."""

    containers: tuple[ContainerResources, ...] = ()
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: Amounts = NO_AMOUNTS
    pod_level: Amounts = NO_AMOUNTS
    """spec.resources.requests."""
    allocated: Amounts | None = None
    """status.allocatedResources of the pod itself: the kubelet's sum over all containers."""
    actual: Amounts | None = None
    """status.resources.requests of the pod itself."""
    resize_infeasible: bool = False


_View = Callable[[ContainerResources], Amounts]


@dataclass(slots=True)
class _Sum:
    """Adds up and maximises amounts by name."""

    amounts: dict[str, int] = field(default_factory=dict)

    def add(self, more: Amounts) -> None:
        for name, amount in more.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount

    def raise_to(self, other: Amounts) -> None:
        for name, amount in other.items():
            if amount > self.amounts.get(name, -1):
                self.amounts[name] = amount


def is_pod_level_resource(name: str) -> bool:
    """Whether Kubernetes supports this resource in the pod's own `resources`."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


def effective_requests(pod: PodResources) -> Requests:
    """What the pod takes from a node, and what scores assume that it takes."""
    amounts = _total(pod, NO_AMOUNTS)
    defaults = SCORE_DEFAULTS
    newcomer = None
    if any(is_pod_level_resource(name) for name in pod.pod_level):
        defaults = {name: amount for name, amount in SCORE_DEFAULTS.items() if name not in amounts}
        newcomer = effective_requests(replace(pod, pod_level=NO_AMOUNTS))
    score = _total(pod, defaults) if defaults else amounts
    return make_requests(amounts, score.get(CPU, 0), score.get(MEMORY, 0), newcomer)


def effective_limits(pod: PodResources) -> tuple[tuple[str, int], ...]:
    """What the pod may use at most, where `requests` are limits. Summed alike, but overhead alone is no limit."""
    limits = _total(replace(pod, overhead=NO_AMOUNTS), NO_AMOUNTS)
    summed = {name: amount + pod.overhead.get(name, 0) for name, amount in limits.items() if amount}
    return tuple(sorted((name, min(amount, INT64_MAX)) for name, amount in summed.items()))


def _total(pod: PodResources, defaults: Amounts) -> dict[str, int]:
    total = _Sum(_containers_total(pod, defaults))
    for name, amount in _pod_level(pod).items():
        if is_pod_level_resource(name):
            total.amounts[name] = amount
    total.add(pod.overhead)
    return total.amounts


def _containers_total(pod: PodResources, defaults: Amounts) -> dict[str, int]:
    """The larger of the sums over spec, allocated and actual requests, by resource."""
    total = _Sum()
    if not pod.resize_infeasible:
        total.raise_to(_aggregate(pod, defaults, _by_spec))
        if not _has_status(pod):
            return total.amounts
    if pod.allocated is not None and pod.actual is not None:
        total.raise_to(pod.allocated)
        total.raise_to(pod.actual)
        return total.amounts
    for view in (_by_allocation(pod.resize_infeasible), _by_actuation(pod.resize_infeasible)):
        total.raise_to(_aggregate(pod, defaults, view))
    return total.amounts


def _has_status(pod: PodResources) -> bool:
    return pod.allocated is not None or any(
        container.allocated is not None or container.actual is not None
        for container in (*pod.containers, *pod.init_containers)
    )


def _by_spec(container: ContainerResources) -> Amounts:
    return container.requests


def _by_allocation(resize_infeasible: bool) -> _View:
    def view(container: ContainerResources) -> Amounts:
        if container.allocated is not None:
            return container.allocated
        return NO_AMOUNTS if resize_infeasible else container.requests

    return view


def _by_actuation(resize_infeasible: bool) -> _View:
    allocation = _by_allocation(resize_infeasible)

    def view(container: ContainerResources) -> Amounts:
        return allocation(container) if container.actual is None else container.actual

    return view


def _aggregate(pod: PodResources, defaults: Amounts, view: _View) -> dict[str, int]:
    """The most that the containers take at any one time, seen through one view of their requests."""
    running = _Sum()
    for amounts in _views(pod.containers, defaults, view):
        running.add(amounts)
    sidecars, starting = _Sum(), _Sum()
    for container, amounts in zip(pod.init_containers, _views(pod.init_containers, defaults, view), strict=True):
        if container.restartable:
            running.add(amounts)
            sidecars.add(amounts)
            starting.raise_to(sidecars.amounts)
        else:
            peak = _Sum(dict(sidecars.amounts))
            peak.add(amounts)
            starting.raise_to(peak.amounts)
    running.raise_to(starting.amounts)
    return running.amounts


def _views(containers: Iterable[ContainerResources], defaults: Amounts, view: _View) -> Iterable[Amounts]:
    for container in containers:
        yield {**defaults, **view(container)} if defaults else view(container)


def _pod_level(pod: PodResources) -> Amounts:
    """The pod-level requests, during a resize the largest of spec, actual and allocated ones."""
    if not any(is_pod_level_resource(name) for name in pod.pod_level):
        return NO_AMOUNTS
    if pod.actual is None:
        return pod.pod_level
    largest = _Sum({} if pod.resize_infeasible else dict(pod.pod_level))
    largest.raise_to(pod.actual)
    largest.raise_to(pod.allocated or NO_AMOUNTS)
    return largest.amounts
