"""A small trace, and experiments on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.experiments.document import Experiment, ExperimentReading, read_experiment
from moorage.sim.experiments.running import run_combination

REGISTRY = Registry(BUILTIN)

NODES = """sn,cpu_milli,memory_mib,gpu,model
n1,8000,16384,2,T4
n2,8000,16384,3,A10
n3,16000,32768,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time,deletion_time
a,1000,1024,1,500,,0,0,100
b,1000,1024,1,500,,10,10,60
c,2000,2048,1,1000,,20,,220
d,4000,1024,0,0,,30,30,80
e,1000,1024,1,200,A10,40,50,90
f,1000,1024,1,700,,50,50,500
"""
ARRIVALS = "7,pods,5,4,3,2,1,0\n7,nodes,0,1\n8,pods,0,1,2\n"

PACKED: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "packed",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "SharedDevices"}, {"name": "Fragmentation", "weight": 20}]},
                "score": {"disabled": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]},
            },
        }
    ],
}


def trace_document(**changes: Any) -> dict[str, Any]:
    """An experiment on the trace; other top-level fields take the place of these."""
    trace = {"format": "openb", "nodes": "nodes.csv", "pods": "pods.csv"}
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "Experiment",
        "inputs": [{"name": "trace", "trace": trace}],
        "configurations": [{"name": "default"}, {"name": "packed", "document": PACKED}],
        **changes,
    }


def write_trace(folder: Path) -> Path:
    """The files of the trace."""
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS)
    (folder / "arrivals.csv").write_text(ARRIVALS)
    return folder


def write_experiment(folder: Path, document: dict[str, Any]) -> Path:
    """The file of an experiment beside the files of the trace."""
    path = write_trace(folder) / "experiment.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def reading_at(path: Path) -> ExperimentReading:
    """The experiment of a file, or its problems."""
    return read_experiment(path.read_bytes(), str(path), REGISTRY)


def experiment_at(path: Path) -> Experiment:
    """The same, without problems."""
    reading = reading_at(path)
    assert reading.experiment is not None, "\n".join(map(str, reading.problems))
    return reading.experiment


def reading_of(folder: Path, document: dict[str, Any]) -> ExperimentReading:
    """The document, read from a folder that has the trace."""
    return reading_at(write_experiment(folder, document))


def experiment_of(folder: Path, document: dict[str, Any]) -> Experiment:
    """The same, without problems."""
    return experiment_at(write_experiment(folder, document))


def results_of(experiment: Experiment) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """All combinations, run here."""
    return {
        each.key: run_combination(each.asked, experiment.data[each.input], REGISTRY)
        for each in experiment.combinations()
    }


def figures(result: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(measure, of) -> value."""
    return {(measure, of): value for measure, of, value, _ in result["rows"]}
