"""Cordoned nodes take only pods that tolerate the taint of a cordon."""

from __future__ import annotations

import pytest

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.changes import Change, What
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

KEY = "node.kubernetes.io/unschedulable"
REASON = "node(s) were unschedulable"


@pytest.mark.parametrize(
    ("tolerations", "want_passes"),
    [
        pytest.param([], False, id="no toleration"),
        pytest.param([KEY], True, id="key"),
        pytest.param([f"{KEY}:NoSchedule"], True, id="key and effect"),
        pytest.param([f"{KEY}:NoExecute"], False, id="another effect"),
        pytest.param(["*"], True, id="everything"),
        pytest.param(["other"], False, id="another key"),
    ],
)
def test_cordoned_node(tolerations: list[str], want_passes: bool) -> None:
    """The cordon counts like a NoSchedule taint with an empty value; preemption cannot help."""
    state = make_state([make_node("open"), make_node("cordoned", unschedulable=True)])
    reasons = ask(NodeUnschedulable(), state, make_pod("a", tolerations=tolerations)).reasons
    assert reasons == {"open": (), "cordoned": () if want_passes else ((REASON, False),)}


@pytest.mark.parametrize(
    ("change", "tolerations", "want_helps"),
    [
        pytest.param(Change(What.NODE_ADDED, node=make_node("n")), [], True, id="new open node"),
        pytest.param(Change(What.NODE_ADDED, node=make_node("n", unschedulable=True)), [], False, id="new cordoned"),
        pytest.param(Change(What.NODE_TAINTS, node=make_node("n")), [], True, id="uncordoned"),
        pytest.param(Change(What.SELF), [KEY], True, id="the pod tolerates it now"),
        pytest.param(Change(What.SELF), ["other"], False, id="the pod got another toleration"),
    ],
)
def test_helps(change: Change, tolerations: list[str], want_helps: bool) -> None:
    """Only what can lift the rejection wakes the pod."""
    assert NodeUnschedulable().helps(make_pod("a", tolerations=tolerations).template, change) is want_helps


def reference(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    tolerated = any(
        t.key in ("", KEY) and t.operator == "Exists" and t.effect in ("", "NoSchedule")
        for t in pod.template.tolerations
    )
    return [REASON] if node.unschedulable and not tolerated else []


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(NodeUnschedulable, reference_filter=reference)
