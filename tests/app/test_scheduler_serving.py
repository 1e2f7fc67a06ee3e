"""What `moorage scheduler` serves while it runs, and how it ends when it cannot serve."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.contract.manifests import a_node, a_pod

SCHEDULER = [sys.executable, "-m", "moorage", "scheduler"]
OPEN = "--authorization-always-allow-paths=/*"
"""The documented way to read everything without saying who one is."""


def ask(at: int | str, path: str, token: str = "", accept: str = "") -> tuple[int, str]:
    """Status and text of a port of ours, or of a URL; 0 while nobody listens."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Accept": accept} if accept else {}
    url = at if isinstance(at, str) else f"https://127.0.0.1:{at}"
    try:
        request = urllib.request.Request(url + path, headers=headers)  # noqa: S310 - it is our own
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def eventually(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"not in time: {what}\n{log.read_text()}"
        time.sleep(0.05)


@contextmanager
def running(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*SCHEDULER, "--kubeconfig", str(plane.scheduler_kubeconfig), *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def test_a_running_scheduler_serves_health_metrics_and_configuration(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Ready once it knows the cluster, and its decisions show in the metrics."""
    plane, log = empty_control_plane, tmp_path / "log"
    assert plane.request("POST", "/api/v1/nodes", a_node("n")).status == 201
    (port,) = free_ports(1)
    arguments = [f"--secure-port={port}", "--bind-address", "127.0.0.1", OPEN]
    with running(plane, log, *arguments) as process:
        eventually(lambda: ask(port, "/readyz") == (200, "ok"), process, log, "the scheduler is ready")
        assert ask(port, "/healthz") == ask(port, "/livez") == (200, "ok")
        for pod in (a_pod("fits"), a_pod("does-not", cpu="64")):
            assert plane.request("POST", "/api/v1/namespaces/default/pods", pod).status == 201

        def metrics_say(line: str) -> bool:
            return line in ask(port, "/metrics")[1].splitlines()

        for result in ("scheduled", "unschedulable"):
            line = f'scheduler_schedule_attempts_total{{profile="moorage",result="{result}"}} 1.0'
            eventually(lambda line=line: metrics_say(line), process, log, line)  # type: ignore[misc]
        eventually(lambda: metrics_say('scheduler_cache_size{type="nodes"} 1.0'), process, log, "the node is counted")
        assert metrics_say('scheduler_pending_pods{queue="unschedulable"} 1.0')
        status, text = ask(port, "/configz")
        assert status == 200
        assert json.loads(text)["componentconfig"]["profiles"][0]["schedulerName"] == "moorage"
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


def test_port_zero_serves_nothing(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """The scheduler works all the same."""
    plane, log = empty_control_plane, tmp_path / "log"
    with running(plane, log, "--secure-port", "0") as process:
        eventually(lambda: "scheduling" in log.read_text(), process, log, "the scheduler has started")
        assert "serving" not in log.read_text()


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def run(kubeconfig: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of a scheduler that cannot start."""
    command = [*SCHEDULER, "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("error:")]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Credentials for a server that nobody needs to reach."""
    file = tmp_path / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(content))
    return file


def test_a_taken_port_ends_the_scheduler(kubeconfig: Path) -> None:
    """One line, exit code 2."""
    with taken_port() as port:
        status, errors = run(kubeconfig, f"--secure-port={port}", "--bind-address=127.0.0.1")
    assert status == 2
    assert len(errors) == 1
    assert f"--secure-port 127.0.0.1:{port}" in errors[0]
    assert "taken" in errors[0]


@pytest.mark.parametrize("port", ["65536", "-1", "\N{FULLWIDTH DIGIT ONE}", "1_0", "http"])
def test_what_is_not_a_port_is_wrong_usage(kubeconfig: Path, port: str) -> None:
    """One line that says what a port is, exit code 2."""
    status, errors = run(kubeconfig, f"--secure-port={port}")
    assert status == 2
    assert len(errors) == 1
    assert "is not a port" in errors[0]


def test_a_bad_address_ends_the_scheduler(kubeconfig: Path) -> None:
    """The same for everything else that keeps it from serving."""
    status, errors = run(kubeconfig, "--bind-address", "here", "--secure-port", "1")
    assert status == 2
    assert errors == ["error: --bind-address here: not an IP address; write 127.0.0.1, or 0.0.0.0 for every interface"]
