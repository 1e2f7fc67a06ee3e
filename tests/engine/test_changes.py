"""No field of a node can be added without saying what its change means for waiting pods."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.limits import Excess
from moorage.core.nodes import Node, NodeImage
from moorage.core.pods import Condition, PodVolume
from moorage.core.taints import Taint
from moorage.core.volumes import StorageClass
from moorage.engine.changes import node_change
from moorage.engine.units import Unit
from moorage.framework.changes import Change, What
from moorage.plugins.volume_binding import VolumeBinding
from moorage.testing import make_node, make_pod
from tests.engine.play import Play

BEFORE = Node("n1")
AFTER = Node(
    "n2",
    uid="2",
    labels=FrozenDict({"zone": "a"}),
    annotations=FrozenDict({"a": "b"}),
    taints=(Taint("maintenance"),),
    unschedulable=True,
    allocatable=FrozenDict({"cpu": 1}),
    images=(NodeImage(("app",), 1),),
    features=("a",),
    ready=False,
    conditions=(Condition("MemoryPressure", "True"),),
    deleting=True,
    created_s=1.0,
    resource_version="2",
    excess=(Excess("metadata.labels", 401, 400),),
)
MEANS = {
    "labels": What.NODE_LABELS,
    "annotations": What.NODE_OTHER,
    "taints": What.NODE_TAINTS,
    "unschedulable": What.NODE_TAINTS,
    "allocatable": What.NODE_ALLOCATABLE,
    "images": What.NODE_OTHER,
    "features": What.NODE_OTHER,
}
NOTHING = {
    "name": "is what the node is known by",
    "uid": "another node of that name has its own fields",
    "ready": "the node controller taints",
    "conditions": "the node controller taints; the keeper reads them",
    "deleting": "read by the keeper",
    "created_s": "no rule reads it",
    "resource_version": "no rule reads it",
    "excess": "what counts is in the other fields",
}


@pytest.mark.parametrize("name", [each.name for each in fields(Node)])
def test_what_a_change_of_each_field_means(name: str) -> None:
    """A new field: add it to `node_change` and MEANS, or to NOTHING with the reason."""
    after = getattr(AFTER, name)
    assert after != getattr(BEFORE, name)
    change = node_change(BEFORE, replace(BEFORE, **{name: after}))
    if name in NOTHING:
        assert change is None
    else:
        assert change is not None
        assert change.what == MEANS[name]


def test_pods_are_not_asked_about_objects_that_their_plugins_do_not_read() -> None:
    """Thousands that wait for a claim cost nothing when somebody's Deployment changes, or a pod is deleted."""
    play = Play(VolumeBinding())
    play.see(make_node("n1"), *(make_pod(f"p{n}", volumes=(PodVolume(f"c{n}"),)) for n in range(3)))
    asked: list[Change] = []

    def helps(_name: str, _unit: Unit, change: Change, _now: float) -> bool:
        asked.append(change)
        return False

    play.engine.queue.helps = helps
    play.object_seen("Deployment", "default/d", 1)
    play.see(make_pod("other", node="n1"))
    play.pod_gone("other")
    assert asked == []
    play.object_seen("StorageClass", "fast", StorageClass("fast"))
    assert len(asked) == 3
