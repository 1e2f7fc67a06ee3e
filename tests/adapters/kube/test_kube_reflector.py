from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import structlog
from aiohttp import web

from moorage.adapters.kube.reflector import Phase, Reflector, ReflectorPace
from moorage.adapters.kube.resources import NODES, PODS, RESOURCE_CLAIMS, Resource
from tests.adapters.kube.reflecting import (
    QUICK,
    Api,
    Copy,
    Parsed,
    Watch,
    bookmark,
    event,
    following,
    obj,
    page,
    refusal,
    sends,
    until,
)

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ServerFactory


def test_streaming_list_then_changes(scripted_server: ServerFactory) -> None:
    """Nothing is handed over before the end of the initial events; what follows in the same bytes is not lost."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [
            sends(
                event("ADDED", obj("a", 1)),
                event("ADDED", obj("b", 2)),
                bookmark(3),
                event("MODIFIED", obj("b", 4, mark=7)),
                event("DELETED", obj("a", 5)),
                event("ADDED", obj("c", 6)),
                bookmark(6, end=True),
                event("ADDED", obj("d", 8)),
                event("DELETED", obj("b", 9)),
                then_hang=True,
            )
        ]
        options: dict[str, Any] = {"field_selector": "spec.nodeName=", "label_selector": "x=y", "namespace": "ns"}
        async with following(scripted_server, api.handle, sink, **options) as (server, reflector):
            await sink.told("replaced b c", "upserted d", "deleted b")
            assert (await reflector.settled()).phase is Phase.SYNCED
            assert server.seen[0].path == "/api/v1/namespaces/ns/pods"
        query = api.queries[0]
        assert query["sendInitialEvents"] == "true"
        assert query["resourceVersionMatch"] == "NotOlderThan"
        assert query["allowWatchBookmarks"] == "true"
        assert query["timeoutSeconds"] == "450"
        assert (query["fieldSelector"], query["labelSelector"]) == ("spec.nodeName=", "x=y")

    asyncio.run(scenario())


def test_a_server_without_streaming_lists(scripted_server: ServerFactory) -> None:
    """The refusal leads to pages, then a watch from the list's version; streaming is not tried again soon."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [refusal(422, "Invalid"), sends(event("ADDED", obj("d", 9)), then_hang=True)]
        api.lists = [page(7, "a", "b", more="token"), page(7, "c")]
        async with following(scripted_server, api.handle, sink):
            await sink.told("replaced a b c", "upserted d")
        assert [("continue" in query, query.get("limit")) for query in api.queries[1:3]] == [(False, "2"), (True, "2")]
        assert api.queries[3]["resourceVersion"] == "7"
        assert "sendInitialEvents" not in api.queries[3]

    asyncio.run(scenario())


