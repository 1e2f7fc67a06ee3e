from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from aiohttp import web

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import Credentials, from_kubeconfig, in_cluster
from moorage.adapters.kube.errors import CredentialsError, Unauthorized, Unreachable
from moorage.adapters.kube.tls import TlsMaterial, make_context

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, ScriptedServer, ServerFactory

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


async def token_of(credentials: Credentials) -> str:
    return (await credentials.access()).headers.get("Authorization", "")


async def whoami(request: web.Request) -> web.Response:
    """Answer with what the server knows about its caller."""
    transport = request.transport
    assert transport is not None
    peer = transport.get_extra_info("peercert") or {}
    return web.json_response(
        {"authorization": request.headers.get("Authorization"), "certificate": bool(peer), **dict(request.query)}
    )


async def asked(client: KubeClient) -> Any:
    return json.loads(await client.request("GET", "/whoami"))


def plugin(folder: Path, status: str, *, version: str = V1, extra: str = "", **spec: Any) -> dict[str, Any]:
    """Write an exec plugin that counts its runs in a file, and give the user entry that names it."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, sys, pathlib\n"
        f"runs = pathlib.Path({str(folder / 'runs')!r})\n"
        "n = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(n))\n"
        f"{extra}\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {version!r}, 'status': {status}}}))\n"
    )
    mode = {"interactiveMode": "Never"} if version == V1 else {}
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)], **mode, **spec}}


def runs(folder: Path) -> int:
    return int((folder / "runs").read_text())


def replaced(file: Path, text: str) -> None:
    """Replace a file as Kubernetes and careful people do: write another one, then rename it."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


def test_a_token_file_is_followed(scripted_server: ServerFactory, clock: Clock) -> None:
    """A new token is used within a second; the line break at the end is not part of it; a gap changes nothing."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            file = server.folder / "token"
            file.write_text("first\n")
            credentials = server.credentials({"tokenFile": "token", "token": "beside"}, monotonic_s=clock)
            assert await token_of(credentials) == "Bearer first"
            replaced(file, "second\r\n")
            clock.now_s += 1.0
            assert await token_of(credentials) == "Bearer second"
            file.unlink()
            clock.now_s += 1.0
            assert await token_of(credentials) == "Bearer second"
            file.write_text("")
            clock.now_s += 1.0
            assert await token_of(credentials) == "Bearer second"
            replaced(file, "third")
            clock.now_s += 1.0
            assert await token_of(credentials) == "Bearer third"

    asyncio.run(scenario())


def test_unchanged_credentials_are_not_rebuilt(scripted_server: ServerFactory, clock: Clock) -> None:
    """The same value, with the same TLS context, serves every request until something changes."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            credentials = server.credentials(monotonic_s=clock)
            before = await credentials.access()
            clock.now_s += 100.0
            assert await credentials.access() is before

    asyncio.run(scenario())


