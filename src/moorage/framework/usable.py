"""The nodes that a pod could have if everything left them that it may evict: by filters, not by what is free now.

What leaves a node is given as amounts; that decides for pods of which filters read nothing but nodes and amounts. Where
another filter rejects a node for a reason that evictions may change, the node is doubtful, and has to be tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.framework.classes import pre_filter
from moorage.framework.contract import SlackFilter
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Reads
from moorage.framework.runner import Runner


class UsableRows(NamedTuple):
    """What was found out about some rows."""

    sure: Rows
    doubtful: Rows
    """Rows that the pod could have only if some pods left them."""
    follows: bool
    """Whether the answer depends on more than the nodes and the pods on each."""


def usable_rows(
    runner: Runner, cycle: Cycle, rows: Rows, freed: Mapping[int, Ints], ignored: Collection[str]
) -> UsableRows:
    """Ask all filters but those that are ignored; `freed` are amounts by resource column, int64[capacity]."""
    nobody = rows[:0]
    said = pre_filter(runner.plugins.pre_filter, cycle)
    reads = {plugin.name: plugin.reads for plugin in runner.plugins.pre_filter}
    if said.refusal is not None:
        follows = reads.get(said.refusal.plugin, Reads.CLUSTER) is Reads.CLUSTER
        return UsableRows(nobody, rows if said.refusal.resolvable else nobody, follows)
    follows = any(reads[name] is Reads.CLUSTER for name, _ in said.only)
    if said.nodes is not None:
        rows = rows[np.isin(rows, cycle.state.rows_of(said.nodes))]
    asked = {plugin.name for plugin in runner.asked_filters(cycle)}
    doubtful = [nobody]
    for plugin in runner.plugins.filter:
        if plugin.name in said.skipped or plugin.name in ignored:
            continue
        if isinstance(plugin, SlackFilter):
            rows = _enough(plugin, cycle, rows, freed)
            continue
        follows = follows or plugin.name in asked
        rejections = plugin.filter(cycle, rows) if len(rows) else None
        if rejections is None:
            continue
        bad = rejections.bits != 0
        doubtful.append(rows[bad & ~rejections.unresolvable_mask()])
        rows = rows[~bad]
    return UsableRows(rows, np.concatenate(doubtful), follows)


def _enough(plugin: SlackFilter, cycle: Cycle, rows: Rows, freed: Mapping[int, Ints]) -> Rows:
    """The rows that have enough once the amounts are freed."""
    enough = np.ones(len(rows), dtype=np.bool_)
    for column, left in plugin.slack(cycle, rows):
        enough &= (left + freed[column][rows] if column in freed else left) >= 0
    return rows[enough]
