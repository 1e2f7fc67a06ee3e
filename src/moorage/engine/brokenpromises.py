"""Promises that failed: a unit was tried where a round of making room wanted it, with all room there, and did not fit.

A round asks whether single pods fit; the attempt asks more: the members of a gang lie in one domain, devices are for
all of them. Where both differ, the next round would promise the same again, and so on for ever. So a unit whose promise
failed takes no part in rounds until something changes that the failure was about: a pod left one of the nodes, or one
of them is another one now; its queue or one above it has less than it had, or may have more; any other object changed
(claims, budgets, groups); or the unit itself. Pods that came do not count: with them it fits even less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from moorage.core.nodes import Node
from moorage.core.queuetree import QueueNode
from moorage.core.state import ClusterState
from moorage.engine.units import Unit


class _Place(NamedTuple):
    """A node as it was."""

    node: Node
    pods: frozenset[str]
    free: tuple[int, ...]


class _Account(NamedTuple):
    """A queue as it was."""

    queue: QueueNode
    allocated: tuple[int, ...]
    bounds: tuple[tuple[int, ...], ...]


class _Failure(NamedTuple):
    """What a promise depended on when it failed."""

    unit: Unit
    pods: tuple[object, ...]
    places: tuple[_Place, ...]
    accounts: tuple[_Account, ...]
    objects: int


class BrokenPromises:
    """Units whose promises failed."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._failures: dict[str, _Failure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def clear(self) -> None:
        """Everything may be different now."""
        self._failures.clear()

    def note(self, unit: Unit, nodes: Mapping[str, str]) -> None:
        """A unit was tried and did not fit on these nodes (pod -> node), which it is promised no more.

        If the room is not there any more, somebody else took it, and the unit competes like others.
        """
        places = [self._place(name) for name in dict.fromkeys(nodes.values())]
        known = tuple(place for place in places if place is not None)
        if known and len(known) == len(places) and self._has_room(unit, nodes):
            accounts = tuple(map(_account, self._path(unit)))
            self._failures[unit.uid] = _Failure(unit, _pods(unit), known, accounts, self._state.objects_told)

    def bars(self, unit: Unit) -> bool:
        """Whether a promise to a unit failed, and nothing has changed since that could make it hold."""
        failure = self._failures.get(unit.uid)
        if failure is None:
            return False
        if self._lasts(failure, unit):
            return True
        del self._failures[unit.uid]
        return False

    def keep(self, find: Callable[[str], Unit | None]) -> None:
        """Forget units that are not queued any more; one that extenders are asked about is."""
        for uid in [uid for uid in self._failures if find(uid) is None]:
            del self._failures[uid]

    def _lasts(self, failure: _Failure, unit: Unit) -> bool:
        if failure.unit is not unit or failure.pods != _pods(unit) or failure.objects != self._state.objects_told:
            return False
        accounts = [_account(node) for node in self._path(unit)]
        if len(accounts) != len(failure.accounts) or any(map(_eased, failure.accounts, accounts)):
            return False
        return not any(_opened(place, self._place(place.node.name)) for place in failure.places)

    def _path(self, unit: Unit) -> Iterable[QueueNode]:
        queues = self._state.queues
        queues.settle(self._state)
        leaf = queues.member(unit.pod.template).leaf
        return () if leaf is None else leaf.path

    def _place(self, name: str) -> _Place | None:
        row = self._state.row_of(name)
        if row is None:
            return None
        pods = frozenset(record.pod.uid for record in self._state.records_on(row))
        return _Place(self._state.node(row), pods, self._free(row))

    def _free(self, row: int) -> tuple[int, ...]:
        resources = self._state.resources
        return tuple((resources.allocatable[:, row] - resources.requested[:, row]).tolist())

    def _has_room(self, unit: Unit, nodes: Mapping[str, str]) -> bool:
        """Whether the nodes have as much free as the pods request that were promised to them."""
        left: dict[int, list[int]] = {}
        for uid, name in nodes.items():
            entry, row = unit.members.get(uid), self._state.row_of(name)
            if entry is None or row is None:
                return False
            free = left.setdefault(row, list(self._free(row)))
            for column, amount in self._state.resources.vector(entry.pod.requests).pairs:
                free[column] -= amount
        return all(min(free) >= 0 for free in left.values())


def _pods(unit: Unit) -> tuple[object, ...]:
    return tuple((uid, entry.pod.template, entry.pod.requests) for uid, entry in unit.members.items())


def _account(node: QueueNode) -> _Account:
    bounds = tuple(tuple(each) for each in (node.limit, node.quota, node.share))
    return _Account(node, tuple(node.allocated), bounds)


def _eased(before: _Account, now: _Account) -> bool:
    """Whether a queue has less than it had, or other bounds."""
    if before.queue is not now.queue or before.bounds != now.bounds or len(before.allocated) != len(now.allocated):
        return True
    return any(less < more for less, more in zip(now.allocated, before.allocated, strict=True))


def _opened(before: _Place, now: _Place | None) -> bool:
    """Whether a node is another one, a pod left it, or it has more of something."""
    if now is None or len(now.free) != len(before.free) or not before.pods <= now.pods:
        return True
    if now.node is not before.node and now.node != before.node:
        return True
    return any(more > less for more, less in zip(now.free, before.free, strict=True))
