"""A watch that is late: the fault laboratory's proxy between a process and the API server, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from moorage.bench.controlplane import ADMIN, ControlPlane
from tests.faults.proxy import Proxy

WORKLOADS = r"/(deployments|replicasets|statefulsets)$"


class LateWatches:
    """Watches of workloads that can be held back; made by `late_watches`."""

    def __init__(self, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop

    def kubeconfig(self, credentials: Path, path: Path) -> Path:
        """Write the same credentials with the proxy in the place of the API server."""
        written = self._proxy.kubeconfig(ADMIN.name, path)
        document = yaml.safe_load(written.read_text())
        document["users"] = yaml.safe_load(credentials.read_text())["users"]
        written.write_text(yaml.safe_dump(document))
        return written

    def freeze(self) -> None:
        """Pass on nothing more of them."""
        self._loop.call_soon_threadsafe(self._proxy.freeze, WORKLOADS)

    def thaw(self) -> None:
        """Pass on what came meanwhile."""
        self._loop.call_soon_threadsafe(self._proxy.thaw)


@contextmanager
def late_watches(plane: ControlPlane) -> Iterator[LateWatches]:
    """A proxy for the length of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="late-watches", daemon=True)
    thread.start()
    proxy = Proxy(plane)
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result()
        yield LateWatches(proxy, loop)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
