"""Replicas of `moorage scheduler` as an operator runs them: processes of their own on the real API server."""

from __future__ import annotations

import json
import random
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from moorage.bench.processes import free_ports
from moorage.cli.main import run
from tests.contract.manifests import a_node, a_pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
TERM = "moorage.dev/term"
QUICK = "leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms"
LARGE, FITTING = "600m", 106
"""What a large pod asks for, and how many of them fit on the node."""

# `moorage` whose engine waits, or works without a pause, while a file exists.
TROUBLED = """
import sys, time
from pathlib import Path
from moorage.cli.main import main
from moorage.engine.engine import Engine

hang, busy = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
handle = Engine.handle

def troubled(*args):
    while hang.exists():
        time.sleep(0.05)
    answer = handle(*args)
    if busy.exists():
        until_s = time.monotonic() + 0.4
        while time.monotonic() < until_s:
            pass
        return answer[0], 0.0
    return answer

Engine.handle = troubled
main()
"""


@dataclass
class Replica:
    """A running scheduler."""

    process: subprocess.Popen[bytes]
    log_file: Path
    port: int

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(30)

    def ask(self, path: str) -> tuple[int, str]:
        """Status and text; 0 while nobody listens."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with opener.open(f"https://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        return self.ask("/readyz") == (200, "ok")

    def leads(self, lease: str) -> float:
        """What the metric says."""
        lines = self.ask("/metrics")[1].splitlines()
        prefix = f'leader_election_master_status{{name="{lease}"}} '
        return next((float(line.removeprefix(prefix)) for line in lines if line.startswith(prefix)), -1.0)


class Site:
    """A control plane, a Lease of our own on it, and the replicas that want it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.lease_name = f"moorage-{random.getrandbits(40):x}"
        self.hang, self.busy = folder / "hang", folder / "busy"
        self._grant()

    def _grant(self) -> None:
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
        verbs = ["create", "get", "update", "list", "watch"]
        role = {"metadata": {"name": "electors"}, "rules": [{**rule, "verbs": verbs}]}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SCHEDULER.name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "electors"}
        binding = {"metadata": {"name": "electors"}, "roleRef": reference, "subjects": [subject]}
        for kind, body in (("roles", role), ("rolebindings", binding)):
            answer = self.plane.request("POST", f"{RBAC}/namespaces/kube-system/{kind}", body)
            assert answer.status in {201, 409}, answer.content

    def config(self, timing: str, qps: int = 5000) -> Path:
        file = self.folder / "config.yaml"
        file.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"leaderElection: {{resourceName: {self.lease_name}, {timing}}}\n"
            f"clientConnection: {{qps: {qps}, burst: {qps}}}\n"
            "profiles: [{schedulerName: moorage}]\n"
        )
        return file

    @contextmanager
    def replica(self, name: str, *arguments: str, troubled: bool = False) -> Iterator[Replica]:
        (port,) = free_ports(1)
        log = self.folder / f"{name}.log"
        start = ["-c", TROUBLED, str(self.hang), str(self.busy)] if troubled else ["-m", "moorage"]
        serving = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        serving += ["--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"]
        kubeconfig = ["--kubeconfig", str(self.plane.scheduler_kubeconfig)]
        command = [sys.executable, *start, "scheduler", *kubeconfig, *serving, "--v=5", *arguments]
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield Replica(process, log, port)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()

    def lease(self, name: str = "") -> dict[str, Any]:
        """The spec of the Lease; empty when it does not exist."""
        answer = self.plane.request("GET", f"{LEASES}/{name or self.lease_name}")
        spec: dict[str, Any] = answer.json()["spec"] if answer.status == 200 else {}
        return spec

    def add_pods(self, *names: str, cpu: str = "100m") -> None:
        for name in names:
            answer = self.plane.request("POST", PODS, a_pod(name, cpu=cpu))
            assert answer.status == 201, answer.content

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.request("GET", PODS).json()["items"]
        return found

    def term_of(self, name: str) -> str:
        """The term in which a pod was bound; empty while it is not."""
        pod = self.plane.request("GET", f"{PODS}/{name}").json()
        return pod["metadata"].get("annotations", {}).get(TERM, "") if pod["spec"].get("nodeName") else ""

    def settled(self) -> bool:
        """Whether every pod is bound, or was told that it does not fit."""
        reasons = [
            "Bound" if pod["spec"].get("nodeName") else condition.get("reason")
            for pod in self.pods()
            for condition in pod["status"].get("conditions", [{}])
        ]
        return set(reasons) <= {"Bound", "Unschedulable"}

    def terms(self) -> Counter[str]:
        bound = [pod for pod in self.pods() if pod["spec"].get("nodeName")]
        return Counter(pod["metadata"]["annotations"][TERM] for pod in bound)


