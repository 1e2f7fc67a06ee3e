"""URLs, as Go's net/url reads those of requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs, quote

from moorage.cel import costs
from moorage.cel import types as ty
from moorage.cel.functions import Function, Library, method, overload
from moorage.cel.types import Type
from moorage.cel.values import CelError, Foreign, Map, Value

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_PORT = re.compile(r":[0-9]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"%\u0080-\U0010ffff]*")
_PATH_SAFE = "/!$&'()*+,;=:@[]"


class UrlError(ValueError):
    """The text is not a URL; the message says why, in Go's words."""


@dataclass(frozen=True, slots=True)
class Url(Foreign):
    """The parts of a URL as they are written."""

    type: ClassVar[Type] = ty.struct("kubernetes.URL")
    go_name: ClassVar[str] = "cel.URL"
    scheme: str
    host: str
    path: str
    query: str
    user: str = ""
    fragment: str = ""

    @property
    def hostname(self) -> str:
        """The host without brackets and port."""
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        name, colon, port = self.host.rpartition(":")
        return name if colon and _PORT.fullmatch(":" + port) else self.host

    @property
    def port(self) -> str:
        """The port, or nothing."""
        rest = self.host.rpartition("]")[2] if self.host.startswith("[") else self.host
        port = rest.rpartition(":")[2] if ":" in rest else ""
        return port if port.isascii() and port.isdigit() else ""


def parse_url(text: str) -> Url:
    """The URL of a request: absolute, or an absolute path; raises UrlError."""

    def wrong(reason: str) -> UrlError:
        return UrlError(f'parse "{text}": {reason}')

    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise wrong("net/url: invalid control character in URL")
    if not text:
        raise wrong("empty url")
    match = _SCHEME.match(text)
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    if match is None and ":" in text.split("/", 1)[0] and text[0] == ":":
        raise wrong("missing protocol scheme")
    if not rest.startswith("/"):
        if not scheme:
            raise wrong("invalid URI for request")
        return Url(scheme, "", "", rest.partition("?")[2])
    rest, _, query = rest.partition("?")
    host = user = ""
    if scheme and rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = host.rpartition("@")
        _check_host(host, wrong)
    bad = _BAD_ESCAPE.search(rest)
    if bad:
        raise wrong(f'invalid URL escape "{bad.group()[:3]}"')
    return Url(scheme, host, rest, query.partition("#")[0], user)


def _check_host(host: str, wrong: Callable[[str], UrlError]) -> None:
    _, bracket, port = host.rpartition("]")
    if host.startswith("[") and not bracket:
        raise wrong("missing ']' in host")
    if not host.startswith("["):
        _, colon, port = host.rpartition(":")
        port = colon + port if colon else ""
    if port and not _PORT.fullmatch(port):
        raise wrong(f'invalid port "{port}" after host')
    match = _HOST.match(host)
    end = match.end() if match else 0
    if end < len(host):
        raise wrong(f'invalid character "{host[end]}" in host name')
    bad = _BAD_ESCAPE.search(host)
    if bad:
        raise wrong(f'invalid URL escape "{bad.group()[:3]}"')


def _url(text: str) -> Value:
    try:
        return parse_url(text)
    except UrlError as error:
        return CelError(f"URL parse error during conversion from string: {error}")


def _query(url: Url) -> Map:
    return Map(dict(parse_qs(url.query, keep_blank_values=True)))


def _escaped(url: Url) -> str:
    return quote(url.path, safe=_PATH_SAFE + "%")


_U = {"url": Url.type}
LIBRARY = Library(
    (
        Function("url", (overload("string_to_url", "string -> url", _url, **_U),), cost=costs.first_argument),
        Function(
            "isURL",
            (overload("is_url_string", "string -> bool", lambda text: isinstance(_url(text), Url)),),
        ),
        Function("getScheme", (method("url_get_scheme", "url -> string", lambda url: url.scheme, **_U),)),
        Function("getHost", (method("url_get_host", "url -> string", lambda url: url.host, **_U),)),
        Function("getHostname", (method("url_get_hostname", "url -> string", lambda url: url.hostname, **_U),)),
        Function("getPort", (method("url_get_port", "url -> string", lambda url: url.port, **_U),)),
        Function("getEscapedPath", (method("url_get_escaped_path", "url -> string", _escaped, **_U),)),
        Function("getQuery", (method("url_get_query", "url -> map(string, list(string))", _query, **_U),)),
    )
)
