from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.core.assignments import Assignment
from moorage.core.commands import Bind, DeletePod, PatchPodStatus, PodRef
from moorage.core.events import BindDone, BindOutcome, DeleteDone
from moorage.core.pods import Condition
from moorage.core.shareasks import Convention, ShareAsk
from tests.adapters.kube.bindings import binding

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, Handler, ServerFactory

POD = PodRef("ns", "p", "uid-1")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answers(status: int, reason: str = "", **body: Any) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        content = body or {"kind": "Status", "code": status, "reason": reason, "message": f"{status} {reason}".strip()}
        return web.json_response(content, status=status)

    return answer


def missing(kind: str = "pods", name: str = "p") -> Answer:
    """As the API server says it."""
    said = {"message": f'{kind} "{name}" not found', "details": {"kind": kind, "name": name}}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound", **said}, status=404)

    return answer


async def load_balancer(_: web.Request) -> web.Response:
    return web.Response(status=404, text="<html>no backend</html>")


async def captive(_: web.Request) -> web.Response:
    return web.Response(status=200, text="<html>please log in</html>")


async def abyss(_: web.Request) -> web.Response:
    return web.Response(status=500, body=b"[" * 5000)


async def breaks_off(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def pod(*, uid: str = "uid-1", node: str | None = None, deleted: bool = False) -> Answer:
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    return answers(200, metadata={"uid": uid, "name": "p", **deletion}, spec={"nodeName": node} if node else {})


def by_method(*gets: Answer, **others: Answer) -> Handler:
    """Answer GETs from a list, whose last entry repeats, and other methods always the same."""
    left = list(gets)

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return await (left.pop(0) if len(left) > 1 else left[0])(request)
        return await others[request.method](request)

    return handler


@pytest.mark.parametrize(
    ("post", "gets", "want"),
    [
        pytest.param(answers(201), [answers(500)], BindDone("uid-1", BindOutcome.BOUND, "n1"), id="bound"),
        pytest.param(
            missing(),
            [missing()],
            BindDone("uid-1", BindOutcome.GONE, message='pods "p" not found'),
            id="404, and it is gone",
        ),
        pytest.param(
            missing(),
            [load_balancer, missing("namespaces", "ns"), answers(404, "NotFound"), abyss, pod()],
            BindDone("uid-1", BindOutcome.FAILED, "n1", 'pods "p" not found'),
            id="404, but it is there",
        ),
        pytest.param(
            load_balancer,
            [pod()],
            BindDone("uid-1", BindOutcome.FAILED, "n1", "<html>no backend</html>"),
            id="404 of a load balancer",
        ),
        pytest.param(
            missing("namespaces", "ns"),
            [pod(uid="uid-2")],
            BindDone("uid-1", BindOutcome.GONE, message='namespaces "ns" not found'),
            id="404 of the namespace, another pod of that name by now",
        ),
        pytest.param(
            captive,
            [captive, pod()],
            BindDone("uid-1", BindOutcome.FAILED, "n1", "the answer to the bind is not the API server's"),
            id="200 of somebody else",
        ),
        pytest.param(
            answers(409, "Conflict"),
            [pod(node="n1")],
            BindDone("uid-1", BindOutcome.BOUND, "n1"),
            id="409, already on that node",
        ),
        pytest.param(
            answers(409, "Conflict"),
            [pod(node="n2")],
            BindDone("uid-1", BindOutcome.ELSEWHERE, "n2", "409 Conflict"),
            id="409, on another node",
        ),
        pytest.param(
            answers(409, "Conflict"),
            [pod(uid="uid-2", node="n1")],
            BindDone("uid-1", BindOutcome.GONE, message="409 Conflict"),
            id="409, another pod of that name",
        ),
        pytest.param(
            answers(409, "Conflict"),
            [pod(deleted=True)],
            BindDone("uid-1", BindOutcome.FAILED, "n1", "409 Conflict"),
            id="409, being deleted",
        ),
        pytest.param(
            answers(500, "InternalError"),
            [pod()],
            BindDone("uid-1", BindOutcome.FAILED, "n1", "500 InternalError"),
            id="500, not bound",
        ),
        pytest.param(
            answers(504, "Timeout"), [pod(node="n1")], BindDone("uid-1", BindOutcome.BOUND, "n1"), id="504, but bound"
        ),
        pytest.param(
            breaks_off,
            [breaks_off, answers(503), answers(200, hello=1), pod(node="n1")],
            BindDone("uid-1", BindOutcome.BOUND, "n1"),
            id="connection lost, and the truth known only at the fourth look",
        ),
        pytest.param(
            answers(403, "Forbidden"),
            [answers(403, "Forbidden")],
            BindDone("uid-1", BindOutcome.FAILED, "n1", "403 Forbidden; reading the pod: 403 Forbidden"),
            id="no permission at all",
        ),
    ],
)
def test_every_bind_has_an_outcome(
    scripted_server: ServerFactory, clock: Clock, post: Answer, gets: list[Answer], want: BindDone
) -> None:
    """The outcome is the truth on the server, whatever the answer to the request was."""

    async def scenario() -> None:
        async with binding(scripted_server, by_method(*gets, POST=post), clock) as (_, binder, done):
            binder.submit(Bind(POD, "n1"))
            assert await binder.drained(10)
            assert done == [want]
            assert binder.pending == 0

    asyncio.run(scenario())


GIVEN = Assignment("n1", (0, 2), ShareAsk(Convention.WHOLE, 2, 500, 500))


@pytest.mark.parametrize(
    ("patch", "post", "get", "want"),
    [
        pytest.param(answers(200), answers(201), answers(500), BindDone("uid-1", BindOutcome.BOUND, "n1"), id="both"),
        pytest.param(
            answers(403, "Forbidden"), answers(201), pod(),
            BindDone("uid-1", BindOutcome.FAILED, "n1", "the devices of the pod: 403 Forbidden"), id="no record",
        ),
        pytest.param(
            missing(), answers(201), missing(),
            BindDone("uid-1", BindOutcome.GONE, message='the devices of the pod: pods "p" not found'), id="no pod",
        ),
    ],
)  # fmt: skip
def test_a_pod_is_bound_only_once_its_devices_are_on_record(
    scripted_server: ServerFactory, clock: Clock, patch: Answer, post: Answer, get: Answer, want: BindDone
) -> None:
    """A leader that is killed in between leaves a record without a bind, never a bind without a record."""

    async def scenario() -> None:
        async with binding(scripted_server, by_method(get, PATCH=patch, POST=post), clock) as (server, binder, done):
            binder.submit(Bind(POD, "n1", assigned=GIVEN))
            assert await binder.drained(10)
            assert done == [want]
            writes = [(each.method, each.path) for each in server.seen if each.method != "GET"]
            path = "/api/v1/namespaces/ns/pods/p"
            bound = [("POST", f"{path}/binding")] if want.outcome is BindOutcome.BOUND else []
            assert writes == [("PATCH", f"{path}/status"), *bound]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("patch", "delete", "get", "want_ok"),
    [
        pytest.param(answers(200), answers(200), answers(500), True, id="deleted"),
        pytest.param(missing(), answers(500), missing(), True, id="gone before"),
        pytest.param(answers(200), missing(), missing(), True, id="gone meanwhile"),
        pytest.param(load_balancer, answers(500), pod(), False, id="404 of a load balancer"),
        pytest.param(answers(200), missing("namespaces", "ns"), pod(), False, id="404 of something else"),
        pytest.param(answers(200), answers(409), pod(uid="uid-2"), True, id="another pod of that name"),
        pytest.param(answers(200), breaks_off, pod(deleted=True), True, id="connection lost, but being deleted"),
        pytest.param(answers(200), answers(500), pod(), False, id="still there"),
        pytest.param(answers(422), answers(200), pod(), False, id="not even marked"),
    ],
)
def test_every_delete_has_an_outcome(
    scripted_server: ServerFactory, clock: Clock, patch: Answer, delete: Answer, get: Answer, want_ok: bool
) -> None:
    """A pod that is on its way out, or gone, counts as deleted."""

    async def scenario() -> None:
        handler = by_method(get, PATCH=patch, DELETE=delete)
        async with binding(scripted_server, handler, clock) as (_, binder, done):
            binder.submit(DeletePod(POD, "PreemptionByScheduler", "make room"))
            assert await binder.drained(10)
            assert [(each.uid, each.ok) for each in done if isinstance(each, DeleteDone)] == [("uid-1", want_ok)]

    asyncio.run(scenario())