def test_in_cluster_tokens_rotate(scripted_server: ServerFactory, clock: Clock) -> None:
    """The mounted folder is switched by a symbolic link, as the kubelet does it."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            account = server.folder / "account"
            account.mkdir()
            for number in (1, 2):
                (account / f"..{number}").mkdir()
                (account / f"..{number}" / "token").write_text(f"token-{number}")
                (account / f"..{number}" / "ca.crt").write_bytes(server.ca_pem)
            (account / "..data").symlink_to("..1")
            for name in ("token", "ca.crt"):
                (account / name).symlink_to(f"..data/{name}")
            host, port = server.url.removeprefix("https://").split(":")
            environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
            credentials = in_cluster(environ, account, monotonic_s=clock)
            async with KubeClient(credentials) as client:
                assert (await asked(client))["authorization"] == "Bearer token-1"
                (account / "..next").symlink_to("..2")
                (account / "..next").replace(account / "..data")
                clock.now_s += 1.0
                assert (await asked(client))["authorization"] == "Bearer token-2"

    asyncio.run(scenario())


def test_a_401_makes_token_files_be_read_again(scripted_server: ServerFactory, clock: Clock) -> None:
    """A token that was replaced a moment ago is found at once when the server rejects the old one."""

    async def handler(request: web.Request) -> web.Response:
        status = 200 if request.headers["Authorization"] == "Bearer new" else 401
        return web.json_response({}, status=status)

    async def scenario() -> None:
        async with scripted_server(handler) as server:
            file = server.folder / "token"
            file.write_text("old")
            async with KubeClient(server.credentials({"tokenFile": "token"}, monotonic_s=clock)) as client:
                with pytest.raises(Unauthorized):
                    await asked(client)
                assert len(server.seen) == 1
                replaced(file, "new")
                # Who wants no retries means the waiting, which a new token does not need.
                await client.request("GET", "/x", retries=0)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_exec_credentials_are_kept_until_shortly_before_they_expire(
    scripted_server: ServerFactory, clock: Clock, version: str
) -> None:
    """A plugin is run once, again a minute before the end (a tenth of a short life), never in between."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            clock.now_s = 1_700_000_000.0
            status = "{'token': f'token-{n}', 'expirationTimestamp': os.environ['UNTIL']}"
            spec = plugin(
                server.folder, status, version=version, env=[{"name": "UNTIL", "value": "2023-11-14T23:13:20Z"}]
            )
            credentials = server.credentials(spec, now_s=clock, monotonic_s=clock)
            assert await token_of(credentials) == "Bearer token-1"
            clock.now_s += 3539.0
            assert await token_of(credentials) == "Bearer token-1"
            clock.now_s += 2.0
            together = await asyncio.gather(*(token_of(credentials) for _ in range(10)))
            assert set(together) == {"Bearer token-2"}

    asyncio.run(scenario())


