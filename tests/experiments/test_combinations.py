"""One combination: what arrives, runs, is evicted and waits, and the figures of it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from moorage.cli.experiment_jobs import run_job
from moorage.core.events import BindDone, BindOutcome, NodeSeen, PodSeen
from moorage.sim.experiments.sources import make_source
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import SPREADING, RecordedEngine
from tests.experiments.clusters import experiment_of, figures, results_of, trace_document

TRACE = {"nodes": "nodes.csv", "pods": "pods.csv"}


def test_recorded_times(tmp_path: Path) -> None:
    """Pods come at their times and end after theirs: what is allocated at the horizon is what runs then."""
    # At 95 s: a (to 100 s) and c (to 220 s) and f (to 500 s) run; b, d and e are gone.
    inputs = [{"name": "trace", "trace": TRACE, "horizon": "95s"}]
    results = results_of(experiment_of(tmp_path, trace_document(inputs=inputs)))
    found = figures(results["trace", "packed", "none", 0])
    assert found["allocated", "devices"] == pytest.approx((0.5 + 1.0 + 0.7) / 5)
    assert found["allocated", "cpu"] == pytest.approx(4000 / 32000)
    assert found["pods", ""] == found["placed", ""] == 6
    assert found["pending", ""] == 0


def test_waiting_ends_when_room_is_there(tmp_path: Path) -> None:
    """E asks for both devices of n2; what waits for another pod's end has waited so long."""
    pods = "name,cpu,duration,created,queue\na,8,100,0,x\nb,8,100,10,y\nc,8,100,20,x\n"
    nodes = "name,cpu\nn1,16\n"
    columns = {
        "nodes": {"name": "name", "cpu": "cpu"},
        "pods": {"name": "name", "cpu": "cpu", "duration": "duration", "created": "created", "queue": "queue"},
    }
    trace = {"format": "csv", "nodes": "n.csv", "pods": "p.csv", "columns": columns}
    (tmp_path / "n.csv").write_text(nodes)
    (tmp_path / "p.csv").write_text(pods)
    document = trace_document(inputs=[{"name": "t", "trace": trace, "horizon": "300s"}], configurations=[{"name": "d"}])
    found = figures(results_of(experiment_of(tmp_path, document))["t", "d", "none", 0])
    assert found["waiting-p99", ""] == 80
    assert found["waiting-p50", "queue=x"] == 0
    assert found["waiting-p99", "queue=x"] == 80
    assert found["waiting-p99", "queue=y"] == 0
    assert found["allocated", "cpu"] == 0
    # 8 of 16 from 0 to 10 and from 110 to 200 (b ends at 110, c then has 90 s left), 16 from 10 to 110.
    assert found["allocated-mean", "cpu"] == pytest.approx((10 * 0.5 + 100 * 1 + 90 * 0.5) / 300, abs=0.03)


def test_evicted_pods_come_again(tmp_path: Path) -> None:
    """A pod that a more important one evicts comes again; it waits until there is room."""
    columns = {
        "nodes": {"name": "name", "cpu": "cpu"},
        "pods": {"name": "name", "cpu": "cpu", "duration": "duration", "created": "created", "priority": "priority"},
    }
    (tmp_path / "n.csv").write_text("name,cpu\nn1,8\n")
    (tmp_path / "p.csv").write_text("name,cpu,duration,created,priority\nlow,8,100,0,0\nhigh,8,50,10,100\n")
    trace = {"format": "csv", "nodes": "n.csv", "pods": "p.csv", "columns": columns}
    document = trace_document(inputs=[{"name": "t", "trace": trace, "horizon": "100s"}], configurations=[{"name": "d"}])
    found = figures(results_of(experiment_of(tmp_path, document))["t", "d", "none", 0])
    assert found["evictions", ""] == 1
    assert found["pods", ""] == found["placed", ""] == 3
    assert found["waiting-p99", "priority=0"] == 50
    assert found["waiting-p99", "priority=100"] == 0
    assert found["allocated", "cpu"] == 1.0


def test_a_drain_moves_arrived_pods(tmp_path: Path) -> None:
    """Pods on a node that is drained come again elsewhere, and wait where nothing else would do."""
    change = {"name": "drained", "drain": ["n2"], "after": "45s"}
    inputs = [{"name": "trace", "trace": TRACE, "horizon": "46s"}]
    document = trace_document(inputs=inputs, changes=[{"name": "none"}, change])
    results = results_of(experiment_of(tmp_path, document))
    before, after = (figures(results["trace", "packed", name, 0]) for name in ("none", "drained"))
    assert before["pending", ""] == 0
    assert after["pods", ""] > before["pods", ""]
    assert after["pending", ""] >= 1  # e insists on the model of n2


def test_more_nodes_take_more(tmp_path: Path) -> None:
    """Nodes that a change adds are there when pods arrive."""
    trace = {**TRACE, "order": "shuffled", "load": 1.5}
    document = trace_document(
        inputs=[{"name": "trace", "trace": trace}],
        changes=[{"name": "none"}, {"name": "more", "addNodes": [{"like": "n1", "number": 4}]}],
    )
    results = results_of(experiment_of(tmp_path, document))
    before, after = (figures(results["trace", "packed", name, 0]) for name in ("none", "more"))
    assert after["placed", ""] > before["placed", ""]
    assert after["pending", ""] < before["pending", ""]


