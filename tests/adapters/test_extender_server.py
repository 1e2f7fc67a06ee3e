"""The extender's HTTP server, asked as kube-scheduler asks, without a cluster."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import aiohttp
import aiohttp.web
import numpy as np
import pytest
import trustme

from moorage.adapters.certificates import Callers, server_context, trust_clients
from moorage.adapters.extender.handler import ExtenderHandler
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.extender.server import ExtenderSources, Rights, application, bounds_of
from moorage.adapters.listening import Bounds, ListenError, listening
from moorage.adapters.metrics.registry import MetricsPage
from moorage.core.arrays import Ints, Rows
from moorage.core.commands import Bind
from moorage.core.echo import answer_to
from moorage.core.events import BindDone, BindOutcome, NodeSeen, PodSeen
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.engine.extending import Extending
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import Reason, Rejections
from moorage.testing import make_node, make_pod
from tests.framework.readers import make_profile

NODES = ["n1", "n2", "n3"]
WHOLE = [{"metadata": {"name": name, "labels": {"kept": "as it is"}}, "status": {"x": 1}} for name in NODES]


class OnePerNode(Plugin):
    """One pod per node, and as good as the node's number; a pod named `bad` makes it fail."""

    name: ClassVar[str] = "OnePerNode"

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:  # noqa: ARG002
        """All pods are one group."""
        return "all"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Rows with pods are taken; n3 is nobody's."""
        if cycle.pod.name == "bad":
            raise ValueError("bad pod")
        names = [cycle.state.node(int(row)).name for row in rows]
        taken = [bool(cycle.state.records_on(int(row))) for row in rows]
        bits = [2 if name == "n3" else int(full) for name, full in zip(names, taken, strict=True)]
        return Rejections(np.array(bits, dtype=np.int64), (Reason("taken"), Reason("reserved", resolvable=False)))

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """29 for n2, else 0."""
        if cycle.pod.name == "bad":
            raise ValueError("bad pod")
        return np.array([29 * (cycle.state.node(int(row)).name == "n2") for row in rows], dtype=np.int64)


