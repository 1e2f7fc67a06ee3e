"""`moorage extender` as an operator runs it: processes of their own on the real API server."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import trustme

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.extender_process import eventually, extender, extender_config, make_node, mutual_tls, status_of
from tests.controlplane_fixtures import clear

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/moorage-extender"


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield empty_control_plane
    empty_control_plane.request("DELETE", LEASE)
    clear(empty_control_plane)


def ask(url: str, verb: str, content: Any, trust: ssl.SSLContext | None = None) -> tuple[int, Any]:
    request = Request(f"{url}/{verb}", json.dumps(content).encode(), {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 - our own
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, error.read().decode()


def make_pod(plane: ControlPlane, name: str, owner: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "web"}}
    if owner is not None:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    spec = {"containers": [{"name": "c", "image": "registry.example/app:v1"}], "terminationGracePeriodSeconds": 0}
    answer = plane.request("POST", PODS, {"kind": "Pod", "metadata": metadata, "spec": spec})
    assert answer.status == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def make_replica_set(plane: ControlPlane, name: str, replicas: int) -> dict[str, str]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    plane.request("DELETE", f"{path}/{name}")
    answer = plane.request("POST", path, {"kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.content
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": answer.json()["metadata"]["uid"]}


def test_it_follows_the_cluster_and_binds(plane: ControlPlane, tmp_path: Path) -> None:
    """What it binds counts at once, what others bind as soon as it is seen; callers without a certificate get 403."""
    for name in ("n1", "n2"):
        make_node(plane, name)
    owner = make_replica_set(plane, "web", 3)
    pods = [make_pod(plane, f"web-{number}", owner) for number in range(3)]
    port = free_ports(1)[0]
    url = f"https://127.0.0.1:{port}"
    tls = mutual_tls(tmp_path)
    config = extender_config("ControllerSpread", binds=True)
    with extender(plane, tmp_path, config, port, *tls.flags()):
        eventually(lambda: status_of(f"{url}/readyz", tls.trust) == 200, "the extender is ready", within_s=30)
        put = partial(ask, url, trust=tls.certified)
        question = {"Pod": pods[0], "Nodes": None, "NodeNames": ["n1", "n2"]}
        order = {"PodName": "web-0", "PodNamespace": "default", "PodUID": pods[0]["metadata"]["uid"], "Node": "n1"}
        for verb, content in (("filter", question), ("bind", order)):
            assert ask(url, verb, content, tls.trust)[0] == 403
        assert put("filter", question)[1]["NodeNames"] == ["n1", "n2"]
        assert put("bind", order) == (200, {"Error": ""})
        assert plane.request("GET", f"{PODS}/web-0").json()["spec"]["nodeName"] == "n1"
        answer = put("filter", {**question, "Pod": pods[1]})[1]
        assert (answer["NodeNames"], answer["FailedNodes"]) == (["n2"], {}), "n1 is passed over, it does not fail"
        assert put("bind", {**order, "PodUID": "another"})[1]["Error"]
        body = {"kind": "Binding", "metadata": {"name": "web-1"}, "target": {"kind": "Node", "name": "n2"}}
        assert plane.request("POST", f"{PODS}/web-1/binding", body).status == 201
        assert put("filter", {**question, "Pod": pods[2]})[1]["NodeNames"] == ["n1", "n2"]
        assert put("prioritize", {**question, "Pod": pods[2]})[0] == 200
        assert put("preempt", {"Pod": pods[2], "NodeNameToMetaVictims": {}}) == (200, {"NodeNameToMetaVictims": {}})


def test_of_two_replicas_one_is_active(plane: ControlPlane, tmp_path: Path) -> None:
    """The standby refuses and says so; when the active one stops, it takes over."""
    make_node(plane, "n1")
    pod = make_pod(plane, "a")
    question = {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]}
    ports = free_ports(2)
    one, two = (f"http://127.0.0.1:{port}" for port in ports)
    config = extender_config("ControllerSpread", elect=True)
    with extender(plane, tmp_path / "one", config, ports[0]) as active:
        eventually(lambda: status_of(f"{one}/readyz") == 200, "the first is active", within_s=30)
        with extender(plane, tmp_path / "two", config, ports[1]):
            eventually(lambda: _says(f"{two}/readyz") == "another replica is active\n", "the second stands by", 30)
            assert status_of(f"{two}/healthz") == 200
            assert ask(two, "filter", question)[0] == 503
            assert ask(one, "filter", question)[1]["NodeNames"] == ["n1"]
            active.terminate()
            assert active.wait(20) == 0
            eventually(lambda: status_of(f"{two}/readyz") == 200, "the second is active", within_s=30)
            assert ask(two, "filter", question)[1]["NodeNames"] == ["n1"]


def _says(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


MISTAKES = {
    "address": (["--listen", "here"], "--listen here: not an address; write HOST:PORT, such as 0.0.0.0:8888"),
    "port": (["--listen", "127.0.0.1:70000"], "--listen 127.0.0.1:70000: not an address"),
    "certificate without key": (["--tls-cert", "FILE"], "--tls-cert needs --tls-key"),
    "key without certificate": (["--tls-key", "FILE"], "--tls-key needs --tls-cert"),
    "no such certificate": (["--tls-cert", "/no/cert", "--tls-key", "FILE"], "--tls-cert /no/cert: cannot be read"),
    "not a certificate": (["--tls-cert", "FILE", "--tls-key", "FILE"], "--tls-cert FILE, --tls-key FILE: not a cert"),
    "no such kubeconfig": (["--kubeconfig", "/no/config"], "/no/config"),
}


@pytest.mark.parametrize(("arguments", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], want: str) -> None:
    """Exit code 2, nothing else."""
    file = tmp_path / "file"
    file.write_text("nothing")
    words = [word.replace("FILE", str(file)) for word in arguments]
    command = [sys.executable, "-m", "moorage", "extender", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert (done.returncode, len(lines)) == (2, 1), done.stderr
    assert want.replace("FILE", str(file)) in lines[0]
    assert "Traceback" not in done.stderr


def test_several_profiles_need_a_name(tmp_path: Path) -> None:
    """Without an ExtenderConfiguration nobody knows whose plugins to run."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a}, {schedulerName: b}]\n"
    )
    command = [sys.executable, "-m", "moorage", "extender", "--config", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "there are several profiles (a, b); name one in the field profile of an ExtenderConfiguration" in done.stderr


def test_tls_and_a_clean_end(plane: ControlPlane, tmp_path: Path) -> None:
    """With a certificate it serves HTTPS; SIGTERM ends it with 0."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    port = free_ports(1)[0]
    more = ("--tls-cert", str(cert), "--tls-key", str(key))
    with extender(plane, tmp_path, extender_config(), port, *more) as process:
        log = tmp_path / "log"
        eventually(partial(_logged, log, f"https://127.0.0.1:{port}"), "it says where it listens", within_s=30)
        eventually(partial(_logged, log, "answering"), "it answers", within_s=30)
        process.terminate()
        assert process.wait(20) == 0
    assert "no plugin to ask" in log.read_text()


def _logged(log: Path, text: str) -> bool:
    return text in log.read_text()
