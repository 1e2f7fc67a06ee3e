"""A small cluster whose pods are packed well or badly, and searches on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from moorage.sim.experiments.document import Experiment, ExperimentReading
from tests.experiments.clusters import experiment_at, reading_at


def pods(name: str, cpu: str, weight: float) -> dict[str, Any]:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"name": name, "weight": weight, "template": {"spec": {"containers": [container]}}}


CLUSTER: dict[str, Any] = {
    "nodes": [{"name": "n", "count": 6, "capacity": {"cpu": "8", "memory": "64Gi"}}],
    "pods": [pods("small", "1", 3), pods("large", "7", 1)],
    "interval": "1s",
    "count": 60,
}
"""Small pods that are spread leave no room for large ones."""

FIT = {"plugin": "NodeResourcesFit"}
PARAMETERS = [
    {**FIT, "min": 0, "max": 20},
    {**FIT, "argument": "scoringStrategy.type", "values": ["LeastAllocated", "MostAllocated"]},
    {"plugin": "NodeResourcesBalancedAllocation", "min": 0, "max": 5},
]
SEARCH: dict[str, Any] = {
    "objectives": [{"measure": "allocated", "of": "cpu"}],
    "parameters": PARAMETERS,
    "trials": 12,
    "batch": 4,
}


def document(**changes: Any) -> dict[str, Any]:
    """An experiment with a search; other top-level fields take the place of these."""
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "Experiment",
        "name": "small",
        "inputs": [{"name": "made", "generator": CLUSTER}],
        "seeds": {"count": 6},
        "measures": ["allocated", "pending"],
        "search": SEARCH,
        **changes,
    }


def write_document(folder: Path, body: dict[str, Any]) -> Path:
    """The file of an experiment."""
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


def reading_of(folder: Path, body: dict[str, Any]) -> ExperimentReading:
    """The document, read from a file."""
    return reading_at(write_document(folder, body))


def experiment_of(folder: Path, body: dict[str, Any]) -> Experiment:
    """The same, without problems."""
    return experiment_at(write_document(folder, body))
