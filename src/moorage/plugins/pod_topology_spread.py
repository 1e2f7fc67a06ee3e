"""PodTopologySpread: pods that a selector matches are spread evenly over the domains of a node label.

Hard constraints (DoNotSchedule) reject domains whose count would exceed the smallest one by more than maxSkew. Soft
ones (ScheduleAnyway) score domains with fewer pods higher. Pods without constraints of their own get those of the
profile, for the pods of the same services and controller. Counts come from the state's counters; pods that are being
deleted do not count, and neither do those on nodes that the constraint's policies leave out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, Self
from weakref import ref

import numpy as np
from pydantic import Field, field_validator, model_validator

from moorage.core.affinity import SpreadConstraint
from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.defaultselector import SOURCE_KINDS, SelectorSources, default_selector, selector_sources
from moorage.core.domains import EVERYWHERE, DomainColumn, Scope
from moorage.core.edits import RelaxSpread, SetNodeLabel
from moorage.core.frozen import EMPTY
from moorage.core.labelnames import HOSTNAME, ZONE, is_qualified_name
from moorage.core.podcounts import CountQuery, PodCounter, PodCounts
from moorage.core.pods import PodTemplate
from moorage.core.selectors import NOTHING, Selector
from moorage.core.sparsecounts import SparseCounts
from moorage.core.state import ClusterState
from moorage.core.templatecache import TemplateCache
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.idle import Skew
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy, least
from moorage.framework.status import SKIP, Reason, Rejections, Status

_MAX_SCORE = 100
_UNEVEN = "node(s) didn't match pod topology spread constraints"
_REASONS = (Reason(_UNEVEN), Reason(f"{_UNEVEN} (missing required label)", resolvable=False))
_UNEVEN_BIT, _UNLABELLED_BIT = 1, 2
_KEPT_PARTS = 1 << 15
"""The most parts of plans that are kept; beyond that, all plans are dropped."""
_POD_CHANGES = What.POD_ADDED | What.POD_UPDATED | What.POD_REMOVED
_MOST_SKEW = 1 << 20
_MOST_DOMAINS = 3
_SOFTEN, _NODE_LABEL = 3.5, 3.0
"""Costs of remedies."""


class DefaultingType(StrEnum):
    """Where the constraints of pods without any come from."""

    SYSTEM = "System"
    LIST = "List"


class Action(StrEnum):
    """What happens to a pod that cannot be spread."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class Policy(StrEnum):
    """Whether nodes that the pod cannot go to count."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class DefaultConstraint(PluginArgs):
    """A spread constraint as in a pod, without a selector: that follows from the pod."""

    max_skew: Annotated[int, Field(ge=1)]
    topology_key: str
    when_unsatisfiable: Annotated[Action, Field(strict=False)]
    label_selector: Any = None
    min_domains: Annotated[int, Field(ge=1)] | None = None
    node_affinity_policy: Annotated[Policy, Field(strict=False)] = Policy.HONOR
    node_taints_policy: Annotated[Policy, Field(strict=False)] = Policy.IGNORE
    match_label_keys: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @field_validator("topology_key")
    @classmethod
    def _is_label_key(cls, key: str) -> str:
        if not is_qualified_name(key):
            raise ValueError(f"{key!r} is no label key; name a label of the nodes")
        return key

    @field_validator("label_selector")
    @classmethod
    def _is_absent(cls, selector: Any) -> None:
        if selector is not None:
            raise ValueError("must not be given, since the selector is deduced for each pod; remove it")

    def constraint(self, selector: Selector) -> SpreadConstraint:
        """The constraint for the pods that the selector matches."""
        return SpreadConstraint(
            max_skew=self.max_skew,
            topology_key=self.topology_key,
            hard=self.when_unsatisfiable is Action.DO_NOT_SCHEDULE,
            selector=selector,
            min_domains=self.min_domains or 1,
            honor_node_affinity=self.node_affinity_policy is Policy.HONOR,
            honor_node_taints=self.node_taints_policy is Policy.HONOR,
        )


_SYSTEM_DEFAULTS = (
    DefaultConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=Action.SCHEDULE_ANYWAY),
    DefaultConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=Action.SCHEDULE_ANYWAY),
)


class PodTopologySpreadArgs(PluginArgs):
    """The constraints of pods without any: kube-scheduler's own (`System`) or those listed here (`List`)."""

    default_constraints: Annotated[tuple[DefaultConstraint, ...], Field(strict=False)] = ()
    defaulting_type: Annotated[DefaultingType, Field(strict=False)] = DefaultingType.SYSTEM

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.defaulting_type is DefaultingType.SYSTEM and self.default_constraints:
            raise ValueError("defaultingType is System; write List, or remove defaultConstraints")
        seen: set[tuple[str, Action]] = set()
        for number, each in enumerate(self.default_constraints):
            kind = (each.topology_key, each.when_unsatisfiable)
            if kind in seen:
                raise ValueError(f"defaultConstraints[{number}] repeats {{{', '.join(kind)}}}; remove one of them")
            seen.add(kind)
        return self


