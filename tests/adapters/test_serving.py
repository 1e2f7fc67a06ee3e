"""The HTTPS server: what is open to whom, with which certificate, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from cryptography import x509

from moorage.adapters.serving.certificate import self_signed
from moorage.adapters.serving.configz import configz, effective_document
from moorage.adapters.serving.server import ServingError, ServingOptions, Sources, serving
from moorage.app.plugins import find_plugins
from moorage.wire.configuration import default_reading, read_configuration

LOOPBACK = ServingOptions(bind_address="127.0.0.1", port=0)


@dataclass
class Component:
    """What is served, as tests change it."""

    trouble: str = ""

    def sources(self) -> Sources:
        return Sources(lambda: self.trouble, lambda _: (b"m 1\n", "text/plain; version=0.0.4"), lambda: b'{"a": 1}')


Ask = Callable[[str], Awaitable[tuple[int, str, str]]]


def visit(options: ServingOptions, component: Component, visitor: Callable[[Ask], Awaitable[None]]) -> None:
    """Serve for as long as the visitor takes; `ask` gives status, content type and text."""

    async def stay() -> None:
        async with serving(options, component.sources()) as url, aiohttp.ClientSession() as session:
            port = url.rpartition(":")[2]

            async def ask(path: str) -> tuple[int, str, str]:
                async with session.get(f"https://127.0.0.1:{port}{path}", ssl=False) as answer:
                    return answer.status, answer.content_type, await answer.text()

            await visitor(ask)

    asyncio.run(stay())


def test_health_readiness_metrics_and_configuration() -> None:
    """On a loopback address everything is there."""

    async def visitor(ask: Ask) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await ask(path) == (200, "text/plain", "ok")
        assert await ask("/metrics") == (200, "text/plain", "m 1\n")
        assert await ask("/configz") == (200, "application/json", '{"a": 1}')
        assert (await ask("/nothing"))[0] == 404

    visit(LOOPBACK, Component(), visitor)


def test_not_ready_says_why() -> None:
    """Alive all the same, and ready as soon as the reason is gone."""
    component = Component("not every kind has been listed yet")

    async def visitor(ask: Ask) -> None:
        assert (await ask("/livez"))[0] == 200
        status, _, text = await ask("/readyz")
        assert status == 500
        assert component.trouble in text
        component.trouble = ""
        assert (await ask("/readyz"))[0] == 200

    visit(LOOPBACK, component, visitor)


def test_strangers_see_health_only() -> None:
    """On an address that others can reach, what tells of the cluster is closed, and one line says how to open it."""

    async def visitor(ask: Ask) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await ask(path))[0] == 200
        for path in ("/metrics", "/configz"):
            status, _, text = await ask(path)
            assert status == 403
            assert text.count("\n") == 1
            assert "--bind-address 127.0.0.1" in text

    visit(ServingOptions(bind_address="0.0.0.0", port=0), Component(), visitor)  # noqa: S104 the case at hand


def test_a_given_certificate_is_used(tmp_path: Path) -> None:
    """A client that trusts its authority needs no exception."""
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    pair.cert_chain_pems[0].write_to_path(cert)
    pair.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def stay() -> int:
        options = ServingOptions("127.0.0.1", 0, str(cert), str(key))
        async with (
            serving(options, Component().sources()) as url,
            aiohttp.ClientSession() as session,
            session.get(f"{url}/healthz", ssl=trusting) as answer,
        ):
            return answer.status

    assert asyncio.run(stay()) == 200


def test_a_self_signed_certificate_names_the_machine() -> None:
    """A client that pins it finds the address it asked for."""
    pem = self_signed(["host.example", "127.0.0.1", "::1"])
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def start(options: ServingOptions) -> None:
    async def stay() -> None:
        async with serving(options, Component().sources()):
            pass

    asyncio.run(stay())


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({"bind_address": "localhost"}, "--bind-address localhost: not an IP address", id="host name"),
        pytest.param({"bind_address": "192.0.2.1"}, "change --bind-address", id="somebody else's address"),
        pytest.param({"cert_file": "a.pem"}, "--tls-cert-file needs --tls-private-key-file", id="no key"),
        pytest.param({"key_file": "a.pem"}, "--tls-private-key-file needs --tls-cert-file", id="no certificate"),
        pytest.param(
            {"cert_file": "/none", "key_file": "/none"}, "--tls-cert-file /none: cannot be read", id="no file"
        ),
        pytest.param({"cert_file": __file__, "key_file": __file__}, "not a certificate", id="not PEM"),
    ],
)
def test_what_cannot_be_served_is_one_line(options: dict[str, Any], want: str) -> None:
    """It names the flag, the value and the remedy."""
    with pytest.raises(ServingError) as caught:
        start(ServingOptions(**{"bind_address": "127.0.0.1", "port": 0, **options}))
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_taken_port_is_one_line() -> None:
    """It names the port and says what to do."""

    async def stay() -> str:
        async with serving(LOOPBACK, Component().sources()) as url:
            port = int(url.rpartition(":")[2])
            with pytest.raises(ServingError) as caught:
                async with serving(ServingOptions("127.0.0.1", port), Component().sources()):
                    pass
            return str(caught.value).replace(str(port), "PORT")

    said = asyncio.run(stay())
    assert said.startswith("--secure-port PORT: cannot listen on 127.0.0.1: the port is taken;")
    assert "\n" not in said


def test_an_encrypted_key_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    """No password prompt in a control-plane component."""
    from cryptography.hazmat.primitives import serialization as pem  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(self_signed(["localhost"]))
    secret = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
    )
    key.write_bytes(secret)
    with pytest.raises(ServingError, match="unencrypted"):
        start(ServingOptions("127.0.0.1", 0, str(cert), str(key)))


CONFIGURATION = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 20s, renewDeadline: 12500ms}
podInitialBackoffSeconds: 2
profiles:
- schedulerName: moorage
- schedulerName: packer
  plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 7}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""


def test_configz_is_the_whole_truth() -> None:
    """Read as a configuration file again it means the same: nothing in it was left to be defaulted."""
    registry = find_plugins().registry
    reading = read_configuration(CONFIGURATION, "file", registry)
    assert reading.configuration is not None
    document = effective_document(reading.configuration, reading.profiles)
    again = read_configuration(json.dumps(document).encode(), "configz", registry)
    assert not again.problems
    assert again.configuration is not None
    assert effective_document(again.configuration, again.profiles) == document
    score = document["profiles"][1]["plugins"]["score"]["enabled"]
    assert {"name": "NodeResourcesFit", "weight": 7} in score
    assert "ImageLocality" not in {entry["name"] for entry in score}
    assert document["leaderElection"]["leaseDuration"] == "20s"


def test_configz_is_found_where_kube_scheduler_has_it() -> None:
    """Under `componentconfig`, with the defaults that run without a file."""
    reading = default_reading(find_plugins().registry)
    assert reading.configuration is not None
    document = json.loads(configz(reading.configuration, reading.profiles))["componentconfig"]
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert [profile["schedulerName"] for profile in document["profiles"]] == ["moorage"]
