"""The topology domains in which a gang may be placed, the best fit first."""

from __future__ import annotations

from moorage.core.columns import CPU_COLUMN
from moorage.core.gangs import GangTerms, lasting
from moorage.core.membership import GangKey
from moorage.core.state import NOWHERE, ClusterState

ANYWHERE: tuple[frozenset[str] | None, ...] = (None,)


def domains_of(state: ClusterState, key: GangKey, terms: GangTerms) -> tuple[frozenset[str] | None, ...]:
    """The names of the nodes of each domain to try, in this order; None stands for all nodes.

    Members that stand already decide, as far as their nodes still have the label. Otherwise the domain with the least
    free cpu comes first: the first one in which the gang fits is then the one that it fills best.
    """
    label = terms.topology_key
    if label is None:
        return ANYWHERE
    nodes: dict[str, list[int]] = {}
    for row in map(int, state.rows()):
        value = state.node(row).labels.get(label)
        if value is not None:
            nodes.setdefault(value, []).append(row)
    standing = [state.node(record.row) for record in lasting(state, key) if record.row != NOWHERE]
    values = {value for node in standing if (value := node.labels.get(label)) is not None}
    if values:
        nodes = {value: rows for value, rows in nodes.items() if value in values}
    ordered = sorted(nodes.items(), key=lambda item: (_free_cpu_milli(state, item[1]), item[0]))
    return tuple(frozenset(state.node(row).name for row in rows) for _, rows in ordered)


def _free_cpu_milli(state: ClusterState, rows: list[int]) -> int:
    resources = state.resources
    return sum((resources.allocatable[CPU_COLUMN, rows] - resources.requested[CPU_COLUMN, rows]).tolist())
