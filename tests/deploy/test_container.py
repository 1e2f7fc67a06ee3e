"""The image as a container engine builds and runs it: as a user who may do nothing, it places pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.scheduling import make_node, make_pod, pods_of
from tests.deploy.chart import NAMESPACE, account_kubeconfig, installed_configuration, of_kind, released, rendered
from tests.deploy.container import (
    account_mount,
    build_image,
    image_facts,
    inside,
    podman,
    require_podman,
    running,
)
from tests.patience import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    require_podman()
    build_image()


@pytest.fixture
def scheduler(empty_control_plane: ControlPlane, tmp_path: Path) -> Iterator[str]:
    """The scheduler of an installed release in a container, with what a kubelet would give it."""
    plane, (port,) = empty_control_plane, free_ports(1)
    values = ("scheduler.extraArgs[0]=--bind-address=127.0.0.1", f"scheduler.extraArgs[1]=--secure-port={port}")
    with released(plane, *values):
        (container,) = of_kind(rendered(*values), "Deployment")["moorage-scheduler"]["spec"]["template"]["spec"][
            "containers"
        ]
        user = yaml.safe_load(account_kubeconfig(plane, tmp_path, "scheduler").read_text())["users"][0]["user"]
        config = tmp_path / "config"
        config.mkdir()
        installed_configuration(plane, config)
        authority = (plane.token_folder / "ca.crt").read_bytes()
        mounts = {"/etc/moorage": config, **account_mount(tmp_path / "account", user["token"], authority, NAMESPACE)}
        host, _, at = plane.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": at, "POD_NAMESPACE": NAMESPACE}
        with running(container, mounts, environ) as name:
            yield name


def test_a_container_places_pods(empty_control_plane: ControlPlane, scheduler: str) -> None:
    """It runs as 65532 without capabilities on a root that cannot be written, and binds what is pending."""
    plane = empty_control_plane
    make_node(plane, "n1")
    make_node(plane, "n2")
    for number in range(20):
        make_pod(plane, f"p{number}")

    def bound() -> bool:
        return all(pod["spec"].get("nodeName") for pod in pods_of(plane))

    try:
        eventually(bound, 60, "all pods are bound")
    except AssertionError:
        pytest.fail(podman("logs", scheduler))
    assert {pod["spec"]["nodeName"] for pod in pods_of(plane)} == {"n1", "n2"}
    status = dict(line.split(":\t", 1) for line in inside(scheduler, "cat", "/proc/1/status").splitlines())
    assert status["Uid"].split() == ["65532"] * 4
    assert status["Gid"].split() == ["65532"] * 4
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    refused = inside(
        scheduler, "sh", "-c", "for d in / /opt/moorage /etc /var/tmp; do touch $d/x 2>&1; done; touch /tmp/x"
    )
    assert refused.count("Read-only file system") == 4, refused


def test_the_image_says_what_it_is() -> None:
    """Its user, entry point and port, as the Dockerfile has them."""
    facts = image_facts(["User", "Entrypoint", "ExposedPorts"])
    assert facts == {"User": "65532:65532", "Entrypoint": ["moorage"], "ExposedPorts": {"10259/tcp": {}}}


def test_the_other_components_start(tmp_path: Path) -> None:
    """Each command of the chart is known to the image and explains itself."""
    for component in ("extender", "webhook", "keeper", "dashboard"):
        container = {
            "args": [component, "--help"],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        with running(container, {"/etc/moorage": tmp_path}, {}) as name:
            assert podman("wait", name).strip() == "0"
            assert f"moorage {component}" in podman("logs", name)
