"""What operators and Prometheus see of a running scheduler, compared with what the real kube-scheduler shows them."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from moorage.adapters.metrics.tally import exponential_bounds
from moorage.bench.controlplane import ADMIN, ControlPlane
from moorage.bench.processes import free_ports
from tests.app.serving import ask, eventually, running
from tests.contract.manifests import a_node, a_pod, a_priority_class

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
PATHS = ("/metrics", "/metrics/resources", "/metrics/slis", "/configz", "/statusz", "/flagz", "/nothing", "/")


def token_of(plane: ControlPlane, account: str, *paths: str) -> str:
    """A token of a service account that may read these paths."""
    name = {"name": account}
    assert plane.request("POST", ACCOUNTS, {"metadata": name}).status in {201, 409}
    if paths:
        role = {"metadata": name, "rules": [{"nonResourceURLs": list(paths), "verbs": ["get"]}]}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
        binding = {"metadata": name, "roleRef": reference, "subjects": [subject]}
        assert plane.request("POST", f"{RBAC}/clusterroles", role).status in {201, 409}
        assert plane.request("POST", f"{RBAC}/clusterrolebindings", binding).status in {201, 409}
    token: str = plane.request("POST", f"{ACCOUNTS}/{account}/token", {"spec": {}}).json()["status"]["token"]
    return token


@contextmanager
def ready(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A scheduler that is ready, and its port."""
    (port,) = free_ports(1)
    with running(plane, log, f"--secure-port={port}", "--bind-address=127.0.0.1", *arguments) as process:
        eventually(lambda: ask(port, "/readyz") == (200, "ok"), process, log, "the scheduler is ready")
        yield port, process


