"""A pod that cannot be read gives one line: kind, name, field, value, remedy."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from moorage.wire.errors import WireError
from moorage.wire.pod import decode_pod, pod_from_builtin

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IS = {"key": "a", "operator": "Is"}


def container(name: str, **requests: object) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "want_path", "want_value"),
    [
        ({"priority": "high"}, "spec.priority", "'high'"),
        ({"priority": 1.5}, "spec.priority", "1.5"),
        ({"containers": "x"}, "spec.containers", "'x'"),
        ({"containers": [container("a", cpu="12qi")]}, "spec.containers[0].resources.requests.cpu", "'12qi'"),
        ({"containers": [container("a", cpu="-1")]}, "spec.containers[0].resources.requests.cpu", "'-1'"),
        ({"containers": [container("a", cpu=[1])]}, "spec.containers[0].resources.requests.cpu", "[1]"),
        ({"containers": [{"name": "a", "resources": [1]}]}, "spec.containers[0].resources", "[1]"),
        ({"containers": [{"name": 1}]}, "spec.containers[0].name", "1"),
        (
            {"initContainers": [{"name": "a", "restartPolicy": "Always", "ports": [{"hostPort": 70000}]}]},
            "spec.initContainers[0].ports[0].hostPort",
            "70000",
        ),
        ({"overhead": {"memory": "1Zi"}}, "spec.overhead.memory", "'1Zi'"),
        ({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu", "'x'"),
        ({"nodeSelector": {"a": "b", "c": True}}, "spec.nodeSelector.c", "true"),
        ({"tolerations": [{"key": 1}]}, "spec.tolerations[0].key", "1"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Maybe"}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            "'Maybe'",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            "0",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IS]}]}}}},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
            "'Is'",
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ""}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
            "''",
        ),
    ],
)
def test_bad_fields(spec: dict[str, Any], want_path: str, want_value: str) -> None:
    """One line names the pod, the field and the value, and says what to do."""
    with pytest.raises(WireError) as caught:
        pod_from_builtin({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec})
    message = str(caught.value)
    assert message.startswith(f"Pod shop/web-0: {want_path}: {want_value} ")
    assert "; " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"", "cannot be read", id="nothing"),
        pytest.param(b"{", "cannot be read", id="truncated"),
        pytest.param(b"\xff\xfe", "cannot be read", id="not utf-8"),
        pytest.param(b'{"metadata":{"name":"\xff"},"spec":{}}', "cannot be read", id="a name that is not utf-8"),
        pytest.param(b'{"metadata":{"name":"a"},"spec":{"priority":1e999}}', "priority: '1e999'", id="a huge number"),
        pytest.param(b'{"metadata":{"name":"a"},"spec":{"priority":3000000000}}', "priority: 3000000000", id="33 bits"),
        pytest.param(
            b'{"metadata":{"name":"a","creationTimestamp":"2026-01-01T00:00:00"},"spec":{}}',
            "creationTimestamp: '2026-01-01T00:00:00'",
            id="a time without an offset",
        ),
        pytest.param(b"null", "the object: null does not fit", id="null"),
        pytest.param(b"[]", "the object: [] does not fit", id="a list"),
        pytest.param(b"{}", "Pod (no name): metadata is missing; add it", id="no metadata"),
        pytest.param(b'{"metadata":{"name":"a"}}', "Pod a: spec is missing; add it", id="no spec"),
        pytest.param(b'{"metadata":{},"spec":{}}', "Pod (no name): metadata.name is missing", id="no name"),
        pytest.param(b'{"metadata":{"name":7},"spec":{}}', "Pod (no name): metadata.name: 7 does not fit", id="number"),
        pytest.param(b'{"metadata":{"name":"a","labels":{"x":1}},"spec":{}}', "metadata.labels.x: 1", id="label"),
        pytest.param(
            b'{"metadata":{"name":"a","creationTimestamp":"now"},"spec":{}}', "creationTimestamp: 'now'", id="time"
        ),
        pytest.param(
            b'{"metadata":{"name":"a"},"spec":{"x":' + b"[" * 9999 + b"]" * 9999 + b"}}", "cannot be read", id="deep"
        ),
    ],
)
def test_malformed_objects(data: bytes, want: str) -> None:
    """Whatever the bytes are, the answer is one short line."""
    with pytest.raises(WireError) as caught:
        decode_pod(data)
    message = str(caught.value)
    assert want in message
    assert "\n" not in message
    assert len(message) < 300


def test_values_that_json_cannot_hold() -> None:
    """An object that is not plain is refused in one line too."""
    with pytest.raises(WireError, match="cannot be written as JSON"):
        pod_from_builtin({"metadata": {"name": object()}})


def test_only_what_is_wrong_is_looked_at() -> None:
    """Of an object with many parts the one that does not fit is shown; the rest is not even made into values."""
    spec = {"containers": [{"name": "c", "image": "i", "args": ["x"] * 100_000}], "priority": "high"}
    data = msgspec.json.encode({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=r"^Pod b/a: spec\.priority: 'high' does not fit"):
            decode_pod(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()