def test_a_streaming_list_that_stands_still_is_replaced_by_pages(scripted_server: ServerFactory) -> None:
    """A server that begins a streaming list and never ends it holds nobody up for long."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [sends(event("ADDED", obj("a", 1)), then_hang=True)]
        api.lists = [page(7, "a", "b")]
        pace = replace(QUICK, first_silence_s=0.1)
        async with following(scripted_server, api.handle, sink, pace=pace):
            await sink.told("replaced a b")

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["end", "drop", "drop in a line", "silence", "error event", "refusal", "garbage"])
def test_a_lost_watch_resumes_where_it_was(scripted_server: ServerFactory, how: str) -> None:
    """However a watch ends, the next one starts at the last version seen, and nothing is listed again."""

    async def lost(watch: Watch) -> None:
        await watch.send(event("ADDED", obj("b", 11)), bookmark(12))
        if how == "drop in a line":
            await watch.send(event("ADDED", obj("c", 13))[:30])
        if how == "error event":
            await watch.send(event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "x"}))
        if how == "garbage":
            await watch.send(b"<html>\n")
        if how.startswith("drop"):
            await asyncio.sleep(0.05)
            watch.drop()
        if how == "silence":
            await watch.hang()

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(10, "a")]
        api.watches = [lost, *([refusal(503, "Unavailable")] if how == "refusal" else [])]
        api.watches.append(sends(event("ADDED", obj("c", 13)), then_hang=True))
        async with following(scripted_server, api.handle, sink, streaming=False) as (_, reflector):
            await sink.told("replaced a", "upserted b", "upserted c")
            assert reflector.listed_count == 1
        watched = [query["resourceVersion"] for query in api.queries if "watch" in query]
        assert watched[:2] == ["10", "12"]
        assert set(watched[1:3]) <= {"12", "13"}

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["answer", "event", "expired event"])
def test_a_version_that_is_gone_leads_to_a_new_list(scripted_server: ServerFactory, how: str) -> None:
    """The new list holds everything that exists, so that the receiver can tell what was deleted meanwhile."""
    status = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired" if how == "expired event" else "Gone",
        "message": "old",
    }

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(10, "a", "b"), page(20, "b", "c")]
        api.watches = [refusal(410, "Gone") if how == "answer" else sends(event("ERROR", status))]
        async with following(scripted_server, api.handle, sink, streaming=False):
            await sink.told("replaced a b", "replaced b c")
            assert set(sink.objects) == {"b", "c"}
            await until(lambda: api.queries[-1].get("resourceVersion") == "20")

    asyncio.run(scenario())


def test_an_unfinished_streaming_list_is_not_handed_over(scripted_server: ServerFactory) -> None:
    """A stream that breaks off in the middle starts again from the beginning."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [
            sends(event("ADDED", obj("a", 1))),
            sends(event("ADDED", obj("b", 2)), bookmark(2, end=True), then_hang=True),
        ]
        async with following(scripted_server, api.handle, sink):
            await sink.told("replaced b")

    asyncio.run(scenario())


def test_a_streaming_list_that_never_ends_falls_back_to_pages(scripted_server: ServerFactory) -> None:
    """Silence before the list is complete means that streaming does not work here."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [sends(event("ADDED", obj("a", 1)), then_hang=True)]
        api.lists = [page(5, "a")]
        async with following(scripted_server, api.handle, sink):
            await sink.told("replaced a")

    asyncio.run(scenario())


def discovery(*kinds: Resource) -> web.Response:
    """What a server that serves these kinds says at /apis."""
    groups = [
        {
            "metadata": {"name": kind.group},
            "versions": [
                {"version": kind.version, "resources": [{"resource": kind.plural, "verbs": ["list", "watch"]}]}
            ],
        }
        for kind in kinds
    ]
    return web.json_response({"kind": "APIGroupDiscoveryList", "items": groups})


PAGE_NOT_FOUND = "404 page not found"


def test_a_kind_that_is_not_served_is_empty_until_it_appears(scripted_server: ServerFactory) -> None:
    """It settles as not served, and is found once it is there; when it vanishes again, so do its objects."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        found = asyncio.Event()
        served = {"now": False}

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path in {"/api", "/apis"}:
                return discovery(*([RESOURCE_CLAIMS] if served["now"] else []))
            return await api.handle(request) if served["now"] else web.Response(status=404, text=PAGE_NOT_FOUND)

        async with following(scripted_server, handle, sink, resource=RESOURCE_CLAIMS) as (server, reflector):
            assert (await reflector.settled()).phase is Phase.NOT_SERVED
            await until(lambda: len(server.seen) > 5)
            assert sink.story == ["replaced"]

            async def vanishing(watch: Watch) -> None:
                await watch.send(event("ADDED", obj("a", 1)), bookmark(1, end=True))
                await found.wait()

            api.watches = [vanishing]
            served["now"] = True
            await sink.told("replaced", "replaced a")
            served["now"] = False
            found.set()
            await sink.told("replaced", "replaced a", "replaced")
            assert reflector.state.phase is Phase.NOT_SERVED

    asyncio.run(scenario())