class _Rule(NamedTuple):
    """A constraint of one pod on one state."""

    max_skew: int
    min_domains: int
    by_host: bool
    own: int
    """1 if the pod itself will count, else 0."""
    counter: PodCounter
    labels: DomainColumn
    """The domains of all nodes."""
    counted: DomainColumn
    """The same without the nodes that do not count."""


class _Plan(NamedTuple):
    """The constraints of a pod."""

    sources: SelectorSources | None
    """What the selector was deduced from; None for the pod's own constraints."""
    hard: tuple[_Rule, ...] = ()
    soft: tuple[_Rule, ...] = ()
    strict: bool = True
    """Whether nodes that lack one of the labels are not scored."""


class _Prepared(NamedTuple):
    """What PreScore leaves for Score and normalisation."""

    plan: _Plan
    ignored: Mask | None
    """Rows that get no score; None if there are none."""


_UNCONCERNED = _Plan(None)


class PodTopologySpread(Plugin):
    """Spreads pods over zones, hosts or any other label."""

    name: ClassVar[str] = "PodTopologySpread"
    Args: ClassVar[type[PluginArgs]] = PodTopologySpreadArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.NODE_ADDED | What.NODE_REMOVED | What.NODE_LABELS | What.NODE_TAINTS | _POD_CHANGES | What.SELF
    )
    kinds: ClassVar[frozenset[str]] = SOURCE_KINDS

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        self.args: PodTopologySpreadArgs = args or PodTopologySpreadArgs()
        self._by_system = self.args.defaulting_type is DefaultingType.SYSTEM
        self._defaults = _SYSTEM_DEFAULTS if self._by_system else self.args.default_constraints
        self._counts: PodCounts | None = None
        self._plans: TemplateCache[_Plan] = TemplateCache(_KEPT_PARTS)
        self._parts = 0
        """Total of all plans and their rules."""
        self._latest: tuple[ref[PodTemplate], _Plan] | None = None
        """The last plan: it is used several times for each pod."""

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether the pod has constraints, its own or by default."""
        return self._plan(state, template) is not _UNCONCERNED

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod helps if it counts, or did before; a node if it has the labels that the hard constraints name."""
        if change.pod is not None and change.pod.template.namespace != template.namespace:
            return False  # told at once, as many pods may wait
        hard = [constraint for constraint in template.spread if constraint.hard]
        if change.what & _POD_CHANGES:
            return _counts_for(template, hard, change)
        if change.node is None or not change.what & What.NODE_ADDED:
            return True
        return all(constraint.topology_key in change.node.labels for constraint in hard)

    # --- Filter ---

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without hard constraints."""
        return None if self._plan(cycle.state, cycle.template).hard else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that lack a label or whose domain is too full; the first constraint that fails says why."""
        state = cycle.state
        bits: Ints | None = None
        for rule in self._plan(state, cycle.template).hard:
            rule.labels.refresh(state)
            rule.counted.refresh(state)
            counts = state.pod_counts.fresh(rule.counter).tally.by_domain(rule.counted)
            highest = rule.max_skew - rule.own + _least(rule, counts)
            if rule.labels.labelled == state.node_count and counts.peak() <= highest:
                continue
            verdicts = (counts.dense(rule.labels.size + 1) > highest).astype(np.int64)
            verdicts[-1] = _UNLABELLED_BIT
            found = verdicts.take(state.pick(rule.labels.ids, rows))
            bits = found if bits is None else np.where(bits == 0, found, bits)
        return None if bits is None else Rejections(bits, _REASONS)

    # --- Score ---

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Each hard constraint alone: a larger skew, fewer domains, a preference; then all of them as preferences."""
        template, node = rejected.pod.template, rejected.state.node(rejected.row)
        hard = [index for index, constraint in enumerate(template.spread) if constraint.hard]
        if not hard:
            return
        lacking = [key for index in hard if (key := template.spread[index].topology_key) not in node.labels]
        if lacking:
            yield from _labels(rejected.state, node.name, lacking)
        found = False
        for index in hard:
            if not rejected.accepts(_softened(template, index)):
                continue
            found = True
            yield Remedy((RelaxSpread(index),), _SOFTEN)
            yield from _relaxed(rejected, template, index)
        if not found:
            yield Remedy(tuple(map(RelaxSpread, hard)), _SOFTEN * len(hard))

    def separates(self, template: PodTemplate, other: PodTemplate) -> set[str]:
        """The topologies over which the pod has to be spread together with the other one."""
        if template.namespace != other.namespace:
            return set()
        return {each.topology_key for each in template.spread if each.hard and each.selector.matches(other.labels)}

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Skip pods without soft constraints; find the rows that are not scored."""
        state = cycle.state
        plan = self._plan(state, cycle.template)
        if not plan.soft or not state.node_count:
            return SKIP
        ignored: Mask | None = None
        for rule in plan.soft:
            rule.labels.refresh(state)
            if plan.strict and rule.labels.labelled != state.node_count:
                unlabelled: Mask = state.pick(rule.labels.ids, rows) < 0
                ignored = unlabelled if ignored is None else ignored | unlabelled
        cycle.memo[self.name] = _Prepared(plan, ignored)
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """How many pods the row's domains have, weighted by the number of domains."""
        plan, ignored = self._prepared(cycle, rows)
        total: Floats | None = None
        for rule in plan.soft:
            fullness = _fullness(cycle.state, rule, rows, ignored)
            total = fullness if total is None else np.add(total, fullness, out=total)
        if total is None:
            return np.zeros(len(rows), dtype=np.int64)
        if ignored is not None:
            total[ignored] = 0.0
        total += 0.5
        return total.astype(np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The row with the fewest pods scores highest; rows that are not scored get 0."""
        ignored = cycle.memo[self.name].ignored
        valid = scores if ignored is None else scores[~ignored]
        most = int(valid.max(initial=0))
        if most == 0:
            found: Ints = np.full(len(scores), _MAX_SCORE, dtype=np.int64)
        else:
            found = np.subtract(most + int(valid.min()), scores)
            found *= _MAX_SCORE
            found //= most
        if ignored is not None:
            found[ignored] = 0
        return found

    def _prepared(self, cycle: Cycle, rows: Rows) -> _Prepared:
        if self.name not in cycle.memo and self.pre_score(cycle, rows) is not None:
            return _Prepared(_UNCONCERNED, None)
        prepared: _Prepared = cycle.memo[self.name]
        return prepared

    def skews(self, template: PodTemplate, state: ClusterState) -> Iterator[Skew]:
        """How evenly the pods of the constraints of such pods stand now; constraints by default are left out."""
        plan = self._plan(state, template) if template.spread else _UNCONCERNED
        hard = [constraint for constraint in template.spread if constraint.hard]
        soft = [constraint for constraint in template.spread if not constraint.hard]
        for constraint, rule in zip((*hard, *soft), (*plan.hard, *plan.soft), strict=False):
            rule.counted.refresh(state)
            counts = state.pod_counts.fresh(rule.counter).tally.by_domain(rule.counted)
            yield Skew(constraint, counts.peak() - _least(rule, counts))

    # --- what is kept between decisions ---

    def _plan(self, state: ClusterState, template: PodTemplate) -> _Plan:
        if self._counts is not state.pod_counts:
            self._counts = state.pod_counts
            self._plans.clear()
            self._parts = 0
            self._latest = None
        latest = self._latest
        if latest is not None and latest[0]() is template and template.spread:
            return latest[1]
        sources = None
        if not template.spread:
            if not self._defaults:
                return _UNCONCERNED
            sources = selector_sources(state, template)
            if not sources.services and sources.selector is None:
                return _UNCONCERNED
        plan = self._plans.get(template)
        if plan is None or plan.sources != sources:
            if self._parts >= _KEPT_PARTS:
                self._plans.clear()
                self._parts = 0
            plan = self._plans.keep(template, self._make_plan(state, template, sources))
            self._parts += 1 + len(plan.hard) + len(plan.soft)
        self._latest = (ref(template), plan)
        return plan

    def _make_plan(self, state: ClusterState, template: PodTemplate, sources: SelectorSources | None) -> _Plan:
        constraints = template.spread
        if sources is not None:
            selector = default_selector(sources)
            if not selector.requirements:
                return _UNCONCERNED
            constraints = tuple(each.constraint(selector) for each in self._defaults)
        strict = sources is None or not self._by_system
        hard = [constraint for constraint in constraints if constraint.hard]
        soft = [constraint for constraint in constraints if not constraint.hard]
        hard_keys, soft_keys = _keys(hard), _keys(soft) if strict else ()
        return _Plan(
            sources,
            tuple([_make_rule(state, template, each, hard_keys) for each in hard]),
            tuple([_make_rule(state, template, each, soft_keys) for each in soft]),
            strict,
        )


def _keys(constraints: list[SpreadConstraint]) -> tuple[str, ...]:
    return tuple(sorted({constraint.topology_key for constraint in constraints})) if constraints else ()


def _make_rule(
    state: ClusterState, template: PodTemplate, constraint: SpreadConstraint, keys: tuple[str, ...]
) -> _Rule:
    affinity = template.node_affinity
    scope = Scope(
        tuple([key for key in keys if key != constraint.topology_key]),
        template.node_selector if constraint.honor_node_affinity else EMPTY,
        affinity.required if constraint.honor_node_affinity and affinity is not None else None,
        template.tolerations if constraint.honor_node_taints else None,
    )
    # A selector without requirements counts no pod here, as in kube-scheduler, though it matches the pod itself.
    selector = constraint.selector if constraint.selector.requirements else NOTHING
    labels = state.domains.column(constraint.topology_key)
    return _Rule(
        constraint.max_skew,
        constraint.min_domains,
        constraint.topology_key == HOSTNAME,
        int(constraint.selector.matches(template.labels)),
        state.pod_counts.counter(CountQuery(frozenset({template.namespace}), selector, live_only=True)),
        labels,
        labels if scope == EVERYWHERE else state.domains.column(constraint.topology_key, scope),
    )


def _least(rule: _Rule, counts: SparseCounts) -> int:
    """The smallest count of a domain; 0 while there are fewer domains than minDomains."""
    domains = rule.counted.domain_count()
    if not domains or domains < rule.min_domains or counts.places < domains:
        return 0
    return counts.least()  # no domain is excluded: every domain with counted pods has a node that counts


def _fullness(state: ClusterState, rule: _Rule, rows: Rows, ignored: Mask | None) -> Floats:
    """One constraint's part of the score, float64[len(rows)]; 0 where the row lacks the label."""
    tally = state.pod_counts.fresh(rule.counter).tally
    ids = state.pick(rule.labels.ids, rows)
    if rule.by_host:
        scored = len(rows) if ignored is None else len(rows) - int(np.count_nonzero(ignored))
        found: Floats = np.multiply(state.pick(tally.rows.dense(state.capacity), rows), math.log(scored + 2))
        found += rule.max_skew - 1
        if rule.labels.labelled != state.node_count:
            found[ids < 0] = 0.0
        return found
    rule.counted.refresh(state)
    counts = tally.by_domain(rule.counted).dense(rule.labels.size + 1)
    table: Floats = np.multiply(counts, math.log(_domains_of(state, rule, ids, ignored) + 2), dtype=np.float64)
    table += rule.max_skew - 1
    table[-1] = 0.0
    return table.take(ids)


def _domains_of(state: ClusterState, rule: _Rule, ids: Rows, ignored: Mask | None) -> int:
    """The number of domains of the scored rows; rows without the label together count as one."""
    labels = rule.labels
    if len(ids) == state.node_count and labels.labelled == state.node_count:
        return labels.domain_count()
    population = np.bincount((ids if ignored is None else ids.compress(~ignored)) + 1)
    return int(np.count_nonzero(population))


def _counts_for(template: PodTemplate, hard: list[SpreadConstraint], change: Change) -> bool:
    """Whether a change of a pod changes the counts of the constraints; unknown constraints may count any pod."""
    pods = [pod for pod in (change.pod, change.before) if pod is not None]
    if not pods:
        return True
    if all(pod.namespace != template.namespace for pod in pods):
        return False
    if not hard:
        return True
    if change.pod is None or change.before is None:
        return any(constraint.selector.matches(pod.template.labels) for constraint in hard for pod in pods)
    now, before = change.pod.template.labels, change.before.template.labels
    deleting = (change.pod.deleted_s is None) != (change.before.deleted_s is None)
    return any(each.selector.matches(now) != each.selector.matches(before) or
               (deleting and each.selector.matches(now)) for each in hard)  # fmt: skip


def _relaxed(rejected: Rejected, template: PodTemplate, index: int) -> Iterator[Remedy]:
    constraint = template.spread[index]

    def fits(**change: int) -> bool:
        return rejected.accepts(_with(template, index, replace(constraint, **change)))  # type: ignore[arg-type]

    if fits(max_skew=_MOST_SKEW):
        skew = least(constraint.max_skew + 1, _MOST_SKEW, lambda value: fits(max_skew=value))
        yield Remedy((RelaxSpread(index, max_skew=skew),), 1.5 + min(2.0, 0.25 * (skew - constraint.max_skew)))
    if constraint.min_domains > 1 and fits(min_domains=1):
        lost = least(1, constraint.min_domains - 1, lambda value: fits(min_domains=constraint.min_domains - value))
        yield Remedy((RelaxSpread(index, min_domains=constraint.min_domains - lost),), 1.5 + min(2.0, 0.25 * lost))


def _with(template: PodTemplate, index: int, constraint: SpreadConstraint) -> PodTemplate:
    spread = tuple(constraint if number == index else each for number, each in enumerate(template.spread))
    return replace(template, spread=spread)


def _softened(template: PodTemplate, index: int) -> PodTemplate:
    return _with(template, index, replace(template.spread[index], hard=False))


def _labels(state: ClusterState, node: str, keys: list[str]) -> Iterator[Remedy]:
    """The node joins an existing domain, or a new one."""
    if len(keys) > 1:
        return
    values = sorted({state.node(int(row)).labels.get(keys[0], "") for row in state.rows()} - {""})
    for value in [*values[:_MOST_DOMAINS], node]:
        yield Remedy((SetNodeLabel(node, keys[0], value),), _NODE_LABEL)
