"""NodeAffinity: nodeSelector and required terms decide which nodes match, preferred terms which match better.

The argument `addedAffinity` adds terms to every pod of the profile; nodes that fail them have a reason of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from moorage.core.affinity import NodeAffinity as AffinityTerms
from moorage.core.affinity import NodeTerm, PreferredNodeTerm
from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.edits import DropNodeRules, DropSelector, Edit, SetNodeLabel
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import is_label_value, is_qualified_name
from moorage.core.nodes import Node
from moorage.core.nodeterms import NAME_FIELD, any_term, one_term
from moorage.core.pods import PodTemplate
from moorage.core.selectors import Operator, Requirement, parse_label_integer, selector_from_labels
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, OnlyNodes, Reason, Rejections, Status, unresolvable

_MAX_SCORE = 100
_REASONS = (
    Reason("node(s) didn't match Pod's node affinity/selector", resolvable=False),
    Reason("node(s) didn't match scheduler-enforced node affinity", resolvable=False),
)
_POD_BIT, _ENFORCED_BIT = 1, 2
_RELAX, _LABEL, _DROP_ALL = 2.5, 3.0, 4.0


class NodeSelectorRequirement(PluginArgs):
    """One condition of `matchExpressions` or `matchFields`."""

    key: str
    operator: Annotated[Operator, Field(strict=False)]
    values: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _values_fit_operator(self) -> Self:
        count = len(self.values)
        if self.operator in (Operator.IN, Operator.NOT_IN) and not count:
            raise ValueError(f"operator {self.operator} needs at least one value")
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and count:
            raise ValueError(f"operator {self.operator} takes no values")
        if self.operator in (Operator.GT, Operator.LT) and (count != 1 or parse_label_integer(self.values[0]) is None):
            raise ValueError(f"operator {self.operator} needs exactly one value, an integer")
        return self

    def requirement(self) -> Requirement:
        """The condition as a core value."""
        return Requirement(self.key, self.operator, self.values)


class NodeSelectorTerm(PluginArgs):
    """Conditions on labels and fields that must all hold; none at all matches no node."""

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], Field(strict=False)] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _valid(self) -> Self:
        for expression in self.match_expressions:
            if not is_qualified_name(expression.key):
                raise ValueError(f"matchExpressions: {expression.key!r} is no label key")
            bad = [value for value in expression.values if not is_label_value(value)]
            if bad:
                raise ValueError(f"matchExpressions: {bad[0]!r} is no label value")
        for field in self.match_fields:
            if field.operator not in (Operator.IN, Operator.NOT_IN) or len(field.values) != 1:
                raise ValueError(f"matchFields: {field.key} needs operator In or NotIn and exactly one value")
        return self

    def term(self) -> NodeTerm:
        """The term as a core value."""
        return NodeTerm(
            tuple(e.requirement() for e in self.match_expressions), tuple(f.requirement() for f in self.match_fields)
        )


class NodeSelector(PluginArgs):
    """Terms of which one must match."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(strict=False)] = ()


class PreferredSchedulingTerm(PluginArgs):
    """A term that adds its weight to the score of matching nodes."""

    weight: Annotated[int, Field(ge=0, le=100)]
    preference: NodeSelectorTerm


