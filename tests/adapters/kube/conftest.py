"""A scripted HTTPS server for what a healthy API server does not do on demand, and clocks that tests move by hand."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import Credentials, from_kubeconfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Clock:
    """A clock that moves only when it is told to."""

    now_s: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, delay_s: float) -> None:
        """Let the time pass at once."""
        self.now_s += delay_s


@dataclass
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Give the decoded body."""
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """Answers with what the test's handler says, and keeps what it was asked."""

    url: str
    ca_pem: bytes
    folder: Path
    seen: list[Seen] = field(default_factory=list)

    def kubeconfig(self, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """Write a kubeconfig for this server."""
        ca = self.folder / "ca.pem"
        ca.write_bytes(self.ca_pem)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": self.url, "certificate-authority": "ca.pem", **cluster}}],
            "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        }
        file = self.folder / "kubeconfig"
        file.write_text(yaml.safe_dump(content))
        return file

    def credentials(self, user: dict[str, Any] | None = None, **options: Any) -> Credentials:
        """Load credentials for this server."""
        return from_kubeconfig([self.kubeconfig(user)], **options)

    def client(self, **options: Any) -> KubeClient:
        """Make a client of this server."""
        return KubeClient(self.credentials(), **options)


ServerFactory = Callable[[Handler], AbstractAsyncContextManager[ScriptedServer]]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Give the authority that signed the scripted servers' certificates."""
    return trustme.CA()


@pytest.fixture
def scripted_server(authority: trustme.CA, tmp_path: Path) -> ServerFactory:
    """Start servers that do what the given handler says, each for the length of an async with block."""
    certificate = authority.issue_cert("127.0.0.1", "kubernetes.example")

    @asynccontextmanager
    async def start(handler: Handler) -> AsyncIterator[ScriptedServer]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        authority.configure_trust(context)
        server = ScriptedServer("", authority.cert_pem.bytes(), tmp_path)

        async def noting(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            server.seen.append(
                Seen(request.method, request.path, dict(request.query), dict(request.headers), body),
            )
            return await handler(request)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", noting)
        runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"https://127.0.0.1:{port}"
        try:
            yield server
        finally:
            await runner.cleanup()

    return start


@pytest.fixture
def clock() -> Clock:
    """Give a clock that stands still."""
    return Clock()


@pytest.fixture(scope="session")
def authority_pem(authority: trustme.CA) -> bytes:
    """Give the authority's certificate."""
    return authority.cert_pem.bytes()
