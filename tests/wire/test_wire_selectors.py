"""Selectors in JSON mean what they mean to Kubernetes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector
from moorage.wire.errors import FieldError
from moorage.wire.selectors import (
    LabelSelectorWire,
    NodeSelectorWire,
    label_selector,
    merge_label_keys,
    node_terms,
)


def selector(obj: dict[str, Any] | None) -> Selector:
    return label_selector(msgspec.convert(obj, LabelSelectorWire | None))


def terms(obj: dict[str, Any]) -> tuple[NodeTerm, ...]:
    return node_terms(msgspec.convert(obj, NodeSelectorWire), "nodeSelector")


def expression(operator: str, *values: str, key: str = "k") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(None, NOTHING, id="missing: nothing"),
        pytest.param({}, EVERYTHING, id="empty: everything"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, EVERYTHING, id="nulls: everything"),
        pytest.param({"matchLabels": {"a": "1"}}, Selector((Requirement("a", Operator.IN, ("1",)),)), id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            Selector((Requirement("a", Operator.EXISTS),)),
            id="no values",
        ),
    ],
)
def test_label_selector(obj: dict[str, Any] | None, want: Selector) -> None:
    """A missing selector selects nothing, an empty one everything."""
    assert selector(obj) == want


def test_equal_meaning_is_equal() -> None:
    """Order and repetition do not matter."""
    first = {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [expression("In", "y", "x", "x")]}
    second = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [expression("In", "x", "y"), expression("In", "2", key="b"), expression("In", "x", "y")],
    }
    assert selector(first) == selector(second)


@pytest.mark.parametrize(
    ("expressions", "want"),
    [
        ([expression("Inn", "a")], "labelSelector.matchExpressions[0].operator: 'Inn' is unknown"),
        ([expression("Gt", "1")], "labelSelector.matchExpressions[0].operator: 'Gt' is unknown"),
        ([expression("Exists"), expression("In")], "labelSelector.matchExpressions[1].values: [] is empty"),
        ([expression("Exists", "a")], 'labelSelector.matchExpressions[0].values: ["a"] is not empty'),
    ],
)
def test_bad_label_selectors(expressions: list[dict[str, Any]], want: str) -> None:
    """What the API server would refuse is refused with its place."""
    with pytest.raises(FieldError) as caught:
        selector({"matchExpressions": expressions})
    assert str(caught.value).startswith(want)


def test_node_terms() -> None:
    """Terms keep their order; node selectors know Gt and Lt, and fields."""
    obj = {
        "nodeSelectorTerms": [
            {"matchExpressions": [expression("Lt", "9"), expression("Gt", "5")]},
            {"matchFields": [expression("In", "n1", key="metadata.name")]},
            {},
        ]
    }
    assert terms(obj) == (
        NodeTerm((Requirement("k", Operator.GT, ("5",)), Requirement("k", Operator.LT, ("9",)))),
        NodeTerm((), (Requirement("metadata.name", Operator.IN, ("n1",)),)),
        NodeTerm(),
    )
    assert terms({}) == terms({"nodeSelectorTerms": None}) == ()


@pytest.mark.parametrize(
    ("term", "want"),
    [
        ({"matchExpressions": [expression("Gt", "1", "2")]}, "matchExpressions[0].values: "),
        ({"matchExpressions": [expression("Gt")]}, "matchExpressions[0].values: "),
        ({"matchFields": [expression("Exists", key="metadata.name")]}, "matchFields[0].operator: 'Exists' is unknown"),
    ],
)
def test_bad_node_terms(term: dict[str, Any], want: str) -> None:
    """What the API server would refuse is refused with its place."""
    with pytest.raises(FieldError) as caught:
        terms({"nodeSelectorTerms": [term]})
    assert str(caught.value).startswith(f"nodeSelector.nodeSelectorTerms[0].{want}")


def test_merging_keys() -> None:
    """Only keys that the pod has narrow a selector; one that selects nothing is left alone."""
    labels = {"a": "1"}
    assert merge_label_keys(NOTHING, ["a"], labels) is NOTHING
    assert merge_label_keys(EVERYTHING, ["b"], labels) is EVERYTHING
    assert merge_label_keys(EVERYTHING, ["a", "b"], labels) == Selector((Requirement("a", Operator.IN, ("1",)),))
