"""The image on a container engine: built by podman from the Dockerfile, run as the chart's pods run it.

The base image comes from Debian's packages (debootstrap) instead of a registry, and is kept in podman's storage.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.chart import ROOT

BASE = "localhost/moorage-test-base:bookworm"
PROGRAMS = ("podman", "runc", "debootstrap")
"""Each is the name of its package, too."""
IMAGE = "localhost/moorage-test:latest"
_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_AUTHORITIES = "/etc/ssl/certs"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def install_podman() -> None:
    """Install the distribution's packages where they are missing and we may."""
    if not _lacking() or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *PROGRAMS)):
        subprocess.run(("apt-get", "-qq", *arguments), check=False, env=environment)


def _lacking() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def require_podman() -> None:
    """Skip the test where there is no podman with runc, or where it may not be used."""
    if _lacking() or os.geteuid() != 0:
        pytest.skip(f"needs root and the packages {', '.join(PROGRAMS)}; try make container")


def podman(*arguments: str | Path, given: int | None = None) -> str:
    """What podman prints. runc, as crun refuses machines that have cgroups of both versions."""
    command = ["podman", "--runtime", "runc", *map(str, arguments)]
    done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=1024:1024")
"""Lower than the engine's own defaults, which it may not be allowed to set."""


def build_image() -> None:
    """Build the image from the Dockerfile, on a base that is made first if it is not there."""
    if BASE not in podman("images", "--format", "{{.Repository}}:{{.Tag}}").split():
        _make_base()
    # The registry of Python packages may be behind an authority that only this machine knows.
    reach = ["--network=host", f"--volume={_AUTHORITIES}:{_AUTHORITIES}:ro", *LIMITS]
    podman("build", *reach, f"--build-arg=PYTHON={BASE}", f"--tag={IMAGE}", ROOT)


def _make_base() -> None:
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        left_out = [f"--exclude=./{name}/*" for name in ("proc", "sys", "dev", "var/cache/apt", "var/lib/apt/lists")]
        with subprocess.Popen(["tar", "-C", root, "-c", *left_out, "."], stdout=subprocess.PIPE) as tar:
            assert tar.stdout is not None
            podman("import", "-", BASE, given=tar.stdout.fileno())


def hardening(container: Mapping[str, Any]) -> list[str]:
    """The securityContext of a container that the chart rendered, in podman's words."""
    context = container["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # A kubelet mounts no tmpfs of its own accord; the chart has a volume for /tmp.
    plain = ["--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp:rw,size=16m,mode=1777"]
    return [*plain, "--cap-drop=ALL", "--security-opt=no-new-privileges"]


@contextmanager
def running(container: Mapping[str, Any], mounts: Mapping[str, Path], environ: Mapping[str, str]) -> Iterator[str]:
    """A container of the image with the arguments and rights that the chart gives it; its id."""
    volumes = [f"--volume={folder}:{path}:ro" for path, folder in mounts.items()]
    variables = [f"--env={name}={value}" for name, value in environ.items()]
    options = ["--network=host", *LIMITS, *hardening(container), *volumes, *variables]
    name = podman("run", "--detach", *options, IMAGE, *container["args"]).strip()
    try:
        yield name
    finally:
        podman("rm", "--force", "--time=10", name)


def inside(name: str, *command: str) -> str:
    """What a command prints in the container."""
    return podman("exec", name, *command)


def account_mount(folder: Path, token: str, authority: bytes, namespace: str) -> dict[str, Path]:
    """What a kubelet mounts for a service account."""
    folder.mkdir()
    for name, content in {"token": token.encode(), "ca.crt": authority, "namespace": namespace.encode()}.items():
        (folder / name).write_bytes(content)
    return {_ACCOUNT: folder}


def image_facts(fields: Sequence[str]) -> dict[str, Any]:
    """These fields of the image's configuration."""
    (found,) = json.loads(podman("image", "inspect", IMAGE))
    return {name: found["Config"].get(name) for name in fields}


if __name__ == "__main__":
    install_podman()
