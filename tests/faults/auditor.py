"""The auditor: watches of its own on the API server, every revision kept with the time at which it was seen.

It shares no code with Moorage: it is given an address, a token and an authority, and talks plain HTTP.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientError, ClientSession, ClientTimeout

from moorage.adapters.sessions import HttpSession
from tests.faults.history import ADDED, DELETED, History, Object, Revision

KINDS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "events": "/apis/events.k8s.io/v1/events",
    "poddisruptionbudgets": "/apis/policy/v1/poddisruptionbudgets",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "podgroups": "/apis/scheduling.k8s.io/v1beta1/podgroups",
}
_LINE_LIMIT_BYTES = 16 << 20
_AGAIN_S = 0.1


class Auditor:
    """Follows all of `KINDS` everywhere; an async context manager that has seen every list when it opens."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self.history = History()
        self._url = url
        self._token = token
        self._authority = authority
        self._session: HttpSession | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lags: list[tuple[float, float]] = []
        self._uids: dict[str, dict[str, Revision]] = {kind: {} for kind in KINDS}
        self._there: dict[tuple[str, str], dict[str, Revision]] = defaultdict(dict)
        """The same by kind and namespace."""

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=str(self._authority))
        self._session = HttpSession(
            {"ssl": tls, "limit": 0},
            base_url=self._url,
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=ClientTimeout(total=None, sock_connect=5.0),
            read_bufsize=_LINE_LIMIT_BYTES,
        )
        versions = {kind: await self._list(kind) for kind in KINDS}
        # A kind that is not served has nothing to say.
        served = {kind: version for kind, version in versions.items() if version}
        self._tasks = [asyncio.ensure_future(self._follow(kind, version)) for kind, version in served.items()]
        self._tasks.append(asyncio.ensure_future(self._feel()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.aclose()

    def now(self, kind: str, namespace: str) -> Iterator[Object]:
        """What is there of a kind in a namespace, the empty one for nodes."""
        return (each.object for each in self._there[kind, namespace].values())

    async def until(self, condition: Callable[[], object], within_s: float) -> bool:
        """Wait until a condition on what was seen holds; False if it does not in that time.

        A condition that takes long is looked at less often: it must not keep the auditor from seeing.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            began_s = time.monotonic()
            if condition():
                return True
            if began_s > deadline_s:
                return False
            await asyncio.sleep(max(_AGAIN_S / 2, 5 * (time.monotonic() - began_s)))

    def lag_s(self, since_s: float) -> float:
        """How late this very process was at worst: what it saw, and what its proxies passed on, was as late as that."""
        return max((lag_s for at_s, lag_s in self._lags if at_s >= since_s), default=0.0)

    async def _feel(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(_AGAIN_S)
            ended_s = time.monotonic()
            self._lags.append((ended_s, ended_s - began_s - _AGAIN_S))

    def forget(self, namespaces: Iterable[str]) -> None:
        """Drop what was seen of namespaces whose runs are judged."""
        gone = set(namespaces)
        self.history.revisions = [each for each in self.history.revisions if each.namespace not in gone]

    async def _list(self, kind: str) -> str:
        """Take all objects there are; the version to go on from, or nothing if the kind is not served."""
        async with self._open().get(KINDS[kind]) as answer:
            if answer.status == 404:
                return ""
            answer.raise_for_status()
            content = json.loads(await answer.read())
        found = {item["metadata"]["uid"]: item for item in content["items"]}
        for uid in set(self._uids[kind]) - set(found):
            before = self._uids[kind][uid]
            self._take(kind, DELETED, dict(before.object))
        for item in found.values():
            known = self._uids[kind].get(item["metadata"]["uid"])
            if known is None or known.version != int(item["metadata"]["resourceVersion"]):
                self._take(kind, ADDED, item)
        return str(content["metadata"]["resourceVersion"])

    async def _follow(self, kind: str, version: str) -> None:
        """Watch for ever; a server that is away is waited for, one that has forgotten is asked for everything."""
        while True:
            try:
                version = await self._watch(kind, version) if version else await self._list(kind)
            except (ClientError, OSError, TimeoutError, ValueError):
                await asyncio.sleep(_AGAIN_S)

    async def _watch(self, kind: str, version: str) -> str:
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        try:
            async with self._open().get(KINDS[kind], params=query) as answer:
                if answer.status == 410:
                    return self._gap(kind)
                answer.raise_for_status()
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return self._gap(kind)
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(kind, event["type"], event["object"])
        except (ClientError, OSError, TimeoutError):
            await asyncio.sleep(_AGAIN_S)
        return version

    def _gap(self, kind: str) -> str:
        self.history.gaps.append(f"the auditor may have missed revisions of {kind}")
        return ""

    def _take(self, kind: str, change: str, item: dict[str, Any]) -> None:
        version = int(item["metadata"]["resourceVersion"])
        revision = Revision(kind, change, item, version, time.monotonic())
        self.history.revisions.append(revision)
        for there in (self._uids[kind], self._there[kind, revision.namespace]):
            if change == DELETED:
                there.pop(revision.uid, None)
            else:
                there[revision.uid] = revision

    def _open(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError("not open; use it as an async context manager")
        return self._session.client
