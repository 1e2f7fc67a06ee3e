"""Levels that follow from the labels of nodes: found as the labels are, and found once."""

from __future__ import annotations

import numpy as np
import pytest

from moorage.core.gangtopology import TopologyTerms, topology_terms
from moorage.core.nodes import Node
from moorage.core.objects import PodGroup
from moorage.core.state import ClusterState
from moorage.core.topology import HOSTNAME, Levels
from moorage.testing import make_node, make_pod, make_state

BLOCK, RACK, ZONE, PLAIN = "example.com/block", "example.com/rack", "topology.kubernetes.io/zone", "example.com/team"


def world(nodes: int = 12, **more: str) -> ClusterState:
    """Three nodes in a rack, two racks in a block; `more` labels are on every node."""
    return make_state([node(number, **more) for number in range(nodes)])


def node(number: int, **more: str) -> Node:
    labels = {BLOCK: f"b{number // 6}", RACK: f"r{number // 3 % 2}", ZONE: "z", PLAIN: f"t{number}", **more}
    return make_node(f"n{number}", labels={**labels, HOSTNAME: f"n{number}"})


def levels(state: ClusterState, key: str = BLOCK) -> Levels:
    """The levels of a gang whose group names nothing but a label."""
    group = PodGroup("default", "g", min_count=2, topology_key=key)
    terms = topology_terms(state, group, [make_pod("p").template])
    assert isinstance(terms, TopologyTerms)
    return terms.levels


def test_labels_that_divide_the_level_above_are_levels() -> None:
    """The zone divides no block, and the name of the team says nothing; racks of equal name are in different blocks."""
    assert levels(world()) == Levels((BLOCK, RACK, HOSTNAME))
    assert levels(world(), RACK) == Levels((RACK, BLOCK, HOSTNAME))
    assert levels(world(), "no/such") == Levels(("no/such",))


def test_levels_are_found_once() -> None:
    """Gangs that wait ask again and again."""
    state = world()
    first, other = levels(state), levels(state, RACK)
    assert levels(state) is first
    assert levels(state, RACK) is other
    state.upsert_node(make_node("n1", labels={**node(1).labels, PLAIN: "other"}, cpu="64"))
    assert levels(state) is first, "no label that has a part in it has changed"


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({RACK: "r9"}, (BLOCK, RACK, HOSTNAME), id="another value"),
        pytest.param({ZONE: "y"}, (BLOCK, ZONE, RACK, HOSTNAME), id="a level that divides now"),
        pytest.param({RACK: None}, (BLOCK, HOSTNAME), id="a node without one"),
        pytest.param({BLOCK: None, RACK: None}, (BLOCK, RACK, HOSTNAME), id="a node that is elsewhere"),
    ],
)
def test_levels_follow_the_labels(labels: dict[str, str | None], want: tuple[str, ...]) -> None:
    """Also when the change is taken back."""
    state = world()
    before = levels(state)
    changed = {**node(1).labels, **labels}
    with state.statement():
        state.upsert_node(make_node("n1", labels={key: value for key, value in changed.items() if value is not None}))
        assert levels(state) == Levels(want)
    assert levels(state) == before


def test_levels_follow_nodes_and_keys_that_come_and_go() -> None:
    """A key that all nodes lose and get again is read anew."""
    state = world(3)
    assert levels(state) == Levels((BLOCK, HOSTNAME))
    state.upsert_node(node(3))
    assert levels(state) == Levels((BLOCK, RACK, HOSTNAME))
    state.remove_node("n3")
    assert levels(state) == Levels((BLOCK, HOSTNAME))
    for number in range(3):
        state.upsert_node(node(number, **{"example.com/switch": "s"}))
    assert levels(state) == Levels((BLOCK, HOSTNAME))
    for number in range(3):
        state.upsert_node(node(number))
    for number in range(3):
        state.upsert_node(node(number, **{"example.com/switch": f"s{number // 2}"}))
    assert levels(state) == Levels((BLOCK, "example.com/switch", HOSTNAME))


def test_levels_of_many_labels_do_not_pile_up() -> None:
    """The labels that gangs name are theirs to choose."""
    names = {f"example.com/zone-{number}": "z" for number in range(100)}
    state = world(2, **names)
    for name in names:
        levels(state, name)
    assert len(state.topologies.implied._kept) <= 64


def test_levels_are_those_that_pairs_of_values_tell() -> None:
    """Against counting pairs one by one."""
    random = np.random.default_rng(7)
    for _ in range(30):
        rows = [
            {key: f"v{random.integers(4)}" for key in (BLOCK, RACK, ZONE, "example.com/leaf") if random.random() < 0.97}
            for _ in range(20)
        ]
        state = make_state(
            [make_node(f"n{number}", labels={HOSTNAME: "h", **labels}) for number, labels in enumerate(rows)]
        )
        inside = [labels for labels in rows if BLOCK in labels]
        divide = [key for key in (RACK, ZONE, "example.com/leaf") if all(key in labels for labels in inside)]
        want = [BLOCK]
        for key in sorted(divide, key=lambda key: (len({(each[BLOCK], each[key]) for each in inside}), key)):
            paths = {tuple(each[above] for above in want) for each in inside}
            if len({(*(each[above] for above in want), each[key]) for each in inside}) > len(paths):
                want.append(key)
        assert levels(state) == Levels(tuple(want))
