"""The figures that two worlds are compared by, each on a small cluster where they can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.affinity import SpreadConstraint
from moorage.core.events import Event, NodeSeen, PodSeen
from moorage.core.labelnames import ZONE
from moorage.core.pods import Owner, Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.strategy import STRATEGY_ANNOTATIONS
from moorage.engine.engine import Engine
from moorage.framework.profiles import Profile
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod
from moorage.views.standing import Standing, StandingMeasure
from moorage.wire.configuration import read_configuration
from tests.framework.readers import default_profile

PRICED = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: moorage
    plugins: {multiPoint: {enabled: [{name: CostAware}]}}
    pluginConfig:
      - name: CostAware
        args: {currency: EUR, prices: [{labels: {tier: cheap}, pricePerHour: "0.25"}]}
"""
WEB = Selector((Requirement("app", Operator.IN, ("web",)),))


def standing(*events: Event, profile: Profile | None = None) -> Standing:
    """The figures of a cluster that is told of at once."""
    engine = Engine([profile or default_profile()])
    measure = StandingMeasure(engine)
    engine.handle(events, 0.0, budget=0)
    return measure.take()


def on_nodes(*pods: Pod, nodes: int = 2) -> list[Event]:
    """Nodes of four cores in zones of their own, and these pods."""
    return [*(NodeSeen(make_node(f"n{number}", zone=f"z{number}")) for number in range(nodes)), *map(PodSeen, pods)]


def test_nodes_in_use_and_what_is_requested_there() -> None:
    """A node with nothing but a daemon is not in use."""
    daemon = make_pod("d", cpu="1", node="n1", owner=Owner("DaemonSet", "d", "d"))
    waiting = make_pod("w", scheduler_name="moorage")
    found = standing(*on_nodes(make_pod("a", cpu="2", node="n0"), daemon, waiting))
    assert (found.nodes, found.nodes_in_use, found.pods, found.pending) == (2, 1, 2, 1)
    assert found.allocated["cpu"] == pytest.approx(3 / 8)
    assert found.allocated_in_use["cpu"] == pytest.approx(2 / 4)
    assert found.currency is None


@pytest.mark.parametrize("hard", [True, False], ids=["forbidden", "preferred"])
def test_spread_that_pods_break(hard: bool) -> None:
    """Three in one zone and none in the other exceed a skew of 1; equal constraints count once."""
    rule = SpreadConstraint(max_skew=1, topology_key=ZONE, hard=hard, selector=WEB)
    pods = [make_pod(f"a{number}", labels={"app": "web"}, spread=(rule,), node="n0") for number in range(3)]
    found = standing(*on_nodes(*pods))
    assert (found.spread_rules, found.spread_broken, found.spread_uneven) == (1, int(hard), int(not hard))
    even = standing(*on_nodes(*pods[:1]))
    assert (even.spread_rules, even.spread_broken + even.spread_uneven) == (1, 0)


def test_fragmentation_is_what_typical_pods_cannot_use() -> None:
    """Memory without cpu is of no use to pods that need both."""
    pods = [make_pod(f"a{number}", cpu="2", memory="1Gi", node="n0") for number in range(2)]
    found = standing(*on_nodes(*pods))
    assert found.idle["cpu"].amount == pytest.approx(4)
    assert found.idle["memory"].unusable >= 14 * 2**30, "n0 has no cpu left for what lies there"


def test_the_nodes_in_use_cost_something() -> None:
    """By the prices that a plugin of the profile reads; nodes without one are counted."""
    reading = read_configuration(PRICED, "prices.yaml", Registry(BUILTIN))
    assert not reading.problems
    (profile,) = reading.profiles
    cheap = NodeSeen(make_node("cheap", labels={"tier": "cheap"}))
    unknown = NodeSeen(make_node("unknown"))
    found = standing(cheap, unknown, PodSeen(make_pod("a", node="cheap")), profile=profile)
    assert (found.currency, found.cost_micros, found.without_price) == ("EUR", 250_000, 1)


def test_strategies_whose_pods_are_elsewhere() -> None:
    """Two pods belong to n0 and two to n1; all are on n0."""
    text = "base=2,weight=0,nodeSelector=kubernetes.io/hostname:n0;weight=1,nodeSelector=kubernetes.io/hostname:n1"
    fields: dict[str, Any] = {"annotations": {STRATEGY_ANNOTATIONS[0]: text}, "owner": "web"}
    pods = [make_pod(f"a{number}", node="n0", **fields) for number in range(4)]
    assert _split(*on_nodes(*pods)) == (1, 1)
    right = [make_pod(f"a{number}", node=f"n{number // 2}", **fields) for number in range(4)]
    assert _split(*on_nodes(*right)) == (1, 0)


def _split(*events: Event) -> tuple[int, int]:
    found = standing(*events)
    return found.strategies, found.strategies_off


def test_an_empty_cluster_has_figures() -> None:
    """None of them divides by nothing."""
    assert standing() == Standing(nodes=0, nodes_in_use=0, pods=0, pending=0)
