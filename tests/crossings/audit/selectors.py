"""Label selectors, node selectors and tolerations, read by the auditor itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.crossings.audit.scene import Object, labels, metadata, spec


def matches(selector: Object | None, have: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels; none selects nothing."""
    if selector is None:
        return False
    pairs = (selector.get("matchLabels") or {}).items()
    return all(have.get(key) == value for key, value in pairs) and all(
        _meets(each, have) for each in selector.get("matchExpressions") or ()
    )


def _meets(expression: Object, have: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
    found = {
        "In": have.get(key) in values,
        "NotIn": have.get(key) not in values,
        "Exists": key in have,
        "DoesNotExist": key not in have,
    }
    return found[operator]


def node_terms_match(terms: Iterable[Object], node: Object) -> bool:
    """Whether one of the terms of a node selector selects the node."""
    name = {"metadata.name": metadata(node)["name"]}
    return any(
        all(_meets(each, labels(node)) for each in term.get("matchExpressions") or ())
        and all(_meets(each, name) for each in term.get("matchFields") or ())
        for term in terms
    )


def wants_node(pod: Object, node: Object) -> bool:
    """Node selector and required node affinity."""
    plain = spec(pod).get("nodeSelector") or {}
    if any(labels(node).get(key) != value for key, value in plain.items()):
        return False
    affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required: Any = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_terms_match(required.get("nodeSelectorTerms") or (), node)


def tolerates(pod: Object, node: Object) -> bool:
    """Whether the node's taints let the pod in."""
    held = list(spec(node).get("taints") or ())
    if spec(node).get("unschedulable"):
        held.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    hard = [each for each in held if each.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(_tolerated(taint, by) for by in spec(pod).get("tolerations") or ()) for taint in hard)


def _tolerated(taint: Object, by: Object) -> bool:
    if by.get("effect") not in (None, "", taint["effect"]):
        return False
    if by.get("key") not in (None, "", taint["key"]):
        return False
    return by.get("operator") == "Exists" or (by.get("value") or "") == (taint.get("value") or "")
