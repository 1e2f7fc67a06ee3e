"""The domains that the members of a gang stand in, and what they would have to differ in for what it asks for now.

Topologies and labels of nodes change under running gangs. Nothing is evicted for that; what no longer holds is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moorage.core.gangs import group_object, lasting
from moorage.core.gangtopology import ScopeTerms, TopologyMistake, TopologyTerms, role_of, topology_terms
from moorage.core.membership import GangKey
from moorage.core.phrases import counted
from moorage.core.pods import PodTemplate
from moorage.core.topologytree import Path
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.state import ClusterState, PodRecord

_STAYS = "nothing is evicted for that, members that come follow what is asked"


@dataclass(frozen=True, slots=True)
class GangDomains:
    """Where a gang stands in its topology."""

    levels: tuple[str, ...]
    used: tuple[int, ...]
    """Domains in use at each level."""
    broken: tuple[str, ...] = ()
    """What is asked for and does not hold, in words."""

    @property
    def told(self) -> str:
        """The domains in use, in words."""
        return ", ".join(f"{count} of {level}" for level, count in zip(self.levels, self.used, strict=True))


def gang_domains(
    state: ClusterState, key: GangKey, waiting: Iterable[PodTemplate]
) -> GangDomains | TopologyMistake | None:
    """The domains of the members on nodes; None if the gang asks for no levels. `waiting`: its other members."""
    standing = lasting(state, key)
    templates = [*waiting, *(record.pod.template for record in standing)]
    terms = topology_terms(state, group_object(state, key), templates)
    if terms is None or isinstance(terms, TopologyMistake):
        return terms
    if not terms.levels.keys:
        return None
    tree = state.topologies.tree(state, terms.levels)
    rows = {record.row for record in standing}
    paths = {row: path for row, path in zip(tree.rows.tolist(), tree.paths, strict=True) if row in rows}
    depths = range(1, len(terms.levels.keys) + 1)
    used = tuple(len({path[:depth] for path in paths.values()}) for depth in depths)
    return GangDomains(terms.levels.keys, used, tuple(_broken(terms, standing, paths)))


def standing_lines(state: ClusterState, key: GangKey) -> Iterator[str]:
    """The same of the members on nodes in sentences, and what no longer holds."""
    found = gang_domains(state, key, ())
    if isinstance(found, TopologyMistake):
        yield f"pod group {key.object_key} stays where it is, and members that come wait: {found.message}"
    elif found is not None:
        yield f"pod group {key.object_key} uses {found.told}"
        yield from (f"{each}; {_STAYS}" for each in found.broken)


def _broken(terms: TopologyTerms, standing: Iterable[PodRecord], paths: dict[int, Path]) -> Iterator[str]:
    members = [record for record in standing if record.row in paths]
    outside = len([*standing]) - len(members)
    if outside:
        yield f"{counted(outside, 'member')} of it stand on nodes outside of the topology"
    for scope in terms.scopes:
        if scope.required is None:
            continue
        count = len(_paths_of(scope, members, paths, scope.required))
        if count > 1:
            level = terms.levels.keys[scope.required]
            yield f"{scope.name} asks for one {level} and is in {count}, as Topology and labels are now"


def _paths_of(scope: ScopeTerms, members: Iterable[PodRecord], paths: dict[int, Path], level: int) -> set[Path]:
    inside = (record for record in members if role_of(record.pod.template) in scope.subgroups)
    return {paths[record.row][: level + 1] for record in inside}
