"""Host ports collide as in kube-scheduler: same protocol and port, and the same address or one of them all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.nodeports import PortIndex
from moorage.core.pods import HostPort

ANY, ONE, OTHER = "", "10.0.0.1", "10.0.0.2"
PORTS = st.builds(
    HostPort, st.sampled_from([ANY, ONE, OTHER]), st.sampled_from(["TCP", "UDP"]), st.sampled_from([80, 443])
)


@pytest.mark.parametrize(
    ("held", "wanted", "want_conflict"),
    [
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "TCP", 80), True, id="all addresses twice"),
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ONE, "TCP", 80), True, id="all held, one wanted"),
        pytest.param(HostPort(ONE, "TCP", 80), HostPort(ANY, "TCP", 80), True, id="one held, all wanted"),
        pytest.param(HostPort(ONE, "TCP", 80), HostPort(ONE, "TCP", 80), True, id="same address"),
        pytest.param(HostPort(ONE, "TCP", 80), HostPort(OTHER, "TCP", 80), False, id="different addresses"),
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "UDP", 80), False, id="different protocols"),
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "TCP", 81), False, id="different ports"),
        pytest.param(HostPort("::", "TCP", 80), HostPort(ONE, "TCP", 80), False, id=":: is an address like others"),
    ],
)
def test_which_ports_collide(held: HostPort, wanted: HostPort, want_conflict: bool) -> None:
    """One pod holds a port, another one wants one."""
    ports = PortIndex()
    ports.add(3, [held])
    assert ports.conflicting_rows([wanted]) == ({3} if want_conflict else set())


@given(pods=st.lists(st.tuples(st.integers(0, 3), st.lists(PORTS, max_size=3)), max_size=12), wanted=st.lists(PORTS))
def test_conflicts_equal_a_comparison_with_every_pod(
    pods: list[tuple[int, list[HostPort]]], wanted: list[HostPort]
) -> None:
    """Also after every other pod has left; in the end nothing is kept."""
    ports = PortIndex()
    for row, held in pods:
        ports.add(row, held)
    for row, held in pods[::2]:
        ports.remove(row, held)
    left = pods[1::2]
    want = {row for row, held in left if any(collide(a, b) for a in wanted for b in held)}
    assert ports.conflicting_rows(wanted) == want
    for row, held in left:
        ports.remove(row, held)
    assert ports.snapshot() == {}


def collide(a: HostPort, b: HostPort) -> bool:
    return (a.protocol, a.port) == (b.protocol, b.port) and (ANY in (a.address, b.address) or a.address == b.address)
