"""What every queue has, may have and waits for, counted at one moment: for answers, not for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from moorage.core.fairshare import UNLIMITED, Claim, divide
from moorage.core.frozen import EMPTY
from moorage.core.objects import NAMESPACE
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE_KINDS, Queue, queue_name
from moorage.core.resourcenames import is_scalar_resource
from moorage.core.resources import CPU, MEMORY
from moorage.core.state import ClusterState

MOST_LEVELS = 16
"""A queue that is deeper than this takes no pods."""
_FIRST = (CPU, MEMORY)


class Holding(NamedTuple):
    """What a queue and those below it have of one resource."""

    allocated: int = 0
    """What their pods have or are promised."""
    requested: int = 0
    """The same, and what their pods wait for."""
    share: int = 0
    """The fair share."""

    @property
    def waiting(self) -> int:
        """What their pods wait for."""
        return self.requested - self.allocated


class QueueAccount(NamedTuple):
    """One queue."""

    queue: Queue
    level: int
    """How many queues are above it."""
    has_children: bool
    problem: str
    """Why it takes no pods; empty if it does, or the queues below it."""
    holdings: Mapping[str, Holding]
    """By resource: those that it names, and those that its pods ask for."""
    dominant_share: float
    """The largest part that it has of what it may have of a resource."""


def known_queues(state: ClusterState) -> dict[str, Queue]:
    """The queues that count, by name."""
    found: dict[str, Queue] = {}
    for kind in reversed(QUEUE_KINDS):
        found.update(state.objects.get(kind, {}))
    return found


def queue_problem(queue: Queue, queues: Mapping[str, Queue]) -> str:
    """Why a queue takes no pods; empty if it does."""
    path = [queue.name]
    while queues[path[-1]].parent:
        parent = queues[path[-1]].parent
        if parent not in queues:
            return f"queue {path[-1]} names the parent {parent}, which does not exist"
        if parent in path:
            return f"queue {parent} is part of itself"
        path.append(parent)
        if len(path) > MOST_LEVELS:
            return f"queue {queue.name} is more than {MOST_LEVELS} levels deep"
    return ""


def queue_accounts(state: ClusterState, waiting: Iterable[Pod]) -> list[QueueAccount]:
    """All queues, each before the queues below it; by name. `waiting` are the pods without a node."""
    queues = known_queues(state)
    return _Accounts(state, queues, waiting).listed() if queues else []


class _Accounts:
    """The queues of one moment."""

    def __init__(self, state: ClusterState, queues: Mapping[str, Queue], waiting: Iterable[Pod]) -> None:
        self._state, self._queues = state, queues
        self._problems = {name: queue_problem(queue, queues) for name, queue in queues.items()}
        self._children: dict[str, list[str]] = {}
        for name in sorted(queues):
            self._children.setdefault(queues[name].parent, []).append(name)
        self._allocated: dict[str, dict[str, int]] = {name: {} for name in queues}
        self._requested: dict[str, dict[str, int]] = {name: {} for name in queues}
        self._outside: dict[str, int] = {}
        self._shares: dict[str, dict[str, int]] = {name: {} for name in queues}
        self._count(waiting)
        names = {name for queue in queues.values() for name in queue.resources}
        names |= {name for amounts in self._requested.values() for name in amounts}
        self._total = {name: self._divided(name) for name in sorted(names)}
        for resource, amount in self._total.items():
            self._share_out("", resource, amount)

    def _count(self, waiting: Iterable[Pod]) -> None:
        for record in self._state.records():
            path = self._path(record.pod)
            if not path:
                _add(self._outside, record.pod)
            elif record.pod.deleted_s is None:
                for name in path:
                    _add(self._allocated[name], record.pod)
                    _add(self._requested[name], record.pod)
        for pod in waiting:
            if pod.gates or self._state.record(pod.uid) is not None:
                continue
            promised = self._state.nominations.node_of(pod.uid) is not None
            for name in self._path(pod):
                _add(self._requested[name], pod)
                if promised:
                    _add(self._allocated[name], pod)

    def _path(self, pod: Pod) -> list[str]:
        """The leaf that a pod counts in, and the queues above it; empty outside of any share."""
        namespace = self._state.object(NAMESPACE, pod.namespace)
        name = queue_name(pod.template.labels, EMPTY if namespace is None else namespace.labels)
        if name not in self._queues or name in self._children or self._problems[name]:
            return []
        path = [name]
        while self._queues[path[-1]].parent:
            path.append(self._queues[path[-1]].parent)
        return path

    def _divided(self, resource: str) -> int:
        column = self._state.resources.known(resource)
        offered = 0 if column is None else int(np.sum(self._state.resources.allocatable[column, self._state.rows()]))
        return max(0, offered - self._outside.get(resource, 0))

    def _share_out(self, parent: str, resource: str, amount: int) -> None:
        siblings = [name for name in self._children.get(parent, ()) if not self._problems[name]]
        claims = []
        for name in siblings:
            queue, requested = self._queues[name], self._requested[name].get(resource, 0)
            terms = queue.share_of(resource)
            requestable = min(terms.limit, requested)
            claims.append(Claim(name, requestable, terms.quota, terms.weight, queue.priority, queue.created_s))
        for name, share in divide(amount, [claim for claim in claims if claim.requestable]).items():
            self._shares[name][resource] = share
            self._share_out(name, resource, share)

    def listed(self) -> list[QueueAccount]:
        """In the order of the tree; queues whose parents lead nowhere stand at the end."""
        found = list(self._below("", 0))
        seen = {account.queue.name for account in found}
        return [*found, *(self._account(name, 0) for name in sorted(self._queues) if name not in seen)]

    def _below(self, parent: str, level: int) -> Iterator[QueueAccount]:
        for name in self._children.get(parent, ()):
            yield self._account(name, level)
            if level < MOST_LEVELS:
                yield from self._below(name, level + 1)

    def _account(self, name: str, level: int) -> QueueAccount:
        queue = self._queues[name]
        names = {*queue.resources, *self._requested[name]}
        holdings = {
            resource: Holding(
                self._allocated[name].get(resource, 0),
                self._requested[name].get(resource, 0),
                self._shares[name].get(resource, 0),
            )
            for resource in sorted(names)
        }
        share = max((self._part(queue, *each) for each in holdings.items()), default=0.0)
        return QueueAccount(queue, level, name in self._children, self._problems[name], holdings, share)

    def _part(self, queue: Queue, resource: str, holding: Holding) -> float:
        terms = queue.share_of(resource)
        may_have = terms.limit if terms.quota >= UNLIMITED else min(terms.limit, max(terms.quota, holding.share))
        of = self._total[resource] if may_have >= UNLIMITED else may_have
        return holding.allocated / of if of else float(holding.allocated * 1000)


def _add(sums: dict[str, int], pod: Pod) -> None:
    for name, amount in pod.requests.amounts:
        if name in _FIRST or is_scalar_resource(name):
            sums[name] = sums.get(name, 0) + amount
