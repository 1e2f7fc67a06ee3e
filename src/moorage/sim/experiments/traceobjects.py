"""The nodes and pods of a trace as objects of Kubernetes: what GPUs nodes have, and how pods ask for shares of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moorage.core.labelnames import HOSTNAME
from moorage.core.queues import QUEUE_LABEL
from moorage.core.shareasks import (
    ALIBABA_COUNT,
    KAI_FRACTION,
    KOORDINATOR_CORE,
    KOORDINATOR_RATIO,
    NVIDIA_GPU,
    WHOLE,
)
from moorage.core.sharedevices import COUNT, PRODUCT
from moorage.sim.experiments.traces import TraceNode, TracePod

_PODS_PER_NODE = "1000"
_HAMI_SPLIT = 10
_HUNDREDTH = WHOLE // 100
_ALIBABA_MILLI = "alibabacloud.com/gpu-milli"

Asked = tuple[dict[str, str], dict[str, str]]
"""Limits and annotations."""


def _koordinator(gpus: int, milli: int) -> Asked:
    parts = str(gpus * milli // _HUNDREDTH)
    return {KOORDINATOR_CORE: parts, KOORDINATOR_RATIO: parts}, {}


def _kai(gpus: int, milli: int) -> Asked:
    return ({}, {KAI_FRACTION: f"{milli / WHOLE:g}"}) if milli < WHOLE else ({NVIDIA_GPU: str(gpus)}, {})


def _hami(gpus: int, milli: int) -> Asked:
    parts = str(milli // _HUNDREDTH)
    return {NVIDIA_GPU: str(gpus), "nvidia.com/gpumem-percentage": parts, "nvidia.com/gpucores": parts}, {}


def _alibaba(gpus: int, milli: int) -> Asked:
    return {}, {_ALIBABA_MILLI: str(milli), ALIBABA_COUNT: str(gpus)}


REQUESTS: Mapping[str, Callable[[int, int], Asked]] = {
    "koordinator": _koordinator,
    "kai": _kai,
    "hami": _hami,
    "alibaba": _alibaba,
}
"""How pods ask for GPUs, by convention (docs/packing.md)."""
_OFFERS: Mapping[str, Callable[[int], dict[str, str]]] = {
    "koordinator": lambda gpus: {KOORDINATOR_CORE: str(100 * gpus), KOORDINATOR_RATIO: str(100 * gpus)},
    "kai": lambda gpus: {NVIDIA_GPU: str(gpus)},
    "hami": lambda gpus: {NVIDIA_GPU: str(_HAMI_SPLIT * gpus)},
    "alibaba": lambda gpus: {ALIBABA_COUNT: str(gpus), _ALIBABA_MILLI: str(WHOLE * gpus)},
}


def node_object(node: TraceNode, convention: str) -> dict[str, Any]:
    """A node, ready, with its GPUs as the convention counts them."""
    offered = {"cpu": f"{node.cpu_milli}m", "memory": str(node.memory_bytes), "pods": _PODS_PER_NODE}
    labels = {HOSTNAME: node.name, "kubernetes.io/os": "linux"}
    if node.gpus:
        offered |= _OFFERS[convention](node.gpus)
        labels[COUNT] = str(node.gpus)
    if node.model:
        labels[PRODUCT] = node.model
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "status": {"capacity": offered, "allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod_object(pod: TracePod, convention: str) -> dict[str, Any]:
    """A pod that waits, with what it asks for."""
    limits, annotations = REQUESTS[convention](pod.gpus, pod.gpu_milli) if pod.gpus else ({}, {})
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": str(pod.memory_bytes), **limits}
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "priority": pod.priority,
        "containers": [{"name": "main", "image": "main", "resources": {"requests": requests, "limits": limits}}],
    }
    models = [model for model in pod.models.split("|") if model]
    if models:
        term = {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": models}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.name,
            "labels": {QUEUE_LABEL: pod.queue} if pod.queue else {},
            "annotations": annotations,
        },
        "spec": spec,
    }
