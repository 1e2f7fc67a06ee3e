"""`matchLabelKeys` and `mismatchLabelKeys`, merged into the selectors they stand beside.

The API server does this once, when a pod is created; a null selector selects nothing and stays as it is. An expression
that is already there is not added again, so that pods printed by kubectl come out as they went in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_Part = Mapping[str, Any]


def merge_label_keys(spec: dict[str, Any], labels: Mapping[str, str]) -> None:
    """Replace the affinity and the spread constraints of the spec by merged ones; the old ones are not written to."""
    affinity = spec.get("affinity")
    if affinity:
        merged = dict(affinity)
        for part in ("podAffinity", "podAntiAffinity"):
            if merged.get(part):
                merged[part] = _merge_terms(merged[part], labels)
        if merged != affinity:
            spec["affinity"] = merged
    constraints = spec.get("topologySpreadConstraints")
    if constraints:
        spec["topologySpreadConstraints"] = _each(constraints, lambda c: _merge(c, labels, mismatch=False))


def _merge_terms(affinity: _Part, labels: Mapping[str, str]) -> _Part:
    merged = dict(affinity)
    if merged.get(_REQUIRED):
        merged[_REQUIRED] = _each(merged[_REQUIRED], lambda term: _merge(term, labels))
    if merged.get(_PREFERRED):
        merged[_PREFERRED] = _each(merged[_PREFERRED], lambda weighted: _merge_weighted(weighted, labels))
    return merged


def _merge_weighted(weighted: _Part, labels: Mapping[str, str]) -> _Part:
    term = weighted.get("podAffinityTerm")
    return {**weighted, "podAffinityTerm": _merge(term, labels)} if term else weighted


def _merge(term: _Part, labels: Mapping[str, str], *, mismatch: bool = True) -> _Part:
    """The term or constraint with one expression more for each key that the pod has as a label."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    wanted = [_expression(key, "In", labels) for key in term.get("matchLabelKeys") or () if key in labels]
    if mismatch:
        wanted += [_expression(key, "NotIn", labels) for key in term.get("mismatchLabelKeys") or () if key in labels]
    present = list(selector.get("matchExpressions") or ())
    added = [expression for expression in wanted if expression not in present]
    if not added:
        return term
    return {**term, "labelSelector": {**selector, "matchExpressions": present + added}}


def _expression(key: str, operator: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [labels[key]]}


def _each(parts: Sequence[_Part], change: Callable[[_Part], _Part]) -> list[_Part]:
    return [change(part) for part in parts]
