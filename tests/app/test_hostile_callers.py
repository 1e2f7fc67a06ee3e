"""Clients that may be anybody, at our servers as operators start them: what they send does nothing that lasts."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.extender_process import eventually, extender, extender_config, make_node
from tests.app.webhook_process import KEY, NAME, REGISTRATIONS, bare_pod, review, webhook
from tests.controlplane_fixtures import clear

CORE, APPS = "/api/v1/namespaces", "/apis/apps/v1/namespaces/default"
PODS = f"{CORE}/default/pods"
HALF_A_HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\nX-More: "
HALF_OPEN = 200
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield empty_control_plane
    empty_control_plane.request("DELETE", f"{REGISTRATIONS}/{NAME}")
    clear(empty_control_plane)


def create(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def ask(
    port: int,
    path: str,
    content: Any = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> tuple[int, str]:
    """Status and text of an answer; 0 if there is none."""
    there = ("127.0.0.1", port)
    connection = (
        http.client.HTTPConnection(*there, timeout=60)
        if tls is None
        else http.client.HTTPSConnection(*there, timeout=60, context=tls)
    )
    body = None if content is None else json.dumps(content)
    try:
        connection.request("GET" if body is None else "POST", path, body, {**JSON, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def unverified() -> ssl.SSLContext:
    """TLS of a client that trusts everybody."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def half_open(port: int, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """A request whose head never ends."""
    found = tls.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
    found.sendall(HALF_A_HEAD)
    found.setblocking(False)
    return found


def is_open(connection: ssl.SSLSocket) -> bool:
    try:
        return bool(connection.recv(1 << 16))
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False


@pytest.mark.slow
def test_half_open_requests_are_ended(plane: ControlPlane, tmp_path: Path) -> None:
    """However many there are; probes are answered while they hang."""
    issued, tls = trustme.CA().issue_cert("127.0.0.1"), unverified()
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    (port,) = free_ports(1)
    served = ("--tls-cert", str(cert), "--tls-key", str(key))
    with extender(plane, tmp_path, extender_config("ControllerSpread"), port, *served), ExitStack() as callers:
        eventually(lambda: ask(port, "/readyz", tls=tls)[0] == 200, "the extender is ready", within_s=60)
        hanging = [callers.enter_context(half_open(port, tls)) for _ in range(HALF_OPEN)]
        assert ask(port, "/healthz", tls=tls) == (200, "ok")
        deadline_s = time.monotonic() + 60
        while hanging and time.monotonic() < deadline_s:
            time.sleep(0.2)
            hanging = [each for each in hanging if is_open(each)]
        assert not hanging, f"{len(hanging)} of {HALF_OPEN} are still open"


# --- the extender ---


@contextmanager
def plain_extender(plane: ControlPlane, folder: Path) -> Iterator[int]:
    """A ready extender that verifies nobody; gives its port."""
    (port,) = free_ports(1)
    with extender(plane, folder, extender_config("ControllerSpread"), port):
        eventually(lambda: ask(port, "/readyz")[0] == 200, "the extender is ready", within_s=60)
        yield port


def test_a_forged_bind_binds_nobody(plane: ControlPlane, tmp_path: Path) -> None:
    """Least of all a pod of the system."""
    make_node(plane, "n1")
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    pod = create(plane, f"{CORE}/kube-system/pods", {"metadata": {"name": "victim"}, "spec": spec})
    order = {"PodName": "victim", "PodNamespace": "kube-system", "PodUID": pod["metadata"]["uid"], "Node": "n1"}
    with plain_extender(plane, tmp_path) as port:
        answer = ask(port, "/bind", order)
    found = plane.request("GET", f"{CORE}/kube-system/pods/victim").json()
    assert "nodeName" not in found["spec"], answer


def owned_pod(owner: Mapping[str, Any], name: str, **metadata: Any) -> dict[str, Any]:
    """A pod of a ReplicaSet."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    reference |= {field: owner["metadata"][field] for field in ("name", "uid")}
    pod = bare_pod(None)
    pod["metadata"] = {"name": name, "namespace": "default", "ownerReferences": [reference], **metadata}
    return pod


def replica_set(replicas: int, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": bare_pod()["spec"]}
    metadata: dict[str, Any] = {"name": "web"}
    if owner is not None:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def test_a_forged_question_holds_up_nobody(plane: ControlPlane, tmp_path: Path) -> None:
    """A pod that was made up and claims to be of a workload; the next one of that workload is answered for."""
    for name in ("n1", "n2"):
        make_node(plane, name)
    owner = create(plane, f"{APPS}/replicasets", replica_set(3))
    pod = create(plane, PODS, owned_pod(owner, "web-0"))
    forged = owned_pod(owner, "made-up", uid="made-up")
    with plain_extender(plane, tmp_path) as port:
        ask(port, "/filter", {"Pod": forged, "Nodes": None, "NodeNames": ["n1", "n2"]})
        status, text = ask(port, "/filter", {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]})
    assert (status, json.loads(text)["NodeNames"]) == (200, ["n1", "n2"]), text


