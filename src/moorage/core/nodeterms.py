"""Node selector terms over many rows at once; `NodeTerm.matches` says the same about one node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from moorage.core.affinity import NodeTerm
from moorage.core.arrays import Mask, Rows
from moorage.core.selectors import Operator, Requirement

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

NAME_FIELD = "metadata.name"


def any_term(state: ClusterState, terms: Iterable[NodeTerm], rows: Rows) -> Mask:
    """Which rows match at least one of the terms, shape (len(rows),)."""
    found: Mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        found |= one_term(state, term, rows)
    return found


def one_term(state: ClusterState, term: NodeTerm, rows: Rows) -> Mask:
    """Which rows match the term, shape (len(rows),); an empty one matches none."""
    found: Mask = np.full(len(rows), bool(term.expressions or term.fields), dtype=np.bool_)
    for expression in term.expressions:
        found &= state.labels.matching(expression, rows)
    for field in term.fields:
        found &= _field(state, field, rows)
    return found


def _field(state: ClusterState, field: Requirement, rows: Rows) -> Mask:
    """Which rows satisfy a condition on a node's field."""
    if field.key != NAME_FIELD:
        return np.full(len(rows), field.matches_value(None), dtype=np.bool_)
    if field.operator in (Operator.IN, Operator.NOT_IN):
        named = [row for row in map(state.row_of, field.values) if row is not None]
        return np.isin(rows, named, invert=field.operator is Operator.NOT_IN)
    return np.fromiter((field.matches_value(state.node(int(row)).name) for row in rows), np.bool_, len(rows))
