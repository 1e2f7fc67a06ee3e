"""What rules found on nodes, for people: equal findings together, the nearest first, and not too many."""

from __future__ import annotations

from moorage.engine.explain import NodeExplanation
from moorage.framework.details import Detail, NearMiss
from moorage.views.details import SHOWN_DETAILS, detail_groups


def node(*details: Detail) -> NodeExplanation:
    return NodeExplanation({"P": ["no"]}, details=details)


def found(near: tuple[NearMiss, ...] = (), **refused: int) -> Detail:
    return Detail("request gpu", "wants 1, none fits", refused, near)


def test_nodes_with_the_same_findings_are_together_and_near_misses_name_their_nodes() -> None:
    """Those that lack the least come first."""
    far = found((NearMiss("a", ("x", "y")),), selector=2)
    near = found((NearMiss("b", ("memory 40Gi, wanted 80Gi",)),), taint=1)
    groups = detail_groups({"n1": node(far), "n2": node(far), "n3": node(near), "n4": NodeExplanation()})
    assert [group.nodes for group in groups] == [["n3"], ["n1", "n2"]]
    assert groups[0].title == "n3: request gpu wants 1, none fits"
    assert groups[0].lines == ["1 refused: taint", "nearest: b of n3: memory 40Gi, wanted 80Gi"]
    assert groups[1].lines == ["2 refused: selector", "nearest: a of n1: x; y", "nearest: a of n2: x; y"]


def test_only_a_few_groups_are_shown() -> None:
    """However many nodes differ."""
    assert len(detail_groups({f"n{i}": node(found(rule=i)) for i in range(1, 100)})) == SHOWN_DETAILS


def test_a_detail_survives_its_document() -> None:
    """Explanations are kept as JSON until they are printed."""
    detail = found((NearMiss("b", ("x",)),), taint=1)
    assert Detail.read(detail.document()) == detail
