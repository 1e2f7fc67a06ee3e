"""All that can be seen of a cluster state, by part, in a form that can be compared."""

from __future__ import annotations

from typing import Any

from moorage.core.state import ClusterState


def fingerprint(state: ClusterState) -> dict[str, Any]:
    """Part of the state -> its content; plugins cannot tell states with equal fingerprints apart."""
    resources = state.resources
    label_keys = sorted({key for row in state.rows() for key in state.node(int(row)).labels})
    columns = {key: state.labels.known(key) for key in label_keys}
    return {
        "nodes": {name: state.node(row) for name in state.node_names() if (row := state.row_of(name)) is not None},
        "pods": {record.pod.uid: (record.node, record.assumed, record.vector[:-1]) for record in state.records()},
        "resource names": tuple(resources.names),
        "allocatable": resources.allocatable.tolist(),
        "requested": resources.requested.tolist(),
        "scored requests": resources.score_requested.tolist(),
        "labels": {key: (c.ids.tolist(), tuple(c.values)) for key, c in columns.items() if c is not None},
        "taints": (state.taints.ids.tolist(), tuple(state.taints.sets)),
        "cordons": state.unschedulable.tolist(),
        "living rows": state.rows().tolist(),
        "ports": state.ports.snapshot(),
        "images": (state.images.version, state.images.snapshot()),
        "nominations": {node: [pod.uid for pod in state.nominations.on(node)] for node in state.nominations.nodes()},
        "objects": {kind: dict(table) for kind, table in state.objects.items()},
        "change logs": (state.node_log.position, state.pod_log.position),
    }
