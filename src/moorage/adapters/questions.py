"""Questions over HTTP: how they are heard, wait and are answered. What the extender and the webhook share.

A caller that may not ask gets 403, and every caller of a process that is not ready 503, before the body is read. Their
connections are closed, so that a caller that kept one open finds its way to another replica. A bad question gets 400, a
fault 500. Every refusal is one line that says why.

A question that has to wait is asked again whenever something happens, and at the time that the decision names. Others
are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar

import structlog
from aiohttp import web

from moorage.adapters import clock
from moorage.adapters.listening import BodyError, read_body
from moorage.core.values import dataclass
from moorage.engine.waiting import Wait
from moorage.wire.errors import QuestionError

T = TypeVar("T")

_TURNS = 3
"""Turns of the event loop that bytes of a watch take at most until they have become an event."""

log = structlog.get_logger()


class WaitingQuestions:
    """The questions that wait for something to happen."""

    def __init__(self, now_s: Callable[[], float] = clock.now_s) -> None:
        self.now_s = now_s
        self._changed = asyncio.Event()
        self._number = 0

    def wake(self) -> None:
        """Something has happened: let all of them look again."""
        if self._number:
            self._changed.set()
            self._changed = asyncio.Event()

    async def decided(self, decide: Callable[[float, float], T | Wait], most: float = math.inf) -> tuple[T, float]:
        """What `decide` says at last, and for how long it was waited for.

        It gets the time and how long the question has waited, which is for ever if `most` others do already.
        """
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # what was on the wire before the question is to be heard before it
        began_s, waited_s = time.monotonic(), 0.0
        while True:
            now_s = self.now_s()
            answer = decide(now_s, waited_s)
            if not isinstance(answer, Wait):
                return answer, waited_s
            if self._number >= most:
                waited_s = math.inf
                continue
            await self._change(answer.until_s - now_s)
            waited_s = time.monotonic() - began_s

    async def _change(self, timeout_s: float) -> None:
        """Wait until something happens, or for so long."""
        self._number += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.0, timeout_s))
        finally:
            self._number -= 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path that is asked by POST."""

    path: str
    answer: Callable[[bytes, Any], Awaitable[bytes]]
    """The body of a question and the caller's certificate -> the body of the answer."""
    refusal: Callable[[Any], str]
    """Why a caller with this certificate is not heard; empty if it is."""
    answered: Callable[[int, float], None]
    """Gets the status and the seconds of every question."""
    began: Callable[[], None] = lambda: None
    """Told of every question when it comes."""
    unready: Callable[[], str] = lambda: ""
    """Why questions are not answered now; empty when they are."""
    limits: Mapping[int, str] = field(default_factory=dict)
    """Status -> what the configuration calls the limit that was reached."""
    faults: tuple[type[Exception], ...] = ()
    """How plugins fail, in words for the caller; of other errors only the log tells."""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one question."""
        began_s = time.monotonic()
        self.began()
        status = 500
        try:
            response = await self._respond(request)
            status = response.status
        finally:
            self.answered(status, time.monotonic() - began_s)
        return response

    async def _respond(self, request: web.Request) -> web.Response:
        peer = request.get_extra_info("peercert")
        stranger = self.refusal(peer)
        if stranger:
            return self._closed(403, stranger)
        reason = self.unready()
        if reason:
            return self._closed(503, reason)
        try:
            body = await read_body(request)
        except BodyError as error:
            return self._closed(error.status, f"{error}{self.limits.get(error.status, '')}", error.headers)
        try:
            return web.Response(body=await self.answer(body, peer), content_type="application/json")
        except QuestionError as error:
            return self._refused(400, str(error))
        except self.faults as error:
            log.warning("a plugin failed", path=self.path, error=str(error))
            return self._refused(500, str(error))
        except Exception:
            log.exception("no answer, by a fault of ours", path=self.path)
            return self._refused(500, "internal error, see the log")

    def _refused(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
        return web.Response(status=status, text=f"POST {self.path}: {reason}\n", headers=headers)

    def _closed(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
        """Refuse without having read everything, so that nothing else can come over this connection."""
        response = self._refused(status, reason, headers)
        response.force_close()
        return response