class AddedAffinity(PluginArgs):
    """Node affinity as a pod has it."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], Field(strict=False)
    ] = ()

    def affinity(self) -> AffinityTerms:
        """The terms as core values."""
        required = self.required_during_scheduling_ignored_during_execution
        return AffinityTerms(
            None if required is None else tuple(term.term() for term in required.node_selector_terms),
            tuple(
                PreferredNodeTerm(preferred.weight, preferred.preference.term())
                for preferred in self.preferred_during_scheduling_ignored_during_execution
            ),
        )


class NodeAffinityArgs(PluginArgs):
    """Affinity that every pod of the profile gets on top of its own."""

    added_affinity: AddedAffinity | None = None


class NodeAffinity(Plugin):
    """Required and preferred nodes of a pod, by labels and names."""

    name: ClassVar[str] = "NodeAffinity"
    Args: ClassVar[type[PluginArgs]] = NodeAffinityArgs
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_LABELS

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        self.args: NodeAffinityArgs = args or NodeAffinityArgs()
        added = self.args.added_affinity
        self._added = AffinityTerms() if added is None else added.affinity()

    def sign(self, template: PodTemplate) -> tuple[FrozenDict[str, str], AffinityTerms | None]:
        """The node selector and the node affinity."""
        return (template.node_selector, template.node_affinity)

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps if it matches now."""
        if change.node is None:
            return True
        selected = all(change.node.labels.get(key) == value for key, value in template.node_selector.items())
        return selected and all(_matches(terms, change.node) for terms in (self._added.required, _required(template)))

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:
        """Skip pods without requirements; where every term names nodes, look at no others."""
        required = _required(cycle.template)
        if required is None and self._added.required is None and not cycle.template.node_selector:
            return SKIP
        if not required:
            return None
        names: set[str] = set()
        for term in required:
            named = _named_nodes(term)
            if named is None:
                return None
            names |= named
        return OnlyNodes(frozenset(names)) if names else unresolvable("pod affinity terms conflict")

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that fail the added affinity, and of the others those that fail the pod's own."""
        state, template = cycle.state, cycle.template
        matching: Mask = np.ones(len(rows), dtype=np.bool_)
        for requirement in selector_from_labels(template.node_selector).requirements:
            matching &= state.labels.matching(requirement, rows)
        required = _required(template)
        if required is not None:
            matching &= any_term(state, required, rows)
        bits: Ints = np.multiply(~matching, _POD_BIT, dtype=np.int64)
        if self._added.required is not None:
            bits[~any_term(state, self._added.required, rows)] = _ENFORCED_BIT
        return Rejections(bits, _REASONS) if bits.any() else None

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Require less, or label the node; each remedy satisfies the selector and the affinity together."""
        template, node = rejected.pod.template, rejected.state.node(rejected.row)
        keys = [key for key, value in template.node_selector.items() if node.labels.get(key) != value]
        terms = _required(template)
        relaxed: list[Edit] = [DropSelector(key) for key in keys]
        labels: dict[str, str | None] = {key: template.node_selector[key] for key in keys}
        if terms is None or _matches(terms, node):
            yield from _both(node, relaxed, labels)
            return
        yield Remedy((*relaxed, DropNodeRules()), _RELAX * len(relaxed) + _DROP_ALL)
        for number, term in enumerate(terms):
            failing = _failing(term, node)
            if not failing and not term.fields:
                continue
            if len(failing) < len(term.expressions) + len(term.fields):
                dropped = DropNodeRules(number, tuple(dict.fromkeys(each.key for each in failing)))
                yield Remedy((*relaxed, dropped), _RELAX * (len(relaxed) + len(failing)))
            named = any(not field.matches_value(node.name) for field in term.fields)
            answers = None if named else _answers(failing, node.labels)
            if answers is not None:
                yield from _both(node, [], {**labels, **answers})

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Skip pods without preferences."""
        return None if self._preferred(cycle.template) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The sum of the weights of the preferred terms that match."""
        total: Ints = np.zeros(len(rows), dtype=np.int64)
        for preferred in self._preferred(cycle.template):
            total += np.multiply(one_term(cycle.state, preferred.term, rows), preferred.weight, dtype=np.int64)
        return total

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """The highest sum scores 100."""
        most = int(scores.max(initial=0))
        return scores * _MAX_SCORE // most if most > 0 else scores

    def _preferred(self, template: PodTemplate) -> tuple[PreferredNodeTerm, ...]:
        own = template.node_affinity.preferred if template.node_affinity is not None else ()
        return self._added.preferred + own


def _required(template: PodTemplate) -> tuple[NodeTerm, ...] | None:
    return template.node_affinity.required if template.node_affinity is not None else None


def _matches(terms: tuple[NodeTerm, ...] | None, node: Node) -> bool:
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def _named_nodes(term: NodeTerm) -> frozenset[str] | None:
    """The nodes that a term selects by name, None if it names none."""
    sets = [frozenset(f.values) for f in term.fields if f.key == NAME_FIELD and f.operator is Operator.IN]
    return frozenset.intersection(*sets) if sets else None


def _both(node: Node, relaxed: list[Edit], labels: Mapping[str, str | None]) -> Iterator[Remedy]:
    if relaxed:
        yield Remedy(tuple(relaxed), _RELAX * len(relaxed))
    if labels:
        edits = tuple(SetNodeLabel(node.name, key, value) for key, value in labels.items())
        yield Remedy(edits, _LABEL * len(edits))


def _failing(term: NodeTerm, node: Node) -> list[Requirement]:
    found = [each for each in term.expressions if not each.matches_value(node.labels.get(each.key))]
    return found + [each for each in term.fields if not each.matches_value(node.name)]


def _answers(failing: list[Requirement], labels: Mapping[str, str]) -> dict[str, str | None] | None:
    """Labels that satisfy all of these; None if no label can."""
    found: dict[str, str | None] = {}
    for each in failing:
        bound = parse_label_integer(each.values[0]) if each.values else None
        match each.operator:
            case Operator.IN:
                found[each.key] = each.values[0]
            case Operator.EXISTS:
                found[each.key] = "true"
            case Operator.NOT_IN | Operator.DOES_NOT_EXIST:
                found[each.key] = None
            case Operator.GT | Operator.LT if bound is not None:
                found[each.key] = str(bound + 1 if each.operator is Operator.GT else bound - 1)
            case _:
                return None
    settled = {**labels, **found}
    return found if all(each.matches_value(settled.get(each.key)) for each in failing) else None
