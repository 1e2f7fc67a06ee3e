"""Fixtures that give tests a real API server.

`control_plane` is shared by all tests of one pytest process, `empty_control_plane` is the same one without nodes and
pods, and `fresh_control_plane` starts planes of a test's own. Tests that ask for one get the marker `controlplane`.

Tests that need what only newer releases serve say so: `@pytest.mark.since(1, 30, "admission policies")`.

Programs that have not been built are a failure. They are a reason to skip only where somebody said so with
MOORAGE_SKIP_CONTROLPLANE=1, and never in CI.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from moorage.bench.assets import AssetsError, find_assets, kubernetes_version
from moorage.bench.controlplane import ControlPlane, Options

PlaneFactory = Callable[..., ControlPlane]
# What tests leave behind without meaning to keep it, in the order of its removal.
LITTER = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/batch/v1/jobs",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/events",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)
# The API server's own.
KEPT = ("system-cluster-critical", "system-node-critical")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "control_plane_assets" in getattr(item, "fixturenames", ()):
            item.add_marker("controlplane")
        for mark in item.iter_markers("since"):
            major, minor, what = mark.args
            if not serves(major, minor):
                item.add_marker(pytest.mark.skip(f"{what}: from Kubernetes {major}.{minor} on"))


@pytest.fixture(scope="session")
def control_plane_assets() -> None:
    """Fail, or skip where that is wished, when the programs are not there."""
    try:
        find_assets()
    except AssetsError as error:
        if os.environ.get("MOORAGE_SKIP_CONTROLPLANE") == "1" and not os.environ.get("CI"):
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)


def serves(major: int, minor: int) -> bool:
    """Whether the control plane is of this release of Kubernetes or a newer one; True while there is none."""
    try:
        return kubernetes_version(find_assets()) >= (major, minor)
    except AssetsError:
        return True


@pytest.fixture(scope="session")
def control_plane(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    """Share one API server among all tests of this process."""
    with ControlPlane.start() as plane:
        yield plane


@pytest.fixture
def empty_control_plane(control_plane: ControlPlane) -> ControlPlane:
    """Give the shared API server without the pods, nodes, events and disruption budgets of other tests."""
    clear(control_plane)
    return control_plane


@pytest.fixture
def fresh_control_plane(control_plane_assets: None) -> Iterator[PlaneFactory]:  # noqa: ARG001 as above
    """Start API servers of the test's own: `fresh_control_plane(feature_gates={...})` takes the fields of Options."""
    with ExitStack() as planes:

        def start(**options: object) -> ControlPlane:
            return planes.enter_context(ControlPlane.start(Options(**options)))  # type: ignore[arg-type]

        yield start


def clear(plane: ControlPlane) -> None:
    """Remove all workloads, pods, nodes, events, disruption budgets and priority classes, at once and everywhere."""
    for path in LITTER:
        for item in plane.request("GET", path).json()["items"]:
            namespace, name = item["metadata"].get("namespace"), item["metadata"]["name"]
            if name in KEPT:
                continue
            if namespace is not None:
                group, _, kind = path.rpartition("/")
                where = f"{group}/namespaces/{namespace}/{kind}/{name}"
            else:
                where = f"{path}/{name}"
            if item["metadata"].get("finalizers"):
                plane.request("PATCH", where, {"metadata": {"finalizers": None}})
            answer = plane.request("DELETE", where, {"gracePeriodSeconds": 0})
            assert answer.status in {200, 404}, answer.content
