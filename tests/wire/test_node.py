"""Nodes are read as the API means them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.nodes import Node, NodeImage
from moorage.core.pods import Condition
from moorage.core.taints import Taint
from moorage.wire.errors import WireError
from moorage.wire.node import decode_node, node_from_builtin


def read(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Node:
    return node_from_builtin({"metadata": {"name": "n1", **metadata}, "spec": spec, "status": status})


def test_a_whole_node() -> None:
    """Everything that placement reads is there."""
    obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "uid": "u-1",
            "labels": {"zone": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "x": "y"},
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "resourceVersion": "9",
        },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "unschedulable": True,
            "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}],
        },
        "status": {
            "capacity": {"cpu": "5"},
            "allocatable": {"cpu": "3900m", "memory": "16Gi", "pods": "110", "example.com/gpu": "2"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "images": [{"names": ["nginx@sha256:1", "nginx:1", "busybox"], "sizeBytes": 12345}, {"names": None}],
            "declaredFeatures": ["B", "A", "B"],
            "nodeInfo": {"kubeletVersion": "v1.37.1"},
        },
    }
    assert decode_node(json.dumps(obj).encode()) == Node(
        name="n1",
        uid="u-1",
        labels=decode_node(b'{"metadata":{"name":"x","labels":{"zone":"a"}}}').labels,
        annotations=decode_node(b'{"metadata":{"name":"x","annotations":{"x":"y"}}}').annotations,
        taints=(Taint("gpu", "yes", "NoSchedule"), Taint("k", "", "NoExecute")),
        unschedulable=True,
        allocatable=node_from_builtin(obj).allocatable,
        images=(NodeImage(("nginx@sha256:1", "nginx:1", "busybox:latest"), 12345), NodeImage((), 0)),
        features=("A", "B"),
        ready=True,
        created_s=60.0,
        resource_version="9",
    )
    assert node_from_builtin(obj).allocatable == {
        "cpu": 3900,
        "memory": 16 * 2**30,
        "pods": 110,
        "example.com/gpu": 2,
    }


def test_a_bare_node() -> None:
    """What a manifest leaves out is empty, and the node counts as ready."""
    node = node_from_builtin({"metadata": {"name": "n1"}})
    assert node == Node(name="n1", uid="n1")
    assert read() == node


def test_null_means_absent() -> None:
    """Every optional field may be null."""
    spec = dict.fromkeys(("unschedulable", "taints"))
    status = dict.fromkeys(("capacity", "allocatable", "conditions", "images", "declaredFeatures"))
    assert read(spec, status, labels=None, annotations=None, creationTimestamp=None) == read()


def test_capacity_stands_in_for_allocatable() -> None:
    """The API server fills allocatable from capacity; a manifest may not have been there."""
    assert read(status={"capacity": {"cpu": 2, "pods": 5}}).allocatable == {"cpu": 2000, "pods": 5}
    assert read(status={"capacity": {"cpu": 2}, "allocatable": {"cpu": 1}}).allocatable == {"cpu": 1000}


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "True"}], True),
    ],
    ids=str,
)
def test_ready(conditions: list[dict[str, str]], want: bool) -> None:
    """The Ready condition decides."""
    assert read(status={"conditions": conditions}).ready is want


def test_deleting() -> None:
    """A deletion mark is seen."""
    assert read(deletionTimestamp="2026-01-01T00:00:00Z").deleting
    assert not read().deleting


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        ({}, {"allocatable": {"cpu": "4 cores"}}, "status.allocatable.cpu: '4 cores' is not a quantity; "),
        ({}, {"allocatable": {"memory": "-1Gi"}}, "status.allocatable.memory: '-1Gi' is negative; "),
        ({}, {"capacity": {"pods": "many"}}, "status.capacity.pods: 'many' is not a quantity; "),
        ({}, {"allocatable": [1]}, "status.allocatable: [1] does not fit "),
        ({}, {"images": [{"names": [None]}]}, "status.images[0].names[0]: null does not fit "),
        ({"taints": [{"key": "a"}]}, {}, "spec.taints[0].effect is missing; add it"),
        ({"unschedulable": "yes"}, {}, "spec.unschedulable: 'yes' does not fit "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_fields(spec: dict[str, Any], status: dict[str, Any], want: str) -> None:
    """One line names the node, the field and the value, and says what to do."""
    with pytest.raises(WireError) as caught:
        read(spec, status)
    assert str(caught.value).startswith(f"Node n1: {want}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"metadata":{}}', b'{"metadata":null}'], ids=repr)
def test_malformed_objects(data: bytes) -> None:
    """Whatever the bytes are, the answer is one short line."""
    with pytest.raises(WireError) as caught:
        decode_node(data)
    assert len(str(caught.value)) < 200


def test_conditions_that_are_true_are_kept() -> None:
    """What is about to happen to a node. That it is ready, and what is not the case, is not among them."""
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "status": "False"},
        {"type": "VMEventScheduled", "status": "True", "reason": "VMEventScheduled", "message": "Preempt Scheduled"},
    ]
    node = node_from_builtin({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
    assert node.conditions == (Condition("VMEventScheduled", "True", "VMEventScheduled", "Preempt Scheduled"),)
