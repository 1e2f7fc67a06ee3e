"""Taints keep pods away or make nodes less welcome."""

from __future__ import annotations

import numpy as np
import pytest

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

REASON = "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("taints", "tolerations", "want_passes"),
    [
        pytest.param([], [], True, id="no taints"),
        pytest.param(["k=v:NoSchedule"], [], False, id="NoSchedule"),
        pytest.param(["k=v:NoExecute"], [], False, id="NoExecute"),
        pytest.param(["k=v:PreferNoSchedule"], [], True, id="PreferNoSchedule only discourages"),
        pytest.param(["k=v:NoSchedule"], ["k=v:NoSchedule"], True, id="equal"),
        pytest.param(["k=v:NoSchedule"], ["k=w:NoSchedule"], False, id="another value"),
        pytest.param(["k=v:NoSchedule"], ["k:NoSchedule"], True, id="exists"),
        pytest.param(["k=v:NoSchedule"], ["k:NoExecute"], False, id="another effect"),
        pytest.param(["k=v:NoSchedule"], ["k=v"], True, id="any effect"),
        pytest.param(["k=v:NoSchedule", "l:NoExecute"], ["k"], False, id="one of two"),
        pytest.param(["k=v:NoSchedule", "l:NoExecute"], ["*"], True, id="everything"),
    ],
)
def test_filter(taints: list[str], tolerations: list[str], want_passes: bool) -> None:
    """Each taint that forbids scheduling needs a toleration; preemption cannot help."""
    state = make_state([make_node("n", taints=taints)])
    reasons = ask(TaintToleration(), state, make_pod("a", tolerations=tolerations)).reasons
    assert reasons["n"] == (() if want_passes else ((REASON, False),))


def test_score_prefers_nodes_with_fewer_discouraging_taints() -> None:
    """Untolerated PreferNoSchedule taints are counted and turned round: none 100, most 0, integers between."""
    state = make_state(
        [
            make_node("none"),
            make_node("one", taints=["a:PreferNoSchedule"]),
            make_node("three", taints=["a:PreferNoSchedule", "b:PreferNoSchedule", "c:PreferNoSchedule"]),
            make_node("tolerated", taints=["t:PreferNoSchedule"]),
        ]
    )
    answer = ask(TaintToleration(), state, make_pod("a", tolerations=["t"]))
    assert answer.scores == {"none": 0, "one": 1, "three": 3, "tolerated": 0}
    assert answer.normalized == {"none": 100, "one": 67, "three": 0, "tolerated": 100}


def test_without_discouraging_taints_every_node_scores_100() -> None:
    """kube-scheduler gives the full score, not 0."""
    state = make_state([make_node("n1"), make_node("n2")])
    assert set(ask(TaintToleration(), state, make_pod("a")).normalized.values()) == {100}
    none: np.ndarray[tuple[int], np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)
    assert len(TaintToleration().normalize(Cycle(make_pod("a"), state, 0.0), none)) == 0


def test_taints_that_come_up_later_are_taken_in() -> None:
    """The kept table grows with the sets of taints, and another state starts a new one."""
    plugin, pod = TaintToleration(), make_pod("a")
    state = make_state([make_node("n1")])
    assert ask(plugin, state, pod).reasons["n1"] == ()
    state.upsert_node(make_node("n2", taints=["k:NoSchedule"]))
    assert ask(plugin, state, pod).reasons == {"n1": (), "n2": ((REASON, False),)}
    other = make_state([make_node("n1", taints=["k:PreferNoSchedule"]), make_node("n2", taints=["k:NoExecute"])])
    assert ask(plugin, other, pod).reasons == {"n1": (), "n2": ((REASON, False),)}


@pytest.mark.parametrize(
    ("what", "taints", "want_helps"),
    [
        pytest.param(What.NODE_ADDED, [], True, id="a node without taints came"),
        pytest.param(What.NODE_ADDED, ["k:NoSchedule"], False, id="a tainted node came"),
        pytest.param(What.NODE_TAINTS, ["k:PreferNoSchedule"], True, id="only a discouraging taint is left"),
    ],
)
def test_helps(what: What, taints: list[str], want_helps: bool) -> None:
    """A node helps when nothing on it forbids the pod any more."""
    change = Change(what, node=make_node("n", taints=taints))
    assert TaintToleration().helps(make_pod("a").template, change) is want_helps


def untolerated(pod: Pod, node: Node, effects: tuple[str, ...]) -> int:
    count = 0
    for taint in node.taints:
        if taint.effect not in effects:
            continue
        for toleration in pod.template.tolerations:
            key_fits = toleration.key in ("", taint.key)
            value_fits = toleration.operator == "Exists" or toleration.value == taint.value
            if key_fits and value_fits and toleration.effect in ("", taint.effect):
                break
        else:
            count += 1
    return count


def reference_filter(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    return [REASON] if untolerated(pod, node, ("NoSchedule", "NoExecute")) else []


def reference_score(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> int:
    return untolerated(pod, node, ("PreferNoSchedule",))


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(TaintToleration, seeds=range(40), reference_filter=reference_filter, reference_score=reference_score)
