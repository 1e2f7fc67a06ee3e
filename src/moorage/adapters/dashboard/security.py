"""Access control: only the page itself, from localhost by default, with a token for everything about the cluster.

- `Host` must name this machine or the address that is listened on: a foreign name that resolves to this server (DNS
  rebinding) is refused, whatever it asks for.
- Requests of other origins are refused, by `Sec-Fetch-Site` and `Origin`. The page itself may be reached by a link.
- Everything about a cluster needs the token: other users of the machine must not read the pods' environment. Only a
  guard without a token, for what is made up anyway, tells everything, and on this machine only.
- The token comes in a header. In an address it would end up in logs and histories, so that one is never looked at.
- The page may load and connect to nothing but this server, and may not be framed. Scripts that write markup fail.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from moorage.core.values import dataclass

TOKEN_HEADER = "X-Moorage-Token"  # noqa: S105 - the name of a header
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_LOOPBACK_NAMES = frozenset({"localhost"})
_SAME = frozenset({"same-origin", "none"})
_OPEN = frozenset({"/healthz"})
_WRITES = "/api/apply/"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules for one server."""

    host: str
    """What is listened on."""
    token: str = ""
    """Empty: all users of this machine may read, and changes are refused."""
    read_only: bool = False
    """Whether the token grants read access only, and changes are refused."""
    more_hosts: Collection[str] = ()
    """Names under which the server may be asked beside its own."""

    @property
    def is_private(self) -> bool:
        """Whether only this machine can ask."""
        return is_loopback(self.host)

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Status and reason if the request is not answered."""
        if not self._knows(request):
            return 403, "this host name is not served here; use the address that the command printed, or --allow-host"
        if request.path in _OPEN:
            return None
        if not _is_of_this_page(request):
            return 403, "requests of other origins are refused"
        if request.path.startswith(_WRITES):
            return self._write_refusal(request)
        everybody = self.is_private and not self.token
        if request.path.startswith("/api/") and not everybody and not self._has_token(request):
            return 401, "the token is missing or wrong; use the address that the command printed"
        return None

    def _write_refusal(self, request: web.Request) -> tuple[int, str] | None:
        if not self.token or self.read_only:
            return 403, "nothing can be changed here; start the dashboard with --allow-writes"
        if not self._has_token(request):
            return 401, "the token is missing or wrong; use the address that the command printed"
        return None

    def _has_token(self, request: web.Request) -> bool:
        given = request.headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape")
        return bool(self.token) and hmac.compare_digest(given, self.token.encode())

    def _knows(self, request: web.Request) -> bool:
        name = host_name(request.headers.get("Host", ""))
        if not name:
            return False
        if name == self.host.lower() or name in self.more_hosts:
            return True
        if is_loopback(name):
            return True
        # An address cannot be pointed elsewhere: the one that the connection came to is fine.
        reached = request.transport.get_extra_info("sockname") if request.transport is not None else None
        return isinstance(reached, tuple) and name == str(reached[0]).lower()


def _is_of_this_page(request: web.Request) -> bool:
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in _SAME:
        navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
        if not (navigates and request.path == "/"):
            return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()


def host_name(header: str) -> str:
    """The name in a `Host` header, in lower case and without port and brackets; empty if there is none."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def is_loopback(host: str) -> bool:
    """Whether a host name or an address means this machine."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guarding(guard: Guard) -> Middleware:
    """The middleware that asks the guard about every request, and puts the headers on every answer."""

    @web.middleware
    async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = guard.refusal(request)
        if refused is not None:
            answer: web.StreamResponse = web.json_response({"error": refused[1]}, status=refused[0])
        elif request.path == "/" and request.query:
            # A token in the query is removed from the address at once; it is not accepted.
            answer = web.Response(status=303, headers={"Location": "/"})
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.json_response({"error": error.reason}, status=error.status)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return ask