def test_an_expiring_exec_credential_outlives_a_failing_plugin(scripted_server: ServerFactory, clock: Clock) -> None:
    """While the old credential is good it stays in use; after its end the plugin's last words are the error."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            clock.now_s = 1_700_000_000.0
            fail = "if n > 1: print('noise', file=sys.stderr); sys.exit('the vault is closed')"
            status = "{'token': 'good', 'expirationTimestamp': '2023-11-14T23:13:20.5+00:00'}"
            credentials = server.credentials(plugin(server.folder, status, extra=fail), now_s=clock, monotonic_s=clock)
            await token_of(credentials)
            clock.now_s += 3550.0
            assert await token_of(credentials) == "Bearer good"
            assert await token_of(credentials) == "Bearer good"
            assert runs(server.folder) == 2
            clock.now_s += 60.0
            with pytest.raises(CredentialsError, match=r"exec\.command.*exit code 1: the vault is closed"):
                await token_of(credentials)

    asyncio.run(scenario())


def test_exec_runs_again_after_a_401(scripted_server: ServerFactory) -> None:
    """Many requests rejected together make one run, and all of them succeed with the new token."""

    async def handler(request: web.Request) -> web.Response:
        status = 200 if request.headers["Authorization"] == "Bearer token-2" else 401
        return web.json_response({}, status=status)

    async def scenario() -> None:
        async with scripted_server(handler) as server:
            credentials = server.credentials(plugin(server.folder, "{'token': f'token-{n}'}"))
            async with KubeClient(credentials) as client:
                await asyncio.gather(*(asked(client) for _ in range(20)))
            assert runs(server.folder) == 2

    asyncio.run(scenario())


def test_exec_is_told_about_the_cluster(scripted_server: ServerFactory) -> None:
    """With provideClusterInfo it gets address, CA and the cluster's own settings for plugins; env adds to ours."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            keep = f"pathlib.Path({str(server.folder / 'info')!r}).write_text(os.environ['KUBERNETES_EXEC_INFO'])"
            user = plugin(server.folder, "{'token': os.environ['WHO'] + os.environ['HOME'][:0]}", extra=keep)
            user["exec"] |= {"provideClusterInfo": True, "env": [{"name": "WHO", "value": "me"}]}
            extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
            file = server.kubeconfig(user, extensions=[extension], **{"tls-server-name": "kubernetes.example"})
            assert await token_of(from_kubeconfig([file])) == "Bearer me"
            info = json.loads((server.folder / "info").read_text())
            assert info == {
                "kind": "ExecCredential",
                "apiVersion": V1,
                "spec": {
                    "interactive": False,
                    "cluster": {
                        "server": server.url,
                        "tls-server-name": "kubernetes.example",
                        "certificate-authority-data": base64.b64encode(server.ca_pem).decode(),
                        "config": {"audience": "a"},
                    },
                },
            }

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "options", "want"),
    [
        pytest.param("None", {}, "no status", id="no status"),
        pytest.param("{}", {}, "neither a token nor a certificate", id="nothing in it"),
        pytest.param("{'token': 7}", {}, "must be strings", id="number as token"),
        pytest.param("{'token': 'a\\r\\nX: y'}", {}, "a line break", id="token of two lines"),
        pytest.param("{'clientKeyData': 'x'}", {}, "must come together", id="key alone"),
        pytest.param("{'token': 't', 'expirationTimestamp': 'soon'}", {}, "RFC 3339", id="no time"),
        pytest.param("{'token': 't', 'expirationTimestamp': '2020-01-01T00:00:00Z'}", {}, "expired", id="expired"),
        pytest.param("{'token': 't'}", {"extra": "print('hello')"}, "not JSON", id="chatter on stdout"),
        pytest.param(
            "{'token': 't'}",
            {"version": V1BETA1, "apiVersion": V1, "interactiveMode": "Never"},
            "v1beta1",
            id="wrong version",
        ),
        pytest.param("{'token': 't'}", {"command": "no-such-command"}, "no such command", id="not installed"),
        pytest.param(
            "{'token': 't'}", {"command": "no-such-command", "installHint": "get\n it"}, "get it", id="install hint"
        ),
        pytest.param("{'token': 't'}", {"command": "./no/such"}, '.command: "/', id="relative to the kubeconfig"),
    ],
)
def test_a_bad_plugin_gets_one_line(
    scripted_server: ServerFactory, status: str, options: dict[str, Any], want: str
) -> None:
    """The line names the file and the plugin's place in it."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            credentials = server.credentials(plugin(server.folder, status, **options))
            with pytest.raises(CredentialsError) as caught:
                await token_of(credentials)
            line = str(caught.value)
            assert line.startswith(f"{server.folder / 'kubeconfig'}: users[0].user.exec.command: ")
            assert want in line
            assert "\n" not in line

    asyncio.run(scenario())


def pem_pair(authority: trustme.CA) -> tuple[str, str]:
    leaf = authority.issue_cert("somebody")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return chain.decode(), leaf.private_key_pem.bytes().decode()


def client_certificate_user(server: ScriptedServer, authority: trustme.CA, source: str) -> dict[str, Any]:
    chain, key = pem_pair(authority)
    (server.folder / "c.pem").write_text(chain)
    (server.folder / "k.pem").write_text(key)
    if source == "files":
        return {"client-certificate": "c.pem", "client-key": "k.pem"}
    if source == "data":
        encoded = [base64.b64encode(text.encode()).decode() for text in (chain, key)]
        return {"client-certificate-data": encoded[0], "client-key-data": encoded[1]}
    read = "runs.with_name('{}.pem').read_text()"
    status = f"{{'clientCertificateData': {read.format('c')}, 'clientKeyData': {read.format('k')}}}"
    return plugin(server.folder, status)


@pytest.mark.parametrize("source", ["files", "data", "exec"])
def test_client_certificates(scripted_server: ServerFactory, authority: trustme.CA, source: str) -> None:
    """The server sees our certificate, wherever it came from."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            credentials = server.credentials(client_certificate_user(server, authority, source))
            async with KubeClient(credentials) as client:
                assert await asked(client) == {"authorization": None, "certificate": True}

    asyncio.run(scenario())


