"""The HTTPS server of a component: where it listens, and with which certificate.

It shares the event loop with what it reports on, on purpose: a loop that hangs does not answer `/livez`. What is served
is in `endpoints`, access control in `access`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from moorage.adapters.certificates import CertificateError
from moorage.adapters.listening import Bounds, ListenError, listening
from moorage.adapters.serving.access import ALWAYS_ALLOWED, Gate
from moorage.adapters.serving.certificate import Freshness, file_context, keep_fresh, self_signed_context
from moorage.adapters.serving.endpoints import EndpointSources, application
from moorage.core.values import dataclass

DEFAULT_PORT = 10259
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - probes come from the kubelet, and kube-scheduler listens there too
AUTHORITY_EVERY_S = 60.0
_BOUNDS = Bounds(connections=128, per_address=64)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The address to listen on, and the certificate. Port 0 picks a free one."""

    bind_address: str = ALL_ADDRESSES
    port: int = DEFAULT_PORT
    cert_file: str | None = None
    key_file: str | None = None
    client_ca_file: str | None = None
    """The CAs of accepted client certificates; without it, those that the API server accepts."""
    always_allowed: tuple[str, ...] = ALWAYS_ALLOWED
    """Paths that need no authorization; a trailing star matches everything below."""
    reload_every_s: float = 5.0
    """How often files are looked at."""
    looks_up_authority: bool = True
    """Whether the API server is asked for the CAs of client certificates, where there is no `client_ca_file`."""
    oldest_tls: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2


@asynccontextmanager
async def serving(options: ServingOptions, sources: EndpointSources, gate: Gate) -> AsyncIterator[str]:
    """Serve until the end of the block, which gets the server's URL. `ListenError` when that cannot be done."""
    address = _address(options.bind_address)
    tls = _tls(options)
    tls.minimum_version = options.oldest_tls
    try:
        freshness = Freshness(tls, options.cert_file, options.key_file, options.client_ca_file)
    except CertificateError as error:
        raise ListenError(str(error)) from None
    chores = [asyncio.create_task(keep_fresh(freshness, options.reload_every_s))]
    looks_up = options.looks_up_authority and options.client_ca_file is None
    if looks_up and sources.client_authority is not None:
        chores.append(asyncio.create_task(_follow_authority(freshness, sources, options.reload_every_s)))
    try:
        async with listening(
            application(sources, gate),
            str(address),
            options.port,
            tls,
            bounds=_BOUNDS,
            flag="--bind-address, --secure-port",
        ) as url:
            yield url
    finally:
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


async def _follow_authority(freshness: Freshness, sources: EndpointSources, retry_s: float) -> None:
    """Ask for the authority of clients until there is an answer, and every minute from then on."""
    refused = False
    while sources.client_authority is not None:
        pause_s = AUTHORITY_EVERY_S
        try:
            freshness.trust(await sources.client_authority(), "extension-apiserver-authentication")
        except (LookupError, CertificateError) as error:
            if not refused:
                log.info("client certificates are not accepted for now, tokens are", why=str(error))
                refused, pause_s = True, retry_s
        await asyncio.sleep(pause_s)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ListenError(
            f"--bind-address {text}: not an IP address; write 127.0.0.1, or 0.0.0.0 for every interface"
        ) from None


def _tls(options: ServingOptions) -> ssl.SSLContext:
    if bool(options.cert_file) != bool(options.key_file):
        given, missing = "--tls-cert-file", "--tls-private-key-file"
        if options.key_file:
            given, missing = missing, given
        raise ListenError(f"{given} needs {missing}: a certificate and its key go together; give both or none")
    try:
        if options.cert_file and options.key_file:
            return file_context(options.cert_file, options.key_file)
        return self_signed_context(options.bind_address)
    except CertificateError as error:
        raise ListenError(str(error)) from None
