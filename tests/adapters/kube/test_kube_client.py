from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.adapters.kube import errors
from moorage.adapters.kube.client import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    RETRY_BUDGET_S,
    STRATEGIC_PATCH,
)
from moorage.adapters.kube.errors import ApiError
from moorage.adapters.kube.limiter import RateLimiter
from moorage.adapters.kube.resources import EVENTS, LEASES, NODES, PODS

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, ServerFactory


def status_object(code: int, reason: str, message: str = "because", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


async def fine(_: web.Request) -> web.Response:
    return web.json_response({})


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.BadRequest),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Gone", errors.Gone),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.Timeout),
        (418, "Teapot", ApiError),
    ],
)
def test_a_status_becomes_a_typed_error(
    scripted_server: ServerFactory, code: int, reason: str, want: type[ApiError]
) -> None:
    """The error carries what the Status object says."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response(status_object(code, reason, "no way", name="p"), status=code)

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client() as client:
            with pytest.raises(want) as caught:
                await client.get(PODS, "p", "default")
            error = caught.value
            assert type(error) is want
            assert (error.status, error.reason, error.message) == (code, reason, "no way")
            assert error.details == {"name": "p"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "want_message"),
    [
        (b"<html>\nbad gateway", "<html>"),
        (b"", "HTTP status 502"),
        (b"[]", "[]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
    ids=["html", "empty", "other json", "not text"],
)
def test_answers_of_proxies_are_errors_too(scripted_server: ServerFactory, body: bytes, want_message: str) -> None:
    """An answer that is no Status object still makes one readable line."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, status=502)

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client() as client:
            with pytest.raises(errors.ServerError) as caught:
                await client.list(PODS)
            assert caught.value.message == want_message

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [429, 503])
def test_the_server_decides_when_to_come_back(scripted_server: ServerFactory, clock: Clock, code: int) -> None:
    """Retry-After is waited for, then the same request is sent again."""
    answers = iter([(code, {"Retry-After": "3"}), (code, {"Retry-After": "2"}), (200, {})])

    async def handler(_: web.Request) -> web.Response:
        status, headers = next(answers)
        return web.json_response({"n": 1}, status=status, headers=headers)

    async def scenario() -> None:
        start_s = clock.now_s
        async with scripted_server(handler) as server, server.client(sleep=clock.sleep) as client:
            assert await client.create(PODS, {"a": 1}, "default") == b'{"n": 1}'
            assert clock.now_s - start_s == 5.0
            assert [seen.body for seen in server.seen] == [b'{"a":1}'] * 3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "want_requests"),
    [
        pytest.param({}, 1, id="no Retry-After: an eviction that a budget forbids"),
        pytest.param({"Retry-After": "1"}, 9, id="again and again"),
        pytest.param({"Retry-After": "20"}, 4, id="until the time is up"),
        pytest.param({"Retry-After": "86400"}, 1, id="tomorrow"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 9, id="a date"),
    ],
)
def test_retries_are_bounded(
    scripted_server: ServerFactory, clock: Clock, headers: dict[str, str], want_requests: int
) -> None:
    """Neither their number nor the time they take grows without end."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response(status_object(429, "TooManyRequests"), status=429, headers=headers)

    async def scenario() -> None:
        start_s = clock.now_s
        async with scripted_server(handler) as server, server.client(sleep=clock.sleep) as client:
            with pytest.raises(errors.TooManyRequests):
                await client.create(PODS, {}, "default")
            assert len(server.seen) == want_requests
            assert clock.now_s - start_s <= RETRY_BUDGET_S

    asyncio.run(scenario())


def test_a_post_is_never_repeated_blindly(scripted_server: ServerFactory) -> None:
    """When the connection breaks, only the caller knows whether it is safe to send again."""

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client() as client:
            with pytest.raises(errors.Unreachable, match="connection lost"):
                await client.create(PODS, {}, "default")
            assert len(server.seen) == 1

    asyncio.run(scenario())


def test_a_server_that_does_not_answer(scripted_server: ServerFactory) -> None:
    """The time limit holds for the headers and for the body."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.path == "/body":
            await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client() as client:
            for path in ("/head", "/body"):
                with pytest.raises(errors.Timeout, match="no answer in time"):
                    await client.request("GET", path, timeout_s=0.2)

    asyncio.run(scenario())


def test_nobody_listens(scripted_server: ServerFactory) -> None:
    """One line names the server and the reason."""

    async def scenario() -> None:
        async with scripted_server(fine) as server:
            pass
        async with server.client() as client:
            with pytest.raises(errors.Unreachable) as caught:
                await client.list(PODS)
            assert str(caught.value).startswith(f"{server.url}: cannot connect: ")
            assert "\n" not in str(caught.value)

    asyncio.run(scenario())


