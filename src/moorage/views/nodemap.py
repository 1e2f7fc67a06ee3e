"""The nodes as rows of plain values, all of them or those that changed since last time.

A row is `[row, name, zone, capacity, state, cpu requested, cpu allocatable, memory requested, memory allocatable, pods,
most pods, devices taken, devices, domain, gangs]`: cpu in milli, memory in MiB, devices in thousandths; capacity and
state are numbers (`Capacity`, `NodeState`). The domain is where a topology has the node, empty if there is none or
several; gangs are the names of those that have members there. The number of a row stays with its node and is used again
when the node is gone, so readers that keep rows replace them by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

from moorage.core.capacity import CapacityTypes
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN
from moorage.core.labelnames import BETA_ZONE, HOSTNAME, ZONE
from moorage.core.nodes import Node
from moorage.core.shareasks import WHOLE
from moorage.core.state import ClusterState
from moorage.core.topology import LEVEL_KINDS, known_levels

ZONES = (ZONE, BETA_ZONE)
MIB = 1 << 20


class NodeState(IntEnum):
    """The state of a node that is shown beside its load."""

    READY = 0
    CORDONED = 1
    NOT_READY = 2
    LEAVING = 3
    """There is a notice that it is about to go away."""

    @classmethod
    def of(cls, node: Node, *, leaving: bool = False) -> NodeState:
        """The state that matters most; `leaving` says whether there is a notice that the node goes away."""
        if not node.ready:
            return cls.NOT_READY
        if leaving:
            return cls.LEAVING
        return cls.CORDONED if node.unschedulable else cls.READY


class NodeMap:
    """Turns rows of a state into plain values; `leaving` says whether there is a notice that a node goes away."""

    def __init__(self, state: ClusterState, types: CapacityTypes, leaving: Callable[[str], bool]) -> None:
        self._state = state
        self._types = types
        self._leaving = leaving
        self._positions = (0, 0)
        self._told: set[int] = set()
        """Rows that readers know."""
        self._levels_seen = 0
        """The version of what defines levels."""

    def everything(self) -> list[list[Any]]:
        """All nodes. Does not affect what `changes` returns."""
        return self._rows(self._state.rows().tolist())

    def changes(self) -> tuple[list[list[Any]], list[int]]:
        """The rows that changed since the last call, and those that no longer hold a node."""
        state = self._state
        state.shares()  # notes the rows to which drivers have published something
        logs = (state.node_log, state.pod_log)
        changed = [log.since(position) for log, position in zip(logs, self._positions, strict=True)]
        self._positions = (state.node_log.position, state.pod_log.position)
        touched: set[int] = set()
        version = sum(state.object_versions.get(kind, 0) for kind in LEVEL_KINDS)
        if version != self._levels_seen:
            self._levels_seen = version
            changed = [None]
        for rows in changed:
            touched.update(self._told | set(state.rows().tolist()) if rows is None else rows)
        alive = sorted(row for row in touched if state.alive[row])
        gone = sorted(row for row in touched if row in self._told and not state.alive[row])
        self._told.difference_update(gone)
        self._told.update(alive)
        return self._rows(alive), gone

    def _rows(self, rows: Iterable[int]) -> list[list[Any]]:
        state = self._state
        picked = list(rows)
        requested, allocatable = state.resources.requested, state.resources.allocatable
        shares = state.shares()
        devices = shares.offers[picked] * WHOLE
        columns = [
            requested[CPU_COLUMN][picked].tolist(),
            allocatable[CPU_COLUMN][picked].tolist(),
            (requested[MEMORY_COLUMN][picked] // MIB).tolist(),
            (allocatable[MEMORY_COLUMN][picked] // MIB).tolist(),
            requested[PODS_COLUMN][picked].tolist(),
            allocatable[PODS_COLUMN][picked].tolist(),
            (devices - shares.room[:, picked].sum(axis=0)).tolist(),
            devices.tolist(),
        ]
        capacities = self._types.column(state)[picked].tolist() if picked else []
        domains = self._domains(picked)
        found: list[list[Any]] = []
        for row, capacity, *amounts in zip(picked, capacities, *columns, strict=True):
            node = state.node(row)
            node_state = NodeState.of(node, leaving=self._leaving(node.name))
            domain = domains.get(row, "")
            found.append([row, node.name, zone_of(node), capacity, int(node_state), *amounts, domain, self._gangs(row)])
        return found

    def _domains(self, rows: Iterable[int]) -> dict[int, str]:
        """Row -> its domain in the only topology, as the path from the widest level down; not the name of the host."""
        known = set(known_levels(self._state).values())
        if len(known) != 1:
            return {}
        tree = self._state.topologies.tree(self._state, known.pop())
        keys = tree.levels.keys
        depth = len(keys) - (len(keys) > 1 and keys[-1] == HOSTNAME)
        return {row: " / ".join(path[:depth]) for row in rows if (path := tree.path_of(row)) is not None}

    def _gangs(self, row: int) -> list[str]:
        if not any(True for _ in self._state.gangs.keys()):  # noqa: SIM118 - no dictionary
            return []
        gangs = (record.pod.template.gang for record in self._state.records_on(row))
        return sorted({gang.object_key for gang in gangs if gang is not None})


def zone_of(node: Node) -> str:
    """The zone of a node, empty without a label."""
    return next((node.labels[key] for key in ZONES if key in node.labels), "")