def test_bodies(scripted_server: ServerFactory, clock: Clock) -> None:
    """What the server gets: uid preconditions everywhere, times only with a changed status."""
    clock.now_s = 1_700_000_000.0
    condition = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 x.")

    async def scenario() -> None:
        handler = by_method(pod(), POST=answers(201), PATCH=answers(200), DELETE=answers(200))
        term = {"moorage.dev/term": "7"}
        async with binding(scripted_server, handler, clock, annotations=lambda: term) as (server, binder, _):
            for words in (
                PatchPodStatus(POD, condition, "n1", 3),
                PatchPodStatus(POD, condition, None, 4),
                PatchPodStatus(POD, None, ""),
            ):
                binder.submit(words)
                assert await binder.drained(10)
            binder.submit(Bind(POD, "n1"))
            binder.submit(DeletePod(POD, "PreemptionByScheduler", "make room"))
            assert await binder.drained(10)
            sent = [(seen.method, seen.path, seen.json()) for seen in server.seen]
        fields = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": condition.message}
        moment = "2023-11-14T22:13:20Z"
        status = "/api/v1/namespaces/ns/pods/p/status"
        me = {"uid": "uid-1"}
        first = {**fields, "observedGeneration": 3, "lastTransitionTime": moment}
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "make room",
            "lastTransitionTime": moment,
        }
        assert sent == [
            ("PATCH", status, {"metadata": me, "status": {"nominatedNodeName": "n1", "conditions": [first]}}),
            ("PATCH", status, {"metadata": me, "status": {"conditions": [{**fields, "observedGeneration": 4}]}}),
            ("PATCH", status, {"metadata": me, "status": {"nominatedNodeName": None}}),
            (
                "POST",
                "/api/v1/namespaces/ns/pods/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"namespace": "ns", "name": "p", "uid": "uid-1", "annotations": term},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
                },
            ),
            ("PATCH", status, {"metadata": me, "status": {"conditions": [target]}}),
            (
                "DELETE",
                "/api/v1/namespaces/ns/pods/p",
                {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "uid-1"}},
            ),
        ]

    asyncio.run(scenario())