def eventually(condition: Callable[[], bool], what: str, *replicas: Replica, within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        logs = "\n".join(f"--- {each.log_file.name}\n{each.log[-6000:]}" for each in replicas)
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}\n{logs}"
        time.sleep(0.02)


@pytest.fixture
def site(empty_control_plane: ControlPlane, tmp_path: Path) -> Site:
    """Give a site with one large node."""
    assert empty_control_plane.request("POST", "/api/v1/nodes", a_node("n", cpu="64", pods="500")).status == 201
    return Site(empty_control_plane, tmp_path)


def error_lines(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("error:")]


def test_a_standby_takes_over_from_a_leader_that_is_told_to_stop(site: Site) -> None:
    """With the default durations: it does not wait until the lease expires. The standby is ready all the time."""
    config = str(site.config("leaderElect: true"))
    with site.replica("a", "--config", config) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            assert (a.leads(site.lease_name), b.leads(site.lease_name)) == (1.0, 0.0)
            eventually(lambda: "lock is held by" in b.log, "the standby says who leads", b)
            a.signal(signal.SIGTERM)
            site.add_pods("second")
            eventually(lambda: bool(site.term_of("second")), "the second pod is bound", a, b, within_s=10)
            assert a.ended() == 0
            holder = site.lease()["holderIdentity"]
            assert site.term_of("second") == f"1/{holder}"
            assert site.term_of("first").startswith("0/")
            assert b.leads(site.lease_name) == 1.0
            for want in ("new leader elected", "successfully acquired lease"):
                assert want in b.log
            eventually(lambda: "successfully renewed lease" in b.log, "the lease is renewed", b)
            b.signal(signal.SIGTERM)
            assert b.ended() == 0
    assert not site.lease().get("holderIdentity")
    assert not error_lines(a.log + b.log)


def test_a_standby_takes_over_from_a_leader_that_was_killed(site: Site) -> None:
    """As soon as the lease has expired."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            a.signal(signal.SIGKILL)
            site.add_pods("second")
            eventually(lambda: site.term_of("second").startswith("1/"), "the second pod is bound", a, b, within_s=20)


def test_a_leader_whose_loop_hangs_loses_its_lease_and_ends(site: Site) -> None:
    """The thread that renews the lease does not cover for it: one line, exit code 1, and the standby goes on."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config, troubled=True) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            site.hang.touch()
            site.add_pods("second")
            eventually(lambda: site.term_of("second").startswith("1/"), "the second pod is bound", a, b)
            assert a.ended() == 1
    (line,) = error_lines(a.log)
    assert "leadership lost: the loop of this process has shown no sign of life" in line
    assert "Traceback" not in a.log


def test_a_leader_whose_loop_is_busy_keeps_its_lease(site: Site) -> None:
    """Turns without a pause, each almost as long as a retry period, for longer than the lease lives."""
    config = str(site.config(QUICK))
    with (
        site.replica("a", "--config", config, troubled=True) as a,
        site.replica("b", "--config", config, troubled=True) as b,
    ):
        site.busy.touch()
        eventually(lambda: bool(site.lease().get("holderIdentity")), "somebody leads", a, b)
        holder = site.lease()["holderIdentity"]
        renewed = set()

        def renewals() -> int:
            renewed.add(site.lease()["renewTime"])
            return len(renewed)

        eventually(lambda: renewals() > 8, "the lease is renewed", a, b)
        assert site.lease()["holderIdentity"] == holder
        assert site.lease()["leaseTransitions"] == 0
        assert (a.process.poll(), b.process.poll()) == (None, None)


