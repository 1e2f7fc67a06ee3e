"""Ways for a pod past its nodeSelector and node affinity: ask for less, or label the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moorage.core.affinity import NodeTerm
from moorage.core.edits import DropNodeRules, DropSelector, Edit, Edits, SetNodeLabel
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.selectors import Operator, Requirement, parse_label_integer
from moorage.engine.counterfactual.scene import Scene

_RELAX, _LABEL, _DROP_ALL = 2.5, 3.0, 4.0


def selection_fixes(scene: Scene, pod: Pod, row: int) -> Iterator[tuple[Edits, float]]:
    """Edits with their cost; each set of them settles the selector and the affinity together."""
    node = scene.state.node(row)
    keys = [key for key, value in pod.template.node_selector.items() if node.labels.get(key) != value]
    affinity = pod.template.node_affinity
    terms = None if affinity is None else affinity.required
    relaxed: list[Edit] = [DropSelector(key) for key in keys]
    labels: dict[str, str | None] = {key: pod.template.node_selector[key] for key in keys}
    if terms is None or any(term.matches(node.name, node.labels) for term in terms):
        yield from _both(node, relaxed, labels)
        return
    yield (*relaxed, DropNodeRules()), _RELAX * len(relaxed) + _DROP_ALL
    for number, term in enumerate(terms):
        failing = _failing(term, node)
        if not failing and not term.fields:
            continue
        if len(failing) < len(term.expressions) + len(term.fields):
            dropped = DropNodeRules(number, tuple(dict.fromkeys(each.key for each in failing)))
            yield (*relaxed, dropped), _RELAX * (len(relaxed) + len(failing))
        named = any(not field.matches_value(node.name) for field in term.fields)
        answers = None if named else _answers(failing, node.labels)
        if answers is not None:
            yield from _both(node, [], {**labels, **answers})


def _both(node: Node, relaxed: list[Edit], labels: Mapping[str, str | None]) -> Iterator[tuple[Edits, float]]:
    if relaxed:
        yield tuple(relaxed), _RELAX * len(relaxed)
    if labels:
        edits = tuple(SetNodeLabel(node.name, key, value) for key, value in labels.items())
        yield edits, _LABEL * len(edits)


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
