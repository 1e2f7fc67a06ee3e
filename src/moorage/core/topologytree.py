"""The nodes of a topology in the order of their paths, and the domain of each at every level.

A domain is the path of label values from the widest level down: rack r1 of block b1 is not rack r1 of block b2. A node
that lacks a label of any level, or is in no HyperNode, is outside. Trees are brought up to date when they are read, by
the nodes that changed since; only a node that came, went or has another path makes a tree be built again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, cast

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.frozen import FrozenDict
from moorage.core.impliedlevels import ImpliedLevels
from moorage.core.nodes import Node
from moorage.core.topology import HYPER_NODE, HyperNode, Levels, NodeMatch, tier_level

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

Path = tuple[str, ...]
_KEPT_TREES = 32


class TopologyTree:
    """The tree of some levels; `refresh` before reading."""

    def __init__(self, levels: Levels) -> None:
        self.levels = levels
        self.rows: Rows = np.zeros(0, dtype=np.intp)
        """The rows of the nodes inside, in the order of their paths, then of their names."""
        self.domains: Rows = np.zeros((len(levels.keys), 0), dtype=np.intp)
        """Numbers of their domains in the order of paths, shape (levels, len(rows))."""
        self.paths: list[Path] = []
        """The path of each of the rows."""
        self.version = 0
        """Rises when the tree is built again."""
        self._path_of: dict[int, tuple[Path, str]] = {}
        """Row -> the path and the name of its node."""
        self._read_to = -1
        self._hyper_version = -1
        self._hyper: Callable[[Node], Path | None] = lambda _: None

    def path_of(self, row: int) -> Path | None:
        """The path of a node; None if it is outside."""
        found = self._path_of.get(row)
        return None if found is None else found[0]

    def refresh(self, state: ClusterState) -> None:
        """Bring the tree up to date."""
        position = state.node_log.position
        hyper_version = state.object_versions.get(HYPER_NODE, 0) if self.levels.hyper else 0
        if self._read_to == position and self._hyper_version == hyper_version:
            return
        changed: Iterable[int] | None = state.node_log.since(self._read_to) if self._read_to >= 0 else None
        if self._hyper_version != hyper_version:
            self._hyper = hyper_paths(state, self.levels) if self.levels.hyper else self._hyper
            self._hyper_version, changed = hyper_version, None
        if changed is None:
            changed = range(state.capacity)
        moved = False
        for row in set(changed):
            moved = self._look(state, row) or moved
        self._read_to = position
        if moved:
            self._build()

    def _look(self, state: ClusterState, row: int) -> bool:
        """Read the path of a row again; whether it changed."""
        found = None
        if state.alive[row]:
            node = state.node(row)
            path = self._hyper(node) if self.levels.hyper else label_path(node, self.levels.keys)
            found = None if path is None else (path, node.name)
        before = self._path_of.get(row)
        if found is None:
            return self._path_of.pop(row, None) is not None
        self._path_of[row] = found
        return found != before

    def _build(self) -> None:
        ordered = sorted(self._path_of.items(), key=lambda item: item[1])
        self.rows = np.array([row for row, _ in ordered], dtype=np.intp)
        self.paths = [path for _, (path, _) in ordered]
        self.domains = np.zeros((len(self.levels.keys), len(ordered)), dtype=np.intp)
        for level in range(len(self.levels.keys)):
            number, last = -1, None
            for place, path in enumerate(self.paths):
                if path[: level + 1] != last:
                    number, last = number + 1, path[: level + 1]
                self.domains[level, place] = number
        self.version += 1


def label_path(node: Node, keys: Iterable[str]) -> Path | None:
    """The values of these labels; None if the node lacks one."""
    path = tuple(node.labels.get(key) for key in keys)
    return None if None in path else cast("Path", path)


def hyper_paths(state: ClusterState, levels: Levels) -> Callable[[Node], Path | None]:
    """What finds the HyperNodes that a node is in, from the widest tier down."""
    known: list[HyperNode] = sorted(state.objects.get(HYPER_NODE, {}).values(), key=lambda each: (each.tier, each.name))
    of_hyper_nodes, of_nodes = _Holders(known, nodes=False), _Holders(known, nodes=True)
    parents = {each.name: of_hyper_nodes.first(each.name, each.labels, each.tier) for each in known}

    def path_of(node: Node) -> Path | None:
        found = of_nodes.first(node.name, node.labels)
        if found is None:
            return None
        names: dict[str, str] = {}
        while found is not None:
            names[tier_level(found.tier)] = found.name
            found = parents[found.name]
        path, above = [], ""
        for key in levels.keys:
            above = names.get(key, above)
            path.append(above or "-")
        return tuple(path)

    return path_of


class _Holders:
    """Which HyperNodes have which members; those that are listed by name are found without a look at all others."""

    def __init__(self, known: list[HyperNode], *, nodes: bool) -> None:
        self._known = known
        self._by_name: dict[str, list[int]] = {}
        self._others: list[tuple[int, NodeMatch]] = []
        for index, each in enumerate(known):
            for match in each.members:
                if match.nodes is nodes and match.name:
                    self._by_name.setdefault(match.name, []).append(index)
                elif match.nodes is nodes:
                    self._others.append((index, match))

    def first(self, name: str, labels: FrozenDict[str, str], above: float = -inf) -> HyperNode | None:
        """The first of the known ones that has this member and is of a tier above."""
        known = self._known
        found = [index for index in self._by_name.get(name, ()) if known[index].tier > above][:1]
        for index, match in self._others:
            if found and found[0] <= index:
                break
            if known[index].tier > above and match.matches(name, labels):
                found = [index]
        return known[found[0]] if found else None


class TopologyTrees:
    """The trees in use; the latest ones are kept."""

    def __init__(self) -> None:
        self._trees: dict[Levels, TopologyTree] = {}
        self.implied = ImpliedLevels()

    def tree(self, state: ClusterState, levels: Levels) -> TopologyTree:
        """The tree of some levels, brought up to date."""
        found = self._trees.pop(levels, None) or TopologyTree(levels)
        self._trees[levels] = found
        if len(self._trees) > _KEPT_TREES:
            del self._trees[next(iter(self._trees))]
        found.refresh(state)
        return found
