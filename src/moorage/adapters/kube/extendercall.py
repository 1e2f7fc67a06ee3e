"""One HTTP extender: where it is, how it is trusted, and one call of it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from moorage.adapters.kube.errors import ApiError, CredentialsError
from moorage.adapters.kube.tls import TlsMaterial, make_context
from moorage.adapters.kube.transport import Request, Transport, read_bounded
from moorage.core.limits import EXTENDER_ANSWER_BYTES
from moorage.framework.configuration import Extender, ExtenderTls
from moorage.wire.extender import ExtenderAnswerError

_GOOD = 200
_OUR_FAULT_ENDS = 500
"""From this status on it is not the question that is wrong."""

T = TypeVar("T")


class ExtenderError(Exception):
    """An extender could not be asked, or said that it failed; the text is one line.

    `silent` if it gave no answer that can be read: then it is the extender that is at fault, not the question.
    """

    def __init__(self, text: str, *, silent: bool = False) -> None:
        super().__init__(text)
        self.silent = silent


class ExtenderCall:
    """Calls one extender; `tls` is what `tls_context` says about it."""

    def __init__(self, extender: Extender, tls: ssl.SSLContext | None, transport: Transport) -> None:
        self.extender = extender
        self.url = extender.url_prefix.rstrip("/")
        self.by_name = extender.node_cache_capable
        """Whether it knows nodes and pods itself and needs only their names."""
        self._transport = transport
        self._tls = tls
        self._server_name = extender.tls.server_name or None if extender.tls is not None else None

    async def send(self, verb: str, body: bytes) -> bytes:
        """Post a question; the body of the answer. `ExtenderError` for anything but 200, of bounded length, in time."""
        url = f"{self.url}/{verb}"
        headers = {"Content-Type": "application/json", "User-Agent": "moorage"}
        timeout_s = self.extender.http_timeout_s
        request = Request("POST", url, headers, body, self._tls, self._server_name, timeout_s)
        try:
            response = await self._transport.send(request)
            answer = await read_bounded(response, EXTENDER_ANSWER_BYTES + 2 * len(body))
        except ApiError as error:
            reason = str(error).partition(";")[0]  # what follows is advice about kubeconfigs
            raise ExtenderError(f'Post "{url}": {reason}', silent=True) from None
        if response.status != _GOOD:
            text = f"failed {verb} with extender at URL {url}, code {response.status}"
            raise ExtenderError(text, silent=response.status >= _OUR_FAULT_ENDS)
        return answer

    def read(self, reader: Callable[[bytes], T], answer: bytes) -> T:
        """Make sense of an answer; `ExtenderError` names the extender that gave it."""
        try:
            return reader(answer)
        except ExtenderAnswerError as error:
            raise ExtenderError(f"extender {self.url}: {error}", silent=True) from None


def tls_context(extender: Extender, path: str) -> ssl.SSLContext | None:
    """How to trust an extender; None if it is spoken to in the clear. `path` names the field in complaints.

    With enableHTTPS and no CA, any certificate will do: that is what kube-scheduler makes of it.
    """
    if not extender.url_prefix.startswith("https:"):
        return None
    tls = extender.tls or ExtenderTls()
    ca = tls.ca_data or _content(tls.ca_file, f"{path}.caFile")
    certificate = tls.cert_data or _content(tls.cert_file, f"{path}.certFile")
    key = tls.key_data or _content(tls.key_file, f"{path}.keyFile")
    insecure = tls.insecure or (extender.enable_https and not ca)
    return make_context(TlsMaterial(ca, certificate, key, insecure), path)


def _content(file: str, path: str) -> bytes:
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CredentialsError(f"{path}: {file}: cannot be read ({reason}); check the path") from None
