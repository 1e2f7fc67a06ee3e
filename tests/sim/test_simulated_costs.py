"""What simulations say about money: figures before and after, and prices that are missing or stale."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.cost_aware import CostAware
from moorage.sim.checks import check_file
from moorage.sim.inputs import read_cluster
from moorage.sim.opinions import opinion_from_files
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.report import write_json, write_table
from moorage.sim.simulation import SimulationError
from moorage.wire.manifests import parse_manifests
from tests.plugins.controlled import packing_rules, simulated

TYPE = "node.kubernetes.io/instance-type"
SOURCE = {"source": {"url": "https://prices.example/list"}}
NODES = [
    node_manifest("dear", labels={TYPE: "dear"}),
    node_manifest("cheap", labels={TYPE: "cheap"}),
    node_manifest("unknown"),
]


def price_list(name: str = "cloud", currency: str = "USD", **fields: Any) -> dict[str, Any]:
    prices = [{"instanceType": "dear", "pricePerHour": "1.25"}, {"instanceType": "cheap", "pricePerHour": "0.5"}]
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "PriceList",
        "metadata": {"name": name},
        "currency": currency,
        "prices": prices,
        **fields,
    }


def bound(name: str, node: str, **fields: Any) -> dict[str, Any]:
    return pod_manifest(name, nodeName=node, **fields)


def costly(*objects: Mapping[str, Any], args: dict[str, Any] | None = None) -> SimulationOutcome:
    """Simulate with CostAware deciding."""
    return simulated([*NODES, *objects], packing_rules(CostAware, SOURCE if args is None else args, weight=10))


def document(outcome: SimulationOutcome) -> dict[str, Any]:
    out = StringIO()
    write_json(outcome, out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def last_lines(outcome: SimulationOutcome) -> list[str]:
    out = StringIO()
    write_table(outcome, out)
    return out.getvalue().splitlines()[-2:]


def test_a_list_among_the_input_decides_and_is_summed_up() -> None:
    """It stands in for the source; nodes in use count, before and after."""
    outcome = costly(price_list(), bound("old", "dear"), pod_manifest("new"))
    assert [(story.name, story.node) for story in outcome.pods] == [("new", "cheap")]
    assert document(outcome)["cost"] == {
        "currency": "USD",
        "before": "1.2500",
        "after": "1.7500",
        "nodesInUse": {"before": 1, "after": 2},
        "withoutPrice": [],
        "stale": False,
    }
    assert last_lines(outcome) == [
        "cost per hour: 1.2500 USD before, 1.7500 USD after",
        "1 scheduled, 0 pending, 0 evicted",
    ]


def test_figures_need_no_plugin_that_reads_prices() -> None:
    """A list in the input is enough; a node without a price counts nothing, and is named."""
    objects = [*NODES, price_list(), bound("a", "dear"), bound("b", "unknown")]
    outcome = simulated(objects, packing_rules(ControllerSpread))
    assert last_lines(outcome)[0] == "cost per hour: 1.2500 USD before, 1.2500 USD after (1 node without a price)"
    assert document(outcome)["cost"]["withoutPrice"] == ["unknown"]
    assert not outcome.warnings


def test_what_belongs_to_its_node_does_not_keep_it_in_use() -> None:
    """Pods of a DaemonSet, static pods and finished pods would not move elsewhere."""
    static = bound("static", "dear")
    static["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "dear", "uid": "u", "controller": True}]
    finished = {**bound("done", "dear"), "status": {"phase": "Succeeded"}}
    outcome = costly(price_list(), workload_manifest("DaemonSet", "agent"), static, finished)
    assert {name: load.pods for name, load in outcome.nodes.items()} == {"dear": 2, "cheap": 1, "unknown": 1}
    assert document(outcome)["cost"]["nodesInUse"] == {"before": 0, "after": 0}


def test_without_prices_there_are_no_figures() -> None:
    """The document has no more than the fields that it always had."""
    found = document(simulated(NODES, packing_rules(ControllerSpread)))
    assert set(found) == {"pods", "evictions", "nodes", "ignored", "warnings", "summary"}


def test_prices_in_the_arguments() -> None:
    """They decide and are summed up, in no currency unless one is named."""
    prices = price_list()["prices"]
    outcome = costly(pod_manifest("new"), args={"prices": prices})
    assert last_lines(outcome)[0] == "cost per hour: 0.0000 before, 0.5000 after"
    outcome = costly(pod_manifest("new"), args={"prices": prices, "currency": "EUR"})
    assert last_lines(outcome)[0] == "cost per hour: 0.0000 EUR before, 0.5000 EUR after"


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    """A simulation may read files; one that is of no use is a warning, as the cluster's may be elsewhere."""
    file = tmp_path / "prices.json"
    args = {"source": {"file": str(file)}}
    missing = costly(pod_manifest("new"), args=args)
    assert missing.cost is None
    (warning,) = missing.warnings
    assert warning == (
        "CostAware: no node has a price, as its source is of no use: "
        f"{file}: cannot be read (No such file or directory); check the path"
    )
    file.write_bytes(msgspec.json.encode(price_list()))
    assert last_lines(costly(pod_manifest("new"), args=args))[0].endswith("0.5000 USD after")


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, "CostAware has neither prices nor a source", id="nothing"),
        pytest.param(SOURCE, "url:https://prices.example/list is not read by a simulation", id="a URL"),
        pytest.param(
            {"source": {"configMap": {"namespace": "n", "name": "c"}}},
            "configMap:n/c#prices.yaml is not read by a simulation",
            id="a ConfigMap",
        ),
    ],
)
def test_what_is_not_read_is_said(args: dict[str, Any], want: str) -> None:
    """With the remedy."""
    (warning,) = costly(args=args).warnings
    assert want in warning
    assert warning.endswith("add a PriceList to the input")


