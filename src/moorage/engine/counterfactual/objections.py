"""Objections to nodes: every filter asked about every node, not only about those that earlier ones left.

A diagnosis names the first plugin that rejects a node. To know what a change must achieve, all of them are needed: a
node that one plugin alone rejects needs one change, a node that two reject needs two.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.pods import Pod
from moorage.core.resources import PODS
from moorage.core.values import dataclass
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.classes import pre_filter
from moorage.framework.contract import ComparesRows, FilterPlugin
from moorage.framework.cycle import OTHERS_MAY_LEAVE, Cycle, UnfinishedError
from moorage.framework.runner import Runner

_HOPELESS = 1e6


@dataclass(slots=True)
class Objections:
    """Bit i of `bits[j]` is set where `plugins[i]` rejects `rows[j]`."""

    rows: Rows
    bits: Ints
    fixed: Ints
    """The same, where it does so even if pods are removed from the node."""
    plugins: list[str] = field(default_factory=list)
    detail: dict[str, Ints] = field(default_factory=dict)
    """Plugin -> its reason bits, aligned with `rows`."""

    def at(self, index: int, *, fixed: bool = False) -> list[str]:
        """The plugins that reject the row at this index, whichever pods leave it with `fixed`, in profile order."""
        bits = int(self.fixed[index] if fixed else self.bits[index])
        return [name for number, name in enumerate(self.plugins) if bits >> number & 1]

    def add(self, name: str, detail: Ints, fixed: Mask) -> None:
        """What one plugin says: its reason bits, and where removing pods cannot help; aligned with `rows`."""
        if name not in self.detail:
            self.plugins.append(name)
            self.detail[name] = np.zeros_like(self.bits)
        number = self.plugins.index(name)
        self.bits |= (detail != 0).astype(np.int64) << number
        self.fixed |= fixed.astype(np.int64) << number
        self.detail[name] |= detail


def find_objections(scene: Scene, runner: Runner, pod: Pod) -> Objections:
    """Ask all filters, inside an open scene."""
    cycle, state = scene.cycle(pod), scene.state
    cycle.memo[OTHERS_MAY_LEAVE] = True
    rows = state.rows()
    found = Objections(rows, np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64))
    silent: set[str] = set()
    for plugin in runner.plugins.pre_filter:
        said = pre_filter((plugin,), cycle)
        if said.nodes is not None:
            names = [state.node(int(row)).name not in said.nodes for row in rows]
            excluded = np.array(names, dtype=np.bool_)
            found.add(plugin.name, excluded.astype(np.int64), excluded)
        elif said.refusal is not None:
            silent.add(plugin.name)
            found.add(plugin.name, np.ones_like(found.bits), np.full(len(rows), not said.refusal.resolvable))
        silent |= said.skipped
    last = {each.name for each in runner.plugins.having(ComparesRows)}
    for each in runner.plugins.filter:
        if each.name not in silent:
            _ask(each, cycle, found, among_open=each.name in last)
    return found


def _ask(plugin: FilterPlugin, cycle: Cycle, found: Objections, *, among_open: bool) -> None:
    """Ask about all rows or, with `among_open`, about those that no filter rejects so far, if there are any."""
    open_rows = found.bits == 0
    if not among_open or not open_rows.any():
        open_rows = np.ones(len(found.rows), dtype=np.bool_)
    try:
        rejections = plugin.filter(cycle, found.rows if open_rows.all() else found.rows[open_rows])
    except UnfinishedError:  # what nobody knows soon is as good as a refusal
        found.add(plugin.name, open_rows.astype(np.int64), open_rows)
        return
    if rejections is None or not rejections.bits.any():
        return
    detail: Ints = np.zeros(len(found.rows), dtype=np.int64)
    fixed: Mask = np.zeros(len(found.rows), dtype=np.bool_)
    detail[open_rows], fixed[open_rows] = rejections.bits, rejections.unresolvable_mask()
    found.add(plugin.name, detail, fixed)


def shortage(scene: Scene, pod: Pod, rows: Rows) -> Any:
    """By how much the requests would have to shrink on each row, as a sum of fractions, float64[n].

    Very large where not even nothing would do: no place for one more pod.
    """
    resources = scene.state.resources
    total = np.zeros(len(rows), dtype=np.float64)
    for name, amount in ((PODS, 1), *pod.template.requests.amounts):
        column = resources.known(name)
        if column is None:
            total += 1.0
            continue
        free = resources.allocatable[column][rows] - resources.requested[column][rows]
        lacking = np.clip(amount - free, 0, None)
        total += np.where(lacking > 0, _HOPELESS, 0.0) if name == PODS else np.minimum(lacking / max(amount, 1), 1.0)
    return total
