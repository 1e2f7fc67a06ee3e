"""InterPodAffinity: affinity and anti-affinity between the pod and the pods already placed, in both directions.

Filter has three rules: the pod's required affinity (every term's domain holds a pod that matches all terms; the first
pod of a group that matches its own terms may go anywhere), its required anti-affinity, and that of pods already placed.
Score adds the weights of preferred terms, the pod's own and those of placed pods. Counts come from the state's
counters; pods that are being deleted still count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from moorage.core.affinity import PodAffinity, PodTerm
from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.domains import DomainColumn
from moorage.core.edits import DropLabel, DropPodRule
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import NAMESPACE, Namespace
from moorage.core.podcounts import CountQuery, PodCounter, PodCounts
from moorage.core.pods import Pod, PodTemplate
from moorage.core.podterms import HeldTerm, TermKind, held_terms, named_namespaces
from moorage.core.selectors import Selector
from moorage.core.sparsecounts import Counts
from moorage.core.state import ClusterState
from moorage.core.tally import Tally
from moorage.core.templatecache import TemplateCache
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, Reason, Rejections, Status

_MAX_SCORE = 100
_REASONS = (
    Reason("node(s) didn't match pod affinity rules", resolvable=False),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)
_LONELY_BIT, _CROWDED_BIT, _UNWELCOME_BIT = 1, 2, 4
_FIRST_OF: Ints = np.array([0, 1, 2, 1, 4, 1, 2, 1], dtype=np.int64)
"""For each set of these bits, the one that kube-scheduler reports."""
_KEPT_PARTS = 1 << 15
"""The most parts of plans that are kept; beyond that, all plans are dropped."""
_NOBODY = PodAffinity()
_DROP, _LABEL = 4.0, 5.0
"""Costs of remedies."""


class InterPodAffinityArgs(PluginArgs):
    """How much the required affinity of placed pods counts in Score, and whether their preferences are left out."""

    hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _Wanted(NamedTuple):
    """A term of the pod itself: the pods that it selects, and the topology."""

    counter: PodCounter
    column: DomainColumn
    weight: int = 0


class _Held(NamedTuple):
    """A term of placed pods that selects this pod: where they are, and the topology."""

    tally: Tally
    column: DomainColumn
    weight: int = 0


class _Plan(NamedTuple):
    """What one template means on one state, and the versions that this was computed from."""

    namespaces: int
    """Version of the namespaces."""
    terms: int
    """Version of the placed pods' terms."""
    together: tuple[_Wanted, ...]
    """Required affinity: one counter, of the pods that match all terms, in every topology named."""
    own: bool
    """Whether the pod matches its own required affinity."""
    apart: tuple[_Wanted, ...]
    preferred: tuple[_Wanted, ...]
    """Weights of anti-affinity are negative."""
    rejecting: tuple[_Held, ...]
    attracting: tuple[_Held, ...]
    """Weights of placed pods' preferences, and of their required affinity; negative for anti-affinity."""

    @property
    def parts(self) -> int:
        """Its size, in parts."""
        kept = (self.together, self.apart, self.preferred, self.rejecting, self.attracting)
        return 1 + sum(map(len, kept))


