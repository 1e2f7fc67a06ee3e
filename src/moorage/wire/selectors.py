"""Label selectors and node selectors: JSON becomes core values.

Requirements and their values are sorted and freed of repetitions, so that selectors which mean the same are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from moorage.core.affinity import NodeTerm
from moorage.core.limits import NODE_TERMS, OBJECT_SELECTOR_PARTS, OBJECT_TERM_PARTS, Cutter
from moorage.core.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector
from moorage.wire.errors import FieldError
from moorage.wire.whole import Whole

_LABEL_OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_NODE_OPERATORS = tuple(Operator)
_FIELD_OPERATORS = (Operator.IN, Operator.NOT_IN)


class RequirementWire(msgspec.Struct, gc=False):
    """One entry of matchExpressions or matchFields."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelectorWire(msgspec.Struct, gc=False, rename="camel"):
    """A LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementWire] | None = None


class NodeTermWire(msgspec.Struct, gc=False, rename="camel"):
    """A NodeSelectorTerm."""

    match_expressions: list[RequirementWire] | None = None
    match_fields: list[RequirementWire] | None = None


class NodeSelectorWire(msgspec.Struct, gc=False, rename="camel"):
    """A NodeSelector: alternatives."""

    node_selector_terms: list[NodeTermWire] | None = None


def label_selector(
    wire: LabelSelectorWire | None, path: str = "labelSelector", cutter: Cutter | None = None
) -> Selector:
    """The selector; a missing one selects nothing, an empty one everything. Without a `cutter` it is read whole."""
    if wire is None:
        return NOTHING
    cutter = cutter or Whole(OBJECT_SELECTOR_PARTS)
    expressions = _requirements(wire.match_expressions, _LABEL_OPERATORS, f"{path}.matchExpressions", cutter)
    counted = takewhile(lambda _: cutter.part(1, f"{path}.matchLabels"), (wire.match_labels or {}).items())
    equalities = [Requirement(key, Operator.IN, (value,)) for key, value in counted]
    requirements = canonical((*equalities, *expressions))
    return Selector(requirements) if requirements else EVERYTHING


def merge_label_keys(selector: Selector, keys: Sequence[str], labels: Mapping[str, str]) -> Selector:
    """The selector narrowed to the pod's own values of the keys that it has; one that selects nothing stays so."""
    if selector is NOTHING:
        return selector
    own = [Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels]
    return Selector(canonical((*selector.requirements, *own))) if own else selector


def node_terms(wire: NodeSelectorWire, path: str, cutter: Cutter | None = None) -> tuple[NodeTerm, ...]:
    """The alternatives of a node selector, which without a `cutter` is read whole."""
    cutter, path = cutter or Whole(OBJECT_TERM_PARTS), f"{path}.nodeSelectorTerms"
    terms = cutter.cut(wire.node_selector_terms, NODE_TERMS, path)
    return tuple(node_term(term, f"{path}[{index}]", cutter) for index, term in enumerate(terms))


def node_term(wire: NodeTermWire, path: str, cutter: Cutter) -> NodeTerm:
    """One alternative of a node selector, or a preference."""
    return NodeTerm(
        canonical(_requirements(wire.match_expressions, _NODE_OPERATORS, f"{path}.matchExpressions", cutter)),
        canonical(_requirements(wire.match_fields, _FIELD_OPERATORS, f"{path}.matchFields", cutter)),
    )


def canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The requirements in one order, each once."""
    return tuple(sorted(dict.fromkeys(requirements), key=lambda each: (each.key, each.operator, each.values)))


def _requirements(
    wires: Sequence[RequirementWire] | None, allowed: tuple[Operator, ...], path: str, cutter: Cutter
) -> list[Requirement]:
    counted = takewhile(lambda wire: cutter.part(len(wire.values or ()), path), wires or ())
    return [_requirement(wire, allowed, f"{path}[{index}]") for index, wire in enumerate(counted)]


def _requirement(wire: RequirementWire, allowed: tuple[Operator, ...], path: str) -> Requirement:
    if wire.operator not in allowed:
        raise FieldError(f"{path}.operator", wire.operator, "is unknown", f"write one of {', '.join(allowed)}")
    operator = Operator(wire.operator)
    values = tuple(sorted(set(wire.values or ())))
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            raise FieldError(f"{path}.values", wire.values, "is empty", f"{operator} needs at least one value")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            raise FieldError(f"{path}.values", wire.values, "is not empty", f"{operator} takes no values")
        case Operator.GT | Operator.LT if len(values) != 1:
            raise FieldError(f"{path}.values", wire.values, "is not one value", f"{operator} needs exactly one integer")
    return Requirement(wire.key, operator, values)