def test_stale_prices_are_flagged_and_not_used() -> None:
    """Compared with the time of the simulated cluster, which is that of its newest object."""
    times = {"creationTimestamp": "2026-07-01T12:00:00Z"}
    new = pod_manifest("new")
    new["metadata"].update(times)
    for as_of, stale in (("2026-07-01T11:30:00Z", False), ("2026-07-01T10:00:00Z", True)):
        outcome = costly(price_list(asOf=as_of), new, args={**SOURCE, "staleAfterSeconds": 3600})
        assert outcome.cost is not None
        assert outcome.cost.stale is stale
        assert [*outcome.warnings] == ([_STALE] if stale else [])
    assert "stale prices)" in last_lines(outcome)[0]


_STALE = (
    "prices of cloud are stale: their asOf is 7201 s before the time of the simulated cluster, and "
    "staleAfterSeconds is 3600; CostAware does not use them"
)


def test_several_lists_are_one() -> None:
    """In one currency."""
    more = price_list("more", prices=[{"pricePerHour": "9"}])
    outcome = costly(price_list(), more, bound("a", "unknown"))
    assert last_lines(outcome)[0] == "cost per hour: 9.0000 USD before, 9.0000 USD after"
    with pytest.raises(SimulationError) as caught:
        costly(price_list(), price_list("more", "EUR"))
    (problem,) = caught.value.problems
    assert "item 5: PriceList more: currency" in str(problem)
    assert str(problem).endswith('"EUR": PriceList cloud is in USD; write all prices in one currency')


_NO_CURRENCY = "not a currency; write the three letters of its ISO 4217 code, such as USD"


def test_mistakes_in_a_list_are_all_named() -> None:
    """By simulations and by `moorage validate` alike."""
    wrong = price_list(currency="usd", prices=[{"pricePerHour": 1}])
    data = msgspec.json.encode(wrong)
    want = [
        f'f.json: PriceList cloud: currency: "usd": {_NO_CURRENCY}',
        "f.json: PriceList cloud: prices[0].pricePerHour: 1: must be text; put it in quotes",
    ]
    assert [*map(str, read_cluster(parse_manifests("f.json", data)).problems)] == want
    assert [*map(str, check_file("f.json", data, Registry(BUILTIN)).problems)] == want


def test_explain_knows_the_prices() -> None:
    """Of a pod that stands somewhere and of one that waits."""
    objects = [*NODES, price_list(), bound("old", "dear"), pod_manifest("new")]
    body = {"apiVersion": "v1", "kind": "List", "items": objects}
    given = read_cluster(parse_manifests("f.json", msgspec.json.encode(body)))
    rules = packing_rules(CostAware, SOURCE, weight=1)
    for pod in ("old", "new"):
        nodes = opinion_from_files(given, rules, "default", pod).nodes
        assert {name: node.scores["CostAware"] for name, node in nodes.items()} == {
            "dear": 40,
            "cheap": 100,
            "unknown": 50,
        }
