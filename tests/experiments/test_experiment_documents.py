"""The file of an experiment: every problem at once, each with its path, its value and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.sim.experiments.document import read_experiment
from moorage.sim.experiments.sources import make_source
from tests.experiments.clusters import REGISTRY, experiment_of, reading_of, trace_document, write_experiment

TRACE = {"nodes": "nodes.csv", "pods": "pods.csv"}
GENERATOR = {"nodes": [{"name": "n", "count": 1, "capacity": {"cpu": "1"}}], "interval": "1s", "count": 1}
TEMPLATE = {"metadata": "x", "specs": {}}


def test_all_combinations(tmp_path: Path) -> None:
    """Inputs, configurations, changes and seeds are combined, each with each."""
    document = trace_document(
        inputs=[{"name": "one", "trace": TRACE}, {"name": "other", "trace": {**TRACE, "order": "shuffled"}}],
        changes=[{"name": "none"}, {"name": "drained", "drain": ["n1"]}],
        seeds={"first": 5, "count": 3},
    )
    found = experiment_of(tmp_path, document)
    keys = [each.key for each in found.combinations()]
    assert len(keys) == len(set(keys)) == found.number == 2 * 2 * 2 * 3
    assert keys[0] == ("one", "default", "none", 5)
    assert keys[-1] == ("other", "packed", "drained", 7)


def test_defaults(tmp_path: Path) -> None:
    """Without configurations, changes and seeds there is one of each."""
    document = trace_document()
    del document["configurations"]
    found = experiment_of(tmp_path, document)
    assert [each.key for each in found.combinations()] == [("trace", "default", "none", 0)]
    assert found.name == "experiment"


MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no inputs": ({"inputs": []}, ["inputs: required"]),
    "a name that leaves the folder": ({"name": "../../x"}, ['name: "../../x": write up to']),
    "a name that is no file's": ({"name": "a\0b"}, ["name: ", "write up to"]),
    "an input that is no mapping": (
        {"inputs": ["x"]},
        ['inputs[0]: "x": must be a mapping', "inputs[0]: says nothing about its cluster"],
    ),
    "no file of nodes": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "nodes": ""}}]},
        ['inputs[0].trace.nodes: "": required'],
    ),
    "a load without end": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "order": "shuffled", "load": 1e300}}]},
        ["inputs[0].trace.load: 1e+300: must be above 0, from 1e-09 to 1e+09"],
    ),
    "a load of too many pods": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "order": "shuffled", "load": 1e9}}]},
        ["pods.csv: load: 1000000000.0: takes more than"],
    ),
    "templates": (
        {"inputs": [{"name": "x", "generator": {**GENERATOR, "pods": [{"name": "p", "template": TEMPLATE}]}}]},
        [
            'inputs[0].generator.pods[0].template.metadata: "x": must be a mapping',
            "inputs[0].generator.pods[0].template.specs: {}: is not a field; did you mean spec?",
        ],
    ),
    "weights that have no sum": (
        {"inputs": [{"name": "x", "generator": {**GENERATOR, "pods": [{"name": "p", "weight": 1e308}]}}]},
        ["inputs[0].generator.pods[0].weight: 1e+308: must be above 0"],
    ),
    "an empty configuration": (
        {"configurations": [{"name": "x", "file": "/dev/null"}]},
        ['configurations[0].file: "/dev/null": is empty'],
    ),
    "two inputs in one": (
        {"inputs": [{"name": "x", "trace": TRACE, "snapshot": "y"}]},
        ['inputs[0]: "x": has snapshot and trace; write one of'],
    ),
    "no such file": (
        {"inputs": [{"name": "x", "snapshot": "gone.yaml"}]},
        ['inputs[0].snapshot: "gone.yaml": there is no file'],
    ),
    "a folder without a journal": (
        {"inputs": [{"name": "x", "journal": "."}]},
        ['inputs[0].journal: ".": holds no journal; name a folder that moorage scheduler --journal wrote'],
    ),
    "unknown field": ({"seed": {}}, ["seed: {}: unknown field; did you mean seeds?"]),
    "unknown measure": (
        {"measures": ["alocated"]},
        ['measures[0]: "alocated": is not a measure; did you mean allocated?'],
    ),
    "bad names": (
        {"configurations": [{"name": "a/b"}, {"name": "x"}, {"name": "x"}]},
        ['configurations[0].name: "a/b": write up to', 'configurations[2].name: "x": stands twice'],
    ),
    "bad seeds": ({"seeds": {"values": [1, "two", 1]}}, ['seeds.values[1]: "two"', "seeds.values[2]: 1: stands twice"]),
    "bad change": (
        {"changes": [{"name": "x", "scale": ["web=5"], "drain": [7]}]},
        ["changes[0].drain[0]: 7: must be text", "changes[0]: scale: 'web=5' is not understood"],
    ),
    "bad configuration": (
        {"configurations": [{"name": "x", "document": {"kind": "KubeSchedulerConfiguration", "apiVersion": "v1"}}]},
        ['configurations[0].document: apiVersion: "v1"'],
    ),
    "unknown plugin": (
        {
            "configurations": [
                {
                    "name": "x",
                    "document": {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "profiles": [{"plugins": {"score": {"enabled": [{"name": "Fragmentatio"}]}}}],
                    },
                }
            ]
        },
        ["did you mean Fragmentation?"],
    ),
    "seed without an order": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "arrivals": "arrivals.csv"}}], "seeds": {"first": 7, "count": 3}},
        ["inputs[0].trace.arrivals: has no order of arrival for 1 seed, such as 9; it has 7, 8"],
    ),
    "unknown column": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "columns": {"pods": {"priority": "prio"}}}}]},
        ['pods.csv: "prio": there is no such column; it has name, cpu_milli'],
    ),
    "unknown words": (
        {"inputs": [{"name": "x", "trace": {**TRACE, "order": "random", "gpuRequests": "nvidia", "load": 0}}]},
        [".trace.order", ".trace.gpuRequests", ".trace.load: 0.0: must be above 0"],
    ),
    "generator": (
        {"inputs": [{"name": "x", "generator": {"nodes": [{"name": "n"}], "interval": "-1s"}}]},
        [
            "inputs[0].generator.nodes[0].count: required",
            "inputs[0].generator.pods: required",
            "inputs[0].generator.count: required",
            "inputs[0].generator.interval",
        ],
    ),
    "everything at once": (
        {"inputs": [], "measures": ["x"], "seeds": {"count": 0}, "configurations": [{"name": "a", "file": "gone"}]},
        ["inputs: required", "measures[0]", "seeds.count: 0", 'configurations[0].file: "gone"'],
    ),
}


@pytest.mark.parametrize(("changes", "wanted"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], wanted: list[str]) -> None:
    """Each mistake is a line that names the file and the place."""
    reading = reading_of(tmp_path, trace_document(**changes))
    lines = [str(problem) for problem in reading.problems]
    assert reading.experiment is None
    assert all("experiment.yaml" in line or ".csv" in line for line in lines)
    missing = [text for text in wanted if not any(text in line for line in lines)]
    assert not missing, lines


def test_cells_that_are_no_numbers(tmp_path: Path) -> None:
    """A cell that cannot be read is named by line and column."""
    path = write_experiment(tmp_path, trace_document())
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time,deletion_time"
    (tmp_path / "pods.csv").write_text(f"{header}\na,x,1,1,1,,0,0,0\n,1,1,1,1,,0,0,0\n")
    lines = [str(problem) for problem in read_experiment(path.read_bytes(), str(path), REGISTRY).problems]
    assert [line.partition("pods.csv:")[2] for line in lines] == [
        '2: cpu_milli: "x": must be a number, 0 or more',
        '3: name: "": required; write a name',
    ]


def test_cells_that_no_pod_can_have(tmp_path: Path) -> None:
    """Numbers that the API would refuse are refused where they stand, not when the first pod is made of them."""
    columns = {"pods": {"cpu": "cpu_milli", "memory": "memory_mib", "priority": "gpu_spec"}}
    path = write_experiment(tmp_path, trace_document(inputs=[{"name": "x", "trace": {**TRACE, "columns": columns}}]))
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time,deletion_time"
    (tmp_path / "pods.csv").write_text(f"{header}\na,-1,1,0,0,0,0,0,0\nb,1,-1Gi,0,0,0,0,0,0\nc,1,1,0,0,3e9,0,0,0\n")
    lines = [str(problem) for problem in read_experiment(path.read_bytes(), str(path), REGISTRY).problems]
    assert [line.partition("pods.csv:")[2] for line in lines] == [
        '2: cpu_milli: "-1": must not be negative',
        '3: memory_mib: "-1Gi": must not be negative',
        '4: gpu_spec: "3e9": must be a number from 0 to 2147483647',
    ]


def test_a_load_of_pods_that_ask_for_nothing_ends(tmp_path: Path) -> None:
    """They come once, as they never make a load."""
    trace = {**TRACE, "order": "shuffled", "load": 1}
    path = write_experiment(tmp_path, trace_document(inputs=[{"name": "x", "trace": trace}]))
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time,deletion_time"
    (tmp_path / "pods.csv").write_text(f"{header}\na,0,1,0,0,,0,0,0\nb,0,1,0,0,,0,0,0\n")
    found = read_experiment(path.read_bytes(), str(path), REGISTRY).experiment
    assert found is not None
    source = make_source(found.inputs[0], found.data["x"], seed=0)
    assert sorted(each.pod.name[0] for each in source.arrivals) == ["a", "b"]