class InterPodAffinity(Plugin):
    """Keeps pods near or away from other pods, as their affinity terms say."""

    name: ClassVar[str] = "InterPodAffinity"
    Args: ClassVar[type[PluginArgs]] = InterPodAffinityArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.NODE_ADDED
        | What.NODE_LABELS
        | What.POD_ADDED
        | What.POD_UPDATED
        | What.POD_REMOVED
        | What.OBJECT
        | What.SELF
    )
    kinds: ClassVar[frozenset[str]] = frozenset({NAMESPACE})

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        self.args: InterPodAffinityArgs = args or InterPodAffinityArgs()
        self._counts: PodCounts | None = None
        self._plans: TemplateCache[_Plan] = TemplateCache(_KEPT_PARTS)
        self._parts = 0
        """Of all plans together."""

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether the pod has terms, or placed pods have terms that may select it."""
        if template.has_pod_terms:
            return True
        if not state.pod_terms:
            return False
        plan = self._plan(state, template)
        return bool(plan.rejecting) or bool(plan.attracting and self._scores(plan))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """Pods and nodes help as the required terms say; see `_pod_helps` and `_node_helps`."""
        if change.kind:
            return True
        if change.pod is not None and _are_strangers(template, change.pod.template):
            return False
        terms = [term for term in held_terms(template) if term.kind in (TermKind.REQUIRED, TermKind.FORBIDDEN)]
        if change.pod is not None:
            return _pod_helps(template, terms, change.pod, change)
        if change.node is not None and change.what & What.NODE_ADDED:
            return _node_helps(terms, change.node.labels)
        return True

    # --- Filter ---

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without required terms that no placed pod rejects anywhere."""
        plan = self._plan(cycle.state, cycle.template)
        if plan.together or plan.apart or any(_total(cycle.state, each) for each in plan.rejecting):
            return None
        return SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows by the three rules; each row gives the first that fails."""
        state = cycle.state
        tables = self._objections(state, self._plan(state, cycle.template))
        bits: Ints | None = None
        for column, table in tables.items():
            single = _FIRST_OF.take(table) if len(tables) == 1 else table
            found = single.take(state.pick(column.ids, rows))
            bits = found if bits is None else np.bitwise_or(bits, found, out=bits)
        if bits is None:
            return None
        return Rejections(bits if len(tables) == 1 else _FIRST_OF.take(bits), _REASONS)

    def _objections(self, state: ClusterState, plan: _Plan) -> dict[DomainColumn, Ints]:
        """Per topology and domain, and last for rows without one, the bits of the rules that object to it."""
        tables: dict[DomainColumn, Ints] = {}
        for held, bit in ((plan.rejecting, _UNWELCOME_BIT), (self._held(plan.apart), _CROWDED_BIT)):
            for each in held:
                if _total(state, each):
                    _object(tables, each.column, _counts(each) > 0, bit)
        together = self._held(plan.together)
        none_match = not sum(_total(state, each) for each in together)
        for each in together:
            first_of_group = none_match and plan.own
            lonely: Mask = np.zeros(each.column.size + 1, dtype=np.bool_) if first_of_group else _counts(each) == 0
            lonely[-1] = True
            _object(tables, each.column, lonely, _LONELY_BIT)
        return tables

    # --- Score ---

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Single terms or labels of the pod first; all terms of a kind only if no single one suffices."""
        template, accepts = rejected.pod.template, rejected.accepts
        singles = [
            Remedy((DropPodRule(index, anti),), _DROP)
            for anti in (False, True)
            for index in range(len(_terms(template, anti=anti)))
            if accepts(_without(template, anti=anti, index=index))
        ]
        singles += [Remedy((DropLabel(key),), _LABEL) for key in template.labels if accepts(_unlabelled(template, key))]
        yield from singles
        if singles:
            return
        for kinds in ((False,), (True,), (False, True)):
            edits = tuple(
                DropPodRule(index, anti)
                for anti in kinds
                for index in reversed(range(len(_terms(template, anti=anti))))
            )
            if edits:
                yield Remedy(edits, _DROP * len(edits))
                bare = _without_all(template, kinds)
                for key in template.labels:
                    if accepts(_unlabelled(bare, key)):
                        yield Remedy((*edits, DropLabel(key)), _DROP * len(edits) + _LABEL)

    def separates(self, template: PodTemplate, other: PodTemplate) -> set[str]:
        """The topologies in which one of the two wants to be apart from the other."""
        wanted = {term.topology_key for term in _terms(template, anti=True) if term.selector.matches(other.labels)}
        return wanted | {
            term.topology_key for term in _terms(other, anti=True) if term.selector.matches(template.labels)
        }

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Sum the weights up by domain; skip the pod if no term matches any pod."""
        state = cycle.state
        plan = self._plan(state, cycle.template)
        tables: dict[DomainColumn, Ints] = {}
        if self._scores(plan):
            for held in (*self._held(plan.preferred), *plan.attracting):
                if _total(state, held):
                    part: Ints = np.multiply(_counts(held), held.weight, dtype=np.int64)
                    known = tables.get(held.column)
                    tables[held.column] = part if known is None else np.add(known, part, out=known)
        cycle.memo[self.name] = tables
        return None if tables else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The sum over the topologies of the weight of the row's domain."""
        if self.name not in cycle.memo:
            self.pre_score(cycle, rows)
        total: Ints | None = None
        for column, table in cycle.memo[self.name].items():
            part = table.take(cycle.state.pick(column.ids, rows))
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros(len(rows), dtype=np.int64) if total is None else total

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """The highest sum scores 100, the lowest 0."""
        if not len(scores):
            return scores
        least = int(scores.min())
        span = int(scores.max()) - least
        if not span:
            return np.zeros(len(scores), dtype=np.int64)
        above = np.subtract(scores, least)
        if span >= len(scores):
            return _shares(above, span)
        steps: Ints = np.arange(span + 1)
        return _shares(steps, span).take(above)

    def _scores(self, plan: _Plan) -> bool:
        """Whether preferences count for the pod at all."""
        return bool(plan.preferred) or not self.args.ignore_preferred_terms_of_existing_pods

    # --- what is kept between decisions ---

    def _held(self, wanted: Iterable[_Wanted]) -> list[_Held]:
        counts = self._counts
        assert counts is not None  # noqa: S101 - set by `_plan`, without which there is nothing wanted
        return [_Held(counts.fresh(counter).tally, column, weight) for counter, column, weight in wanted]

    def _plan(self, state: ClusterState, template: PodTemplate) -> _Plan:
        if self._counts is not state.pod_counts:
            self._counts = state.pod_counts
            self._plans.clear()
            self._parts = 0
        namespaces, terms = state.object_versions.get(NAMESPACE, 0), state.pod_terms.version
        plan = self._plans.get(template)
        if plan is None or plan.namespaces != namespaces:
            if self._parts >= _KEPT_PARTS:
                self._plans.clear()
                self._parts = 0
            plan = self._plans.keep(template, self._make_plan(state, template, namespaces))
            self._parts += plan.parts
        elif plan.terms != terms:
            rejecting, attracting = self._held_about(state, template)
            self._parts -= plan.parts
            plan = self._plans.keep(template, plan._replace(terms=terms, rejecting=rejecting, attracting=attracting))
            self._parts += plan.parts
        return plan

    def _make_plan(self, state: ClusterState, template: PodTemplate, namespaces: int) -> _Plan:
        near, far = template.pod_affinity or _NOBODY, template.pod_anti_affinity or _NOBODY
        every = [_question(state, term, template.namespace) for term in near.required]
        joint = _both(every)
        together = tuple(_wanted(state, joint, term) for term in near.required) if joint is not None else ()
        preferred = [(each.weight, each.term) for each in near.preferred]
        preferred += [(-each.weight, each.term) for each in far.preferred]
        rejecting, attracting = self._held_about(state, template)
        return _Plan(
            namespaces,
            state.pod_terms.version,
            together,
            joint is not None and _is_about(joint, template),
            tuple(_wanted(state, _question(state, term, template.namespace), term) for term in far.required),
            tuple(_wanted(state, _question(state, t, template.namespace), t, weight) for weight, t in preferred),
            rejecting,
            attracting,
        )

    def _held_about(self, state: ClusterState, template: PodTemplate) -> tuple[tuple[_Held, ...], tuple[_Held, ...]]:
        """The terms of placed pods that select a pod: those that reject it, and those that count in Score."""
        namespace: Namespace | None = state.object(NAMESPACE, template.namespace)
        labels = EMPTY if namespace is None else namespace.labels
        rejecting, attracting = [], []
        for holders in state.pod_terms.matching(template.namespace, template.labels, labels):
            column = state.domains.column(holders.term.topology_key)
            if holders.term.kind is TermKind.FORBIDDEN:
                rejecting.append(_Held(holders.tally, column))
                continue
            weight = self._weight(holders.term)
            if weight:
                attracting.append(_Held(holders.tally, column, weight))
        return tuple(rejecting), tuple(attracting)

    def _weight(self, term: HeldTerm) -> int:
        if term.kind is TermKind.REQUIRED:
            return self.args.hard_pod_affinity_weight
        return term.weight if term.kind is TermKind.PREFERRED else -term.weight


