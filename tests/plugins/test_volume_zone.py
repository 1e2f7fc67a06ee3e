"""Bound volumes keep their pods in their zones."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.pods import PodVolume
from moorage.framework.changes import Change, What
from moorage.plugins.volume_zone import VolumeZone
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.storage import claims, make_claim, make_class, make_volume, put

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
REASON = ("node(s) had no available volume zone", False)

ZONES = [
    pytest.param({ZONE: "x"}, {"x": True, "y": False, "old": False, "bare": True}, id="one zone"),
    pytest.param({ZONE: "x__y"}, {"x": True, "y": True, "old": False, "bare": True}, id="two zones"),
    pytest.param({BETA: "x"}, {"x": True, "y": False, "old": True, "bare": True}, id="the volume has the old label"),
    pytest.param({ZONE: "x__"}, {"x": True, "y": True, "old": True, "bare": True}, id="a broken label means nothing"),
    pytest.param({REGION: "r"}, {"x": False, "y": False, "old": False, "bare": True}, id="region that no node has"),
    pytest.param({ZONE: "x", REGION: "r"}, {"x": False, "y": False, "old": False, "bare": True}, id="both must match"),
]


@pytest.mark.parametrize(("labels", "want"), ZONES)
def test_filter(labels: dict[str, str], want: dict[str, bool]) -> None:
    """Every label of the volume must be on the node; a node without any such label takes all volumes."""
    nodes = [
        make_node("x", zone="x"),
        make_node("y", zone="y"),
        make_node("old", labels={BETA: "x"}),
        make_node("bare"),
    ]
    state = put(make_state(nodes), make_claim("c", volume="v"), make_volume("v", labels=labels))
    answer = ask(VolumeZone(), state, make_pod("p", volumes=claims("c")))
    reasons = answer.reasons or dict.fromkeys(want, ())
    assert reasons == {node: () if fits else (REASON,) for node, fits in want.items()}


REFUSALS = [
    pytest.param([], 'persistentvolumeclaim "c" not found', id="no claim"),
    pytest.param([make_claim("c", volume="v")], 'persistentvolume "v" not found', id="no volume"),
    pytest.param(
        [make_claim("c", storage_class=None)],
        "PersistentVolumeClaim had no pv name and storageClass name",
        id="neither volume nor class",
    ),
    pytest.param([make_claim("c")], 'storageclass.storage.k8s.io "wait" not found', id="no class"),
    pytest.param([make_class(wait=False), make_claim("c")], "PersistentVolume had no name", id="immediate"),
]


@pytest.mark.parametrize(("objects", "want"), REFUSALS)
def test_pre_filter_refuses(objects: list[Any], want: str) -> None:
    """A volume that cannot be found is in no zone."""
    state = put(make_state([make_node("n")]), *objects)
    assert ask(VolumeZone(), state, make_pod("p", volumes=claims("c"))).refusal == (want,)


@pytest.mark.parametrize(
    ("volumes", "objects"),
    [
        pytest.param((), [], id="no volumes"),
        pytest.param(claims("c"), [make_class(), make_claim("c")], id="the volume is yet to be chosen"),
        pytest.param(claims("c"), [make_claim("c", volume="v"), make_volume("v")], id="no zone"),
        pytest.param((PodVolume(claim="p-v", ephemeral=True),), [], id="ephemeral volumes are not looked at"),
    ],
)
def test_pre_filter_skips(volumes: tuple[PodVolume, ...], objects: list[Any]) -> None:
    """Nothing to compare."""
    state = put(make_state([make_node("n", zone="z")]), *objects)
    assert ask(VolumeZone(), state, make_pod("p", volumes=volumes)).filter_skipped


def test_what_wakes() -> None:
    """Of claims only the pod's own."""
    template = make_pod("p", volumes=claims("c")).template
    assert VolumeZone().helps(template, Change(What.OBJECT, kind="PersistentVolumeClaim", key="default/c"))
    assert not VolumeZone().helps(template, Change(What.OBJECT, kind="PersistentVolumeClaim", key="other/c"))
    assert not VolumeZone().concerns(make_pod("q").template, make_state())


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(VolumeZone)
