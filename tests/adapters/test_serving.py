"""The HTTPS server: what is open to whom, with which certificate, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiohttp
import pytest
import trustme
import yaml
from cryptography import x509

from moorage.adapters.certificates import CertificateError
from moorage.adapters.listening import ListenError
from moorage.adapters.probing import Render
from moorage.adapters.serving.access import ANONYMOUS, REMEMBER_S, Gate, User
from moorage.adapters.serving.certificate import Freshness, file_context, self_signed
from moorage.adapters.serving.endpoints import EndpointSources
from moorage.adapters.serving.server import ServingOptions, serving
from moorage.adapters.serving.zpages import Component

LOOPBACK = ServingOptions(bind_address="127.0.0.1", port=0)
EVERYTHING = ("/*",)
PROTECTED = ("/metrics", "/metrics/resources", "/metrics/slis", "/configz", "/statusz", "/flagz", "/nothing")


@dataclass
class Process:
    """What is served, as tests change it."""

    trouble: str = ""
    leads: bool = True

    def sources(self) -> EndpointSources:
        return EndpointSources(
            Component("moorage", "1.2.3", {"v": "2", "bind-address": "127.0.0.1"}),
            {"shutdown": lambda: "", "caches": lambda: self.trouble},
            lambda _: (b"m 1\n", "text/plain; version=0.0.4"),
            lambda: b'{"a": 1}',
            self.resources,
        )

    def resources(self) -> Render | None:
        return (lambda _: (b"r 1\n", "text/plain; version=0.0.4")) if self.leads else None


@dataclass
class Opinions:
    """What an API server thinks: whose tokens there are, and who may read what."""

    tokens: dict[str, str] = field(default_factory=dict)
    rights: set[tuple[str, str]] = field(default_factory=set)
    silent: bool = False

    async def authenticate(self, token: str) -> User | None:
        self._answer()
        return {"username": self.tokens[token]} if token in self.tokens else None

    async def authorize(self, user: User, verb: str, path: str) -> bool:
        self._answer()
        return verb == "get" and (user["username"], path) in self.rights

    def _answer(self) -> None:
        if self.silent:
            raise LookupError("no answer")


class Answer(NamedTuple):
    status: int
    media: str
    text: str


class Ask(Protocol):
    async def __call__(self, path: str, token: str = "", accept: str = "") -> Answer: ...


def visit(
    visitor: Callable[[Ask], Awaitable[None]],
    process: Process | None = None,
    gate: Gate | None = None,
    options: ServingOptions = LOOPBACK,
) -> None:
    """Serve for as long as the visitor takes; everything is open unless a gate is given."""
    chosen = gate or Gate(None, EVERYTHING)

    async def stay() -> None:
        sources = (process or Process()).sources()
        async with serving(options, sources, chosen) as url, aiohttp.ClientSession() as session:

            async def ask(path: str, token: str = "", accept: str = "") -> Answer:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                headers |= {"Accept": accept} if accept else {}
                where = f"https://127.0.0.1:{url.rpartition(':')[2]}{path}"
                async with session.get(where, ssl=False, headers=headers) as answer:
                    return Answer(answer.status, answer.headers.get("Content-Type", ""), await answer.text())

            await visitor(ask)

    asyncio.run(stay())


def test_everything_that_is_served() -> None:
    """To whom may read it."""

    async def visitor(ask: Ask) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await ask(path) == (200, "text/plain; charset=utf-8", "ok")
        assert await ask("/metrics") == (200, "text/plain; version=0.0.4", "m 1\n")
        assert await ask("/metrics/resources") == (200, "text/plain; version=0.0.4", "r 1\n")
        assert await ask("/configz") == (200, "application/json", '{"a": 1}')
        assert (await ask("/nothing"))[::2] == (404, "404 page not found\n")

    visit(visitor)


def test_a_standby_tells_nothing_about_pods() -> None:
    """One answer for the cluster is enough; it is empty, as kube-scheduler's."""

    async def visitor(ask: Ask) -> None:
        assert (await ask("/metrics/resources"))[::2] == (200, "")

    visit(visitor, Process(leads=False))


def test_health_is_told_check_by_check() -> None:
    """With the words of Kubernetes: all at once, verbosely, without some, or one alone."""
    process = Process("not every kind has been listed yet")
    failed = "[+]shutdown ok\n[-]caches failed: not every kind has been listed yet\nreadyz check failed\n"

    async def visitor(ask: Ask) -> None:
        assert (await ask("/livez")).status == 200
        assert (await ask("/readyz"))[::2] == (500, failed)
        assert (await ask("/readyz?exclude=caches"))[::2] == (200, "ok")
        assert (await ask("/readyz/shutdown"))[::2] == (200, "ok")
        assert (await ask("/readyz/caches")).status == 500
        assert 'kubernetes_healthcheck{name="caches",type="readyz"} 0.0' in (await ask("/metrics/slis")).text
        process.trouble = ""
        verbose = "[+]shutdown ok\n[+]caches ok\nreadyz check passed\n"
        assert (await ask("/readyz?verbose"))[::2] == (200, verbose)
        assert 'kubernetes_healthcheck{name="caches",type="readyz"} 1.0' in (await ask("/metrics/slis")).text

    visit(visitor, process)


