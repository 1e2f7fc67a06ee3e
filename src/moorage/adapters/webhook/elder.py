"""An older replica, asked by one that follows it: the oldest decides for all.

Its certificate is verified as API servers do it: by the CA bundle of the webhook configuration, for the name under
which they call. One that cannot be asked is not waited for: the caller then decides itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from http.client import FORBIDDEN, OK

import aiohttp

from moorage.adapters.sessions import HttpSession

DECIDE_PATH = "/decide"
_CONNECT_S = 0.8
_ANSWER_S = 1.6
"""API servers wait for two seconds."""
_CONNECTIONS = 16
"""Enough for a burst: an answer takes about a millisecond, a handshake several."""
_LONGEST_ANSWER = 1 << 20
_HELLO = {"uid": "hello", "kind": {"group": "", "version": "v1", "kind": "Lease"}, "operation": "CREATE"}
HELLO = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": _HELLO}).encode()
"""A review that is not about a pod, so that the answer has no consequences."""


class Elder:
    """Asks older replicas. `host` is the name in their certificates, `bundle` the CAs that are trusted, PEM."""

    def __init__(self, host: str, bundle: Callable[[], bytes]) -> None:
        self._host = host
        self._bundle = bundle
        self._trusted: tuple[bytes, ssl.SSLContext] | None = None
        self._session: HttpSession | None = None

    async def ask(self, address: str, review: bytes) -> bytes | None:
        """The response to a review; None if there is none in time."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                with contextlib.suppress(aiohttp.ServerDisconnectedError, ConnectionResetError):
                    return await self._post(address, review)
                return await self._post(address, review)  # it had just closed a connection that was kept open
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def _post(self, address: str, review: bytes) -> bytes | None:
        context = self._context()
        if context is None:
            return None
        async with self._posted(address, review, context) as response:
            if response.status != OK or (response.content_length or _LONGEST_ANSWER) >= _LONGEST_ANSWER:
                return None
            return await response.read()

    @contextlib.asynccontextmanager
    async def _posted(
        self, address: str, review: bytes, context: ssl.SSLContext
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_S, sock_connect=_CONNECT_S)
            self._session = HttpSession({"limit": _CONNECTIONS}, timeout=timeout, trust_env=False)
        url, headers = f"https://{address}{DECIDE_PATH}", {"Content-Type": "application/json"}
        async with self._session.client.post(
            url, data=review, headers=headers, ssl=context, server_hostname=self._host, allow_redirects=False
        ) as response:
            yield response

    async def answers(self, address: str) -> bool:
        """Whether the replica at this address can be asked now."""
        return await self.ask(address, HELLO) is not None

    async def problem(self, address: str) -> str:
        """Why the webhook at this address cannot give pods their rules now; empty if it can.

        One that answers only clients with a certificate answers, as far as API servers are concerned.
        """
        context = self._context()
        if context is None:
            return "its registration has no CA bundle that can be used"
        try:
            async with asyncio.timeout(_ANSWER_S), self._posted(address, HELLO, context) as response:
                return "" if response.status in (OK, FORBIDDEN) else f"it answers with status {response.status}"
        except TimeoutError:
            return f"no answer within {_ANSWER_S:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return " ".join(f"{error or type(error).__name__}".split())

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.aclose()

    def _context(self) -> ssl.SSLContext | None:
        """Trust in the CA bundle of this moment; None without one."""
        bundle = self._bundle()
        if self._trusted is None or self._trusted[0] != bundle:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                context.load_verify_locations(cadata=bundle.decode())
            except (ssl.SSLError, ValueError):
                return None
            self._trusted = bundle, context
        return self._trusted[1]