def test_large_bodies_and_long_headers_pass(scripted_server: ServerFactory) -> None:
    """A list of many megabytes is read whole."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * (20 << 20), headers={"X-Long": "y" * 100_000})

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client() as client:
            assert len(await client.list(PODS)) == 20 << 20

    asyncio.run(scenario())


def test_wrappers_send_what_kubernetes_expects(scripted_server: ServerFactory) -> None:
    """Paths, content types and bodies of every kind of request."""

    async def scenario() -> None:
        async with scripted_server(fine) as server, server.client(user_agent="test/1") as client:
            await client.get(NODES, "n")
            await client.list(EVENTS, "ns", query={"limit": 5, "labelSelector": "a=b,c in (d)"})
            await client.create(PODS, b"{}", "ns", name="p", subresource="binding")
            await client.patch(PODS, "p", {"a": None}, "ns")
            await client.patch(PODS, "p", {}, "ns", content_type=STRATEGIC_PATCH, subresource="status")
            await client.patch(PODS, "p", [], "ns", content_type=JSON_PATCH)
            await client.apply(PODS, "p", {}, "ns", field_manager="m", force=True)
            await client.replace(LEASES, "l", {}, "ns")
            await client.delete(PODS, "p", "ns", uid="u", grace_period_s=0)
            seen = [(each.method, each.path, each.headers.get("Content-Type"), each.query) for each in server.seen]
            assert seen == [
                ("GET", "/api/v1/nodes/n", None, {}),
                (
                    "GET",
                    "/apis/events.k8s.io/v1/namespaces/ns/events",
                    None,
                    {"limit": "5", "labelSelector": "a=b,c in (d)"},
                ),
                ("POST", "/api/v1/namespaces/ns/pods/p/binding", "application/json", {}),
                ("PATCH", "/api/v1/namespaces/ns/pods/p", MERGE_PATCH, {}),
                ("PATCH", "/api/v1/namespaces/ns/pods/p/status", STRATEGIC_PATCH, {}),
                ("PATCH", "/api/v1/namespaces/ns/pods/p", JSON_PATCH, {}),
                ("PATCH", "/api/v1/namespaces/ns/pods/p", APPLY_PATCH, {"fieldManager": "m", "force": "true"}),
                ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", "application/json", {}),
                ("DELETE", "/api/v1/namespaces/ns/pods/p", "application/json", {}),
            ]
            assert server.seen[3].body == b'{"a":null}'
            assert json.loads(server.seen[-1].body) == {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
            }
            assert {each.headers["User-Agent"] for each in server.seen} == {"test/1"}
            assert {each.headers["Authorization"] for each in server.seen} == {"Bearer secret"}

    asyncio.run(scenario())


def test_a_server_under_a_path(scripted_server: ServerFactory) -> None:
    """Some providers put the API server behind a prefix."""

    async def scenario() -> None:
        async with scripted_server(fine) as server:
            server.url += "/k8s/clusters/c-1/"
            async with server.client() as client:
                await client.get(NODES, "n")
            assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/nodes/n"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("qps", "burst", "requests", "want_s"),
    [
        pytest.param(10, 5, 25, 2.0, id="burst, then qps"),
        pytest.param(10, 0, 11, 1.0, id="a burst of at least one"),
        pytest.param(0, 5, 1000, 0.0, id="zero means no limit"),
        pytest.param(-1, 5, 1000, 0.0, id="negative means no limit"),
        pytest.param(1e9, 1, 1000, 0.0, id="a very large one means no limit"),
    ],
)
def test_rate_limit(clock: Clock, qps: float, burst: int, requests: int, want_s: float) -> None:
    """The first `burst` pass at once, the others at `qps` a second."""

    async def scenario() -> None:
        start_s = clock.now_s
        limiter = RateLimiter(qps, burst, monotonic_s=clock, sleep=clock.sleep)
        for _ in range(requests):
            await limiter.acquire()
        assert clock.now_s - start_s == pytest.approx(want_s)

    asyncio.run(scenario())


def test_a_cancelled_waiter_gives_its_turn_back(clock: Clock) -> None:
    """Requests that are given up do not slow down the others."""

    async def scenario() -> None:
        limiter = RateLimiter(1, 1, monotonic_s=clock)
        await limiter.acquire()
        for _ in range(10):
            waiter = asyncio.ensure_future(limiter.acquire())
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        clock.now_s += 1.0
        async with asyncio.timeout(1):
            await limiter.acquire()

    asyncio.run(scenario())


def test_who_finishes_hears_the_answers_to_what_was_sent(scripted_server: ServerFactory) -> None:
    """Two writes are on the wire and two wait for the rate limit: the latter are never sent; reads go on."""
    answered, refilled = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if request.method == "POST":
            await answered.wait()
        return web.json_response({})

    async def sleep(_: float) -> None:
        await refilled.wait()

    async def scenario() -> None:
        async with scripted_server(handler) as server, server.client(qps=100, burst=2, sleep=sleep) as client:
            writes = [asyncio.create_task(client.create(PODS, {}, "ns")) for _ in range(4)]
            async with asyncio.timeout(60):
                while len(server.seen) < 2:  # noqa: ASYNC110 - the server has no event for it
                    await asyncio.sleep(0.01)
            await client.finish(0.01)
            assert not any(write.done() for write in writes)
            finishing = asyncio.create_task(client.finish(60))
            refilled.set()
            await client.get(PODS, "p", "ns")
            assert not finishing.done()
            answered.set()
            await finishing
            await asyncio.gather(*writes[:2])
            assert [write.done() for write in writes] == [True, True, False, False]
            assert [seen.method for seen in server.seen] == ["POST", "POST", "GET"]
            for write in writes:
                write.cancel()

    asyncio.run(scenario())


def test_leases_and_watches_are_exempt(scripted_server: ServerFactory) -> None:
    """An exhausted limit holds up neither the renewal of a lease nor a watch."""

    async def never(_: float) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with scripted_server(fine) as server, server.client(qps=1e-6, burst=1, sleep=never) as client:
            await client.get(PODS, "p", "ns")
            async with asyncio.timeout(5):
                await client.replace(LEASES, "l", {}, "ns")
                async with client.stream("/api/v1/pods", silence_s=5) as pieces:
                    assert [piece async for piece in pieces] == [b"{}"]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get(PODS, "p", "ns"), 0.05)

    asyncio.run(scenario())