def test_seeds_make_the_order(tmp_path: Path) -> None:
    """An order of arrival is that of the seed, from the file or shuffled; a half has half of the pods."""
    trace = {**TRACE, "arrivals": "arrivals.csv", "interval": "10s"}
    experiment = experiment_of(
        tmp_path, trace_document(inputs=[{"name": "t", "trace": trace}], seeds={"values": [7, 8]})
    )
    found = {key: figures(result) for key, result in results_of(experiment).items()}
    assert found["t", "packed", "none", 7]["pods", ""] == 6
    assert found["t", "packed", "none", 8]["pods", ""] == 3
    asked = next(experiment.combinations()).asked
    halves = [run_job({**asked, "split": [part, 2]}, experiment.data["t"])["result"] for part in (0, 1)]
    assert [figures(half)["pods", ""] for half in halves] == [3, 3]


GENERATOR: dict[str, Any] = {
    "nodes": [{"name": "small", "count": 3, "capacity": {"cpu": "4", "memory": "8Gi"}}],
    "pods": [
        {
            "name": "web",
            "weight": 3,
            "duration": "60s",
            "template": {
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}
            },
        },
        {
            "name": "batch",
            "template": {
                "metadata": {"labels": {"moorage.dev/queue": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
            },
        },
    ],
    "interval": "5s",
    "count": 50,
}


def test_made_arrivals_are_those_of_their_seed(tmp_path: Path) -> None:
    """The same seed makes the same pods; another one others."""
    document = trace_document(inputs=[{"name": "g", "generator": GENERATOR}], seeds={"count": 2})
    first, second = (results_of(experiment_of(tmp_path, document)) for _ in range(2))
    assert first == second
    assert first["g", "default", "none", 0]["rows"] != first["g", "default", "none", 1]["rows"]
    assert figures(first["g", "default", "none", 0])["pods", ""] == 50


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"trace": {**TRACE, "arrivals": "arrivals.csv", "interval": "10s"}}, id="trace"),
        pytest.param({"generator": GENERATOR}, id="generator"),
    ],
)
def test_bursts_come_at_once(tmp_path: Path, given: dict[str, Any]) -> None:
    """As many pods and as long as one by one, on average, but at fewer moments."""
    times = dict[int, list[float]]()
    for burst in (1, 3):
        (kind, settings), *_ = given.items()
        document = trace_document(inputs=[{"name": "t", kind: {**settings, "burst": burst}}], seeds={"values": [7]})
        experiment = experiment_of(tmp_path, document)
        source = make_source(next(experiment.combinations()).asked["input"], experiment.data["t"], 7)
        times[burst] = [arrival.after_s for arrival in source.arrivals]
    alone, together = times[1], times[3]
    assert len(alone) == len(together) == len({*alone})
    assert [together.count(time) for time in sorted({*together})][:-1] == [3] * ((len(alone) - 1) // 3)
    assert max(together) <= 2 * max(alone)


def test_problems_are_answers(tmp_path: Path) -> None:
    """What cannot be run is said in the answer; nothing is raised."""
    experiment = experiment_of(tmp_path, trace_document())
    asked = next(experiment.combinations()).asked
    answer = run_job({**asked, "change": {"drain": ["n9"]}}, experiment.data["trace"])
    assert "result" not in answer
    assert answer["problems"] == ["drain n9: there is no node 'n9'; name one of n1, n2, n3"]
    answer = run_job({**asked, "configuration": "kind: x"}, experiment.data["trace"])
    assert "apiVersion" in answer["problems"][0]


def test_a_journal_is_decided_anew(tmp_path: Path) -> None:
    """All recorded pods are placed."""
    engine = RecordedEngine(tmp_path / "journal", SPREADING)
    nodes = [NodeSeen(make_node(f"n{number}", cpu="8", memory="32Gi")) for number in range(4)]
    engine.handle(nodes, 1.0, 0)
    engine.handle([PodSeen(make_pod(f"p{number}", cpu="500m")) for number in range(12)], 2.0, 32)
    engine.handle([BindDone(f"default/p{number}", BindOutcome.BOUND) for number in range(12)], 2.5, 32)
    engine.journal.close()
    document = trace_document(
        inputs=[{"name": "j", "journal": str(tmp_path / "journal")}], configurations=[{"name": "default"}]
    )
    found = figures(results_of(experiment_of(tmp_path, document))["j", "default", "none", 0])
    assert found["placed", ""] == found["pods", ""] == 12
    assert found["allocated", "cpu"] == 6 / 32
    assert found["waiting-p99", ""] == 0


def test_nothing_of_a_combination_stays_in_the_process(tmp_path: Path) -> None:
    """A process computes thousands of them; engines refer to themselves, and the collector runs rarely."""
    experiment = experiment_of(tmp_path, trace_document())
    combination = next(iter(experiment.combinations()))
    for _ in range(2):
        assert run_job(combination.asked, experiment.data[combination.input])["result"]["decisions"]
        assert gc.collect() < 100
