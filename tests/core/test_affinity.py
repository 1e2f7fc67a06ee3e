"""Node selector terms match as Kubernetes' own do."""

from __future__ import annotations

import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.selectors import Operator, Requirement

ZONE_A = Requirement("zone", Operator.IN, ("a",))
NOT_OLD = Requirement("old", Operator.DOES_NOT_EXIST)
NAMED_N1 = Requirement("metadata.name", Operator.IN, ("n1",))
NOT_N1 = Requirement("metadata.name", Operator.NOT_IN, ("n1",))


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(NodeTerm(), False, id="an empty term matches no node"),
        pytest.param(NodeTerm((ZONE_A,)), True, id="labels"),
        pytest.param(NodeTerm((ZONE_A, NOT_OLD)), True, id="all labels"),
        pytest.param(NodeTerm((ZONE_A, Requirement("old", Operator.EXISTS))), False, id="one label fails"),
        pytest.param(NodeTerm(fields=(NAMED_N1,)), True, id="name"),
        pytest.param(NodeTerm(fields=(NOT_N1,)), False, id="not that name"),
        pytest.param(NodeTerm((ZONE_A,), (NAMED_N1,)), True, id="label and name"),
        pytest.param(NodeTerm((ZONE_A,), (NOT_N1,)), False, id="label but not that name"),
        pytest.param(NodeTerm(fields=(Requirement("spec.x", Operator.IN, ("n1",)),)), False, id="an unknown field"),
        pytest.param(NodeTerm((NAMED_N1,)), False, id="a label that is called like the field"),
    ],
)
def test_term(term: NodeTerm, want: bool) -> None:
    """All expressions and all fields must hold on node n1 of zone a."""
    assert term.matches("n1", {"zone": "a"}) is want
