"""Where a pod wants to be: node affinity, pod affinity and topology spread, as values."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.selectors import EVERYTHING, Requirement, Selector, part_count
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One node selector term: all expressions and all fields must hold. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    """Requirements on node fields; Kubernetes knows only `metadata.name`."""

    @property
    def parts(self) -> int:
        """See `part_count`."""
        return 1 + part_count(self.expressions) + part_count(self.fields)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node with this name and these labels matches."""
        if not self.expressions and not self.fields:
            return False
        return all(e.matches_value(labels.get(e.key)) for e in self.expressions) and all(
            f.matches_value(name if f.key == "metadata.name" else None) for f in self.fields
        )


@dataclass(frozen=True, slots=True)
class PreferredNodeTerm:
    """A node selector term that adds its weight (1 to 100) to the score of matching nodes."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Required terms are alternatives (None: no requirement; empty: nothing matches); preferred ones add up."""

    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()

    @property
    def parts(self) -> int:
        """See `part_count`."""
        return sum(term.parts for term in self.required or ()) + sum(each.term.parts for each in self.preferred)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One pod affinity or anti-affinity term."""

    selector: Selector
    topology_key: str
    namespaces: tuple[str, ...] = ()
    """Sorted; empty together with a missing `namespace_selector` means the pod's own namespace."""
    namespace_selector: Selector | None = None

    @property
    def parts(self) -> int:
        """See `part_count`."""
        others = self.namespace_selector or EVERYTHING
        return 4 + part_count(self.selector.requirements) + len(self.namespaces) + part_count(others.requirements)


@dataclass(frozen=True, slots=True)
class PreferredPodTerm:
    """A pod affinity term with a weight (1 to 100)."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """Pod affinity or pod anti-affinity of one pod."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[PreferredPodTerm, ...] = ()

    @property
    def parts(self) -> int:
        """See `part_count`."""
        return sum(term.parts for term in self.required) + sum(each.term.parts for each in self.preferred)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint, with matchLabelKeys already merged into the selector."""

    max_skew: int
    topology_key: str
    hard: bool
    """True for DoNotSchedule, False for ScheduleAnyway."""
    selector: Selector
    min_domains: int = 1
    honor_node_affinity: bool = True
    honor_node_taints: bool = False

    @property
    def parts(self) -> int:
        """See `part_count`."""
        return 4 + part_count(self.selector.requirements)