def _shares(above: Ints, span: int) -> Ints:
    """Percent of the span, cut off as kube-scheduler does in floating point."""
    shares: Floats = np.divide(above, span)
    shares *= _MAX_SCORE
    return shares.astype(np.int64)


def _total(state: ClusterState, held: _Held) -> int:
    """How many of the pods are in a domain of the topology; the column is up to date afterwards."""
    held.column.refresh(state)
    return held.tally.by_domain(held.column).total


def _counts(held: _Held) -> Counts:
    """The pods by domain of the refreshed column, and last 0 for rows without one."""
    return held.tally.by_domain(held.column).dense(held.column.size + 1)


def _object(tables: dict[DomainColumn, Ints], column: DomainColumn, domains: Mask, bit: int) -> None:
    """Note that a rule objects to domains."""
    flags: Ints = np.multiply(domains, bit, dtype=np.int64)
    known = tables.get(column)
    tables[column] = flags if known is None else np.bitwise_or(known, flags, out=known)


def _question(state: ClusterState, term: PodTerm, own_namespace: str) -> CountQuery:
    """The pods that a term of a pending pod selects; the namespaces that it selects are looked up now."""
    names = frozenset(named_namespaces(term, own_namespace))
    chosen = term.namespace_selector
    if chosen is None:
        return CountQuery(names, term.selector)
    if not chosen.requirements:
        return CountQuery(None, term.selector)
    known: Mapping[str, Namespace] = state.objects.get(NAMESPACE, {})
    return CountQuery(names.union(name for name, each in known.items() if chosen.matches(each.labels)), term.selector)