def test_strangers_see_health_only() -> None:
    """Who says nothing about himself is anonymous and may be refused; who lies is nobody. In kube-scheduler's words."""
    gate = Gate(Opinions({"good": "prometheus"}, {("prometheus", "/metrics")}))

    async def visitor(ask: Ask) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await ask(path)).status == 200
        for path in PROTECTED:
            status, media, text = await ask(path)
            assert (status, media) == (403, "application/json; charset=utf-8")
            said = f'forbidden: User "system:anonymous" cannot get path "{path}"'
            assert json.loads(text) == {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": said, "reason": "Forbidden", "details": {}, "code": 403,
            }  # fmt: skip
            status, _, text = await ask(path, "made up")
            assert (status, json.loads(text)["reason"]) == (401, "Unauthorized")
        assert (await ask("/metrics", "good")).status == 200
        assert (await ask("/configz", "good")).status == 403

    visit(visitor, gate=gate)


def test_nobody_gets_in_while_nobody_can_be_asked() -> None:
    """Health does not depend on the API server."""

    async def visitor(ask: Ask) -> None:
        assert (await ask("/healthz")).status == 200
        assert (await ask("/metrics")).status == 500
        assert (await ask("/metrics", "good")).status == 401

    visit(visitor, gate=Gate(Opinions(silent=True)))


def test_answers_of_the_api_server_count_for_a_while() -> None:
    """Ten seconds, whether they were yes or no."""
    opinions, now_s = Opinions({"good": "prometheus"}, {("prometheus", "/metrics")}), 0.0
    gate = Gate(opinions, now_s=lambda: now_s)

    async def visitor(ask: Ask) -> None:
        nonlocal now_s
        assert [(await ask("/metrics", token)).status for token in ("good", "late", "")] == [200, 401, 403]
        opinions.tokens = {"late": "late"}
        opinions.rights = {("late", "/metrics"), (ANONYMOUS["username"], "/metrics")}
        now_s = REMEMBER_S - 1
        assert [(await ask("/metrics", token)).status for token in ("good", "late", "")] == [200, 401, 403]
        now_s = REMEMBER_S + 1
        assert [(await ask("/metrics", token)).status for token in ("good", "late", "")] == [401, 200, 200]

    visit(visitor, gate=gate)


def test_paths_can_be_opened() -> None:
    """One by one, or all below one; what is open costs no question."""

    async def visitor(ask: Ask) -> None:
        assert (await ask("/metrics")).status == 200
        assert (await ask("/metrics/resources")).status == 403
        assert (await ask("/readyz/shutdown")).status == 200
        assert (await ask("/livez")).status == 403

    visit(visitor, gate=Gate(Opinions(), ["/metrics", "/readyz/*"]))


STATUSZ = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"


def test_status_and_flags_for_people_and_programs() -> None:
    """Text by default; JSON and YAML to those who name the version that they understand."""

    async def visitor(ask: Ask) -> None:
        text = (await ask("/statusz")).text
        assert text.startswith("\nmoorage statusz\n")
        assert "Binary version  1.2.3\n" in text
        assert (await ask("/flagz")).text.endswith("\nbind-address=127.0.0.1\nv=2\n")
        status = await ask("/statusz", accept=STATUSZ)
        assert status.media == "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
        assert json.loads(status.text)["metadata"] == {"name": "moorage"}
        flags = await ask("/flagz", accept=STATUSZ.replace("Statusz", "Flagz").replace("json", "yaml"))
        assert yaml.safe_load(flags.text)["flags"] == {"bind-address": "127.0.0.1", "v": "2"}
        assert (await ask("/flagz", accept="application/json")).status == 406

    visit(visitor)


