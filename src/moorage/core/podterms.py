"""The affinity terms of pods that stand on nodes: where their holders are, and which of them match a pod.

Equal terms share one `TermHolders`. Those that may match a pod are found through the label pairs that their selectors
demand, so that neither pods nor all terms are ever scanned.

Invariant: a `TermHolders` counts each pod on a known node once for every time that its template states the term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import NamedTuple

from moorage.core.affinity import PodAffinity, PodTerm
from moorage.core.frozen import EMPTY
from moorage.core.pods import PodTemplate
from moorage.core.selectorindex import SelectorIndex
from moorage.core.selectors import Selector
from moorage.core.tally import Tally


class TermKind(Enum):
    """What a holder says about pods that match the term."""

    REQUIRED = auto()
    """It must be in one domain with such a pod."""
    FORBIDDEN = auto()
    """It must not be in one domain with such a pod."""
    PREFERRED = auto()
    AVOIDED = auto()


class HeldTerm(NamedTuple):
    """A term as its holder means it: the holder's own namespace stands in `namespaces` where the term names none."""

    kind: TermKind
    weight: int
    """Of a preference; 0 for the others."""
    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term is about a pod with these labels in a namespace with those."""
        if namespace not in self.namespaces:
            chosen = self.namespace_selector
            if chosen is None or not chosen.matches(namespace_labels):
                return False
        return self.selector.matches(labels)


class TermHolders:
    """The pods that hold one term, by row and by domain."""

    __slots__ = ("tally", "templates", "term")

    def __init__(self, term: HeldTerm) -> None:
        self.term = term
        self.tally = Tally()
        self.templates = 0
        """How many templates with pods on nodes state the term; repetitions count."""


class _Held:
    """The terms of one template and the number of its pods on nodes."""

    __slots__ = ("holders", "pods")

    def __init__(self, holders: tuple[TermHolders, ...]) -> None:
        self.holders = holders
        self.pods = 0


class PodTerms:
    """All terms that pods on nodes hold; `version` changes whenever a term appears or disappears."""

    def __init__(self) -> None:
        self.version = 0
        self._by_template: dict[PodTemplate, _Held] = {}
        self._by_term: dict[HeldTerm, TermHolders] = {}
        self._selectors: SelectorIndex[TermHolders] = SelectorIndex()

    def __bool__(self) -> bool:
        return bool(self._by_term)

    def stand(self, template: PodTemplate, row: int) -> None:
        """A pod of a template with terms stands on a row now."""
        held = self._by_template.get(template)
        if held is None:
            held = self._by_template[template] = _Held(tuple(self._take(term) for term in held_terms(template)))
        held.pods += 1
        for holders in held.holders:
            holders.tally.add(row, 1)

    def leave(self, template: PodTemplate, row: int) -> None:
        """A pod of a template with terms left a row."""
        held = self._by_template[template]
        held.pods -= 1
        for holders in held.holders:
            holders.tally.add(row, -1)
        if not held.pods:
            del self._by_template[template]
            for holders in held.holders:
                self._release(holders)

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] = EMPTY
    ) -> list[TermHolders]:
        """The terms that are about a pod with these labels in a namespace with those."""
        return [
            holders
            for holders in self._selectors.candidates(labels)
            if holders.term.matches(namespace, labels, namespace_labels)
        ]

    def all(self) -> Iterator[TermHolders]:
        """Every term."""
        return iter(self._by_term.values())

    def _take(self, term: HeldTerm) -> TermHolders:
        found = self._by_term.get(term)
        if found is None:
            found = self._by_term[term] = TermHolders(term)
            self._selectors.add(found, term.selector)
            self.version += 1
        found.templates += 1
        return found

    def _release(self, holders: TermHolders) -> None:
        holders.templates -= 1
        if not holders.templates:
            del self._by_term[holders.term]
            self._selectors.remove(holders)
            self.version += 1


def held_terms(template: PodTemplate) -> Iterator[HeldTerm]:
    """The terms of a template, repetitions included."""
    kinds = (
        (template.pod_affinity, TermKind.REQUIRED, TermKind.PREFERRED),
        (template.pod_anti_affinity, TermKind.FORBIDDEN, TermKind.AVOIDED),
    )
    for affinity, demand, preference in kinds:
        for kind, weight, term in _terms_of(affinity or PodAffinity(), demand, preference):
            namespaces = frozenset(named_namespaces(term, template.namespace))
            yield HeldTerm(kind, weight, term.topology_key, term.selector, namespaces, term.namespace_selector)


def named_namespaces(term: PodTerm, own_namespace: str) -> tuple[str, ...]:
    """The namespaces that a term names; the pod's own where it neither names nor selects any."""
    if not term.namespaces and term.namespace_selector is None:
        return (own_namespace,)
    return term.namespaces


def _terms_of(affinity: PodAffinity, demand: TermKind, preference: TermKind) -> Iterator[tuple[TermKind, int, PodTerm]]:
    for term in affinity.required:
        yield demand, 0, term
    for preferred in affinity.preferred:
        yield preference, preferred.weight, preferred.term
