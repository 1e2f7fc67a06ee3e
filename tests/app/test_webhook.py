"""`moorage webhook` as a process: its options, certificates from files, log levels, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trustme

from moorage.adapters.webhook.certificates import issue
from moorage.bench.controlplane import ControlPlane
from tests.app.extender_process import eventually, status_of
from tests.app.webhook_process import REGISTRATIONS, bare_pod, webhook

PODS = "/api/v1/namespaces/default/pods"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", "webhook", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["--tls-cert", "c"], "--tls-cert needs --tls-key"),
        (["--tls-key", "k"], "--tls-key needs --tls-cert"),
        (["--self-signed", "--tls-cert", "c", "--tls-key", "k"], "--self-signed: certificates are made"),
        (["--tls-cert", "/no/c", "--tls-key", "/no/k"], "--tls-cert /no/c: cannot be read"),
        (["--listen", "nowhere"], "--listen nowhere: not an address"),
        (["--metrics-listen", "x"], "--metrics-listen: 'x' is not an address"),
    ],
)
def test_bad_options_are_one_clear_line(control_plane: ControlPlane, words: list[str], want: str) -> None:
    """Exit code 2 and one line that says what to do instead."""
    done = run("--kubeconfig", str(control_plane.admin_kubeconfig), *words)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert want in line


async def _serial(port: int, authority: trustme.CA) -> str:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_verify_locations(cadata=authority.cert_pem.bytes().decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    serial: str = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    await writer.wait_closed()
    return serial


def test_certificates_from_files(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """They are served, read again when they change, and the CA bundle is left to their issuer."""
    authority = trustme.CA()
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write() -> None:
        fresh = authority.issue_cert("localhost")
        key.write_bytes(fresh.private_key_pem.bytes())
        chain.write_bytes(fresh.cert_chain_pems[0].bytes())

    write()
    with webhook(empty_control_plane, tmp_path, "--tls-cert", str(chain), "--tls-key", str(key)) as running:
        (entry,) = empty_control_plane.request("GET", f"{REGISTRATIONS}/moorage-webhook").json()["webhooks"]
        assert "caBundle" not in entry["clientConfig"]
        first = asyncio.run(_serial(running.port, authority))
        write()
        eventually(lambda: asyncio.run(_serial(running.port, authority)) != first, "another certificate", within_s=20)
        running.stop()


def test_debug_lines_and_probes(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """LOG_LEVEL=debug also tells of pods without a strategy; health and metrics have their own addresses."""
    with webhook(empty_control_plane, tmp_path, environ={"LOG_LEVEL": "debug"}) as running:
        assert empty_control_plane.request("POST", PODS, bare_pod(None)).status == 201
        assert status_of(f"{running.health_url}/healthz") == 200
        assert running.metric("controller_runtime_webhook_requests_total") == 1
        assert "no placement strategy" in running.log.read_text()
        running.stop()


def test_it_answers_until_everybody_knows_that_it_goes(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """After SIGTERM it is not ready any more, and answers for a while; its registration goes with it."""
    with webhook(empty_control_plane, tmp_path, fields={"shutdownDelay": "3s"}) as running:
        running.process.send_signal(signal.SIGTERM)
        eventually(lambda: status_of(f"{running.health_url}/readyz") == 503, "it is not ready", within_s=5)
        made = empty_control_plane.request("POST", PODS, bare_pod()).json()
        assert made["spec"]["nodeSelector"] == {"node-type": "ondemand"}
        began_s = time.monotonic()
        assert running.process.wait(timeout=30) == 0
        assert time.monotonic() - began_s > 0.5
    assert empty_control_plane.request("GET", f"{REGISTRATIONS}/moorage-webhook").status == 404


def test_a_certificate_that_signed_itself(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """What `make generate-certs` writes is enough: the webhook tells the API server to trust it."""
    command = [sys.executable, "-m", "moorage.cli.certs", str(tmp_path / "certs")]
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs/server.key").touch(mode=0o644)  # an old one that everybody may read
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    files = ["--tls-cert", str(tmp_path / "certs/server.crt"), "--tls-key", str(tmp_path / "certs/server.key")]
    assert (tmp_path / "certs/server.key").stat().st_mode & 0o077 == 0
    with webhook(empty_control_plane, tmp_path / "process", *files) as running:
        made = empty_control_plane.request("POST", PODS, bare_pod()).json()
        assert made["spec"]["nodeSelector"] == {"node-type": "ondemand"}
        running.stop()


def test_a_certificate_that_is_mounted_later(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """Until its files are there the webhook serves one of its own; then theirs, without a restart."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    fields = {"certificateFile": str(cert), "keyFile": str(key), "certificateSpread": "0s"}
    with webhook(empty_control_plane, tmp_path / "w", fields=fields) as running:
        at = ("127.0.0.1", running.port)
        first = ssl.get_server_certificate(at)
        pair = issue(["localhost", "127.0.0.1"], 3600.0)
        key.write_bytes(pair.key)
        cert.write_bytes(pair.chain)
        eventually(lambda: ssl.get_server_certificate(at).encode() == pair.chain, "the mounted one is served", 60)
        assert first.encode() != pair.chain
        assert running.process.poll() is None
