"""Label columns answer as the labels of each node would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.nodelabels import LabelColumns
from moorage.core.selectors import Operator, Requirement

KEYS = st.sampled_from(["zone", "gen", "gone"])
VALUES = st.sampled_from(["a", "b", "1", "2", "10", "x1", ""])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.lists(VALUES).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.GT, Operator.LT]), VALUES.map(lambda value: (value,))),
)


@given(
    steps=st.lists(st.tuples(st.integers(0, 11), LABELS), max_size=30),
    grow_at=st.integers(0, 30),
    requirements=st.lists(REQUIREMENTS, min_size=1, max_size=5),
)
def test_columns_equal_the_labels_row_by_row(
    steps: list[tuple[int, dict[str, str]]], grow_at: int, requirements: list[Requirement]
) -> None:
    """Rows are set, set again, cleared and moved to larger arrays; each requirement matches as on a plain mapping."""
    columns, capacity = LabelColumns(4), 4
    labels: dict[int, dict[str, str]] = {}
    for number, (row, new) in enumerate(steps):
        if number == grow_at:
            columns.grow(12)
            capacity = 12
        columns.set_row(row % capacity, new)
        labels[row % capacity] = new
    rows = np.arange(capacity, dtype=np.intp)
    for requirement in requirements:
        want = [requirement.matches_value(labels.get(int(row), {}).get(requirement.key)) for row in rows]
        assert columns.matching(requirement, rows).tolist() == want
        assert columns.matching(requirement, rows[::2]).tolist() == want[::2]


def test_ids_are_stable_and_absent_labels_have_none() -> None:
    """A value keeps its id when nodes come and go: kept masks may rely on it."""
    columns = LabelColumns(4)
    columns.set_row(0, {"zone": "a"})
    columns.set_row(1, {"zone": "b"})
    column = columns.known("zone")
    assert column is not None
    first = column.find("a")
    columns.set_row(0, {})
    columns.set_row(2, {"zone": "a"})
    assert column.find("a") == first
    assert column.ids.tolist() == [-1, column.find("b"), first, -1]
    assert columns.known("nobody-has-it") is None


@pytest.mark.parametrize(
    ("operator", "want"),
    [(Operator.DOES_NOT_EXIST, True), (Operator.NOT_IN, True), (Operator.EXISTS, False), (Operator.IN, False)],
    ids=str,
)
def test_a_key_that_no_node_has_matches_as_absent(operator: Operator, want: bool) -> None:
    """No column is made for it."""
    columns = LabelColumns(2)
    requirement = Requirement("ghost", operator, ("x",) if operator in (Operator.IN, Operator.NOT_IN) else ())
    assert columns.matching(requirement, np.arange(2, dtype=np.intp)).tolist() == [want, want]
    assert columns.known("ghost") is None
