"""A server that is too busy to bind: the scheduler must not add to its load."""

from __future__ import annotations

import asyncio
import selectors
from urllib.parse import parse_qs, urlsplit

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.errors import Timeout
from moorage.adapters.kube.transport import Request, Response
from moorage.app.lifetime import first
from moorage.app.plugins import find_plugins
from moorage.app.scheduler import Scheduler, SchedulerOptions
from moorage.bench.controlplane import ControlPlane
from moorage.wire.configuration import default_reading
from tests.app.posting import make_pod, node_with_room

RATE = 8.0
"""So much faster do timers run here, that of the list which followed 30 s after a doubt above all."""
PODS = "/api/v1/pods"


class _HastySelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout / RATE if timeout else timeout)


class _HastyLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(_HastySelector())

    def time(self) -> float:
        return super().time() * RATE


class _Brownout(DirectTransport):
    """Binds never come back; everything else does."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []

    async def send(self, request: Request) -> Response:
        target = urlsplit(request.url)
        self.requests.append((request.method, request.url))
        if target.path.endswith("/binding"):
            raise Timeout("no answer in time")
        return await super().send(request)

    def lists(self) -> int:
        """How often all pods were listed."""
        queries = [parse_qs(urlsplit(url).query) for _, url in self.requests if urlsplit(url).path == PODS]
        return sum("sendInitialEvents" in query or "watch" not in query for query in queries)


async def _bound_and_quiet(transport: _Brownout) -> None:
    """Wait for a bind, and then for long enough to see what follows from it."""
    async with asyncio.timeout(60 * RATE):
        while not any(url.endswith("/binding") for _, url in transport.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await asyncio.sleep(40.0)


def test_binds_that_time_out_cost_one_look_each(empty_control_plane: ControlPlane) -> None:
    """The pod is read again, and nothing else: all pods were listed once, and stay listed."""
    plane = empty_control_plane
    node_with_room(plane)
    make_pod(plane, "p")
    reading = default_reading(find_plugins().registry)
    assert reading.configuration is not None
    configuration = reading.configuration
    kubeconfig = str(plane.admin_kubeconfig)

    async def scenario() -> tuple[int, list[str]]:
        transport = _Brownout()
        client = KubeClient(load_credentials(kubeconfig), transport=transport)
        scheduler = Scheduler(configuration, reading.profiles, SchedulerOptions(kubeconfig), client, client)
        try:
            async with scheduler.running():
                await first(scheduler.work(), _bound_and_quiet(transport))
        finally:
            await scheduler.aclose()
            await transport.aclose()
        return transport.lists(), [method for method, url in transport.requests if url.endswith(("/p", "/binding"))]

    with asyncio.Runner(loop_factory=_HastyLoop) as runner:
        lists, requests = runner.run(scenario())
    assert lists == 1
    assert requests[:2] == ["POST", "GET"]
