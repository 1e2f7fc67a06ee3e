"""What `moorage scheduler` serves while it runs, and how it ends when it cannot serve."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.serving import OPEN, SCHEDULER, ask, eventually, running
from tests.contract.manifests import a_node, a_pod


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
        assert "] serving " not in log.read_text()


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