def test_a_kind_that_is_served_in_an_older_version_only(scripted_server: ServerFactory) -> None:
    """It is followed there, and the client writes it there; when the server has the newer one only, it is found."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        newer = Resource("resource.k8s.io", "v1", "resourceclaims", older=("v1beta2", "v1beta1"))
        older = newer.versions[2]
        served = {"as": older}
        moved = asyncio.Event()

        async def first(watch: Watch) -> None:
            await watch.send(event("ADDED", obj("a", 1)), bookmark(1, end=True))
            await moved.wait()

        api.watches = [first, sends(event("ADDED", obj("b", 2)), bookmark(2, end=True), then_hang=True)]

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path in {"/api", "/apis"}:
                return discovery(served["as"])
            known = request.path == served["as"].path()
            return await api.handle(request) if known else web.Response(status=404, text=PAGE_NOT_FOUND)

        async with following(scripted_server, handle, sink, resource=newer) as (_, reflector):
            assert (await reflector.settled()).phase is Phase.SYNCED
            await sink.told("replaced a")
            assert reflector.resource.version == "v1beta1"
            assert reflector._client.in_use(newer) == older
            served["as"] = newer
            moved.set()
            await sink.told("replaced a", "replaced b")
            assert reflector._client.in_use(newer) == newer

    asyncio.run(scenario())


NO_SUCH_PATH: dict[str, Callable[[], web.Response]] = {
    "a load balancer's page": lambda: web.Response(status=404, text="<html>no backend</html>"),
    "the text of an API server": lambda: web.Response(status=404, text=PAGE_NOT_FOUND),
    "a Status": lambda: refusal(404, "NotFound"),
    "deeply nested JSON": lambda: web.Response(status=404, body=b"[" * 5000),
}


@pytest.mark.parametrize("answer", NO_SUCH_PATH.values(), ids=NO_SUCH_PATH.keys())
@pytest.mark.parametrize(
    ("resource", "said"),
    [
        pytest.param(PODS, None, id="pods"),
        pytest.param(NODES, None, id="nodes"),
        pytest.param(RESOURCE_CLAIMS, discovery, id="a kind that discovery names"),
        pytest.param(RESOURCE_CLAIMS, NO_SUCH_PATH["a load balancer's page"], id="discovery does not answer"),
        pytest.param(RESOURCE_CLAIMS, lambda: web.json_response({}), id="discovery answers something else"),
    ],
)
def test_a_404_empties_nothing(
    scripted_server: ServerFactory, resource: Resource, said: Any, answer: Callable[[], web.Response]
) -> None:
    """A 404 on a watch is an error like any other, unless discovery says that the kind is not served."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(10, "a", "b")]
        api.watches = [answer(), answer(), sends(event("ADDED", obj("c", 11)), then_hang=True)]

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path in {"/api", "/apis"}:
                return discovery(resource) if said is discovery or said is None else said()
            return await api.handle(request)

        async with following(scripted_server, handle, sink, resource=resource, streaming=False) as (_, reflector):
            await sink.told("replaced a b", "upserted c")
            assert (reflector.listed_count, set(sink.objects)) == (1, {"a", "b", "c"})

    asyncio.run(scenario())


def test_a_missing_permission_is_a_state_of_its_own(scripted_server: ServerFactory) -> None:
    """It settles with the server's words, and heals when the permission is granted."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [
            refusal(403, "Forbidden", "pods is forbidden"),
            sends(event("ADDED", obj("a", 1)), bookmark(1, end=True), then_hang=True),
        ]
        async with following(scripted_server, api.handle, sink) as (_, reflector):
            state = await reflector.settled()
            assert (state.phase, state.error) == (Phase.FORBIDDEN, "pods is forbidden")
            await sink.told("replaced a")
            assert reflector.state.phase is Phase.SYNCED

    asyncio.run(scenario())


def test_a_refused_kind_that_the_server_lacks(scripted_server: ServerFactory) -> None:
    """It is not asked for before its group describes it; then the refusal is one, until it is lifted."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        served, allowed = asyncio.Event(), asyncio.Event()
        documents = 0

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal documents
            if request.path == "/apis/resource.k8s.io/v1":
                documents += 1
                rows = [{"name": RESOURCE_CLAIMS.plural}] if served.is_set() else []
                return web.json_response({"resources": rows})
            if allowed.is_set():
                return await api.handle(request)
            return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "no"}, status=403)

        kind = RESOURCE_CLAIMS
        async with following(scripted_server, handle, sink, resource=kind, lacking=True) as (server, reflector):
            assert (await reflector.settled()).phase is Phase.NOT_SERVED
            assert [seen.path for seen in server.seen] == ["/apis/resource.k8s.io/v1"]
            await until(lambda: documents > 2)
            assert (reflector.state.phase, reflector.paused_count, sink.story) == (Phase.NOT_SERVED, 0, ["replaced"])
            served.set()
            await until(lambda: reflector.state.phase is Phase.FORBIDDEN)
            api.watches = [sends(event("ADDED", obj("a", 1)), bookmark(1, end=True), then_hang=True)]
            allowed.set()
            await sink.told("replaced", "replaced a")

    asyncio.run(scenario())