def test_the_api_server_says_who_may_read_what(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """To everybody the very answer that kube-scheduler gives; health is open, whatever a token is worth."""
    plane, log = empty_control_plane, tmp_path / "log"
    people = {
        "anonymous": "",
        "nobody": "made-up",
        "without rights": token_of(plane, "without-rights"),
        "reader of metrics": token_of(plane, "reader-of-metrics", "/metrics"),
        "reader of pages": token_of(plane, "reader-of-pages", "/statusz", "/flagz", "/configz", "/nothing"),
    }
    stock = plane.start_scheduler()
    try:
        with ready(plane, log) as (port, _):
            for who, token in people.items():
                assert ask(port, "/healthz")[0] == ask(port, "/livez", token)[0] == 200
                for path in PATHS:
                    status, text = ask(port, path, token)
                    want_status, want_text = ask(str(stock.url), path, token)
                    assert status == want_status, f"{who} {path}"
                    if status in {401, 403}:
                        assert json.loads(text) == json.loads(want_text), f"{who} {path}"
            assert ask(port, "/metrics", people["reader of metrics"])[0] == 200
            assert ask(port, "/metrics", people["without rights"])[0] == 403
    finally:
        stock.kill()


def test_a_certificate_of_the_clusters_authority_will_do(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """As for the API server itself, whose list of authorities is used; and of nobody else's."""
    plane, log = empty_control_plane, tmp_path / "log"
    cert, key = tmp_path / "admin.crt", tmp_path / "admin.key"
    for file, content in zip((cert, key), plane.client_certificate("operator", ["system:masters"]), strict=True):
        file.write_bytes(content)

    def curl(port: int) -> str:
        command = ["curl", "-ks", "-o", "/dev/null", "-w", "%{http_code}", "--cert", str(cert), "--key", str(key)]
        done = subprocess.run([*command, f"https://127.0.0.1:{port}/metrics"], capture_output=True, check=False)
        return done.stdout.decode()

    with ready(plane, log) as (port, process):
        eventually(lambda: curl(port) == "200", process, log, "the certificate is accepted")
        pair = trustme.CA().issue_cert("x", common_name="operator", organization_name="system:masters")
        pair.cert_chain_pems[0].write_to_path(cert)
        pair.private_key_pem.write_to_path(key)
        assert curl(port) != "200"


def families(text: str) -> dict[str, tuple[str, list[Sample]]]:
    return {family.name: (family.type, family.samples) for family in text_string_to_metric_families(text)}


def labels_of(samples: list[Sample]) -> set[frozenset[str]]:
    return {frozenset(sample.labels) - {"le"} for sample in samples}


def bounds_of(samples: list[Sample]) -> set[float]:
    return {float(sample.labels["le"]) for sample in samples if "le" in sample.labels}


RARE = {
    "scheduler_permit_wait_duration_seconds": ({"result"}, exponential_bounds(0.001, 2, 15)),
    "scheduler_plugin_execution_duration_seconds": (
        {"extension_point", "plugin", "status"},
        exponential_bounds(0.00001, 1.5, 20),
    ),
    "scheduler_queueing_hint_execution_duration_seconds": (
        {"event", "hint", "plugin"},
        exponential_bounds(0.00001, 1.5, 20),
    ),
    "scheduler_inflight_events": ({"event"}, ()),
    "scheduler_podgroup_schedule_attempts": ({"profile", "result"}, ()),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": (
        {"profile", "result"},
        exponential_bounds(0.001, 2, 15),
    ),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": (set(), exponential_bounds(0.001, 2, 15)),
    "scheduler_dra_bindingconditions_allocations": ({"profile", "driver", "status"}, ()),
    "scheduler_dra_bindingconditions_wait_duration_seconds": (
        {"profile", "driver", "status"},
        exponential_bounds(0.1, 2, 14),
    ),
}
"""Those that kube-scheduler shows only after it has waited, took a sample, or with a gate: their labels and buckets."""


@pytest.fixture(scope="module")
def pages(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The same little story, with kube-scheduler and with Moorage: what each of them tells of it, by path."""
    from tests.controlplane_fixtures import clear  # noqa: PLC0415

    plane, log = control_plane, tmp_path_factory.mktemp("story") / "log"
    found: dict[str, dict[str, str]] = {}
    admin = plane.token_of(ADMIN.name)
    for name in ("default-scheduler", "moorage"):
        clear(plane)
        vip = {**a_priority_class("vip", 1000), **EVICTS}
        assert plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", vip).status == 201
        assert plane.request("POST", "/api/v1/nodes", a_node("n", cpu="2")).status == 201
        if name == "moorage":
            with ready(plane, log) as (port, _):
                found[name] = tell_story(plane, f"https://127.0.0.1:{port}", name, admin)
        else:
            stock = plane.start_scheduler()
            try:
                found[name] = tell_story(plane, str(stock.url), name, admin)
            finally:
                stock.kill()
    clear(plane)
    return found


EVICTS = {"preemptionPolicy": "PreemptLowerPriority"}
AMOUNTS = {
    "requests": {"cpu": "1", "memory": "1Gi"},
    "limits": {"cpu": "1500m", "memory": "2Gi"},
}


def tell_story(plane: ControlPlane, url: str, scheduler: str, admin: str) -> dict[str, str]:
    """A pod fits, one never will, one makes room for itself; then both wake up in vain."""

    def wait(line: str, path: str = "/metrics") -> None:
        pattern = re.compile(line)
        for _ in range(600):
            if pattern.search(ask(url, path, admin)[1]):
                return
            time.sleep(0.05)
        told = [each for each in ask(url, "/metrics", admin)[1].splitlines() if "scheduler_" in each]
        pytest.fail(f"{scheduler}: no line {line} in {told}")

    fits = a_pod("fits", scheduler=scheduler)
    fits["spec"]["containers"][0]["resources"] = AMOUNTS
    for pod in (fits, a_pod("huge", cpu="64", scheduler=scheduler)):
        assert plane.request("POST", PODS, pod).status == 201
    wait(r'schedule_attempts_total\{.*result="scheduled".*\} 1')
    wait(r'schedule_attempts_total\{.*result="unschedulable".*\} [1-9]')
    bound = 'kube_pod_resource_limit.*node="n",pod="fits"'
    wait(bound, "/metrics/resources")
    resources = ask(url, "/metrics/resources", admin)[1]
    vip = a_pod("vip", cpu="2", scheduler=scheduler, priorityClassName="vip")
    assert plane.request("POST", PODS, vip).status == 201
    wait(r"preemption_victims_count [1-9]")
    assert plane.request("DELETE", f"{PODS}/fits", {"gracePeriodSeconds": 0}).status in {200, 404}
    wait(r'schedule_attempts_total\{.*result="scheduled".*\} 2')
    assert plane.request("PATCH", "/api/v1/nodes/n", {"metadata": {"labels": {"a": "b"}}}).status == 200
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    grown = {"status": {"capacity": amounts, "allocatable": amounts}}
    assert plane.request("PATCH", "/api/v1/nodes/n/status", grown).status == 200
    return {"/metrics": ask(url, "/metrics", admin)[1], "/metrics/resources": resources}


def test_metrics_are_kube_schedulers(pages: dict[str, dict[str, str]]) -> None:
    """Those with its names have its types, its labels and its buckets, so that dashboards and alerts work."""
    stock, ours = families(pages["default-scheduler"]["/metrics"]), families(pages["moorage"]["/metrics"])
    shared = {name for name in ours if name.startswith("scheduler_")}
    assert shared - stock.keys() <= RARE.keys()
    for name, (labels, bounds) in RARE.items():
        _, samples = ours[name]
        if samples:
            assert labels_of(samples) == {frozenset(labels)}, name
            assert bounds_of(samples) == ({*bounds, math.inf} if bounds else set()), name
    for name in shared & stock.keys():
        (kind, samples), (want_kind, want_samples) = ours[name], stock[name]
        assert kind == want_kind, name
        if samples and want_samples:
            assert labels_of(samples) == labels_of(want_samples), name
            assert bounds_of(samples) == bounds_of(want_samples), name


STABLE = (
    "schedule_attempts", "scheduling_attempt_duration_seconds", "preemption_victims", "preemption_attempts",
    "pending_pods", "pod_scheduling_attempts", "framework_extension_point_duration_seconds", "queue_incoming_pods",
    "scheduling_algorithm_duration_seconds", "pod_scheduling_sli_duration_seconds", "plugin_execution_duration_seconds",
    "plugin_evaluation", "unschedulable_pods", "goroutines", "cache_size", "event_handling_duration_seconds",
    "inflight_events",
)  # fmt: skip


@pytest.mark.parametrize("name", STABLE)
def test_what_dashboards_read_is_there(pages: dict[str, dict[str, str]], name: str) -> None:
    """With samples, after a pod was bound, one was not, and one was evicted."""
    _, samples = families(pages["moorage"]["/metrics"])[f"scheduler_{name}"]
    assert samples


def test_points_plugins_and_events_have_known_names(pages: dict[str, dict[str, str]]) -> None:
    """What both tell of is told with the same words."""
    stock, ours = families(pages["default-scheduler"]["/metrics"]), families(pages["moorage"]["/metrics"])

    def values(page: dict[str, tuple[str, list[Sample]]], name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in page[name][1]}

    points = "scheduler_framework_extension_point_duration_seconds"
    assert {"PreFilter", "Filter", "PostFilter", "Bind", "PreEnqueue"} <= values(ours, points, "extension_point")
    assert values(ours, points, "extension_point") <= {
        *values(stock, points, "extension_point"), "Score", "ScoreExtensionNormalize", "PreScore", "Permit",
    }  # fmt: skip
    incoming = "scheduler_queue_incoming_pods"
    assert values(ours, incoming, "event") & values(stock, incoming, "event") >= {
        "UnscheduledPodAdd", "ScheduleAttemptFailure", "AssignedPodDelete",
    }  # fmt: skip
    assert values(ours, "scheduler_unschedulable_pods", "plugin") == {"NodeResourcesFit"}


def test_resources_of_pods_are_told_alike(pages: dict[str, dict[str, str]]) -> None:
    """The same pods with the same labels and amounts, whichever scheduler reports them."""

    def told(scheduler: str) -> set[tuple[Any, ...]]:
        page = families(pages[scheduler]["/metrics/resources"])
        assert page["kube_pod_resource_request"][0] == "gauge"
        samples = [sample for _, found in page.values() for sample in found]
        return {
            (sample.name, *sorted({**sample.labels, "scheduler": ""}.items()), sample.value)
            for sample in samples
            if sample.labels["scheduler"] == scheduler
        }

    assert told("moorage") == told("default-scheduler")
    assert {line[0] for line in told("moorage")} == {"kube_pod_resource_request", "kube_pod_resource_limit"}


def lines_of(log: Path, text: str) -> list[dict[str, Any]]:
    """The log lines with this text, of a scheduler that writes JSON."""
    found = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == text]


def test_a_dump_tells_what_the_scheduler_knows(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """On SIGUSR2: nodes with what is requested and offered and their pods, and who waits for what."""
    plane, log = empty_control_plane, tmp_path / "log"
    assert plane.request("POST", "/api/v1/nodes", a_node("n")).status == 201
    with ready(plane, log, "--log-format=json", "-v=2") as (_, process):
        for pod in (a_pod("fits"), a_pod("huge", cpu="64")):
            assert plane.request("POST", PODS, pod).status == 201
        bound, waits = "Successfully bound pod to node", "Unable to schedule pod; no fit; waiting"
        eventually(lambda: bool(lines_of(log, bound) and lines_of(log, waits)), process, log, "both were decided on")
        process.send_signal(signal.SIGUSR2)
        eventually(lambda: bool(lines_of(log, "Dump of queued pod")), process, log, "the dump is written")
        (node,) = lines_of(log, "Dump of cached NodeInfo")
        assert node["node"] == "n"
        assert node["requested"]["cpu"] == "1"
        assert node["allocatable"]["cpu"] == "4"
        assert [name.partition(" ")[0] for name in node["pods"]] == ["default/fits"]
        (entry,) = [line for line in lines_of(log, "Dump of queued pod") if line["pod"] == "default/huge"]
        assert entry["queue"] == "unschedulable"
        assert entry["rejectedBy"] == ["NodeResourcesFit"]
        assert entry["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert entry["story"][0].endswith(" is queued, to be tried (UnscheduledPodAdd)")
        assert entry["story"][-1].endswith(" waits for a change that may help")


@pytest.mark.parametrize(
    ("verbosity", "want"),
    [
        pytest.param("0", [], id="quiet"),
        pytest.param("2", ["Successfully bound pod to node"], id="decisions"),
        pytest.param(
            "5", ["Attempting to bind pod to node", "Successfully bound pod to node"], id="what is grepped for"
        ),
    ],
)
def test_a_line_for_every_decision(
    empty_control_plane: ControlPlane, tmp_path: Path, verbosity: str, want: list[str]
) -> None:
    """With pod, node and how many nodes were looked at and would do."""
    plane, log = empty_control_plane, tmp_path / "log"
    for node in (a_node("n"), a_node("small", cpu="100m")):
        assert plane.request("POST", "/api/v1/nodes", node).status == 201
    with ready(plane, log, "--log-format=json", f"--v={verbosity}") as (_, process):
        assert plane.request("POST", PODS, a_pod("p")).status == 201
        eventually(
            lambda: plane.request("GET", f"{PODS}/p").json()["spec"].get("nodeName") == "n", process, log, "bound"
        )
        process.terminate()
        assert process.wait(20) == 0
    lines = [line for line in map(json.loads, log.read_text().splitlines()) if line.get("pod") == "default/p"]
    decisions = [line for line in lines if "evaluatedNodes" in line]
    assert [line["event"] for line in decisions] == want
    for line in decisions:
        assert (line["node"], line["evaluatedNodes"], line["feasibleNodes"]) == ("n", 2, 1)
