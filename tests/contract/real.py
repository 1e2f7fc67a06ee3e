"""The contract's cluster on the real API server, with the scheduler of `moorage.app` in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.transport import AiohttpTransport, Request, Response
from moorage.app.lifetime import first
from moorage.app.scheduler import Scheduler, SchedulerOptions
from moorage.bench.controlplane import ControlPlane, ServerAnswer
from moorage.core.invariants import check_invariants
from moorage.wire.configuration import Reading
from tests.contract.cluster import Manifest
from tests.contract.manifests import a_node, a_pod, a_priority_class, scheduled_condition, taint
from tests.controlplane_fixtures import clear

PATIENCE_S = 30.0
POLL_S = 0.02
PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Node": "/api/v1/nodes",
    "Event": "/apis/events.k8s.io/v1/namespaces/default/events",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
LAST = "contract-last"
"""The priority of pods that are decided on when everything else has been."""


class _Transport:
    """Sends requests on; before a Binding of a certain pod it lets the test act."""

    def __init__(self, acts: dict[str, Callable[[], None]]) -> None:
        self._acts = acts
        self._next = AiohttpTransport()

    async def send(self, request: Request) -> Response:
        path = request.url.split("/")
        if request.method == "POST" and path[-1] == "binding":
            act = self._acts.pop(path[-2], None)
            if act is not None:
                await asyncio.to_thread(act)
        return await self._next.send(request)

    async def aclose(self) -> None:
        await self._next.aclose()


class _SchedulerThread:
    """One scheduler at work; `stop` raises what went wrong with it."""

    def __init__(self, kubeconfig: Path, reading: Reading, acts: dict[str, Callable[[], None]]) -> None:
        self._kubeconfig = kubeconfig
        self._reading = reading
        self._acts = acts
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler")
        self._thread.start()
        self._ready.wait(PATIENCE_S)
        self.check()

    def check(self) -> None:
        """Raise what the scheduler died of."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE_S)
        self.check()
        check_invariants(self._scheduler.engine.state)

    def _run(self) -> None:
        try:
            asyncio.run(self._schedule())
        except BaseException as error:  # noqa: BLE001 - told to the test by `check`
            self._error = error
        finally:
            self._ready.set()

    async def _until_stopped(self) -> None:
        await self._scheduler.filled()
        self._ready.set()
        await self._stopped.wait()

    async def _schedule(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        configuration = self._reading.configuration
        assert configuration is not None
        credentials = load_credentials(str(self._kubeconfig), "")
        connection = configuration.client_connection
        transport = _Transport(self._acts)
        try:
            client = KubeClient(credentials, qps=connection.qps, burst=connection.burst, transport=transport)
            options = SchedulerOptions(str(self._kubeconfig))
            self._scheduler = Scheduler(configuration, self._reading.profiles, options, client, client)
            async with self._scheduler.running():
                await first(self._scheduler.work(), self._until_stopped())
        finally:
            await transport.aclose()


class RealContract:
    """`Cluster` on a control plane that has no other scheduler, no controllers and no kubelets."""

    def __init__(self, plane: ControlPlane, reading: Reading) -> None:
        self._plane = plane
        self._reading = reading
        self._acts: dict[str, Callable[[], None]] = {}
        clear(plane)
        self._request("POST", PATHS["PriorityClass"], a_priority_class(LAST, -1_000_000))
        self._scheduler: _SchedulerThread | None = None
        self._start()

    def _start(self) -> None:
        self._scheduler = _SchedulerThread(self._plane.scheduler_kubeconfig, self._reading, self._acts)

    def close(self) -> None:
        """Stop the scheduler, and leave nothing behind."""
        scheduler, self._scheduler = self._scheduler, None
        try:
            if scheduler is not None:
                scheduler.stop()
        finally:
            clear(self._plane)

    # --- requests ---

    def create(self, obj: Manifest) -> Manifest:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            answer = self._plane.request("POST", PATHS[obj["kind"]], obj)
            # Admission hears of a new priority class a moment after it was created.
            unheard = answer.status == 403 and b"no PriorityClass" in answer.content
            if not unheard or time.monotonic() > deadline_s:
                return _good(answer)
            time.sleep(POLL_S)

    def find(self, kind: str, name: str) -> Manifest | None:
        answer = self._plane.request("GET", f"{PATHS[kind]}/{name}")
        return None if answer.status == 404 else _good(answer)

    def list(self, kind: str) -> list[Manifest]:
        items: list[Manifest] = self._request("GET", PATHS[kind])["items"]
        return items

    def patch(self, kind: str, name: str, patch: Manifest) -> None:
        subresource = "/status" if "status" in patch else ""
        self._request("PATCH", f"{PATHS[kind]}/{name}{subresource}", patch)

    def delete(self, kind: str, name: str) -> None:
        self._request("DELETE", f"{PATHS[kind]}/{name}", {"gracePeriodSeconds": 0})

    def bind(self, pod: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self._request("POST", f"{PATHS['Pod']}/{pod}/binding", body)

    def before_bind(self, pod: str, act: Callable[[], None]) -> None:
        self._acts[pod] = act

    @contextmanager
    def scheduler_away(self) -> Iterator[None]:
        scheduler, self._scheduler = self._scheduler, None
        assert scheduler is not None
        scheduler.stop()
        yield
        self._start()

    # --- time ---

    def eventually(self, truth: Callable[[], object], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not truth():
            if self._scheduler is not None:
                self._scheduler.check()
            assert time.monotonic() < deadline_s, f"not within {PATIENCE_S} s: {what}"
            time.sleep(POLL_S)

    def settle(self) -> None:
        """A node and a pod that only fit each other show when the scheduler has come so far.

        What is watched arrives in the order in which it happened, kind by kind, and pods of the lowest priority are
        decided on last: when that pod is bound, everything that happened before has been dealt with.
        """
        self.create(a_node("canary", taints=[taint("canary")]))
        tolerations = [{"key": "canary", "operator": "Exists"}]
        selector = {"kubernetes.io/hostname": "canary"}
        self.create(a_pod("canary", tolerations=tolerations, nodeSelector=selector, priorityClassName=LAST))
        self.eventually(lambda: scheduled_condition(self, "canary").get("status") == "True", "the canary is bound")
        self.delete("Pod", "canary")
        self.delete("Node", "canary")

    def hold(self, truth: Callable[[], object], what: str) -> None:
        assert truth(), what
        self.settle()
        assert truth(), what

    def _request(self, method: str, path: str, body: Manifest | None = None) -> Manifest:
        return _good(self._plane.request(method, path, body))


def _good(answer: ServerAnswer) -> Manifest:
    assert answer.status in {200, 201}, answer.content
    content: Manifest = answer.json()
    return content