def test_order_and_concurrency(scripted_server: ServerFactory, clock: Clock) -> None:
    """Different pods run side by side up to the limit; binds go before words, and drop those of their own pod."""
    running, most, order = 0, 0, list[str]()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(f"{request.method} {request.path.split('/')[6]}")
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock, in_flight=4) as (_, binder, done):
            for index in range(20):
                ref = PodRef("ns", f"p{index}", f"u{index}")
                binder.submit(PatchPodStatus(ref, nominated_node="n"))
            for index in range(10, 30):
                binder.submit(Bind(PodRef("ns", f"p{index}", f"u{index}"), "n"))
            assert binder.pending == 30
            assert await binder.drained(20)
            assert most == 4
            assert len(done) == 20
            assert [name for name in order if name.endswith("p15")] == ["POST p15"], "the bind overtook the words"
            assert binder.overtaken_count == 10
            # Requests that are under way at the same time arrive in any order.
            assert sorted(order[:20]) == sorted(f"POST p{index}" for index in range(10, 30))

    asyncio.run(scenario())


def test_status_patches_never_take_every_place(scripted_server: ServerFactory, clock: Clock) -> None:
    """A server that is slow to write the status of pods that fit nowhere still gets the next bind at once."""
    bound, patched = asyncio.Event(), 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal patched
        if request.method == "POST":
            bound.set()
        else:
            await bound.wait()
            patched += 1
        return web.json_response({})

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock, in_flight=4) as (server, binder, _):
            for index in range(20):
                binder.submit(PatchPodStatus(PodRef("ns", f"p{index}", f"u{index}"), nominated_node="n"))
            async with asyncio.timeout(60):
                while not server.seen:  # noqa: ASYNC110 - the server has no event for it
                    await asyncio.sleep(0.01)
            binder.submit(Bind(PodRef("ns", "p", "u"), "n"))
            async with asyncio.timeout(60):
                await bound.wait()
            assert await binder.drained(60)
            assert patched == 20

    asyncio.run(scenario())


