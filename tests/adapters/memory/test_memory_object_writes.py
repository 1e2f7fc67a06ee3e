"""Writes to other objects on the embedded cluster, with the preconditions of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.manifests import manifest
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.commands import PatchObject, PodRef
from moorage.core.events import PatchDone
from moorage.core.frozen import FrozenDict

POD = PodRef("default", "p", "pod-uid")
PATCH = FrozenDict({"metadata": FrozenDict({"annotations": FrozenDict({"a": "b"})})})


def cluster_with(**fields: Any) -> tuple[EmbeddedCluster, dict[str, Any]]:
    cluster = EmbeddedCluster(SIMULATION)
    made = cluster.create(manifest("ResourceClaim", "c", "default", apiVersion="resource.k8s.io/v1", spec={}, **fields))
    return cluster, dict(made["metadata"])


def test_a_write_to_the_expected_version() -> None:
    """It is merged into the object, and the answer says its new version."""
    cluster, metadata = cluster_with()
    command = PatchObject(POD, "ResourceClaim", "default", "c", PATCH, metadata["uid"], metadata["resourceVersion"])
    answer = CommandRunner(cluster.store).run(command)
    written = cluster.store.get("ResourceClaim", "default", "c")["metadata"]
    assert answer == PatchDone(command, ok=True, version=written["resourceVersion"])
    assert written["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "uid", "version"),
    [
        pytest.param("c", "", "0", id="changed since"),
        pytest.param("c", "another", "", id="made anew"),
        pytest.param("missing", "", "", id="gone"),
    ],
)
def test_a_write_that_must_not_happen(name: str, uid: str, version: str) -> None:
    """It is answered with no, and nothing changes."""
    cluster, _ = cluster_with()
    before = cluster.store.resource_version
    answer = CommandRunner(cluster.store).run(PatchObject(POD, "ResourceClaim", "default", name, PATCH, uid, version))
    assert isinstance(answer, PatchDone)
    assert not answer.ok
    assert answer.message
    assert cluster.store.resource_version == before


def test_consumers_of_a_claim_are_joined_by_uid() -> None:
    """As the API server merges such lists: others stay, and nobody is listed twice."""
    cluster, _ = cluster_with()
    other = {"resource": "pods", "name": "q", "uid": "other"}
    cluster.store.patch_status("ResourceClaim", "default", "c", {"reservedFor": [other], "allocation": {}})
    mine = FrozenDict({"resource": "pods", "name": "p", "uid": "pod-uid"})
    patch = FrozenDict({"status": FrozenDict({"reservedFor": (mine,)})})
    command = PatchObject(POD, "ResourceClaim", "default", "c", patch, subresource="status")
    for _ in range(2):
        CommandRunner(cluster.store).run(command)
    status = cluster.store.get("ResourceClaim", "default", "c")["status"]
    assert status == {"allocation": {}, "reservedFor": [other, dict(mine)]}