def deep(levels: int = 3000) -> Any:
    """JSON that no recursive decoder reads, as text that stands for itself."""
    return f"DEEP{levels}"


def raw_lines(*lines: bytes) -> bytes:
    """The lines with real depth where `deep` stands."""
    return re.sub(rb'"DEEP(\d+)"', lambda m: b"[" * int(m[1]) + b"]" * int(m[1]), b"".join(lines))


def parse_strictly(raw: msgspec.Raw) -> Parsed:
    """Raises something else for every mark that is none."""
    value = msgspec.json.decode(raw, type=dict[str, Any])
    mark = value.get("mark", 0)
    failures: dict[Any, Exception] = {
        "value": ValueError("no number"),
        "key": KeyError("no key"),
        "overflow": OverflowError("too large"),
        "recursion": RecursionError("too deep"),
    }
    if mark in failures:
        raise failures[mark]
    return Parsed(value["metadata"], mark)


@pytest.mark.parametrize("mark", ["value", "key", "overflow", "recursion"])
def test_an_unreadable_object_is_left_out(scripted_server: ServerFactory, mark: str) -> None:
    """One bad object stops neither the list nor the watch, whatever reading it raises; it is told of once."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [
            sends(
                event("ADDED", obj("a", 1)),
                event("ADDED", obj("bad", 1, mark=mark)),
                bookmark(1, end=True),
                event("MODIFIED", obj("bad", 2, mark=mark)),
                event("ADDED", obj("b", 3)),
                event("DELETED", obj("a", 4, mark=mark)),
                then_hang=True,
            )
        ]
        with structlog.testing.capture_logs() as lines:
            async with following(scripted_server, api.handle, sink, parse=parse_strictly) as (_, reflector):
                await sink.told("replaced a", "upserted b", "deleted a")
                assert reflector.left_out.count == 2
        told = [line for line in lines if line["event"] == "object left out, it cannot be read"]
        assert [(line["kind"], line["object"]) for line in told] == [("Pod", "ns/bad")]

    asyncio.run(scenario())


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "pages"])
def test_json_that_is_nested_too_deeply(scripted_server: ServerFactory, streaming: bool) -> None:
    """What lies too deep is not read, the object is, in lists and watches; and its deletion takes effect."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        items = [obj("a", 1, mark=1), obj("deep", 2, mark=2, opaque={"x": deep()}), obj("b", 3, mark=3)]
        changes = (
            event("MODIFIED", obj("deep", 5, mark=5, opaque=deep(9000))),
            event("DELETED", obj("b", 6, opaque=deep())),
        )
        listed = json.dumps({"metadata": {"resourceVersion": "4"}, "items": items}).encode()
        first = [*(event("ADDED", item) for item in items), bookmark(4, end=True)] if streaming else []
        api.watches = [sends(raw_lines(*first, *changes), then_hang=True)]
        api.lists = [web.Response(body=raw_lines(listed))]
        async with following(scripted_server, api.handle, sink, streaming=streaming) as (_, reflector):
            await sink.told("replaced a deep b", "upserted deep", "deleted b")
            assert sink.objects == {"a": 1, "deep": 5}
            assert reflector.left_out.count == 0

    asyncio.run(scenario())


