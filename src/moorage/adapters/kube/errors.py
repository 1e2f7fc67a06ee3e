"""The exception tree of this package, and how an HTTP answer becomes one of them.

The class names are the reasons of Kubernetes' own `Status` object, so that a reader who knows one knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from moorage.wire.errors import REFUSALS

MESSAGE_LIMIT = 2000


class KubeError(Exception):
    """Anything this package raises."""


class CredentialsError(KubeError):
    """Credentials are unusable. The text is one line that names file, field, value and remedy."""


class ApiError(KubeError):
    """A request did not succeed."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        """HTTP status, 0 when there was no answer."""
        self.reason = reason
        """Machine readable reason of the Status object, e.g. `AlreadyExists`."""
        self.details: Mapping[str, Any] = details or {}
        self.retry_after_s = retry_after_s
        """How long the server asks us to wait; None when it does not ask."""


class Unreachable(ApiError):  # noqa: N818 - named after the condition, as its siblings are
    """No answer from the server."""


class Untrusted(Unreachable):
    """The server's certificate is not that of the server we look for, or its authority is not ours."""


class Overtaken(ApiError):  # noqa: N818
    """Not sent: what it was decided on has changed meanwhile."""


class Timeout(ApiError):  # noqa: N818
    """No answer in time. The server may still carry the request out."""


class BadRequest(ApiError):  # noqa: N818
    """The request itself is wrong."""


class Unauthorized(ApiError):  # noqa: N818
    """The server does not accept our credentials."""


class Forbidden(ApiError):  # noqa: N818
    """We lack a permission."""


class NotFound(ApiError):  # noqa: N818
    """The API server says that something does not exist; `about` tells whether that is the object in question."""

    def about(self, plural: str, name: str) -> bool:
        """Whether it is this object that does not exist, and not its namespace, say."""
        return self.details.get("kind") == plural and self.details.get("name") == name


class NoSuchPath(ApiError):  # noqa: N818
    """A 404 without a Status that says what is not found, so that nothing follows from it.

    API servers do that for kinds that they do not serve, and proxies for whatever they like; see `discovery`.
    """


class NotServed(ApiError):  # noqa: N818
    """The server does not serve the kind, and says so where it lists what it serves."""


class Conflict(ApiError):  # noqa: N818
    """The object is not in the state that the request assumed."""


class AlreadyExists(Conflict):
    """An object of that name exists."""


class Gone(ApiError):  # noqa: N818
    """The resource version or the continue token is too old."""


class Invalid(ApiError):  # noqa: N818
    """A field of the request is not acceptable."""


class TooManyRequests(ApiError):  # noqa: N818
    """The server is overloaded, or a disruption budget forbids an eviction."""


class ServerError(ApiError):
    """The server failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NoSuchPath,
    405: BadRequest,
    406: BadRequest,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: TooManyRequests,
    504: Timeout,
}


class StatusView(msgspec.Struct):
    """What we read of a `v1.Status`."""

    kind: str = ""
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


_status_decoder = msgspec.json.Decoder(StatusView)

T = TypeVar("T")


def error_from_status(view: StatusView, status: int, retry_after_s: float | None = None) -> ApiError:
    """Turn a decoded Status object into the matching exception."""
    reason = view.reason or ""
    error_class = _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
    if error_class is Conflict and reason == "AlreadyExists":
        error_class = AlreadyExists
    elif error_class is NoSuchPath and reason == "NotFound":
        error_class = NotFound
    elif reason == "Expired":
        error_class = Gone
    message = (view.message or f"HTTP status {status}")[:MESSAGE_LIMIT]
    return error_class(message, status=status, reason=reason, details=view.details, retry_after_s=retry_after_s)


def error_from_answer(status: int, headers: Mapping[str, str], payload: bytes) -> ApiError:
    """Turn an HTTP answer with a status of 400 or more into the matching exception.

    Proxies in front of the server answer with HTML or plain text; the first line of it is then the message.
    """
    retry_after_s = parse_retry_after(headers.get("Retry-After"))
    try:
        view = _status_decoder.decode(payload)
    except REFUSALS:
        view = StatusView()
    if view.kind != "Status":
        first_line = payload[:MESSAGE_LIMIT].decode("utf-8", "replace").strip().split("\n", 1)[0]
        view = StatusView(message=first_line or None)
    return error_from_status(view, status, retry_after_s)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header. The API server sends whole seconds; a date (legal, never seen) counts as 1 s."""
    if value is None:
        return None
    text = value.strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else 1.0


def decode_answer(body: bytes, view: type[T], complaint: str = "the answer is not what was asked for") -> T:
    """The body of a good answer as a value; what cannot be read is the server's failure."""
    try:
        return msgspec.json.decode(body, type=view)
    except REFUSALS as failure:
        raise ServerError(f"{complaint}: {failure}") from failure