def _both(questions: list[CountQuery]) -> CountQuery | None:
    """The pods that all queries select; None without queries."""
    if not questions:
        return None
    named = [question.namespaces for question in questions if question.namespaces is not None]
    requirements = dict.fromkeys(each for question in questions for each in question.selector.requirements)
    return CountQuery(frozenset.intersection(*named) if named else None, Selector(tuple(requirements)))


def _wanted(state: ClusterState, question: CountQuery, term: PodTerm, weight: int = 0) -> _Wanted:
    return _Wanted(state.pod_counts.counter(question), state.domains.column(term.topology_key), weight)


def _is_about(question: CountQuery, template: PodTemplate) -> bool:
    namespaces = question.namespaces
    return (namespaces is None or template.namespace in namespaces) and question.selector.matches(template.labels)


def _may_mean(term: HeldTerm, template: PodTemplate) -> bool:
    """Whether a term may select a pod; without the state, its namespace selector may match any namespace."""
    if template.namespace not in term.namespaces and term.namespace_selector is None:
        return False
    return term.selector.matches(template.labels)


def _are_strangers(template: PodTemplate, other: PodTemplate) -> bool:
    """Whether two pods of different namespaces mean nothing to each other; told at once, as many pods may wait."""
    if template.namespace == other.namespace or other.pod_anti_affinity is not None:
        return False
    for affinity in (template.pod_affinity, template.pod_anti_affinity):
        for term in () if affinity is None else affinity.required:
            if term.namespaces or term.namespace_selector is not None:
                return False
    return True


def _pod_helps(template: PodTemplate, terms: list[HeldTerm], pod: Pod, change: Change) -> bool:
    """A new pod helps if the affinity selects it; one that left if either side's anti-affinity selected the other."""
    near = [term for term in terms if term.kind is TermKind.REQUIRED]
    far = [term for term in terms if term.kind is TermKind.FORBIDDEN]
    if not change.what & What.POD_REMOVED:
        came = bool(near) and all(_may_mean(term, pod.template) for term in near)
        if change.what & What.POD_ADDED:
            return came
        before = change.before or pod
        return came or any(_may_mean(term, before.template) and not _may_mean(term, pod.template) for term in far)
    if any(_may_mean(term, pod.template) for term in far):
        return True
    return any(term.kind is TermKind.FORBIDDEN and _may_mean(term, template) for term in held_terms(pod.template))


def _node_helps(terms: list[HeldTerm], labels: Mapping[str, str]) -> bool:
    """A new node helps unless the pod has only affinity, in topologies that the node is not part of."""
    near = [term for term in terms if term.kind is TermKind.REQUIRED]
    return len(near) < len(terms) or not terms or any(term.topology_key in labels for term in near)


def _without_all(template: PodTemplate, kinds: tuple[bool, ...]) -> PodTemplate:
    for anti in kinds:
        for index in reversed(range(len(_terms(template, anti=anti)))):
            template = _without(template, anti=anti, index=index)
    return template


def _unlabelled(template: PodTemplate, key: str) -> PodTemplate:
    labels = FrozenDict({name: value for name, value in template.labels.items() if name != key})
    return replace(template, labels=labels)


def _terms(template: PodTemplate, *, anti: bool) -> tuple[PodTerm, ...]:
    affinity = template.pod_anti_affinity if anti else template.pod_affinity
    return () if affinity is None else affinity.required


def _without(template: PodTemplate, *, anti: bool, index: int) -> PodTemplate:
    affinity = template.pod_anti_affinity if anti else template.pod_affinity
    if affinity is None:
        return template
    required = tuple(term for number, term in enumerate(affinity.required) if number != index)
    left = PodAffinity(required, affinity.preferred) if required or affinity.preferred else None
    return replace(template, pod_anti_affinity=left) if anti else replace(template, pod_affinity=left)
