"""The HTTPS server of a component: health, readiness, metrics, configuration.

It shares the event loop with what it reports on, on purpose: a loop that hangs does not answer `/livez`.

`/metrics` and `/configz` say more than a stranger should know, and nobody is asked for credentials here. So they are
open only where just this machine can reach them, on a loopback address; the health endpoints are always open.
"""

from __future__ import annotations

import errno
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from moorage.adapters.serving.certificate import CertificateError, file_context, self_signed_context

DEFAULT_PORT = 10259
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - probes come from the kubelet, and kube-scheduler listens there too
STOP_S = 1.0
"""How long requests may take to finish when the server stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServingError(Exception):
    """The server cannot start; the text is one line."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Where to listen, and as whom. Port 0 picks a free one."""

    bind_address: str = ALL_ADDRESSES
    port: int = DEFAULT_PORT
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the answers come from. Each is called once per request, in the event loop, and must not block."""

    unready: Callable[[], str]
    """Why the component is not ready, in one line; empty when it is."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Accept header -> text and content type."""
    configuration: Callable[[], bytes]
    """The effective configuration as a JSON document."""


@asynccontextmanager
async def serving(options: ServingOptions, sources: Sources) -> AsyncIterator[str]:
    """Serve until the end of the block, which gets the server's URL. `ServingError` when that cannot be done."""
    address = _address(options.bind_address)
    tls = _tls(options)
    runner = web.AppRunner(
        application(sources, open_to_all=address.is_loopback), access_log=None, shutdown_timeout=STOP_S
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, str(address), options.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise ServingError(_refusal(options, error)) from None
        host, port = runner.addresses[0][:2]
        yield f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    finally:
        await runner.cleanup()


def application(sources: Sources, *, open_to_all: bool) -> web.Application:
    """The endpoints; `open_to_all` says whether everybody who can reach them may read the telling ones."""
    app = web.Application()

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        reason = sources.unready()
        if reason:
            return web.Response(status=500, text=f"[-]caches failed: {reason}\nreadyz check failed\n")
        return web.Response(text="ok")

    async def metrics(request: web.Request) -> web.Response:
        content, content_type = sources.metrics(request.headers.get("Accept", ""))
        return web.Response(body=content, headers={"Content-Type": content_type})

    async def configuration(_: web.Request) -> web.Response:
        return web.Response(body=sources.configuration(), content_type="application/json")

    app.router.add_get("/healthz", alive)
    app.router.add_get("/livez", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics if open_to_all else _closed)
    app.router.add_get("/configz", configuration if open_to_all else _closed)
    return app


async def _closed(request: web.Request) -> web.Response:
    text = f"{request.path} is served on a loopback address only; start with --bind-address 127.0.0.1 to read it\n"
    return web.Response(status=403, text=text)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ServingError(
            f"--bind-address {text}: not an IP address; write 127.0.0.1, or 0.0.0.0 for every interface"
        ) from None


def _tls(options: ServingOptions) -> ssl.SSLContext:
    if bool(options.cert_file) != bool(options.key_file):
        given, missing = "--tls-cert-file", "--tls-private-key-file"
        if options.key_file:
            given, missing = missing, given
        raise ServingError(f"{given} needs {missing}: a certificate and its key go together; give both or none")
    try:
        if options.cert_file and options.key_file:
            return file_context(options.cert_file, options.key_file)
        return self_signed_context(options.bind_address)
    except CertificateError as error:
        raise ServingError(str(error)) from None


def _refusal(options: ServingOptions, error: OSError) -> str:
    where = f"--secure-port {options.port}: cannot listen on {options.bind_address}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; choose another one, or 0 to serve nothing"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this machine does not have the address; change --bind-address"
    return f"{where}: {error.strerror}; choose another port or address"
