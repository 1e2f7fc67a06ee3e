"""The gangs of a cluster: how many members run and wait, and the domains of a topology that they use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.core.gangs import group_object, lasting, terms_of
from moorage.core.gangtopology import TopologyTerms, topology_terms
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class GangLine:
    """One gang."""

    namespace: str
    name: str
    running: int
    waiting: int
    needed: int | None
    """How many members must be placed together; None if that is not known."""
    domains: tuple[tuple[str, int], ...] = ()
    """Levels, the widest first, and how many of their domains the running members use."""
    message: str = ""
    """Why what it asks of a topology cannot be meant."""

    @property
    def used(self) -> str:
        """The domains in one text; `-` if none counts."""
        return ", ".join(f"{count} {level}" for level, count in self.domains) or "-"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "running": self.running,
            "waiting": self.waiting,
            "needed": self.needed,
            "domains": dict(self.domains),
            "message": self.message or None,
        }


def gang_lines(state: ClusterState, waiting: Iterable[Pod], namespace: str | None = None) -> list[GangLine]:
    """The gangs with members that run or wait, by namespace and name."""
    members: dict[GangKey, list[Pod]] = {key: [] for key in state.gangs.keys()}  # noqa: SIM118 - no dictionary
    for pod in waiting:
        if pod.template.gang is not None:
            members.setdefault(pod.template.gang, []).append(pod)
    keys = sorted(key for key in members if namespace is None or key.namespace == namespace)
    return [_line(state, key, members[key]) for key in keys]


def _line(state: ClusterState, key: GangKey, waiting: list[Pod]) -> GangLine:
    standing = lasting(state, key)
    terms = terms_of(state, key, waiting)
    templates = [*(pod.template for pod in waiting), *(record.pod.template for record in standing)]
    asked = topology_terms(state, group_object(state, key), templates)
    domains: tuple[tuple[str, int], ...] = ()
    if isinstance(asked, TopologyTerms):
        tree = state.topologies.tree(state, asked.levels)
        rows = {record.row for record in standing}
        paths = [path for row, path in zip(tree.rows.tolist(), tree.paths, strict=True) if row in rows]
        keys = enumerate(asked.levels.keys, start=1)
        domains = tuple((level, len({path[:depth] for path in paths})) for depth, level in keys)
    needed = None if terms is None else terms.min_count
    said = "" if asked is None or isinstance(asked, TopologyTerms) else asked.message
    return GangLine(key.namespace, key.name, len(standing), len(waiting), needed, domains, said)