@dataclass
class Served:
    """A running server, and what happened."""

    url: str
    handler: ExtenderHandler
    session: aiohttp.ClientSession
    binds: list[Bind] = field(default_factory=list)
    reason: str = ""
    trust: ssl.SSLContext | bool = True

    def show(self, *names: str) -> None:
        """The watch shows pods without a node."""
        for name in names:
            self.handler.put(PodSeen(make_pod(name)))

    async def post(self, verb: str, content: Any) -> tuple[int, Any]:
        """Status and decoded answer, or text."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        async with self.session.post(f"{self.url}/{verb}", data=io.BytesIO(body), ssl=self.trust) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"{self.url}{path}", ssl=self.trust) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def served(
    bounds: Bounds | None = None, tls: ssl.SSLContext | None = None, rights: Rights | None = None
) -> AsyncIterator[Served]:
    extending = Extending(make_profile([OnePerNode()]), longest_wait_s=0.3, certified=True)

    async def bind(command: Bind) -> BindDone:
        found.binds.append(command)
        if command.node == "n3":
            return BindDone(command.pod.uid, BindOutcome.FAILED, message="node is full")
        return answer_to(command)

    metrics = ExtenderMetrics(extending, lambda: not found.reason)
    handler = ExtenderHandler(extending, bind, metrics)
    for name in NODES:
        handler.put(NodeSeen(make_node(name)))
    app = application(handler, ExtenderSources(lambda: found.reason, MetricsPage(metrics).render), metrics, rights)
    bounds = bounds or bounds_of(128 << 20, 5.0)
    async with listening(app, "127.0.0.1", 0, tls, bounds=bounds) as url, aiohttp.ClientSession() as session:
        found = Served(url, handler, session)
        found.show("a", "b", "bad")
        yield found


def pod(name: str = "a") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"default/{name}"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def by_name(name: str = "a", nodes: list[str] = NODES) -> dict[str, Any]:
    return {"Pod": pod(name), "Nodes": None, "NodeNames": nodes}


def run(test: Callable[[Served], Any], **options: Any) -> None:
    """Run a test against a server of its own."""

    async def body() -> None:
        async with served(**options) as server:
            await test(server)

    asyncio.run(body())


def test_filter_by_name() -> None:
    """Exact field names; rejections by whether evictions could help."""

    async def test(server: Served) -> None:
        server.handler.put(PodSeen(make_pod("old", node="n1")))
        assert await server.post("filter", by_name()) == (
            200,
            {
                "Nodes": None,
                "NodeNames": ["n2"],
                "FailedNodes": {"n1": "taken"},
                "FailedAndUnresolvableNodes": {"n3": "reserved"},
                "Error": "",
            },
        )

    run(test)


def test_filter_whole_nodes() -> None:
    """What was sent comes back."""

    async def test(server: Served) -> None:
        question = {"Pod": pod(), "Nodes": {"metadata": {}, "items": WHOLE}, "NodeNames": None}
        status, answer = await server.post("filter", question)
        assert (status, answer["NodeNames"]) == (200, None)
        assert answer["Nodes"] == {"metadata": {}, "items": WHOLE[:2]}

    run(test)


def test_prioritize_preempt() -> None:
    """Scores of 0 to 10, and the candidates that help."""

    async def test(server: Served) -> None:
        assert await server.post("prioritize", by_name()) == (
            200,
            [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 2}, {"Host": "n3", "Score": 0}],
        )
        server.handler.put(PodSeen(make_pod("old", node="n1")))
        victims = {"Pods": [{"UID": "default/old"}], "NumPDBViolations": 1}
        question = {"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": {"n1": victims, "n3": victims}}
        assert await server.post("preempt", question) == (200, {"NodeNameToMetaVictims": {"n1": victims}})

    run(test)


def test_a_question_waits_and_others_do_not() -> None:
    """The second filter call is answered when the first pod is seen bound; health is answered meanwhile."""

    async def test(server: Served) -> None:
        await server.post("filter", by_name("a"))
        waiting = asyncio.create_task(server.post("filter", by_name("b")))
        assert (await server.get("/healthz"))[0] == 200
        assert not waiting.done()
        server.handler.put(PodSeen(make_pod("a", node="n1")))
        assert (await waiting)[1]["NodeNames"] == ["n2"]

    run(test)


def test_waiting_ends_with_a_no_that_can_be_helped() -> None:
    """Every node is in FailedNodes; a bind ends the waiting."""

    async def test(server: Served) -> None:
        await server.post("filter", by_name("a"))
        _, answer = await server.post("filter", by_name("b"))
        reason = "node(s) cannot be judged until pod default/a is bound"
        assert (answer["NodeNames"], answer["FailedNodes"]) == ([], dict.fromkeys(NODES, reason))
        server.handler.put(PodSeen(make_pod("a", node="n2")))
        assert (await server.post("filter", by_name("b")))[1]["NodeNames"] == ["n1"]
        _, page = await server.get("/metrics")
        assert 'moorage_extender_wait_duration_seconds_count{outcome="held_back"} 1.0' in page
        assert 'moorage_extender_requests_total{code="200",verb="filter"} 3.0' in page
        assert "moorage_extender_nodes 3.0" in page

    run(test)


def test_a_plugin_that_fails() -> None:
    """Filter has a field for it, prioritize has none."""

    async def test(server: Served) -> None:
        _, answer = await server.post("filter", by_name("bad"))
        assert answer["Error"] == "running plugins failed: ValueError: bad pod"
        assert await server.post("prioritize", by_name("bad")) == (
            500,
            "POST /prioritize: running plugins failed: ValueError: bad pod\n",
        )

    run(test)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
@pytest.mark.parametrize("body", [b"", b"{", b"[1", b"null", b'{"Pod": 1}'], ids=repr)
def test_malformed_questions_get_400(verb: str, body: bytes) -> None:
    """And one line that says what is wrong."""

    async def test(server: Served) -> None:
        status, text = await server.post(verb, body)
        assert status == 400
        assert text.startswith(f"POST /{verb}: ")
        assert len(text.splitlines()) == 1

    run(test)


def test_limits() -> None:
    """Bodies that are too large or too slow are refused; other paths and methods do not exist."""

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def test(server: Served) -> None:
        status, text = await server.post("filter", b" " * 2000)
        assert (status, text) == (413, "POST /filter: the body is larger than 1000 bytes (maxBodyBytes)\n")
        async with server.session.post(f"{server.url}/filter", data=slow()) as answer:
            assert answer.status == 408
        assert (await server.get("/filter"))[0] == 405
        assert (await server.post("filters", b""))[0] == 404

    run(test, bounds=bounds_of(body_bytes=1000, read_s=0.2))


def test_bodies_that_cannot_be_read() -> None:
    """What is compressed gets 415, callers that go away in the middle would get 400; both are counted."""

    async def test(server: Served) -> None:
        packed = {"Content-Encoding": "gzip"}
        async with server.session.post(f"{server.url}/filter", data=b"{}", headers=packed) as answer:
            assert answer.status == 415
            assert (await answer.text()).startswith("POST /filter: compressed bodies are not taken")
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0)
        writer.close()
        async with asyncio.timeout(20):
            while 'requests_total{code="400",verb="filter"} 1.0' not in (await server.get("/metrics"))[1]:
                pass

    run(test)


def test_who_is_not_ready_refuses() -> None:
    """Questions and /readyz get 503 with the reason, and the connection is closed; alive it is all the same."""

    async def test(server: Served) -> None:
        assert await server.get("/readyz") == (200, "ok")
        server.reason = "another replica is active"
        assert await server.get("/readyz") == (503, "another replica is active\n")
        assert await server.get("/healthz") == (200, "ok")
        async with server.session.post(f"{server.url}/filter", json=by_name()) as answer:
            assert (answer.status, answer.headers["Connection"]) == (503, "close")
        assert "moorage_extender_active 0.0" in (await server.get("/metrics"))[1]

    run(test)


def test_large_questions() -> None:
    """Many megabytes of nodes go in and out."""

    async def test(server: Served) -> None:
        padding = {"image": "x" * 6000}
        items = [{"metadata": {"name": f"other-{number}"}, "status": padding} for number in range(1000)]
        question = {"Pod": pod(), "Nodes": {"items": [*items, *WHOLE]}, "NodeNames": None}
        status, answer = await server.post("filter", question)
        assert status == 200
        assert answer["Nodes"]["items"] == WHOLE[:2]
        assert len(answer["FailedNodes"]) == 1000

    run(test)


def test_https() -> None:
    """With a certificate the URL says so."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    async def test(server: Served) -> None:
        assert server.url.startswith("https://127.0.0.1:")
        async with server.session.post(f"{server.url}/filter", json=by_name(), ssl=trust) as answer:
            assert (await answer.json())["NodeNames"] == ["n1", "n2"]

    run(test, tls=tls)


