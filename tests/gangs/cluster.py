"""The API server as the drill's own admin sees it: requests, one watch of pods, and a player of a controller.

Nothing here uses Moorage's client, so that the judge shares no code with what it judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from aiohttp import ClientError, ClientSession, ClientTimeout

from moorage.adapters.sessions import HttpSession
from moorage.bench.controlplane import ADMIN, ControlPlane
from tests.gangs.declarations import Gang, Object, member
from tests.gangs.ledger import Ledger

_LINE_LIMIT_BYTES = 4 << 20
_AGAIN_S = 0.1
_ESTABLISH_S = 30.0


class RefusedError(Exception):
    """The API server refused a request of the drill's own; the message has its words."""


class Cluster:
    """Requests as admin; an async context manager."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._session: HttpSession | None = None

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=str(self._plane.token_folder / "ca.crt"))
        self._session = HttpSession(
            {"ssl": tls, "limit": 0},
            base_url=self._plane.url,
            headers={"Authorization": f"Bearer {self._plane.token_of(ADMIN.name)}"},
            timeout=ClientTimeout(total=None),
            read_bufsize=_LINE_LIMIT_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.aclose()

    @property
    def session(self) -> ClientSession:
        """The open connection pool."""
        if self._session is None:
            raise RuntimeError("not open; use it as an async context manager")
        return self._session.client

    async def get(self, path: str) -> Any:
        """Return an object, or a list."""
        return await self._ask("GET", path)

    async def create(self, collection: str, body: Object) -> Any:
        """Create an object, which may have a status (nodes take it)."""
        return await self._ask("POST", collection, body)

    async def delete(self, path: str) -> None:
        """Delete at once; what is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            await self._ask("DELETE", path, {"gracePeriodSeconds": 0})

    async def create_until_served(self, collection: str, body: Object) -> None:
        """Create an object of a kind that the server may serve only in a moment."""
        deadline = time.monotonic() + _ESTABLISH_S
        while True:
            try:
                await self.create(collection, body)
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    raise RefusedError(f"{collection}: not served after {_ESTABLISH_S:.0f} s") from None
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    async def _ask(self, method: str, path: str, body: Object | None = None) -> Any:
        async with self.session.request(method, path, json=body) as answer:
            content = await answer.read()
            if answer.status == 404:
                raise FileNotFoundError(path)
            if answer.status >= 400:
                raise RefusedError(f"{method} {path}: {answer.status} {content[:400].decode(errors='replace')}")
            return json.loads(content)


class PodWatch:
    """Feeds a ledger with the pods of one namespace; an async context manager that has seen the list when it opens."""

    def __init__(self, cluster: Cluster, namespace: str, ledger: Ledger) -> None:
        self.lost: list[str] = []
        """Why the watch may have missed something; empty in a sound run."""
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._ledger = ledger
        self._version = ""
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        listed = await self._cluster.get(self._path)
        self._version = listed["metadata"]["resourceVersion"]
        for pod in listed["items"]:
            self._ledger.see("ADDED", pod)
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait until a condition on the ledger holds; False if it does not in that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(condition)
                return True
        return condition()

    async def next_change(self) -> None:
        """Wait for the next event."""
        async with self._changed:
            await self._changed.wait()

    async def _run(self) -> None:
        while not self.lost:
            with contextlib.suppress(ClientError):
                await self._follow()

    async def _follow(self) -> None:
        query = {"watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        async with self._cluster.session.get(self._path, params=query) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR" or "metadata" not in event["object"]:
                    self.lost.append(f"the watch of {self._path} broke off: {line[:200]!r}")
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._ledger.see(event["type"], event["object"])
                async with self._changed:
                    self._changed.notify_all()


async def play_controller(cluster: Cluster, gang: Gang, watch: PodWatch, ledger: Ledger, owner_uid: str) -> None:
    """Keep the gang at its size as a ReplicaSet does: a member that is being deleted is replaced at once."""
    numbers = itertools.count(1)
    while True:
        for _ in range(gang.size - len(ledger.members)):
            pod = member(gang, f"again-{next(numbers):03}", owner_uid)
            created = await cluster.create(f"/api/v1/namespaces/{gang.name}/pods", pod)
            # Counted at once, or the watch's delay would make us create it twice.
            ledger.foresee(created)
        await watch.next_change()


async def each(works: Iterable[Any]) -> None:
    """Await all of them at once."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)