def test_garbage_that_comes_again_leads_to_a_new_list(scripted_server: ServerFactory) -> None:
    """A line that is no event ends that watch; where the next one has it too, everything is listed anew."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(10, "a"), page(20, "a", "b")]
        api.watches = [sends(b"<html>\n"), sends(b"[" * 5000 + b"\n")]
        async with following(scripted_server, api.handle, sink, streaming=False):
            await sink.told("replaced a", "replaced a b")

    asyncio.run(scenario())


def test_a_version_that_is_gone_after_an_outage_is_listed_at_once(scripted_server: ServerFactory) -> None:
    """Pauses have grown while the server was away; that it has forgotten our version is no reason for another one."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(10, "a"), page(20, "a", "b")]
        api.watches = [refusal(500, "InternalError"), refusal(500, "InternalError"), refusal(410, "Expired")]
        clock = itertools.count(0, 100)
        pace = replace(QUICK, longest_pause_s=0.5, first_pause_s=0.01)
        async with following(
            scripted_server, api.handle, sink, streaming=False, pace=pace, monotonic_s=lambda: float(next(clock))
        ) as (_, reflector):
            await sink.told("replaced a", "replaced a b")
            assert reflector.paused_count == 2

    asyncio.run(scenario())


def test_lines_beyond_every_default_limit(scripted_server: ServerFactory) -> None:
    """Objects may be larger than a megabyte."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        big = obj("big", 2, filler="x" * 3_000_000)
        api.watches = [
            sends(event("ADDED", big), bookmark(2, end=True), event("MODIFIED", {**big, "mark": 5}), then_hang=True)
        ]
        async with following(scripted_server, api.handle, sink):
            await sink.told("replaced big", "upserted big")
            assert sink.objects == {"big": 5}

    asyncio.run(scenario())


def test_refresh_lists_anew(scripted_server: ServerFactory) -> None:
    """A new leader gets a full list now, and waits for that one."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [page(1, "a"), page(2, "a", "b")]
        async with following(scripted_server, api.handle, sink, streaming=False) as (_, reflector):
            await sink.told("replaced a")
            reflector.refresh()
            await reflector.settled()
            await sink.told("replaced a", "replaced a b")
            await until(lambda: api.queries[-1].get("resourceVersion") == "2")
            assert reflector.listed_count == 2

    asyncio.run(scenario())


def test_pauses_grow_to_five_seconds(scripted_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the server is away, it is found within 5 s of its return; and it is not hammered meanwhile."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def hasty(seconds: float, result: Any = None) -> Any:
        if seconds > 0.2:
            pauses.append(seconds)
            seconds = 0.0
        return await sleep(seconds, result)

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.lists = [*(refusal(500, "InternalError") for _ in range(12)), page(1, "a")]
        async with following(scripted_server, api.handle, sink, streaming=False, pace=ReflectorPace()):
            monkeypatch.setattr(asyncio, "sleep", hasty)
            await sink.told("replaced a")

    asyncio.run(scenario())
    assert pauses[:3] == [0.375, 0.75, 1.5]
    assert (len(pauses), max(pauses)) == (12, 3.75)


def test_what_ends_a_reflector_ends_the_work_beside_it(scripted_server: ServerFactory) -> None:
    """A task that waits for what the reflector shows would wait for ever."""

    async def scenario() -> None:
        api, sink = Api(), Copy()
        api.watches = [sends(event("ADDED", obj("a", 1)), bookmark(1, end=True), then_hang=True)]
        sink.replaced = None  # type: ignore[method-assign,assignment]
        async with scripted_server(api.handle) as server, server.client() as client:
            parse = msgspec.json.Decoder(Parsed).decode
            reflector = Reflector(client, PODS, sink, parse=parse, jitter=lambda: 0.5, pace=QUICK)

            async def work() -> None:
                await reflector.settled()

            with pytest.raises(TypeError):
                async with asyncio.timeout(10):
                    await reflector.beside(work())

    asyncio.run(scenario())


def test_what_the_sink_raises_ends_the_reflector(scripted_server: ServerFactory) -> None:
    """A mistake in the receiver is not taken for a network failure and retried for ever."""

    async def scenario() -> None:
        api = Api()
        api.watches = [sends(event("ADDED", obj("a", 1)), bookmark(1, end=True), event("DELETED", obj("x", 2)))]
        sink = Copy()
        sink.deleted = None  # type: ignore[method-assign,assignment]
        async with scripted_server(api.handle) as server, server.client() as client:
            parse = msgspec.json.Decoder(Parsed).decode
            reflector = Reflector(client, PODS, sink, parse=parse, jitter=lambda: 0.5, pace=QUICK)
            with pytest.raises(TypeError):
                await reflector.run()

    asyncio.run(scenario())