def test_a_leader_that_was_suspended_binds_nothing_in_its_old_term(site: Site) -> None:
    """It has binds to send when it wakes up, and sends none. What both bound fits, and no pod was bound twice."""
    config = str(site.config(QUICK, qps=20))  # slow, so that binds wait in the queue when the leader is stopped
    names = [f"p{number}" for number in range(120)]
    with site.replica("a", "--config", config) as a:
        eventually(lambda: a.leads(site.lease_name) == 1.0, "the first leads", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            site.add_pods(*names, cpu=LARGE)
            eventually(lambda: sum(site.terms().values()) >= 10, "some pods are bound", a)
            a.signal(signal.SIGSTOP)
            eventually(lambda: len(site.terms()) == 2, "the standby binds", b)
            old = next(term for term in site.terms() if term.startswith("0/"))
            before = site.terms()[old]
            a.signal(signal.SIGCONT)
            assert a.ended() == 1
            eventually(site.settled, "every pod is bound or known not to fit", b, within_s=200)
            assert sum(site.terms().values()) == FITTING
            assert site.terms()[old] == before
            events = site.plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
            scheduled = Counter(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled")
            assert set(scheduled.values()) == {1}
    (line,) = error_lines(a.log)
    assert "leadership lost:" in line


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["told to stop", "killed"])
def test_nothing_is_overcommitted_when_leaders_change_in_the_middle_of_a_burst(
    site: Site, ending: signal.Signals
) -> None:
    """The new leader reads the cluster anew before its first decision."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config) as a:
        eventually(lambda: a.leads(site.lease_name) == 1.0, "the first leads", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            for number in range(150):
                site.add_pods(f"p{number}", cpu=LARGE)
                if number == 75:
                    a.signal(ending)
            eventually(site.settled, "every pod is bound or known not to fit", b, within_s=200)
            assert sum(site.terms().values()) == FITTING
            assert len(site.terms()) == 2


@pytest.mark.parametrize(
    ("arguments", "want_lease"),
    [
        pytest.param([], False, id="no configuration"),
        pytest.param(["--leader-elect"], True, id="no configuration but the flag"),
        pytest.param(["--config", "CONFIG", "--leader-elect=false"], False, id="the flag turns it off"),
        pytest.param(["--leader-elect", "--dry-run"], False, id="dry runs write nothing"),
    ],
)
def test_who_takes_part_in_an_election(site: Site, arguments: list[str], want_lease: bool) -> None:
    """Whoever was asked to. Without a configuration that is nobody, and the lease has its default name."""
    site.plane.request("DELETE", f"{LEASES}/moorage")
    config = str(site.config(QUICK))
    given = [config if each == "CONFIG" else each for each in arguments]
    with site.replica("a", *given) as a:
        eventually(lambda: "profiles=" in a.log, "it schedules", a)
        lease = site.lease("moorage")
        assert bool(lease) == want_lease
        assert not site.lease()
        a.signal(signal.SIGTERM)
        assert a.ended() == 0
        if want_lease:
            assert lease["leaseDurationSeconds"] == 15
            assert not site.lease("moorage").get("holderIdentity")


def test_a_replica_without_permission_says_so_and_stands_by(site: Site, tmp_path: Path) -> None:
    """Once, in words that name the lease; it goes on trying, and is ready meanwhile."""
    config = tmp_path / "elsewhere.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"leaderElection: {{resourceNamespace: default, {QUICK}}}\nprofiles: [{{schedulerName: moorage}}]\n"
    )
    with site.replica("a", "--config", str(config), "--log-format=json") as a:
        eventually(lambda: "failed to acquire or renew lease" in a.log, "it complains", a)
        assert a.ready()
        a.signal(signal.SIGTERM)
        assert a.ended() == 0
    lines = [json.loads(line) for line in a.log.splitlines() if line.startswith("{")]
    (complaint,) = [line for line in lines if line["event"].startswith("failed to acquire or renew lease")]
    assert complaint["lease"] == "default/moorage"
    assert "forbidden" in complaint["error"]


def test_the_flag_is_checked_like_the_configuration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the file says of an election that it turns off matters once the flag turns it on."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false, leaseDuration: 5s, resourceName: kube-scheduler}\n"
    )
    assert run(["scheduler", "--config", str(config), "--leader-elect"]) == 2
    said = capfd.readouterr().err
    assert f"error: {config}: leaderElection.leaseDuration" in said
    assert "note: " in said
    assert "the lease that a stock kube-scheduler holds" in said