# --- the webhook ---


def test_forged_reviews_steer_nobody(plane: ControlPlane, tmp_path: Path) -> None:
    """Reviews of three pods that never come; the three that do come get the rules that they would have got anyway."""
    strategy = "base=3,weight=0,nodeSelector=node-type:ondemand;weight=1,nodeSelector=node-type:spot"
    wanted = replica_set(0)["spec"]
    metadata = {"name": "web", "annotations": {KEY: strategy}}
    deployment = create(plane, f"{APPS}/deployments", {"kind": "Deployment", "metadata": metadata, "spec": wanted})
    owner = create(plane, f"{APPS}/replicasets", replica_set(0, deployment))
    with webhook(plane, tmp_path) as running:
        for _ in range(3):
            forged = review(owned_pod(owner, "made-up"))
            assert ask(running.port, "/mutate", forged, tls=unverified())[0] == 200
        plane.request("PATCH", f"{APPS}/replicasets/web", {"spec": {"replicas": 3}})
        pods = [create(plane, PODS, owned_pod(owner, f"web-{number}")) for number in range(3)]
    assert [pod["spec"].get("nodeSelector") for pod in pods] == [{"node-type": "ondemand"}] * 3


# --- the dashboard ---

TOKEN = "a-token-for-tests-only"
SECRETS = ("env-of-the-pod", "args-of-the-pod")


@contextmanager
def dashboard(plane: ControlPlane, folder: Path) -> Iterator[tuple[int, Path]]:
    """`moorage dashboard --allow-writes` on this machine: its port and its log."""
    log = folder / "log"
    command = [sys.executable, "-m", "moorage", "dashboard", "--allow-writes", "--listen", "127.0.0.1:0"]
    command += ["--kubeconfig", str(plane.admin_kubeconfig)]
    variables = {**os.environ, "MOORAGE_DASHBOARD_TOKEN": TOKEN}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process,
    ):
        try:
            says = re.compile(r"dashboard at http://127\.0\.0\.1:(\d+)")
            found = eventually(lambda: says.search(log.read_text()), "the dashboard says where it is", within_s=60)
            yield int(found[1]), log
        finally:
            process.kill()


def pending_pod() -> dict[str, Any]:
    """It fits nowhere, so that there is something to suggest, which shows it as it is."""
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "PASSWORD", "value": SECRETS[0]}],
        "args": [SECRETS[1]],
        "resources": {"requests": {"cpu": "100"}},
    }
    return {"metadata": {"name": "huge"}, "spec": {"containers": [container]}}


def test_the_dashboard_tells_other_users_of_the_machine_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """Not without the token, not with it in the address, not with other letters; and what-ifs have a size."""
    make_node(plane, "n1")
    create(plane, PODS, pending_pod())
    spec = replica_set(1)["spec"]
    create(plane, f"{APPS}/deployments", {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    million = {"scale": ["deployment/web=1000000"]}
    page, change, own = "/api/suggestions?key=default/huge", "/api/apply/strategy", {"X-Moorage-Token": TOKEN}
    with dashboard(plane, tmp_path) as (port, log):
        status, shown = ask(port, page, headers=own)
        assert status == 200
        assert all(secret in shown for secret in SECRETS), "there is something to hide"
        answers = {
            "without a token": ask(port, page),
            "with the token in the address": ask(port, f"{page}&token={TOKEN}"),
            "with other letters": ask(port, page, headers={"X-Moorage-Token": "gr\xfcn"}),
            "a change with other letters": ask(port, change, {}, {"X-Moorage-Token": "gr\xfcn"}),
            "the page with the token in its address": ask(port, f"/?token={TOKEN}"),
            "a what-if of a million replicas": ask(port, "/api/whatif", million, own),
        }
        said = log.read_text()
    assert {name: status for name, (status, _) in answers.items()} == {
        "without a token": 401,
        "with the token in the address": 401,
        "with other letters": 401,
        "a change with other letters": 401,
        "the page with the token in its address": 303,
        "a what-if of a million replicas": 409,
    }
    assert not [name for name, (_, text) in answers.items() if any(secret in text for secret in SECRETS)]
    assert "Traceback" not in said
