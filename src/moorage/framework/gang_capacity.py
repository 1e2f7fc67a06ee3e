"""Which members of a gang would fit on empty nodes: the others never fit, whatever is evicted. And whether enough of
them would fit once everything has ended that ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.framework.contract import SlackFilter
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner

_MANY = 1 << 40
RunnerOf = Callable[[Cycle], Runner]


class _Kind(NamedTuple):
    """Members that are alike, and empty nodes."""

    members: int
    fits: Ints
    """How many of them, or more, each row could hold."""
    amounts: dict[int, int]
    """Resource column -> what each of them takes of it, as far as a filter counts that."""


def holdable(cycles: Iterable[Cycle], runner_of: RunnerOf) -> list[Cycle]:
    """These members, in their order, without those that exceed what the nodes can hold of their kind.

    Only nodes and amounts count, as constraints that depend on other pods may change. Each kind is considered alone,
    so even the returned members may not all fit together.
    """
    left: dict[object, int] = {}
    kept = []
    for cycle in cycles:
        kind = kind_of(cycle.pod)
        if kind not in left:
            rows = rows_of(cycle.state, cycle.domain)
            left[kind] = sum(_kind(runner_of(cycle), cycle, rows, 1).fits.tolist()) if len(rows) else 0
        if left[kind] > 0:
            left[kind] -= 1
            kept.append(cycle)
    return kept


def outlasts(cycles: Sequence[Cycle], least: int, runner_of: RunnerOf, stays: Callable[[Pod], bool]) -> bool:
    """Whether nodes could hold so many of these members once all pods have ended that do not stay.

    As in `holdable` only nodes and amounts count. Each kind is considered alone, and then all members together, as if
    the nodes were one. Nodes are looked at until they are enough: a gang that could start costs little.
    """
    if not least or len(cycles) < least:
        return not least
    state, rows = cycles[0].state, rows_of(cycles[0].state, cycles[0].domain)
    kinds = _kinds(cycles, rows, runner_of) if len(rows) else []
    if sum(min(kind.members, sum(kind.fits.tolist())) for kind in kinds) < least:
        return False
    needed, offered, held = _least_amounts(kinds, least), Counter[int](), [0] * len(kinds)
    for index in np.argsort(-np.sum([kind.fits for kind in kinds], axis=0), kind="stable").tolist():
        left = _left(state, int(rows[index]), needed, stays)
        here = [min(int(kind.fits[index]), _held(kind, left)) for kind in kinds]
        held = [before + more for before, more in zip(held, here, strict=True)]
        columns = {column for kind, more in zip(kinds, here, strict=True) if more for column in kind.amounts}
        offered.update({column: left[column] for column in columns})
        enough = sum(min(kind.members, count) for kind, count in zip(kinds, held, strict=True)) >= least
        if enough and all(offered[column] >= amount for column, amount in needed.items()):
            return True
    return False


def _least_amounts(kinds: Sequence[_Kind], least: int) -> dict[int, int]:
    """Resource column -> how much of it is taken by those of all members that take least, if there are so many."""
    columns = {column for kind in kinds for column in kind.amounts}
    asked = {column: [kind.amounts.get(column, 0) for kind in kinds for _ in range(kind.members)] for column in columns}
    return {column: sum(sorted(amounts)[:least]) for column, amounts in asked.items()}


def _left(state: ClusterState, row: int, columns: Collection[int], stays: Callable[[Pod], bool]) -> dict[int, int]:
    """How much of these resources a row has beside pods that stay; of one that others than the node provide, plenty."""
    left = {column: int(state.resources.allocatable[column, row]) or _MANY for column in columns}
    for record in state.records_on(row):
        if stays(record.pod):
            for column, amount in record.vector.pairs:
                if column in left:
                    left[column] -= amount
    return left


def _held(kind: _Kind, left: dict[int, int]) -> int:
    """How many members fit into so much."""
    return max(0, min((left[column] // amount for column, amount in kind.amounts.items() if amount), default=_MANY))


def kind_of(pod: Pod) -> object:
    """Equal for members that are alike."""
    return id(pod.template), pod.requests


def _kinds(cycles: Sequence[Cycle], rows: Rows, runner_of: RunnerOf) -> list[_Kind]:
    counts = Counter(kind_of(cycle.pod) for cycle in cycles)
    first = {kind_of(cycle.pod): cycle for cycle in reversed(cycles)}
    return [_kind(runner_of(first[kind]), first[kind], rows, count) for kind, count in counts.items()]


def _kind(runner: Runner, cycle: Cycle, rows: Rows, count: int) -> _Kind:
    """So many pods like this, and what rows, those of all nodes or of a domain, could hold if they were empty."""
    state = cycle.state
    fits: Ints = np.where(runner.node_mask(cycle, rows), _MANY, 0)
    amounts = dict(state.resources.vector(cycle.template.requests).pairs)
    taken = {column: requested[rows] for column, requested in enumerate(state.resources.requested)}
    counted: dict[int, int] = {}
    with state.statement():
        state.shift_amounts(rows, taken, -1)
        for plugin in _counting(runner):
            for column, left in plugin.slack(cycle, rows):
                counted[column] = amounts.get(column, 0)
                fits = np.minimum(fits, np.where(left < 0, 0, left // max(amounts.get(column, 1), 1) + 1))
    return _Kind(count, fits, counted)


def _counting(runner: Runner) -> list[SlackFilter]:
    return [plugin for plugin in runner.plugins.filter if isinstance(plugin, SlackFilter)]


def rows_of(state: ClusterState, domain: frozenset[str] | None) -> Rows:
    """The rows of a domain, by the names of its nodes; None stands for all."""
    if domain is None:
        return state.rows()
    return np.array(sorted(row for name in domain if (row := state.row_of(name)) is not None), dtype=np.intp)
