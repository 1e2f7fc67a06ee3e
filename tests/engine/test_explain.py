"""An explanation names every node, and agrees with the decision."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.state import NOWHERE
from moorage.engine.explain import explain
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.testing import generate_cluster, make_node, make_node_affinity, make_pod, make_state
from tests.framework.readers import default_profile


def test_every_node_is_rejected_with_reasons_or_scored() -> None:
    """Ordered by name; scores are normalised and weighted, and add up to the total."""
    state = make_state(
        [
            make_node("c-tainted", taints=["dedicated=db:NoSchedule"]),
            make_node("a-small", cpu="1", memory="1Gi"),
            make_node("b-good"),
        ]
    )
    found = explain(Runner(default_profile(), state), state, make_pod("p", cpu="2", memory="2Gi"), 0.0)
    assert list(found) == ["a-small", "b-good", "c-tainted"]
    assert found["a-small"].rejected == {"NodeResourcesFit": ["Insufficient cpu", "Insufficient memory"]}
    assert found["c-tainted"].rejected == {"TaintToleration": ["node(s) had untolerated taint(s)"]}
    good = found["b-good"]
    assert good.rejected == {}
    assert good.scores["TaintToleration"] == 300, "nothing to tolerate: 100 times the weight 3"
    assert good.total == sum(good.scores.values()) > 300


def test_nodes_that_pre_filter_leaves_out_say_so() -> None:
    """The plugin that narrowed the nodes is the one that rejects."""
    state = make_state([make_node("n1"), make_node("n2")])
    pod = make_pod("p", node_affinity=make_node_affinity(required=[["metadata.name In n1"]]))
    found = explain(Runner(default_profile(), state), state, pod, 0.0)
    assert found["n2"].rejected == {"NodeAffinity": ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]}
    assert found["n1"].scores


def test_a_pod_that_pre_filter_refuses_is_refused_everywhere() -> None:
    """Each node carries the reason."""
    state = make_state([make_node("n1"), make_node("n2")])
    contradiction = [["metadata.name In n1", "metadata.name In n2"]]
    pod = make_pod("p", node_affinity=make_node_affinity(required=contradiction))
    found = explain(Runner(default_profile(), state), state, pod, 0.0)
    want = {"NodeAffinity": ["pod affinity terms conflict"]}
    assert {name: node.rejected for name, node in found.items()} == {"n1": want, "n2": want}


def test_no_nodes_no_explanations() -> None:
    """An empty cluster is not an error."""
    state = make_state()
    assert explain(Runner(default_profile(), state), state, make_pod("p"), 0.0) == {}


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_the_chosen_node_has_the_best_total(seed: int) -> None:
    """On generated clusters: what decides and what explains are the same rules."""
    cluster = generate_cluster(seed)
    state = cluster.state()
    runner = Runner(default_profile(), state)
    for pod in cluster.pending:
        found = explain(runner, state, pod, 0.0)
        assert list(found) == sorted(state.node_names())
        row = runner.decide(Cycle(pod, state, 0.0))
        feasible = {name: node.total for name, node in found.items() if not node.rejected}
        if row == NOWHERE:
            assert feasible == {}
        else:
            assert feasible[state.node(row).name] == max(feasible.values())


@pytest.mark.parametrize("priority", [0, 100])
def test_promised_nodes_are_explained_with_the_promised_pods(priority: int) -> None:
    """A node that is kept for a more important pod is full for others."""
    state = make_state([make_node("n1", cpu="2")])
    state.nominations.set(make_pod("promised", cpu="2", priority=50), "n1")
    found = explain(Runner(default_profile(), state), state, make_pod("p", cpu="1", priority=priority), 0.0)
    want = {} if priority else {"NodeResourcesFit": ["Insufficient cpu"]}
    assert found["n1"].rejected == want
