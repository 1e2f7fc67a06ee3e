"""Experiments make the pods of workloads as `moorage simulate` does, which makes them as the controllers do."""

from __future__ import annotations

from pathlib import Path

import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from tests.experiments.clusters import experiment_of, figures, results_of, trace_document
from tests.sim.simulating import places, run

HOST = {"kubernetes.io/hostname": "small"}
OBJECTS = [
    node_manifest("small", cpu="8"),
    node_manifest("large", cpu="64"),
    workload_manifest("Deployment", "web", own={"replicas": 2}, cpu="100m"),
    pod_manifest("whole", cpu="8", nodeSelector=HOST),
]


def test_a_deployment_is_spread_over_hosts_in_experiments(tmp_path: Path) -> None:
    """One of its pods is on the small node, by the default spread, so that a pod that needs all of it waits."""
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    document = trace_document(
        inputs=[{"name": "web", "manifests": ["cluster.yaml"]}], configurations=[{"name": "default"}]
    )
    (result,) = results_of(experiment_of(tmp_path, document)).values()
    assert places(run(OBJECTS))["default/whole"] is None
    assert figures(result)["pending", ""] == 1
