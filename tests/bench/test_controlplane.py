"""The real control plane: starts, has the right versions, knows its users, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moorage.bench.controlplane import ControlPlane, ControlPlaneError, Options, User
from tests.patience import await_true

PlaneFactory = Callable[..., ControlPlane]


def output_of(program: Path, *arguments: str) -> str:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def kubectl(plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None) -> str:
    return output_of(plane.binary("kubectl"), f"--kubeconfig={kubeconfig or plane.admin_kubeconfig}", *arguments)


def processes_of(folder: Path) -> list[str]:
    """Command lines that mention the folder, zombies excepted."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def test_versions_are_stamped(control_plane: ControlPlane) -> None:
    """Client, server and helm tell their release, none of them v0.0.0."""
    versions = json.loads(kubectl(control_plane, "version", "-o", "json"))
    for side in ("clientVersion", "serverVersion"):
        assert versions[side]["gitVersion"] == "v1.37.1"
        assert (versions[side]["major"], versions[side]["minor"]) == ("1", "37")
        assert versions[side]["gitTreeState"] == "archive"
        assert not versions[side]["buildDate"].startswith("1970")
    for program, arguments, want in [
        ("kube-apiserver", ["--version"], "Kubernetes v1.37.1"),
        ("kube-scheduler", ["--version"], "Kubernetes v1.37.1"),
        ("kube-controller-manager", ["--version"], "Kubernetes v1.37.1"),
        ("helm", ["version", "--short"], "v3.22.0"),
        ("etcd", ["--version"], "etcd Version: 3.7.0"),
    ]:
        assert want in output_of(control_plane.binary(program), *arguments)


def test_everything_a_test_needs_is_there_at_once(control_plane: ControlPlane) -> None:
    """Namespaces, roles and priority classes exist when start returns."""
    for path in (
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-node-lease",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    ):
        assert control_plane.request("GET", path).status == 200, path


def test_users_have_their_own_rights(fresh_control_plane: PlaneFactory) -> None:
    """Tokens and certificates give exactly the user and groups that they were made for; RBAC is on."""
    plane = fresh_control_plane(users=[User("bob", ("dev", "ops"))])
    me = json.loads(kubectl(plane, "auth", "whoami", "-o", "json", kubeconfig=plane.kubeconfig_for("bob")))
    assert me["status"]["userInfo"]["username"] == "bob"
    assert set(me["status"]["userInfo"]["groups"]) == {"dev", "ops", "system:authenticated"}
    assert plane.request("GET", "/api/v1/nodes", user="bob").status == 403
    assert plane.request("GET", "/api/v1/nodes", user="system:kube-scheduler").status == 200
    assert plane.request("POST", "/api/v1/nodes", node("n"), user="system:kube-scheduler").status == 403
    with pytest.raises(ValueError, match=r"no user 'eve' in this control plane; name it in Options\.users"):
        plane.kubeconfig_for("eve")


def test_client_certificates_log_in(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The plane's authority vouches for any user."""
    certificate, key = control_plane.client_certificate("carol", ["system:masters"])
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    flags = ["--token=", f"--client-certificate={tmp_path / 'crt'}", f"--client-key={tmp_path / 'key'}"]
    flags += [f"--server={control_plane.url}", f"--certificate-authority={control_plane.token_folder / 'ca.crt'}"]
    assert "carol" in output_of(control_plane.binary("kubectl"), "--kubeconfig=/dev/null", *flags, "auth", "whoami")


def test_options_reach_the_server(fresh_control_plane: PlaneFactory) -> None:
    """Gates, served groups, admission plugins, the audit log and free arguments all arrive."""
    plane = fresh_control_plane(
        feature_gates={"GenericWorkload": True},
        runtime_config={"scheduling.k8s.io/v1beta1": True, "policy/v1": False},
        disable_admission_plugins=("TaintNodesByCondition",),
        apiserver_args=("--event-ttl=5m",),
        audit_policy={"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]},
    )
    assert plane.request("GET", "/apis/scheduling.k8s.io/v1beta1/podgroups").status == 200
    assert plane.request("GET", "/apis/policy/v1/poddisruptionbudgets").status == 404
    assert plane.request("POST", "/api/v1/namespaces/default/pods", pod("a")).status == 403
    await_true(lambda: "/api/v1/namespaces/default/pods" in plane.audit_log.read_text())


def test_the_stock_scheduler_and_controllers_work(fresh_control_plane: PlaneFactory) -> None:
    """A deployment's pods are made by the one and bound by the other; both can be stopped and started again."""
    plane = fresh_control_plane()
    assert plane.request("POST", "/api/v1/nodes", node("n1")).status == 201
    kubectl(plane, "create", "deployment", "web", "--image=none", "--replicas=2")
    profile = {"schedulerName": "default-scheduler"}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller")
    plane.start_scheduler().stop()
    plane.start_scheduler("--v=2", config={**config, "profiles": [profile]})

    def bound() -> list[str]:
        pods = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
        return [one["spec"]["nodeName"] for one in pods if "nodeName" in one["spec"]]

    await_true(lambda: bound() == ["n1", "n1"])


def test_a_component_that_cannot_start_says_why(control_plane: ControlPlane) -> None:
    """The error is one line with the program's own words."""
    with pytest.raises(ControlPlaneError, match=r"kube-scheduler ended with code 1: .*unknown flag: --nonsense"):
        control_plane.start_scheduler("--nonsense")


@pytest.mark.usefixtures("control_plane_assets")
def test_a_server_that_cannot_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one line, and etcd, which did start, is gone."""
    monkeypatch.setattr("moorage.bench.controlplane._roomy_folder", lambda: str(tmp_path))
    with pytest.raises(ControlPlaneError, match="unknown flag: --nonsense") as caught:
        ControlPlane.start(Options(apiserver_args=("--nonsense",)))
    assert "\n" not in str(caught.value)
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("control_plane_assets")
def test_an_exception_leaves_nothing_behind() -> None:
    """A failed test stops its plane: no process, no folder."""

    def fail(plane: ControlPlane) -> NoReturn:
        with plane:
            assert len(processes_of(plane.folder)) >= 2
            raise RuntimeError

    plane = ControlPlane.start()
    with pytest.raises(RuntimeError):
        fail(plane)
    assert processes_of(plane.folder) == []
    assert not plane.folder.exists()
    plane.stop()


@pytest.mark.usefixtures("control_plane_assets")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_killed_test_run_leaves_nothing_behind(number: signal.Signals) -> None:
    """Not even SIGKILL of the process that started the plane leaves a process or the folder."""
    script = (
        "import time\nfrom moorage.bench.controlplane import ControlPlane\n"
        "with ControlPlane.start() as plane:\n    print(plane.folder, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert len(processes_of(folder)) >= 2
        process.send_signal(number)
    await_true(lambda: not processes_of(folder))
    await_true(lambda: not folder.exists())


def test_missing_programs_are_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names what to run."""
    monkeypatch.setenv("MOORAGE_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(ControlPlaneError, match=r"no test control plane; build it once .*build\.py$"):
        ControlPlane.start()
