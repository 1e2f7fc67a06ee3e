"""No field of a pod can be added without saying whether pods that differ in it share a template.

A field that `parse_pod` reads and the key leaves out would give a pod the template of another one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.core.limits import Cutter
from moorage.wire.podspec import (
    ConditionWire,
    ContainerStatusWire,
    ContainerWire,
    NamedWire,
    PodMetadataWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    VolumeWire,
)
from moorage.wire.podtemplate import parse_pod
from moorage.wire.templates import _pod_key, _status_key

OUTSIDE: dict[type, dict[str, Any]] = {
    PodMetadataWire: {
        "name": "b",
        "uid": "b",
        "creation_timestamp": None,
        "deletion_timestamp": None,
        "resource_version": "2",
        "generation": 2,
    },
    PodSpecWire: {
        "node_name": "n1",
        "scheduling_gates": [NamedWire("gate")],
        "volumes": [VolumeWire("v")],
        "active_deadline_seconds": 60,
    },
    PodStatusWire: {
        "phase": "Running",
        "nominated_node_name": "n1",
        "start_time": None,
        "conditions": [ConditionWire("Ready", "True")],
        "container_statuses": [ContainerStatusWire("a")],
        "init_container_statuses": [ContainerStatusWire("a")],
        "resources": msgspec.Raw(b"{}"),
        "allocated_resources": msgspec.Raw(b"{}"),
    },
}
"""What differs from pod to pod (`Pod`, not its template), with another value each. Volumes are read before the key is
made, and are part of it as they were read."""

VALUES: dict[Any, tuple[Any, Any]] = {
    str: ("a", "b"),
    bool: (True, False),
    int: (1, 2),
    msgspec.Raw: (msgspec.Raw(b'"a"'), msgspec.Raw(b'"b"')),
    ContainerWire: ([ContainerWire("a")], [ContainerWire("a"), ContainerWire("b")]),
}
PARTS = (PodMetadataWire, PodSpecWire, PodStatusWire, ContainerWire)
KEYED = [
    (struct, field.name)
    for struct in PARTS
    for field in msgspec.structs.fields(struct)
    if field.name not in OUTSIDE.get(struct, {})
]


def values_for(struct: type, name: str) -> tuple[Any, Any]:
    """Two values that the field may have."""
    field = next(each for each in msgspec.structs.fields(struct) if each.name == name)
    return next(values for kind, values in VALUES.items() if kind.__name__ in str(field.type))


def frame(changed: type | None = None, name: str = "", value: Any = None) -> PodWire:
    """A pod with one field of one part changed."""
    parts: dict[type, Any] = {
        struct: struct() for struct in (PodMetadataWire, PodSpecWire, PodStatusWire, ContainerWire)
    }
    if changed is not None:
        setattr(parts[changed], name, value)
    spec = parts[PodSpecWire]
    spec.containers = spec.containers or [parts[ContainerWire]]
    return PodWire(parts[PodMetadataWire], spec, parts[PodStatusWire])


@pytest.mark.parametrize(("struct", "name"), KEYED, ids=lambda each: getattr(each, "__name__", each))
def test_pods_that_differ_in_it_have_different_keys(struct: type, name: str) -> None:
    """A new field: add it to `_pod_key`, or to OUTSIDE if no template depends on it."""
    first, second = values_for(struct, name)
    keys = [_pod_key(frame(struct, name, value), (), (), ()) for value in (first, second)]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("struct", "name"),
    [(struct, name) for struct, names in OUTSIDE.items() for name in names],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_what_is_not_in_the_key_changes_no_template(struct: type, name: str) -> None:
    """Nor is it in the key in vain."""
    plain, other = frame(), frame(struct, name, OUTSIDE[struct][name])
    templates = [parse_pod(wire, (), (), Cutter()).template for wire in (plain, other)]
    assert templates[0] == templates[1]
    assert _pod_key(plain, (), (), ()) == _pod_key(other, (), (), ())


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(ContainerStatusWire)])
def test_what_containers_hold_is_in_the_key_of_requests(name: str) -> None:
    """Requests of a bound pod depend on all that is read of container statuses."""
    keys = []
    for value in values_for(ContainerStatusWire, name):
        container = ContainerStatusWire()
        setattr(container, name, value)
        keys.append(_status_key(PodStatusWire(container_statuses=[container]), False))
    assert keys[0] != keys[1]
