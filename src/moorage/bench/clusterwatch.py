"""The independent watcher of `moorage bench cluster`: when each pod was bound, and when its event was there.

It sees what any client of the API server sees, and treats every scheduler alike. Times are those of the monotonic clock
at which a line of the watch arrived here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.watchstream import LineSplitter, decode_page
from moorage.bench.clusterload import NAMESPACE
from moorage.bench.controlplane import ControlPlaneError

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_SILENCE_S = 600.0
_WATCH_S = 7200


class _Name(msgspec.Struct, gc=False):
    name: str = ""


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _PodSpec(msgspec.Struct, gc=False):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _PodLine(msgspec.Struct, gc=False):
    type: str
    object: _Pod


class _Event(msgspec.Struct, gc=False):
    metadata: _Meta
    reason: str = ""
    regarding: _Name = msgspec.field(default_factory=_Name)


class _EventLine(msgspec.Struct, gc=False):
    type: str
    object: _Event


_Line = TypeVar("_Line", _PodLine, _EventLine)
_read_pod = msgspec.json.Decoder(_PodLine).decode
_read_event = msgspec.json.Decoder(_EventLine).decode


class Watcher:
    """Notes the first time that each pod is seen on a node, and the first Scheduled event of each."""

    def __init__(self) -> None:
        self.bound_at_s: dict[str, float] = {}
        self.event_at_s: dict[str, float] = {}
        self.first_bind: Callable[[], None] = lambda: None
        """Called when the first pod is bound."""
        self.changed = asyncio.Event()
        """Set with every recorded bind and event; cleared by the waiting code."""
        self._present: set[str] = set()
        self._watches: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def watching(self, client: KubeClient) -> AsyncIterator[None]:
        """Watch from now on; pods that are on nodes already do not count."""
        pods, events = await self._version(client, _PODS), await self._version(client, _EVENTS)
        self._watches = [
            asyncio.create_task(self._follow(client, _PODS, pods, self._pod)),
            asyncio.create_task(self._follow(client, _EVENTS, events, self._event)),
        ]
        try:
            yield
        finally:
            for watch in self._watches:
                watch.cancel()
            await asyncio.gather(*self._watches, return_exceptions=True)

    def check(self) -> None:
        """Raise when a watch has ended: then nothing more will be seen."""
        for watch in self._watches:
            if watch.done():
                watch.result()

    async def _version(self, client: KubeClient, path: str) -> str:
        """The version of the collection as it is; pods on nodes are noted as not ours."""
        query: dict[str, str | int] = {"limit": 2000}
        while True:
            page = decode_page(await client.request("GET", path, query=query))
            if path == _PODS:
                found = msgspec.json.decode(msgspec.json.encode(page.items or []), type=list[_Pod])
                self._present.update(pod.metadata.name for pod in found if pod.spec.node_name)
            if not page.metadata.continue_token:
                return page.metadata.resource_version
            query["continue"] = page.metadata.continue_token

    async def _follow(self, client: KubeClient, path: str, version: str, take: Callable[[bytes, float], str]) -> None:
        """Watch for good: servers end the watches of clients that are too slow for a moment."""
        while True:
            query: dict[str, str | int] = {"watch": "true", "resourceVersion": version, "timeoutSeconds": _WATCH_S}
            splitter = LineSplitter()
            async with client.stream(path, query=query, silence_s=_SILENCE_S) as pieces:
                async for piece in pieces:
                    now_s = time.monotonic()
                    for line in splitter.feed(piece):
                        version = take(line, now_s) or version

    def _pod(self, line: bytes, now_s: float) -> str:
        """Take a line of the watch; the version that it brings us to."""
        pod = _checked(_read_pod(line), line).object
        name = pod.metadata.name
        if pod.spec.node_name and name not in self.bound_at_s and name not in self._present:
            self.bound_at_s[name] = now_s
            if len(self.bound_at_s) == 1:
                self.first_bind()
            self.changed.set()
        return pod.metadata.version

    def _event(self, line: bytes, now_s: float) -> str:
        event = _checked(_read_event(line), line).object
        if event.reason == "Scheduled":
            self.event_at_s.setdefault(event.regarding.name, now_s)
            self.changed.set()
        return event.metadata.version


def _checked(read: _Line, line: bytes) -> _Line:
    """Raise where the server refuses to go on, such as with 410: there is no way to know what was missed."""
    if read.type != "ERROR":
        return read
    said = line.decode(errors="replace")[:200]
    raise ControlPlaneError(f"the benchmark's own watch cannot go on: {said}; run it again")


async def settled(watcher: Watcher, done: Callable[[], bool], alive: Callable[[], None], patience_s: float) -> bool:
    """Wait until `done`; False when nothing was seen for `patience_s`. `alive` raises if waiting makes no sense."""
    quiet_since_s = time.monotonic()
    while not done():
        alive()
        watcher.check()
        watcher.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watcher.changed.wait(), 0.5)
        if watcher.changed.is_set():
            quiet_since_s = time.monotonic()
        elif time.monotonic() - quiet_since_s > patience_s:
            return False
    return True
