"""Authentication and authorisation of requests, delegated to the API server as in kube-scheduler.

A request has a bearer token, a client certificate that TLS has verified already, or is anonymous. Paths that are always
allowed need no review. For all others the API server is asked; an answer is cached for `REMEMBER_S`. Without an answer
the request is refused. Refusals look like kube-scheduler's.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import structlog
from aiohttp import web

from moorage.adapters.certificates import subject_name

REMEMBER_S = 10.0
_REMEMBERED = 1024
_COMPLAIN_EVERY_S = 60.0
ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
ANONYMOUS: Mapping[str, Any] = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
_AUTHENTICATED = "system:authenticated"
_BEARER = "bearer "

T = TypeVar("T")
User = Mapping[str, Any]
"""`username`, and perhaps `uid`, `groups` and `extra`, as in a TokenReview."""

log = structlog.get_logger()


class Reviews(Protocol):
    """Reviews by the API server. Both raise LookupError if there is no answer."""

    async def authenticate(self, token: str) -> User | None:
        """The user of a token; None if it is unknown."""

    async def authorize(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may do this with a path."""


class _Memory(Generic[T]):
    """Answers that still count, by question."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._answers: dict[str, tuple[float, T]] = {}

    async def recall(self, question: str, ask: Callable[[], Awaitable[T]]) -> T:
        """The kept answer, or a new one."""
        known = self._answers.get(question)
        if known is not None and known[0] > self._now_s():
            return known[1]
        answer = await ask()
        if len(self._answers) >= _REMEMBERED:
            self._answers.clear()
        self._answers[question] = (self._now_s() + REMEMBER_S, answer)
        return answer


class Gate:
    """Decides on requests. Without `reviews` only the paths that are always allowed are open."""

    def __init__(
        self,
        reviews: Reviews | None,
        always_allowed: Iterable[str] = ALWAYS_ALLOWED,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviews = reviews
        paths = list(always_allowed)
        self._open = {path for path in paths if not path.endswith("*")}
        self._open_below = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._users: _Memory[User | None] = _Memory(now_s)
        self._rights: _Memory[bool] = _Memory(now_s)
        self._now_s = now_s
        self._complain_s = -_COMPLAIN_EVERY_S

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Why the request is not answered; None if it is."""
        path = request.path
        if path in self._open or (self._open_below and path.startswith(self._open_below)):
            return None
        try:
            user = await self._user(request)
        except LookupError as error:
            self._complain("requests cannot be authenticated", error)
            user = None
        if user is None:
            return failure(401, "Unauthorized", "Unauthorized")
        verb = request.method.lower()
        try:
            allowed = await self._allowed(user, verb, path)
        except LookupError as error:
            self._complain("requests cannot be authorised", error)
            return failure(500, "InternalError", "Internal error occurred: the API server could not be asked")
        if allowed:
            return None
        text = f"forbidden: User {json.dumps(user['username'])} cannot {verb} path {json.dumps(path)}"
        log.debug("Forbidden", uri=path, user=user["username"])
        return failure(403, "Forbidden", text, details={})

    async def _user(self, request: web.Request) -> User | None:
        certified = _certified(request)
        if certified is not None:
            return certified
        header = request.headers.get("Authorization", "")
        token = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""
        if not token:
            return ANONYMOUS
        if self._reviews is None:
            return None
        ask = self._reviews.authenticate
        # Tokens are secrets: what is kept is only good for finding the same one again.
        return await self._users.recall(hashlib.sha256(token.encode()).hexdigest(), lambda: ask(token))

    async def _allowed(self, user: User, verb: str, path: str) -> bool:
        if self._reviews is None:
            return False
        ask = self._reviews.authorize
        question = json.dumps([user, verb, path], sort_keys=True)
        return await self._rights.recall(question, lambda: ask(user, verb, path))

    def _complain(self, what: str, error: LookupError) -> None:
        now_s = self._now_s()
        if now_s - self._complain_s >= _COMPLAIN_EVERY_S:
            self._complain_s = now_s
            log.warning(what, why=str(error), remedy="grant the ClusterRole system:auth-delegator")


def _certified(request: web.Request) -> User | None:
    """The user of a client certificate that TLS has verified: common name and organisations."""
    certificate = request.get_extra_info("peercert") or {}
    username = subject_name(certificate)
    if not username:
        return None
    groups = [value for part in certificate["subject"] for key, value in part if key == "organizationName"]
    return {"username": username, "groups": [*groups, _AUTHENTICATED]}


def failure(code: int, reason: str, message: str, **fields: Any) -> web.Response:
    """An answer that is a Kubernetes Status."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return web.json_response({**status, "reason": reason, **fields, "code": code}, status=code)