def write_pair(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    pair = authority.issue_cert("127.0.0.1")
    cert, key = folder / "tls.crt", folder / "tls.key"
    pair.cert_chain_pems[0].write_to_path(cert)
    pair.private_key_pem.write_to_path(key)
    return cert, key


async def trusted(url: str, *authorities: trustme.CA) -> list[bool]:
    """Whether a new connection is accepted by a client that trusts this authority alone."""
    found = []
    for authority in authorities:
        tls = ssl.create_default_context()
        authority.configure_trust(tls)
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz", ssl=tls):
                found.append(True)
        except aiohttp.ClientConnectorCertificateError:
            found.append(False)
    return found


def test_a_new_certificate_is_taken_over(tmp_path: Path) -> None:
    """For new connections, without a restart."""
    old, new = trustme.CA(), trustme.CA()
    cert, key = write_pair(old, tmp_path)
    options = ServingOptions("127.0.0.1", 0, str(cert), str(key), reload_every_s=0.02)

    async def stay() -> None:
        async with serving(options, Process().sources(), Gate(None)) as url:
            assert await trusted(url, old, new) == [True, False]
            write_pair(new, tmp_path)
            for _ in range(500):
                await asyncio.sleep(0.02)
                if await trusted(url, old, new) == [False, True]:
                    return
            pytest.fail("the new certificate is not in use")

    asyncio.run(stay())


def test_half_a_pair_is_left_alone(tmp_path: Path) -> None:
    """In the middle of a rotation, or when it went wrong, the certificate before stays in use; then the new one is."""
    cert, key = write_pair(trustme.CA(), tmp_path)
    fresh = trustme.CA().issue_cert("127.0.0.1")
    freshness = Freshness(file_context(str(cert), str(key)), str(cert), str(key), None)
    assert not freshness.look()
    fresh.cert_chain_pems[0].write_to_path(cert)
    with pytest.raises(CertificateError, match="belong together"):
        freshness.look()
    assert not freshness.look(), "said once"
    fresh.private_key_pem.write_to_path(key)
    assert freshness.look()


def test_a_client_certificate_says_who_comes(tmp_path: Path) -> None:
    """By the authority of a file: the common name is the user."""
    authority, opinions = trustme.CA(), Opinions(rights={("prometheus", "/metrics")})
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    options = ServingOptions("127.0.0.1", 0, client_ca_file=str(tmp_path / "ca.crt"))

    async def ask(url: str, certificate: trustme.LeafCert | None) -> int:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if certificate is not None:
            certificate.configure_cert(tls)
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics", ssl=tls) as answer:
            return answer.status

    async def stay() -> list[int]:
        async with serving(options, Process().sources(), Gate(opinions)) as url:
            people = [None, *(authority.issue_cert("x", common_name=name) for name in ("prometheus", "somebody"))]
            return [await ask(url, certificate) for certificate in people]

    assert asyncio.run(stay()) == [403, 200, 403]


def test_a_given_certificate_is_used(tmp_path: Path) -> None:
    """A client that trusts its authority needs no exception."""
    authority = trustme.CA()
    cert, key = write_pair(authority, tmp_path)

    async def stay() -> list[bool]:
        options = ServingOptions("127.0.0.1", 0, str(cert), str(key))
        async with serving(options, Process().sources(), Gate(None)) as url:
            return await trusted(url, authority)

    assert asyncio.run(stay()) == [True]


def test_a_self_signed_certificate_names_the_machine() -> None:
    """A client that pins it finds the address it asked for."""
    _, pem = self_signed(["host.example", "127.0.0.1", "::1"])
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def start(options: ServingOptions) -> None:
    async def stay() -> None:
        async with serving(options, Process().sources(), Gate(None)):
            pass

    asyncio.run(stay())


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({"bind_address": "localhost"}, "--bind-address localhost: not an IP address", id="host name"),
        pytest.param({"bind_address": "192.0.2.1"}, "does not have the address", id="somebody else's address"),
        pytest.param({"cert_file": "a.pem"}, "--tls-cert-file needs --tls-private-key-file", id="no key"),
        pytest.param({"key_file": "a.pem"}, "--tls-private-key-file needs --tls-cert-file", id="no certificate"),
        pytest.param(
            {"cert_file": "/none", "key_file": "/none"}, "--tls-cert-file /none: cannot be read", id="no file"
        ),
        pytest.param({"cert_file": __file__, "key_file": __file__}, "not a certificate", id="not PEM"),
        pytest.param({"client_ca_file": "/none"}, "--client-ca-file /none: cannot be read", id="no authority"),
        pytest.param({"client_ca_file": __file__}, "not certificates; give a bundle", id="authority is not PEM"),
    ],
)
def test_what_cannot_be_served_is_one_line(options: dict[str, Any], want: str) -> None:
    """It names the flag, the value and the remedy."""
    with pytest.raises(ListenError) as caught:
        start(ServingOptions(**{"bind_address": "127.0.0.1", "port": 0, **options}))
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_taken_port_is_one_line() -> None:
    """It names the port and says what to do."""

    async def stay() -> str:
        async with serving(LOOPBACK, Process().sources(), Gate(None)) as url:
            port = int(url.rpartition(":")[2])
            with pytest.raises(ListenError) as caught:
                async with serving(ServingOptions("127.0.0.1", port), Process().sources(), Gate(None)):
                    pass
            return str(caught.value).replace(str(port), "PORT")

    said = asyncio.run(stay())
    assert said.startswith("--bind-address, --secure-port 127.0.0.1:PORT: cannot listen there: the port is taken;")
    assert "\n" not in said


def test_an_encrypted_key_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    """No password prompt in a control-plane component."""
    from cryptography.hazmat.primitives import serialization as pem  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(b"".join(self_signed(["localhost"])))
    secret = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
    )
    key.write_bytes(secret)
    with pytest.raises(ListenError, match="unencrypted"):
        start(ServingOptions("127.0.0.1", 0, str(cert), str(key)))