ORDER = {"PodName": "a", "PodNamespace": "default", "PodUID": "default/a", "Node": "n2"}


def mutual() -> tuple[ssl.SSLContext, Callable[[str], ssl.SSLContext]]:
    """TLS that verifies clients, and how a client of a common name connects; the empty one has no certificate."""
    authority = trustme.CA()
    tls = server_context()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trust_clients(tls, authority.cert_pem.bytes().decode(), "--client-ca-file ca.pem")

    def client(name: str) -> ssl.SSLContext:
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        if name:
            authority.issue_cert("client.example", common_name=name).configure_cert(trust)
        return trust

    return tls, client


@pytest.mark.parametrize(
    ("name", "names", "status"),
    [
        ("kube-scheduler", (), 200),
        ("kube-scheduler", ("kube-scheduler",), 200),
        ("kubelet", ("kube-scheduler",), 403),
        ("", (), 403),
        ("", ("kube-scheduler",), 403),
    ],
)
def test_only_callers_with_a_certificate_are_heard(name: str, names: tuple[str, ...], status: int) -> None:
    """With a client authority every question needs a certificate, and a name if names are given; probes need none."""
    tls, client = mutual()

    async def test(server: Served) -> None:
        server.trust = client(name)
        for verb in ("filter", "prioritize"):
            assert (await server.post(verb, by_name()))[0] == status
        assert (await server.post("bind", ORDER))[0] == status
        assert [command.node for command in server.binds] == (["n2"] if status == 200 else [])
        assert (await server.get("/healthz"))[0] == 200
        assert (await server.get("/readyz"))[0] == 200

    run(test, tls=tls, rights=Rights(Callers(certified=True, names=frozenset(names)), binds=True))


@pytest.mark.parametrize(
    ("rights", "status"), [(Rights(), 404), (Rights(binds=True), 403)], ids=["not allowed", "HTTP"]
)
def test_nobody_binds_without_a_certificate(rights: Rights, status: int) -> None:
    """Without `binds` there is no such endpoint; without certificates nobody may use it."""

    async def test(server: Served) -> None:
        assert (await server.post("bind", ORDER))[0] == status
        assert server.binds == []

    run(test, rights=rights)


BINDS: dict[str, tuple[dict[str, str], str]] = {
    "of another namespace": ({"PodNamespace": "kube-system"}, "pod kube-system/a of this uid does not wait for a node"),
    "of another uid": ({"PodUID": "another"}, "pod default/a of this uid does not wait for a node"),
    "to a node that is not known": ({"Node": "n9"}, "node n9 has not been seen"),
    "that the API server refuses": ({"Node": "n3"}, "node is full"),
}


@pytest.mark.parametrize(("changes", "want"), BINDS.values(), ids=BINDS.keys())
def test_binds_that_are_not_carried_out(changes: dict[str, str], want: str) -> None:
    """The answer says why not; what the watch does not know never reaches the API server."""
    tls, client = mutual()

    async def test(server: Served) -> None:
        server.trust = client("kube-scheduler")
        status, answer = await server.post("bind", ORDER | changes)
        assert status == 200
        assert answer["Error"].startswith(want)
        assert len(server.binds) == (want == "node is full")
        assert await server.post("bind", ORDER) == (200, {"Error": ""})
        assert (await server.post("filter", by_name("b")))[1]["NodeNames"] == ["n1"], "its place counts at once"

    run(test, tls=tls, rights=Rights(Callers(certified=True), binds=True))


def test_a_port_that_is_taken() -> None:
    """One line that says what to do."""

    async def test(server: Served) -> None:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(ListenError, match=f"^--listen 127.0.0.1:{port}: .*the port is taken; choose another one$"):
            async with served_at(port):
                pass

    @asynccontextmanager
    async def served_at(port: int) -> AsyncIterator[str]:
        async with listening(aiohttp.web.Application(), "127.0.0.1", port) as url:
            yield url

    run(test)
