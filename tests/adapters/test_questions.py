"""How questions over HTTP are heard, refused and counted, and how they wait."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from moorage.adapters.listening import Bounds, listening
from moorage.adapters.questions import Endpoint, WaitingQuestions
from moorage.engine.waiting import Wait
from moorage.wire.errors import QuestionError


class PluginError(Exception):
    """A fault with words for the caller."""


async def _answer(body: bytes, _: Any) -> bytes:
    match body:
        case b"bad":
            raise QuestionError("not a question")
        case b"plugin":
            raise PluginError("the plugin failed")
        case b"fault":
            raise RuntimeError("secret")
    return b"{}"


CASES = {
    "answered": (b"good", "", "", 200, "{}", False),
    "bad question": (b"bad", "", "", 400, "POST /ask: not a question\n", False),
    "plugin": (b"plugin", "", "", 500, "POST /ask: the plugin failed\n", False),
    "fault of ours": (b"fault", "", "", 500, "POST /ask: internal error, see the log\n", False),
    "too large": (b"x" * 200, "", "", 413, "POST /ask: the body is larger than 100 bytes (maxBytes)\n", True),
    "not ready": (b"good", "", "starting", 503, "POST /ask: starting\n", True),
    "stranger": (b"good", "who are you", "starting", 403, "POST /ask: who are you\n", True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_caller_is_told(case: str) -> None:
    """One line; connections on which not everything was read are closed; every question is counted once."""
    body, refusal, unready, status, text, closed = CASES[case]
    counted: list[int] = []
    came: list[None] = []
    endpoint = Endpoint(
        "/ask",
        _answer,
        lambda _: refusal,
        lambda code, _: counted.append(code),
        lambda: came.append(None),
        lambda: unready,
        {413: " (maxBytes)"},
        (PluginError,),
    )

    async def scenario() -> None:
        app = web.Application()
        app.router.add_post(endpoint.path, endpoint.handle)
        async with (
            listening(app, "127.0.0.1", 0, bounds=Bounds(body_bytes=100)) as url,
            aiohttp.ClientSession() as session,
            session.post(f"{url}/ask", data=body) as response,
        ):
            assert (response.status, await response.text()) == (status, text)
            assert (response.headers.get("Connection") == "close") is closed

    asyncio.run(scenario())
    assert counted == [status]
    assert len(came) == 1


def test_questions_wait_for_what_happens() -> None:
    """All of them look again, with the time that they have waited; those beyond `most` are told that it is over."""

    async def scenario() -> None:
        waiting, happened = WaitingQuestions(lambda: 10.0), False

        def decide(now_s: float, waited_s: float) -> str | Wait:
            assert now_s == 10.0
            if happened:
                return "yes"
            return "no" if waited_s > 1000.0 else Wait(now_s + 60.0)

        asking = [asyncio.create_task(waiting.decided(decide, 2)) for _ in range(3)]
        (done,), others = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert done.result() == ("no", float("inf"))
        waiting.wake()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in others)
        happened = True
        waiting.wake()
        for task in others:
            answer, waited_s = await task
            assert answer == "yes"
            assert 0.0 < waited_s < 1000.0

    asyncio.run(scenario())
