"""Two pods cannot hold the same host port of a node."""

from __future__ import annotations

import pytest

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.changes import Change, What
from moorage.plugins.node_ports import NodePorts
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

REASON = "node(s) didn't have free ports for the requested pod ports"

COLLISIONS = [
    pytest.param([8080], [8080], True, id="same port"),
    pytest.param([8080], [8081], False, id="another port"),
    pytest.param([8080], ["8080/UDP"], False, id="another protocol"),
    pytest.param(["10.0.0.1:8080"], ["10.0.0.1:8080"], True, id="same address"),
    pytest.param(["10.0.0.1:8080"], ["10.0.0.2:8080"], False, id="another address"),
    pytest.param(["10.0.0.1:8080"], [8080], True, id="held on all addresses"),
    pytest.param(["0.0.0.0:8080"], ["10.0.0.2:8080"], True, id="wanted on all addresses"),
    pytest.param([1, 2, 3], [4, 3], True, id="one of several"),
]


@pytest.mark.parametrize(("wanted", "held", "want_collision"), COLLISIONS)
def test_filter(wanted: list[int | str], held: list[int | str], want_collision: bool) -> None:
    """Port, protocol and address decide; removing the holder would help."""
    state = make_state([make_node("free"), make_node("used")], [make_pod("h", ports=held, node="used")])
    reasons = ask(NodePorts(), state, make_pod("a", ports=wanted)).reasons
    assert reasons == {"free": (), "used": ((REASON, True),) if want_collision else ()}


def test_a_pod_without_host_ports_skips_the_plugin() -> None:
    """Nothing is wanted, nothing is asked."""
    assert ask(NodePorts(), make_state([make_node("n")]), make_pod("a")).filter_skipped


@pytest.mark.parametrize(("wanted", "held", "want_collision"), COLLISIONS)
def test_a_pod_that_leaves_helps_if_it_held_a_wanted_port(
    wanted: list[int | str], held: list[int | str], want_collision: bool
) -> None:
    """The rule of Filter and the rule for waking up are the same."""
    change = Change(What.POD_REMOVED, pod=make_pod("h", ports=held, node="n"))
    assert NodePorts().helps(make_pod("a", ports=wanted).template, change) is want_collision


def test_a_new_node_helps() -> None:
    """Its ports are free."""
    assert NodePorts().helps(make_pod("a", ports=[80]).template, Change(What.NODE_ADDED, node=make_node("n")))


def reference(pod: Pod, _node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    held = {(port.protocol, port.port, port.address) for each in pods for port in each.template.host_ports}
    for port in pod.template.host_ports:
        addresses = {address for protocol, number, address in held if (protocol, number) == (port.protocol, port.port)}
        if addresses and (not port.address or "" in addresses or port.address in addresses):
            return [REASON]
    return []


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(NodePorts, seeds=range(40), reference_filter=reference)
