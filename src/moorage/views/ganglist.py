"""The gangs of a cluster: how many members run and wait, and the domains of a topology that they use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.core.gangdomains import gang_domains
from moorage.core.gangs import lasting, terms_of
from moorage.core.gangtopology import TopologyMistake
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
    """Why what it asks of a topology cannot be meant, or what of it no longer holds."""

    @property
    def used(self) -> str:
        """The domains in one text, and what is wrong with them; `-` if none counts."""
        used = ", ".join(f"{count} {level}" for level, count in self.domains)
        return "; ".join(filter(None, (used, self.message))) or "-"

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
    found = gang_domains(state, key, (pod.template for pod in waiting))
    domains: tuple[tuple[str, int], ...] = ()
    said = ""
    if isinstance(found, TopologyMistake):
        said = found.message
    elif found is not None:
        domains, said = tuple(zip(found.levels, found.used, strict=True)), "; ".join(found.broken)
    needed = None if terms is None else terms.min_count
    return GangLine(key.namespace, key.name, len(standing), len(waiting), needed, domains, said)