def test_a_half_rotated_certificate_changes_nothing(
    scripted_server: ServerFactory, authority: trustme.CA, clock: Clock
) -> None:
    """A new certificate beside the old key is not used; the new pair is, once it is complete."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            user = client_certificate_user(server, authority, "files")
            credentials = server.credentials(user, monotonic_s=clock)
            before = (await credentials.access()).tls
            chain, key = pem_pair(authority)
            replaced(server.folder / "c.pem", chain)
            clock.now_s += 1.0
            assert (await credentials.access()).tls is before
            replaced(server.folder / "k.pem", key)
            clock.now_s += 1.0
            assert (await credentials.access()).tls is not before

    asyncio.run(scenario())


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "file"])
def test_no_key_is_left_on_disk(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """The temporary folder is empty after the context was made, also where memory files do not exist."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    chain, key = pem_pair(authority)
    make_context(TlsMaterial(b"", chain.encode(), key.encode(), insecure=False), "here")
    with pytest.raises(CredentialsError, match="here: client-certificate"):
        make_context(TlsMaterial(b"", chain.encode(), pem_pair(authority)[1].encode(), insecure=False), "here")
    assert list(tmp_path.iterdir()) == []


def test_the_server_must_be_the_one_we_expect(scripted_server: ServerFactory) -> None:
    """An unknown authority or another name is refused with one clear line; insecure-skip-tls-verify lets it pass."""

    async def scenario() -> None:
        async with scripted_server(whoami) as server:
            stranger = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
            cases: list[tuple[dict[str, Any], bool]] = [
                ({"tls-server-name": "kubernetes.example"}, True),
                ({"tls-server-name": "other.example"}, False),
                ({"certificate-authority-data": stranger}, False),
                ({"certificate-authority": None, "insecure-skip-tls-verify": True}, True),
            ]
            for cluster, want_trusted in cases:
                async with KubeClient(from_kubeconfig([server.kubeconfig(**cluster)])) as client:
                    if want_trusted:
                        await asked(client)
                    else:
                        with pytest.raises(Unreachable, match="certificate is not trusted"):
                            await asked(client)

    asyncio.run(scenario())


def test_contexts_verify_by_default(authority_pem: bytes) -> None:
    """Nothing but the explicit switch turns verification off."""
    context = make_context(TlsMaterial(authority_pem, b"", b"", insecure=False), "here")
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


PLAIN = {
    "elsewhere": ("http://10.0.0.1:8080", {"token": "t"}, None, False),
    "a name": ("http://api.example", {"token": "t"}, None, False),
    "a password": ("http://10.0.0.1", {"username": "u", "password": "p"}, None, False),
    "loopback": ("http://127.0.0.1:8080", {"token": "t"}, None, True),
    "loopback, IPv6": ("http://[::1]:8080", {"token": "t"}, None, True),
    "localhost": ("http://localhost:8001", {"token": "t"}, None, True),
    "nothing to lose": ("http://10.0.0.1:8080", {}, None, True),
    "allowed": ("http://10.0.0.1:8080", {"token": "t"}, True, True),
    "not quite allowed": ("http://10.0.0.1:8080", {"token": "t"}, "yes", False),
}


@pytest.mark.parametrize(("server", "user", "extension", "good"), PLAIN.values(), ids=PLAIN.keys())
def test_a_token_goes_over_plain_http_only_if_told_to(
    tmp_path: Path, server: str, user: dict[str, str], extension: object, good: bool
) -> None:
    """To this machine it may; elsewhere the kubeconfig has to say so. The refusal is one line without the token."""
    cluster: dict[str, Any] = {"server": server}
    if extension is not None:
        cluster["extensions"] = [{"name": "moorage.dev/plain-http", "extension": extension}]
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(document))
    if good:
        assert from_kubeconfig([file]).server == server
        return
    with pytest.raises(
        CredentialsError, match=f"^{file}: server: {server}: would get our token in the clear; use https"
    ):
        from_kubeconfig([file])


def test_a_server_that_is_not_verified_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`insecure-skip-tls-verify` is honoured with a line, however often credentials are loaded."""
    cluster = {"server": "https://unverified.example", "insecure-skip-tls-verify": True}
    file = tmp_path / "config"
    contexts = [{"name": "c", "context": {"cluster": "c"}}]
    file.write_text(
        json.dumps({"current-context": "c", "contexts": contexts, "clusters": [{"name": "c", "cluster": cluster}]})
    )
    for _ in range(3):
        from_kubeconfig([file])
    said = capsys.readouterr()
    assert (said.out + said.err).count("certificate is not verified") == 1
