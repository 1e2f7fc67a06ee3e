"""Shipped for plugin authors: builders and the plugin conformance checks. Nothing in Moorage imports it."""

from moorage.testing.builders import make_node, make_node_affinity, make_pod, make_state
from moorage.testing.clusters import GeneratedCluster, generate_cluster
from moorage.testing.conformance import ConformanceError, check_plugin

__all__ = [
    "ConformanceError",
    "GeneratedCluster",
    "check_plugin",
    "generate_cluster",
    "make_node",
    "make_node_affinity",
    "make_pod",
    "make_state",
]
