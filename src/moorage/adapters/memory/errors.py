"""The answers of the embedded API server that are not success.

    ApiError
      BadRequest     400  the request makes no sense
      Forbidden      403  admission refuses the object
      NotFound       404  no such object
      Conflict       409  precondition failed: uid, resource version, already bound, being deleted
      AlreadyExists  409  the name is taken
      Expired        410  the watch fell behind the kept history
      Invalid        422  the object breaks a rule of its kind
      TooManyRequests 429  a disruption budget forbids the eviction for now

Code, reason and message follow the API server's, so that whatever reads one understands the other.
"""

from __future__ import annotations

from typing import ClassVar


class ApiError(Exception):
    """A refused request; `code` and `reason` are those of the API server's Status object."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(ApiError):  # noqa: N818 - named as the API server names its reasons
    """The request makes no sense."""

    code = 400
    reason = "BadRequest"


class Forbidden(ApiError):  # noqa: N818
    """Admission refuses the object."""

    code = 403
    reason = "Forbidden"


class NotFound(ApiError):  # noqa: N818
    """No such object."""

    code = 404
    reason = "NotFound"


class Conflict(ApiError):  # noqa: N818
    """A precondition does not hold."""

    code = 409
    reason = "Conflict"


class AlreadyExists(ApiError):  # noqa: N818
    """The name is taken."""

    code = 409
    reason = "AlreadyExists"


class Expired(ApiError):  # noqa: N818
    """The watch is closed or asks for history that is no longer kept."""

    code = 410
    reason = "Expired"


class Invalid(ApiError):  # noqa: N818
    """The object breaks a rule of its kind."""

    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):  # noqa: N818
    """A disruption budget forbids the eviction for now."""

    code = 429
    reason = "TooManyRequests"
