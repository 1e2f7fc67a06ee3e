"""A stranger's plugin: 20 lines in a wheel of its own, installed beside Moorage, decides wherever Moorage does."""

from __future__ import annotations

import ast
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.docs.environments import Installer, build_wheel, install_wheel
from tests.docs.fences import ROOT
from tests.docs.sessions import Shell

PROJECT = ROOT / "examples" / "plugin"
CONFIG = "examples/plugin/config.yaml"
CHEAP, DEAR = "cheap", "dear"
IMPORTANT = "docs-important"

pytestmark = pytest.mark.xdist_group("docs")


@pytest.fixture(scope="module")
def stranger(installed: Installer, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """An environment that holds Moorage and the plugin, each from its own wheel."""
    shell = installed("stranger")
    install_wheel(shell, build_wheel(PROJECT, tmp_path_factory.mktemp("plugin-wheel")))
    return shell


def test_the_plugin_is_twenty_lines() -> None:
    """Blank lines and docstrings are for the reader; the rest is at most 20 lines."""
    source = (PROJECT / "src" / "cheap_nodes.py").read_text()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    assert len(ast.unparse(tree).replace("\n\n", "\n").splitlines()) <= 20


def test_the_wheels_are_what_runs(stranger: Shell) -> None:
    """Neither Moorage nor the plugin comes from the source tree."""
    program = "import cheap_nodes, moorage; print(cheap_nodes.__file__, moorage.__file__, sep='\\n')"
    for file in stranger.run("python", "-c", program).stdout.split():
        assert Path(file).is_relative_to(stranger.folder.parent / "env"), file


def test_it_passes_the_conformance_checks(stranger: Shell) -> None:
    """The package's own test calls `check_plugin` with a scalar reference."""
    said = stranger.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/plugin/tests")
    assert "2 passed" in said.stdout


def simulated(shell: Shell, *arguments: str) -> dict[str, Any]:
    command = ["moorage", "simulate", "-f", "examples/cluster.yaml", "--explain", "-o", "json", *arguments]
    document: dict[str, Any] = json.loads(shell.run(*command).stdout)
    return {pod["name"]: pod for pod in document["pods"]}


def test_it_decides_in_simulate(stranger: Shell) -> None:
    """The job moves to the cheap node, the important service does not, and the explanation shows whose doing it is."""
    without, with_plugin = simulated(stranger), simulated(stranger, "--config", CONFIG)
    jobs, service = ("report-0", "report-1"), ("web-0", "web-1")
    assert all(without[name]["node"] != "spot-1" for name in jobs)
    assert all(with_plugin[name]["node"] == "spot-1" for name in jobs)
    assert [with_plugin[name]["node"] for name in service] == [without[name]["node"] for name in service]
    for name, want in (("report-0", {"spot-1": 440, "steady-1": 300}), ("web-0", {"spot-1": 0, "steady-1": 0})):
        scores = {node: with_plugin[name]["explain"][node]["scores"]["CheapNodes"] for node in want}
        assert scores == want, "5 times (100 - cents), for pods of low priority only"


def test_its_arguments_are_checked(stranger: Shell) -> None:
    """A slip in the plugin's arguments is found like one in Moorage's own, with its place."""
    text = (stranger.folder / CONFIG).read_text().replace("maxPriority: 0", "maxPriority: low\n          lable: x")
    (stranger.folder / "slips.yaml").write_text(text)
    said = stranger.run("moorage", "validate", "-f", "slips.yaml", check=False)
    assert said.returncode == 1
    lines = said.stdout.splitlines()
    assert len(lines) == 2, said.stdout
    assert all(line.startswith("slips.yaml: profiles[0].pluginConfig[0].args.") for line in lines)


def test_it_is_missed_by_name(installed: Installer) -> None:
    """Where the wheel is not installed, the configuration that names the plugin is refused in one line."""
    said = installed("plain").run("moorage", "simulate", "-f", "examples/cluster.yaml", "--config", CONFIG, check=False)
    errors = [line for line in said.stderr.splitlines() if line.startswith("error:")]
    assert said.returncode == 2
    assert any("CheapNodes" in line and "plugin" in line for line in errors), said.stderr


def test_it_decides_in_scheduler(stranger: Shell, empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """On the real API server pods of low priority go to the cheap node, although the dear one is far larger."""
    plane = empty_control_plane
    make_priority_class(plane, IMPORTANT, 1000)
    make_node(plane, CHEAP, cpu="4", memory="16Gi", cents="5")
    make_node(plane, DEAR, cpu="64", memory="256Gi", cents="80")
    command = ["moorage", "scheduler", "--secure-port", "0", "--config", CONFIG]
    command += ["--kubeconfig", str(plane.scheduler_kubeconfig)]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=stranger.folder,
            env=stranger.environ,
            executable=program(stranger),
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            for number in range(4):
                make_pod(plane, f"batch-{number}")
                make_pod(plane, f"service-{number}", priorityClassName=IMPORTANT)
            eventually(lambda: all(nodes_of_pods(plane).values()) or process.poll() is not None, log)
        finally:
            process.terminate()
            status = process.wait(20)
    assert status == 0, log.read_text()
    want = {f"batch-{n}": CHEAP for n in range(4)} | {f"service-{n}": DEAR for n in range(4)}
    assert nodes_of_pods(plane) == want


def program(shell: Shell) -> str:
    return str(shell.folder.parent / "env" / "bin" / "moorage")


def make_node(plane: ControlPlane, name: str, *, cpu: str, memory: str, cents: str) -> None:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "example.com/cents-per-hour": cents}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    answer = plane.request("POST", "/api/v1/nodes", node)
    assert answer.status == 201, answer.content


def make_priority_class(plane: ControlPlane, name: str, value: int) -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    answer = plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    assert answer.status in {201, 409}, answer.content


def make_pod(plane: ControlPlane, name: str, **more: str) -> None:
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "100m", "memory": "400Mi"}}}
    spec = {"schedulerName": "moorage", "containers": [container], **more}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", pod)
    assert answer.status == 201, answer.content


def nodes_of_pods(plane: ControlPlane) -> dict[str, str]:
    pods = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def eventually(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
