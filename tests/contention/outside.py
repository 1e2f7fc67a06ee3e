"""The API server as the scheduler's client meets it: requests that take time, few at once; and its watch.

The real client, binder and event recorder send their requests here (`send` is a `Transport`). Other clients, kubelets
and controllers, share the places. Pods are kept as JSON and decoded for the watch as they are in a cluster.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from moorage.adapters.kube.transport import Request, Response
from moorage.core.events import Event, ObjectSeen, PodGone, PodSeen
from moorage.wire.gangrecords import GANG_RECORD
from moorage.wire.kinds import find_kind, pod_kind
from moorage.wire.templates import TemplateTable
from tests.contention.shapes import Body

SERVER = "http://127.0.0.1"
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Terms:
    """How long things take outside the scheduler."""

    places: int = 8
    """Requests that the server works on at once."""
    service_s: float = 0.02
    """For each of them."""
    watch_s: float = 0.01
    """From a change to the event about it."""
    start_s: float = 0.05
    """From the bind to a running pod."""
    stop_s: float = 0.3
    """From the deletion of a running pod to its end."""
    pods_per_s: float = 150.0
    """What the Job controller makes at most."""
    again_s: float = 1.0
    """Until it makes a pod again that was evicted."""
    cycle_s: float = 0.0001
    """Scheduling cycle of a pod: the scheduler hears nothing meanwhile."""


@dataclass
class Answer:
    """A `Response`."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self.body

    def close(self) -> None:
        """Nothing is open."""


def refusal(status: int, reason: str, name: str) -> Answer:
    """An answer of the API server that says no."""
    details = {"kind": "pods", "name": name}
    said = {
        "kind": "Status",
        "code": status,
        "reason": reason,
        "message": f'pods "{name}": {reason}',
        "details": details,
    }
    return Answer(status, msgspec.json.encode(said))


class Watch:
    """Hands on events in order, each some time after it happened."""

    def __init__(self, delay_s: float, tell: Callable[[Event], None]) -> None:
        self._delay_s, self._tell = delay_s, tell
        self._on_the_way: deque[tuple[float, Event]] = deque()

    def put(self, event: Event) -> None:
        loop = asyncio.get_running_loop()
        self._on_the_way.append((loop.time() + self._delay_s, event))
        if len(self._on_the_way) == 1:
            loop.call_later(self._delay_s, self._deliver)

    def _deliver(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._on_the_way
        while waiting and waiting[0][0] <= loop.time() + 1e-9:
            self._tell(waiting.popleft()[1])
        if waiting:
            loop.call_at(waiting[0][0], self._deliver)


class ApiServer:
    """Pods and their requests. `changed` is told of every pod that changed, with what it was about."""

    def __init__(self, terms: Terms, tell: Callable[[Event], None]) -> None:
        self.terms = terms
        self.requests: Counter[str] = Counter()
        """By kind, those that were answered."""
        self.pods: dict[tuple[str, str], Body] = {}
        self.listeners: list[Callable[[str, Body], None]] = []
        """Told of each change: created, bound, status, deleting, gone."""
        self._places = asyncio.Semaphore(terms.places)
        self._watch = Watch(terms.watch_s, tell)
        self._kind = pod_kind(TemplateTable())

    # --- requests ---

    async def send(self, request: Request) -> Response:
        """Carry out a request of the scheduler."""
        if request.check is not None:
            request.check()
        body = msgspec.json.decode(request.body) if request.body else {}
        path = request.url.removeprefix(SERVER).partition("?")[0].strip("/").split("/")
        await self.served(_kind_of(request.method, path, body))
        return self._answer(request.method, path, body)

    async def served(self, kind: str) -> None:
        """Wait until the server has done the work for a request."""
        async with self._places:
            await asyncio.sleep(self.terms.service_s)
        self.requests[kind] += 1

    def _answer(self, method: str, path: list[str], body: Body) -> Answer:
        if "pods" not in path:
            return Answer(201 if method == "POST" else 200)
        at = path.index("pods")
        namespace, name = path[at - 1], path[at + 1]
        pod = self.pods.get((namespace, name))
        if pod is None:
            return refusal(404, "NotFound", name)
        metadata = body.get("metadata") or body.get("preconditions") or {}
        if metadata.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            return refusal(409, "Conflict", name)
        if method == "GET":
            return Answer(200, msgspec.json.encode(pod))
        if method == "DELETE":
            self.delete(pod)
        elif path[-1] == "binding":
            return self._bind(pod, body)
        else:
            self.patch_status(pod, body["status"])
        return Answer(200)

    def _bind(self, pod: Body, binding: Body) -> Answer:
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return refusal(409, "Conflict", pod["metadata"]["name"])
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["metadata"]["annotations"] |= binding["metadata"].get("annotations") or {}
        pod["status"].pop("nominatedNodeName", None)
        self._merge(pod, [{"type": "PodScheduled", "status": "True"}])
        self._changed("bound", pod)
        return Answer(201)

    # --- objects ---

    def put_object(self, body: Body) -> None:
        """An object of another kind is there, or has changed."""
        kind = find_kind(body["apiVersion"], body["kind"])
        if kind is None:
            raise LookupError(f"{body['kind']} is not read")
        value = kind.from_builtin(body)
        self._watch.put(ObjectSeen(kind.id, value.key, value))

    def create(self, pod: Body) -> None:
        self.pods[pod["metadata"]["namespace"], pod["metadata"]["name"]] = pod
        self._changed("created", pod)

    def patch_status(self, pod: Body, status: Body) -> None:
        """Write what is given; conditions are merged by type, None removes."""
        self._merge(pod, status.get("conditions") or ())
        for name, value in status.items():
            if value is None:
                pod["status"].pop(name, None)
            elif name != "conditions":
                pod["status"][name] = value
        self._changed("status", pod)

    def delete(self, pod: Body) -> None:
        """Pods on nodes are left to their kubelets; others are gone at once."""
        if pod["metadata"].get("deletionTimestamp"):
            return
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in _OVER:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
            self._changed("deleting", pod)
        else:
            self.remove(pod)

    def remove(self, pod: Body) -> None:
        """It is gone."""
        if self.pods.pop((pod["metadata"]["namespace"], pod["metadata"]["name"]), None) is not None:
            self._changed("gone", pod)

    def _merge(self, pod: Body, conditions: Any) -> None:
        kept = {each["type"]: each for each in pod["status"].setdefault("conditions", [])}
        for each in conditions:
            kept[each["type"]] = {**kept.get(each["type"], {}), **each}
        pod["status"]["conditions"] = list(kept.values())

    def _changed(self, what: str, pod: Body) -> None:
        for listener in self.listeners:
            listener(what, pod)
        if what == "gone" or pod["status"].get("phase") in _OVER:  # the scheduler watches unfinished pods only
            self._watch.put(PodGone(pod["metadata"]["uid"]))
        else:
            self._watch.put(PodSeen(self._kind.from_builtin(pod)))


def _kind_of(method: str, path: list[str], body: Body) -> str:
    """What a request of the scheduler is for."""
    if "events" in path:
        return "event" if method == "POST" else "series"
    if method in ("GET", "DELETE") or path[-1] == "binding":
        return {"GET": "read", "DELETE": "delete", "POST": "bind"}[method]
    types = [each["type"] for each in (body.get("status") or {}).get("conditions") or ()]
    if GANG_RECORD in types:
        return "record"
    if "DisruptionTarget" in types:
        return "disruption"
    return "condition" if types else "nomination" if "pods" in path else "other"
