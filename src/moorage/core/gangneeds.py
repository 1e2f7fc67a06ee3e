"""What a gang needs to start: how many members, in which domain, and which minResources.

Gating, placement, preemption, reservations and the plan all use this module, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from moorage.core.arrays import Ints
from moorage.core.columns import CPU_COLUMN
from moorage.core.frozen import FrozenDict
from moorage.core.gangs import GangTerms, lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.resources import PODS
from moorage.core.state import NOWHERE, ClusterState

Domain = frozenset[str]
"""Names of nodes."""
ANYWHERE: tuple[Domain | None, ...] = (None,)
_NOTHING: FrozenDict[str, int] = FrozenDict()
_TOO_SMALL = "all nodes together have less than that, even without other pods"


class Obstacle(NamedTuple):
    """What keeps a gang from starting though enough members have a node, in words."""

    message: str
    not_helpful: str
    """Why evictions do not help, should it still be there if all pods were evicted."""


class GangNeeds(NamedTuple):
    """The needs of a gang of which some members wait."""

    key: GangKey
    terms: GangTerms
    members: int
    """How many of those that wait have to find a node together; 0 if none waits and enough stand."""
    resources: FrozenDict[str, int] = _NOTHING
    """The minResources, of a gang that has yet to start."""

    def admits(self, state: ClusterState, placed: int) -> bool:
        """Whether the gang may start once so many of those that wait have a node, in a domain of `domains`."""
        return self.enough(placed) and self.obstacle(state) is None

    def enough(self, count: int) -> bool:
        """Whether so many of those that wait are as many as have to find a node together."""
        return count >= self.members

    def possible(self, state: ClusterState, count: int) -> bool:
        """Whether the gang could start if all pods were evicted and so many of those that wait had a node."""
        return self.enough(count) and self.lasting_obstacle(state) is None

    def obstacle(self, state: ClusterState) -> Obstacle | None:
        """What keeps the gang from starting as things are, if enough members have a node.

        What the members on nodes take, assumed ones too, is free for them.
        """
        if not self.resources:
            return None
        return _shortage(name for name, wanted in self.resources.items() if _free(state, self.key, name) < wanted)

    def lasting_obstacle(self, state: ClusterState) -> Obstacle | None:
        """What would keep it from starting even if all pods were evicted."""
        return _shortage(name for name, wanted in self.resources.items() if _total(state, name) < wanted)

    def domains(self, state: ClusterState) -> tuple[Domain | None, ...]:
        """The domains to try, in this order; None stands for all nodes.

        Members that stand already decide, as far as their nodes still have the label. Otherwise the domain with the
        least free cpu comes first: the first one in which the gang fits is then the one that it fills best.
        """
        label = self.terms.topology_key
        if label is None:
            return ANYWHERE
        nodes: dict[str, list[int]] = {}
        for row in map(int, state.rows()):
            value = state.node(row).labels.get(label)
            if value is not None:
                nodes.setdefault(value, []).append(row)
        standing = [state.node(record.row) for record in lasting(state, self.key) if record.row != NOWHERE]
        values = {value for node in standing if (value := node.labels.get(label)) is not None}
        if values:
            nodes = {value: rows for value, rows in nodes.items() if value in values}
        ordered = sorted(nodes.items(), key=lambda item: (_free_cpu_milli(state, item[1]), item[0]))
        return tuple(frozenset(state.node(row).name for row in rows) for _, rows in ordered)


def needs_of(
    state: ClusterState, key: GangKey, waiting: Collection[Pod], runs: Callable[[GangKey, GangTerms], bool]
) -> GangNeeds | None:
    """The needs of a gang; None while its PodGroup object is missing. `runs` says whether it was complete before.

    Members of a running gang are placed one by one, and what the gang needed to start no longer matters.
    """
    terms = terms_of(state, key, waiting)
    if terms is None:
        return None
    there, least = len(lasting(state, key)), min(1, len(waiting))
    if there and runs(key, terms):
        return GangNeeds(key, terms, least)
    members = len(waiting) if terms.min_count is None else max(least, terms.min_count - there)
    return GangNeeds(key, terms, members, terms.min_resources)


def _shortage(names: Iterable[str]) -> Obstacle | None:
    """Too little of these resources; None if there are none of them."""
    short = ", ".join(sorted(names))
    return (
        Obstacle(f"the cluster has less free {short} than the minResources of the pod group", _TOO_SMALL)
        if short
        else None
    )


def _free(state: ClusterState, key: GangKey, name: str) -> int:
    column = state.resources.known(name)
    if column is None:
        return 0
    left: Ints = state.resources.allocatable[column] - state.resources.requested[column]
    for record in state.gangs.standing(key).values():
        if record.row != NOWHERE:
            left[record.row] += 1 if name == PODS else record.pod.requests.get(name)
    return sum(left[state.rows()].clip(0).tolist())


def _total(state: ClusterState, name: str) -> int:
    column = state.resources.known(name)
    return 0 if column is None else sum(state.resources.allocatable[column, state.rows()].tolist())


def _free_cpu_milli(state: ClusterState, rows: list[int]) -> int:
    resources = state.resources
    return sum((resources.allocatable[CPU_COLUMN, rows] - resources.requested[CPU_COLUMN, rows]).tolist())
