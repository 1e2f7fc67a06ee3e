"""CostAware: cheap nodes score high, unknown prices are not guessed, and stale ones are not used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from moorage.adapters.memory.manifests import node_manifest, workload_manifest
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.pricing import PriceSource, SourceKind
from moorage.plugins.cost_aware import CostAware, CostAwareArgs
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from tests.engine.play import Play
from tests.plugins.controlled import NOW_S, nodes_of, packing_rules, scores_for, simulated

TYPE, CAPACITY = "node.kubernetes.io/instance-type", "node.kubernetes.io/capacity"
PRICES = [
    {"instanceType": "small", "pricePerHour": "0.10"},
    {"instanceType": "small", "capacityType": "spot", "pricePerHour": "0.05"},
    {"instanceType": "large", "pricePerHour": "0.30"},
    {"labels": {"pool": "own"}, "pricePerHour": "0"},
]
SMALL = make_node("small", cpu="2", memory="8Gi", labels={TYPE: "small"})
SPOT = make_node("spot", cpu="2", memory="8Gi", labels={TYPE: "small", CAPACITY: "spot"})
LARGE = make_node("large", cpu="8", memory="32Gi", labels={TYPE: "large"})
OWN = make_node("own", labels={"pool": "own"})
UNKNOWN = make_node("unknown")
URL = "https://prices.example/list"


def plugin(**args: Any) -> CostAware:
    return CostAware(CostAwareArgs.model_validate(args))


def normalized(of: CostAware, state: ClusterState, pod: Pod) -> dict[str, int]:
    """Node -> score out of 100."""
    cycle, rows = Cycle(pod, state, NOW_S), state.rows()
    scores = of.normalize(cycle, of.score(cycle, rows)).tolist()
    return {state.node(int(row)).name: score for row, score in zip(rows, scores, strict=True)}


POD = make_pod("p", cpu="1", memory="1Gi")
SCORES: dict[str, tuple[list[Node], Pod, dict[str, int]]] = {
    "half the price": ([SMALL, SPOT], POD, {"small": 50, "spot": 100}),
    "a share of a large node": ([SMALL, LARGE], POD, {"small": 75, "large": 100}),
    "memory decides where its share is larger": (
        [SMALL, make_node("lean", cpu="2", memory="4Gi", labels={TYPE: "small"})],
        make_pod("p", cpu="100m", memory="2Gi"),
        {"small": 100, "lean": 50},
    ),
    "a pod that requests nothing": ([SMALL, SPOT], make_pod("p"), {"small": 50, "spot": 100}),
    "free nodes": ([OWN, SPOT], POD, {"own": 100, "spot": 0}),
    "no price is neither cheap nor dear": ([SPOT, SMALL, UNKNOWN], POD, {"spot": 100, "small": 50, "unknown": 50}),
    "no price at all": ([UNKNOWN], POD, {"unknown": 50}),
}


@pytest.mark.parametrize(("nodes", "pod", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(nodes: list[Node], pod: Pod, want: dict[str, int]) -> None:
    """The cheapest share gets 100, one that costs twice as much 50."""
    assert normalized(plugin(prices=PRICES), make_state(nodes), pod) == want


def test_devices_count_as_well() -> None:
    """A pod with one of eight devices takes an eighth of the node, however little cpu it wants."""
    node = make_node("gpu", cpu="96", memory="1Ti", labels={TYPE: "small"}, resources={"nvidia.com/gpu": 8})
    pod = make_pod("p", cpu="1", memory="1Gi", requests={"nvidia.com/gpu": 1})
    assert scores_for(plugin(prices=PRICES), make_state([node]), pod) == {"gpu": 100_000_000 // 8}


def test_nodes_without_a_price_can_come_last() -> None:
    """For clusters whose nodes all should have one."""
    of = plugin(prices=PRICES, unknown="Worst")
    assert normalized(of, make_state([SPOT, SMALL, UNKNOWN]), POD) == {"spot": 100, "small": 50, "unknown": 0}


# --- prices from a source ---


def test_prices_come_in_as_an_object_and_are_dropped_when_stale() -> None:
    """Nothing is known at first; with prices it decides; stale ones are not used, fresh ones are again."""
    of, state = plugin(source={"url": URL}), make_state([SMALL, SPOT])
    rules = tuple(price.rule() for price in CostAwareArgs.model_validate({"prices": PRICES}).prices)
    known = PriceList(of.list_key, "USD", rules)
    seen = [normalized(of, state, POD)]
    epochs = {of.epoch(state)}
    for found in (known, replace(known, stale=True), known, replace(known, rules=(PriceRule(7),))):
        state.put_object(PRICE_LIST, of.list_key, found)
        seen.append(normalized(of, state, POD))
        epochs.add(of.epoch(state))
    nobody, priced, equal = {"small": 50, "spot": 50}, {"small": 50, "spot": 100}, {"small": 100, "spot": 100}
    assert seen == [nobody, priced, nobody, priced, equal]
    assert len(epochs) == 5


def test_other_prices_change_the_next_decision() -> None:
    """Through the engine, whose kept answers must notice."""
    of = plugin(source={"file": "prices.yaml"})
    play = Play(of)
    play.see(SMALL, SPOT)
    cheap, dear = (make_pod(name, cpu="100m") for name in ("cheap", "dear"))

    def said(spot: str) -> PriceList:
        prices = [{"pricePerHour": "0.1"}, {"capacityType": "spot", "pricePerHour": spot}]
        return PriceList(of.list_key, "USD", plugin(prices=prices).own.rules)  # type: ignore[union-attr]

    play.object_seen(PRICE_LIST, of.list_key, said("0.01"))
    play.see(cheap)
    assert play.binds == {"cheap": "spot"}
    play.object_seen(PRICE_LIST, of.list_key, said("1.0"))
    play.see(dear)
    assert play.binds == {"dear": "small"}


SOURCES: dict[str, tuple[dict[str, Any], PriceSource]] = {
    "a file": ({"file": "/etc/p.yaml"}, PriceSource(SourceKind.FILE, "/etc/p.yaml", poll_s=5, stale_after_s=60)),
    "a ConfigMap": (
        {"configMap": {"namespace": "n", "name": "c"}},
        PriceSource(SourceKind.CONFIG_MAP, "n/c", "prices.yaml", poll_s=5, stale_after_s=60),
    ),
    "a URL": (
        {"url": URL, "caFile": "/ca", "pollSeconds": 9},
        PriceSource(SourceKind.URL, URL, ca_file="/ca", poll_s=9, stale_after_s=60),
    ),
}


@pytest.mark.parametrize(("source", "want"), SOURCES.values(), ids=SOURCES.keys())
def test_sources(source: dict[str, Any], want: PriceSource) -> None:
    """What the arguments say is what the follower of prices gets."""
    assert plugin(source=source, staleAfterSeconds=60).source == want


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "prices and source": ({"prices": PRICES, "source": {"file": "f"}}, "remove them here, or the source"),
    "no source": ({"source": {}}, "must name exactly one of file, configMap and url"),
    "two sources": ({"source": {"file": "f", "url": URL}}, "must name exactly one of file, configMap and url"),
    "not an address": ({"source": {"url": "prices.example"}}, "write one that begins with https:// or http://"),
    "a password": ({"source": {"url": "https://me:pw@prices.example/"}}, "holds a user name"),
    "a CA for a file": ({"source": {"file": "f", "caFile": "c"}}, "caFile is for url only"),
    "never polled": ({"source": {"url": URL, "pollSeconds": 0}}, "greater than or equal to 1"),
    "a number": ({"prices": [{"pricePerHour": 1}]}, "valid string"),
    "twice": ({"prices": [PRICES[0], PRICES[0]]}, r"entries \[0\] and \[1\] are for the same nodes"),
    "currency": ({"currency": "Euro"}, "not a currency"),
    "unknown": ({"unknown": "Best"}, "'Neutral' or 'Worst'"),
    "stale at once": ({"staleAfterSeconds": 0}, "greater than or equal to 1"),
}


@pytest.mark.parametrize(("args", "want"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments(args: dict[str, Any], want: str) -> None:
    """Each mistake says what to write."""
    with pytest.raises(ValidationError, match=want):
        plugin(**args)


# --- through the engine ---


def test_a_deployment_goes_to_the_cheap_nodes() -> None:
    """As long as they have room."""
    nodes = [
        node_manifest(f"{name}-{number}", cpu="2", labels=labels)
        for name, labels in {"spot": {TYPE: "small", CAPACITY: "spot"}, "small": {TYPE: "small"}}.items()
        for number in range(2)
    ]
    workload = workload_manifest("Deployment", "web", own={"replicas": 5}, cpu="900m")
    rules = packing_rules(CostAware, {"prices": PRICES}, weight=10)
    placed = nodes_of(simulated([*nodes, workload], rules), "web")
    assert (placed["spot-0"], placed["spot-1"], placed["small-0"] + placed["small-1"]) == (2, 2, 1)


# --- conformance ---

DISKS = {"ssd": "0.3", "hdd": "0.1"}
ARGS = {"prices": [{"labels": {"disk": disk}, "pricePerHour": price} for disk, price in DISKS.items()]}


def reference_score(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> int:
    price = DISKS.get(node.labels.get("disk", ""))
    if price is None:
        return -1
    requests = pod.template.requests
    wanted = {**dict(requests.amounts), "cpu": requests.score_cpu_milli, "memory": requests.score_memory_bytes}
    shares = (min(1.0, amount / max(node.allocatable.get(name, 0), 1)) for name, amount in wanted.items())
    return int(round(float(price) * 1_000_000) * 1_000 * max(shares))


@pytest.mark.parametrize("unknown", ["Neutral", "Worst"])
def test_conformance(unknown: str) -> None:
    """The promises of every plugin hold, and the raw score is what one would compute by hand."""
    check_plugin(CostAware, {**ARGS, "unknown": unknown}, seeds=range(20), reference_score=reference_score)


def test_conformance_without_prices() -> None:
    """With default arguments nothing is known."""
    check_plugin(CostAware, seeds=range(4))
