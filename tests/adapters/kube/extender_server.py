"""A scheduler extender on this machine that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Say = Callable[[str, Any], Any]
"""Verb and question -> answer; a web.Response is sent as it is."""


@dataclass
class ExtenderServer:
    """A running extender."""

    url: str = ""
    seen: list[tuple[str, Any]] = field(default_factory=list)
    """Verb and question."""

    def asked(self, verb: str) -> list[Any]:
        """The questions of one verb."""
        return [question for found, question in self.seen if found == verb]


@asynccontextmanager
async def extender_server(say: Say, port: int = 0) -> AsyncIterator[ExtenderServer]:
    """Serve for the length of the block."""
    server = ExtenderServer()

    async def answer(request: web.Request) -> web.StreamResponse:
        verb, question = request.match_info["verb"], json.loads(await request.read())
        assert request.method == "POST"
        assert request.content_type == "application/json"
        server.seen.append((verb, question))
        said = say(verb, question)
        if inspect.isawaitable(said):
            said = await said
        return said if isinstance(said, web.StreamResponse) else web.json_response(said)

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/x/{verb}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/x"
    try:
        yield server
    finally:
        await runner.cleanup()
