"""Who objects to which node: every filter asked about every node, not only about those that earlier ones left.

A diagnosis names the first plugin that rejects a node. To know what a change must achieve, all of them are needed: a
node that one plugin alone rejects needs one change, a node that two reject needs two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod
from moorage.core.resources import PODS
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.contract import ComparesRows, FilterPlugin
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code, OnlyNodes

FIT = "NodeResourcesFit"
TAINTS = "TaintToleration"
_HOPELESS = 1e6


@dataclass(slots=True)
class Objections:
    """Bit i of `bits[j]` is set where `plugins[i]` rejects `rows[j]`."""

    rows: Rows
    bits: Ints
    plugins: list[str] = field(default_factory=list)
    detail: dict[str, Ints] = field(default_factory=dict)
    """Plugin -> its reason bits, aligned with `rows`."""
    resolvable: set[str] = field(default_factory=set)
    """Plugins all of whose reasons the leaving of pods could change."""

    def at(self, index: int) -> list[str]:
        """The plugins that reject the row at this index, in profile order."""
        bits = int(self.bits[index])
        return [name for number, name in enumerate(self.plugins) if bits >> number & 1]

    def add(self, name: str, detail: Ints) -> None:
        """What one plugin says, its reason bits, aligned with `rows`."""
        self.bits |= (detail != 0).astype(np.int64) << len(self.plugins)
        self.plugins.append(name)
        self.detail[name] = detail


def find_objections(scene: Scene, runner: Runner, pod: Pod) -> Objections:
    """Ask everybody, inside an open scene."""
    cycle, state = scene.cycle(pod), scene.state
    rows = state.rows()
    found = Objections(rows, np.zeros(len(rows), dtype=np.int64))
    silent: set[str] = set()
    for plugin in runner.plugins.pre_filter:
        answer = plugin.pre_filter(cycle)
        if isinstance(answer, OnlyNodes):
            names = [state.node(int(row)).name in answer.names for row in rows]
            found.add(plugin.name, (~np.array(names, dtype=np.bool_)).astype(np.int64))
        elif answer is not None and answer.code is Code.SKIP:
            silent.add(plugin.name)
        elif answer is not None and answer.code is not Code.SUCCESS:
            silent.add(plugin.name)
            found.add(plugin.name, np.ones(len(rows), dtype=np.int64))
    last = {each.name for each in runner.plugins.having(ComparesRows)}
    for each in runner.plugins.filter:
        if each.name not in silent:
            _ask(each, cycle, found, among_open=each.name in last)
    return found


def _ask(plugin: FilterPlugin, cycle: Cycle, found: Objections, *, among_open: bool) -> None:
    """Ask about all rows or, with `among_open`, about those that nobody rejects so far, if there are any."""
    open_rows = found.bits == 0
    if not among_open or not open_rows.any():
        open_rows = np.ones(len(found.rows), dtype=np.bool_)
    rejections = plugin.filter(cycle, found.rows if open_rows.all() else found.rows[open_rows])
    if rejections is None or not rejections.bits.any():
        return
    if all(reason.resolvable for reason in rejections.reasons):
        found.resolvable.add(plugin.name)
    detail: Ints = np.zeros(len(found.rows), dtype=np.int64)
    detail[open_rows] = rejections.bits
    if plugin.name in found.detail:  # it narrowed the nodes before
        found.bits |= (detail != 0).astype(np.int64) << found.plugins.index(plugin.name)
        found.detail[plugin.name] |= detail
    else:
        found.add(plugin.name, detail)


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