def test_few_status_patches_are_under_way_at_a_time(scripted_server: ServerFactory, clock: Clock) -> None:
    """Whatever waits in line, at the rate limit or in the server, is ahead of the next bind."""
    running, most = 0, 0

    async def handler(_: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock, in_flight=64) as (_, binder, _):
            for index in range(100):
                binder.submit(PatchPodStatus(PodRef("ns", f"p{index}", f"u{index}"), nominated_node="n"))
            assert await binder.drained(60)
            assert most == 4

    asyncio.run(scenario())


def test_status_patches_give_up_quietly(scripted_server: ServerFactory, clock: Clock) -> None:
    """A failing server is tried a few times, a refusal once; neither stops the binder."""

    async def handler(request: web.Request) -> web.StreamResponse:
        name = request.path.split("/")[6]
        if name == "gone":
            return await missing(name=name)(request)
        return web.json_response({}, status={"bad": 400, "other": 409, "down": 500}[name])

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock) as (server, binder, done):
            for name in ("bad", "gone", "other", "down"):
                binder.submit(PatchPodStatus(PodRef("ns", name, name), nominated_node="n"))
            assert await binder.drained(10)
            assert done == []
            names = [seen.path.split("/")[6] for seen in server.seen]
            assert {name: names.count(name) for name in names} == {"bad": 1, "gone": 1, "other": 1, "down": 4}

    asyncio.run(scenario())


def test_a_brownout_is_not_made_worse(scripted_server: ServerFactory, clock: Clock) -> None:
    """Each bind that fails costs the server one look at that pod, and nothing else."""

    async def scenario() -> None:
        handler = by_method(pod(), POST=answers(504, "Timeout"))
        async with binding(scripted_server, handler, clock) as (server, binder, done):
            for _ in range(20):
                binder.submit(Bind(POD, "n1"))
            assert await binder.drained(10)
            assert [each.outcome for each in done if isinstance(each, BindDone)] == [BindOutcome.FAILED] * 20
            assert [seen.method for seen in server.seen] == ["POST", "GET"] * 20

    asyncio.run(scenario())


def test_a_bind_that_was_overtaken_in_the_queue_is_not_posted(scripted_server: ServerFactory, clock: Clock) -> None:
    """It comes back as one that failed, with the reason, and is decided anew."""
    posted, thaw, gone = list[str](), asyncio.Event(), set[str]()

    async def handler(request: web.Request) -> web.StreamResponse:
        posted.append(request.path.split("/")[6])
        await thaw.wait()
        return web.json_response({})

    def obstacle(bind: Bind) -> str:
        return "node n was deleted" if bind.node in gone else ""

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock, in_flight=2, obstacle=obstacle) as (_, binder, done):
            for index in range(4):
                binder.submit(Bind(PodRef("ns", f"p{index}", f"u{index}"), "n"))
            while len(posted) < 2:  # noqa: ASYNC110 - counted by the server
                await asyncio.sleep(0.01)
            gone.add("n")
            thaw.set()
            assert await binder.drained(20)
            assert sorted(posted) == ["p0", "p1"]
            kept_back = [BindDone(f"u{index}", BindOutcome.FAILED, "n", "node n was deleted") for index in (2, 3)]
            assert [each for each in done if each.uid in {"u2", "u3"}] == kept_back  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_the_last_look_is_when_the_first_byte_goes_out(scripted_server: ServerFactory, clock: Clock) -> None:
    """After the wait for a connection; the pod is read, as an earlier attempt may have had its effect."""
    looks = iter(["", "node n was cordoned"])

    async def scenario() -> None:
        handler = by_method(pod())
        async with binding(scripted_server, handler, clock, obstacle=lambda _: next(looks)) as (server, binder, done):
            binder.submit(Bind(POD, "n"))
            assert await binder.drained(20)
            assert done == [BindDone("uid-1", BindOutcome.FAILED, "n", "node n was cordoned")]
            assert [seen.method for seen in server.seen] == ["GET"]

    asyncio.run(scenario())
