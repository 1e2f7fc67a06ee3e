from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.adapters.kube.events import EventRecorder
from moorage.core.commands import PodRef, RecordEvent
from moorage.wire.events import cut_note

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, Handler, ScriptedServer, ServerFactory

POD = PodRef("ns", "p", "uid-1")
FAILED = RecordEvent(POD, "Warning", "FailedScheduling", "Scheduling", "0/1 nodes are available.", "moorage")
COLLECTION = "/apis/events.k8s.io/v1/namespaces/ns/events"


async def fine(_: web.Request) -> web.StreamResponse:
    return web.json_response({})


@asynccontextmanager
async def recording(
    factory: ServerFactory, handler: Handler, clock: Clock, **options: Any
) -> AsyncIterator[tuple[ScriptedServer, EventRecorder]]:
    async def paused(delay_s: float) -> None:
        """Let retries pass at once, and the sweeper, which waits 30 s, never wake up by itself."""
        await (asyncio.Event().wait() if delay_s == 30.0 else clock.sleep(delay_s))

    async with factory(handler) as server, server.client() as client:
        recorder = EventRecorder(client, jitter=lambda: 0.5, hostname="h", now_s=clock, sleep=paused, **options)
        task = asyncio.ensure_future(recorder.run())
        try:
            yield server, recorder
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def drained(recorder: EventRecorder) -> None:
    async with asyncio.timeout(10):
        await recorder._queue.join()


def test_an_event(scripted_server: ServerFactory, clock: Clock) -> None:
    """Every field as kube-scheduler fills it."""
    clock.now_s = 1_700_000_000.25

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock) as (server, recorder):
            related = PodRef("other", "q", "uid-2")
            recorder.record(RecordEvent(POD, "Normal", "Scheduled", "Binding", "Successfully assigned", "s", related))
            await drained(recorder)
            body = server.seen[0].json()
            assert (server.seen[0].method, server.seen[0].path) == ("POST", COLLECTION)
            assert body.pop("metadata") == {"name": f"p.{int(clock.now_s * 1e9):x}", "namespace": "ns"}
            assert body == {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "eventTime": "2023-11-14T22:13:20.250000Z",
                "type": "Normal",
                "reason": "Scheduled",
                "action": "Binding",
                "note": "Successfully assigned",
                "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "uid-1"},
                "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "other", "name": "q", "uid": "uid-2"},
                "reportingController": "s",
                "reportingInstance": "s-h",
            }

    asyncio.run(scenario())


def test_equal_events_become_a_series(scripted_server: ServerFactory, clock: Clock) -> None:
    """The first repetition is written at once, later ones now and then, the last ones when the recorder stops."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock) as (server, recorder):
            recorder.record(FAILED)
            await drained(recorder)
            clock.now_s += 5
            recorder.record(FAILED)
            await drained(recorder)
            for _ in range(4):
                clock.now_s += 5
                recorder.record(FAILED)
                await drained(recorder)
            assert [seen.method for seen in server.seen] == ["POST", "PATCH"]
            clock.now_s += 30
            recorder.record(FAILED)
            await drained(recorder)
            clock.now_s += 1
            recorder.record(FAILED)
            assert await recorder.flush(10)
            assert [seen.json()["series"]["count"] for seen in server.seen[1:]] == [2, 7, 8]
            name = server.seen[0].json()["metadata"]["name"]
            assert {seen.path for seen in server.seen[1:]} == {f"{COLLECTION}/{name}"}
            clock.now_s += 361
            recorder.record(FAILED)
            await drained(recorder)
            assert server.seen[-1].method == "POST"

    asyncio.run(scenario())


def test_repetitions_before_the_first_write_are_counted(scripted_server: ServerFactory, clock: Clock) -> None:
    """Events that pile up while the server is slow are published as one with a series."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock) as (server, recorder):
            for _ in range(5):
                recorder.record(FAILED)
            await drained(recorder)
            assert [(seen.method, seen.json()["series"]["count"]) for seen in server.seen] == [("POST", 5)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "other",
    [
        RecordEvent(PodRef("ns", "p", "uid-2"), *("Warning", "FailedScheduling", "Scheduling"), FAILED.note, "moorage"),
        RecordEvent(POD, *("Warning", "FailedScheduling", "Scheduling"), "another note", "moorage"),
        RecordEvent(POD, *("Warning", "Preempted", "Scheduling"), FAILED.note, "moorage"),
        RecordEvent(POD, *("Warning", "FailedScheduling", "Scheduling"), FAILED.note, "other"),
    ],
    ids=["uid", "note", "reason", "reporter"],
)
def test_different_events_stay_apart(scripted_server: ServerFactory, clock: Clock, other: RecordEvent) -> None:
    """Whatever differs makes an event of its own, under a name of its own."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock) as (server, recorder):
            recorder.record(FAILED)
            recorder.record(other)
            await drained(recorder)
            assert [seen.method for seen in server.seen] == ["POST", "POST"]
            assert len({seen.json()["metadata"]["name"] for seen in server.seen}) == 2

    asyncio.run(scenario())


def test_a_full_queue_drops_and_counts(scripted_server: ServerFactory, clock: Clock) -> None:
    """Recording never waits, however slow the server is."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock, queue_limit=10) as (server, recorder):
            for index in range(25):
                recorder.record(RecordEvent(PodRef("ns", f"p{index}", f"u{index}"), "Normal", "r", "a", "n", "s"))
            assert (recorder.pending, recorder.dropped_count) == (10, 15)
            await drained(recorder)
            assert len(server.seen) == 10

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("waited_s", "reason", "want_at_once"),
    [
        pytest.param(0.5, "Scheduled", 2, id="in time"),
        pytest.param(1.5, "Scheduled", 4, id="late"),
        pytest.param(3.0, "Scheduled", 5, id="later"),
        pytest.param(1.5, "FailedScheduling", 2, id="late, but nobody waits for it"),
    ],
)
def test_late_events_get_more_requests_at_once(
    scripted_server: ServerFactory, clock: Clock, waited_s: float, reason: str, want_at_once: int
) -> None:
    """Events let binds go first, but when those that tell of a bind have waited too long they catch up."""
    running, most = 0, 0
    crowd = asyncio.Event()

    async def handler(_: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == want_at_once:
            crowd.set()
        await crowd.wait()
        await asyncio.sleep(0.01)  # other requests on the way may come in
        running -= 1
        return web.json_response({})

    async def scenario() -> None:
        options = {"workers": 2, "late_workers": 3, "late_s": 1.0}
        async with recording(scripted_server, handler, clock, **options) as (server, recorder):
            for index in range(30):
                recorder.record(RecordEvent(PodRef("ns", f"p{index}", f"u{index}"), "Normal", reason, "a", "n", "s"))
            clock.now_s += waited_s
            await drained(recorder)
            assert (len(server.seen), most) == (30, want_at_once)

    asyncio.run(scenario())


def test_what_tells_of_a_bind_goes_first(scripted_server: ServerFactory, clock: Clock) -> None:
    """However many pods fit nowhere, the one that was bound is told of at once; the others keep their order."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock, workers=1) as (server, recorder):
            for name, reason in (("a", "FailedScheduling"), ("b", "FailedScheduling"), ("c", "Scheduled")):
                recorder.record(RecordEvent(PodRef("ns", name, name), "Normal", reason, "a", "n", "s"))
            await drained(recorder)
            assert [seen.json()["regarding"]["name"] for seen in server.seen] == ["c", "a", "b"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("codes", "want_methods", "want_dropped"),
    [
        pytest.param([500, 503, 201], ["POST"] * 3, 0, id="a failing server is tried again"),
        pytest.param([500, 409], ["POST"] * 2, 0, id="the first attempt had succeeded after all"),
        pytest.param([409], ["POST"], 0, id="it is there already"),
        pytest.param([403], ["POST"], 1, id="a namespace that is going away"),
        pytest.param([500] * 20, ["POST"] * 8, 1, id="given up in the end"),
    ],
)
def test_trouble_with_the_server(
    scripted_server: ServerFactory, clock: Clock, codes: list[int], want_methods: list[str], want_dropped: int
) -> None:
    """Events are retried when that can help, and lost ones are counted."""
    left = iter(codes)

    async def handler(_: web.Request) -> web.StreamResponse:
        code = next(left)
        body = {"kind": "Status", "code": code, "reason": "AlreadyExists" if code == 409 else "", "message": "m"}
        return web.json_response(body, status=code)

    async def scenario() -> None:
        async with recording(scripted_server, handler, clock) as (server, recorder):
            recorder.record(FAILED)
            await drained(recorder)
            assert [seen.method for seen in server.seen] == want_methods
            assert recorder.dropped_count == want_dropped

    asyncio.run(scenario())


def test_a_forgotten_series_goes_on(scripted_server: ServerFactory, clock: Clock) -> None:
    """The server removes events after an hour; a series that still runs is created anew with its count."""

    async def handler(request: web.Request) -> web.StreamResponse:
        forgotten = {"kind": "Status", "code": 404, "reason": "NotFound"}
        return web.json_response(forgotten, status=404 if request.method == "PATCH" else 201)

    async def scenario() -> None:
        async with recording(scripted_server, handler, clock) as (server, recorder):
            recorder.record(FAILED)
            await drained(recorder)
            recorder.record(FAILED)
            await drained(recorder)
            assert [seen.method for seen in server.seen] == ["POST", "PATCH", "POST"]
            assert server.seen[2].json()["series"]["count"] == 2
            assert server.seen[2].json()["metadata"]["name"] != server.seen[0].json()["metadata"]["name"]

    asyncio.run(scenario())


def test_flush_has_a_deadline(scripted_server: ServerFactory, clock: Clock) -> None:
    """A server that does not answer does not hold up the end of the process."""

    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async def scenario() -> None:
        async with recording(scripted_server, handler, clock) as (_, recorder):
            recorder.record(FAILED)
            assert not await recorder.flush(0.05)

    asyncio.run(scenario())


def test_memory_is_bounded(scripted_server: ServerFactory, clock: Clock) -> None:
    """Only so many events are remembered for their repetitions; a forgotten one loses no count."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock, remembered_limit=3) as (server, recorder):
            recorder.record(FAILED)
            await drained(recorder)
            recorder.record(FAILED)
            await drained(recorder)
            recorder.record(FAILED)
            for index in range(5):
                recorder.record(RecordEvent(PodRef("ns", f"p{index}", f"u{index}"), "Normal", "r", "a", "n", "s"))
            await drained(recorder)
            assert len(recorder._entries) == 3
            assert [seen.json()["series"]["count"] for seen in server.seen if seen.method == "PATCH"] == [2, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("note", "want"),
    [
        ("short", "short"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
        ("x" + "é" * 600, "x" + "é" * 509 + " ..."),
    ],
    ids=["short", "exactly", "one more", "two bytes each", "not in the middle of a character"],
)
def test_notes_are_cut(note: str, want: str) -> None:
    """The server takes 1024 bytes; what is cut ends with dots."""
    assert cut_note(note) == want
    assert len(want.encode()) <= 1024


SCHEDULED = RecordEvent(POD, "Normal", "Scheduled", "Binding", "Successfully assigned ns/p to n1", "moorage")


@pytest.mark.parametrize("occasion", ["sweep", "stop", "forgotten"])
def test_an_event_whose_creation_is_under_way_is_not_created_again(
    scripted_server: ServerFactory, clock: Clock, occasion: str
) -> None:
    """However long the answer takes, and whatever happens meanwhile: one request, one event."""
    came, thaw = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if (await request.json())["reason"] == "Scheduled":
            came.set()
            await thaw.wait()
        return web.json_response({}, status=201)

    async def scenario() -> None:
        async with recording(scripted_server, handler, clock, remembered_limit=2) as (server, recorder):
            recorder.record(SCHEDULED)
            await came.wait()
            clock.now_s += 31.0
            if occasion == "forgotten":
                for number in range(3):
                    recorder.record(RecordEvent(PodRef("ns", "q", f"u{number}"), "Normal", "Other", "a", "n", "s"))
            elif occasion == "sweep":
                recorder._enqueue_unwritten(clock.now_s - 30.0)
            stopped = asyncio.create_task(recorder.flush(10.0))
            await asyncio.sleep(0.05)
            thaw.set()
            assert await stopped
            created = [seen for seen in server.seen if seen.json().get("reason") == "Scheduled"]
            assert [seen.method for seen in created] == ["POST"]

    asyncio.run(scenario())


@pytest.mark.parametrize("lost", [False, True], ids=["late", "lost"])
def test_what_is_repeated_while_the_creation_is_under_way_is_written_after_it(
    scripted_server: ServerFactory, clock: Clock, lost: bool
) -> None:
    """As a series of the same event, also when the answer is lost and the name turns out to be taken."""
    came, thaw, codes = asyncio.Event(), asyncio.Event(), iter([500, 409] if lost else [201])

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            return web.json_response({})
        came.set()
        await thaw.wait()
        code = next(codes)
        body = {"kind": "Status", "code": code, "reason": "AlreadyExists" if code == 409 else "", "message": "m"}
        return web.json_response(body, status=code)

    async def scenario() -> None:
        async with recording(scripted_server, handler, clock) as (server, recorder):
            recorder.record(FAILED)
            await came.wait()
            recorder.record(FAILED)
            recorder.record(FAILED)
            thaw.set()
            await drained(recorder)
            assert [seen.method for seen in server.seen] == ["POST", *(["POST"] if lost else []), "PATCH"]
            names = {seen.json()["metadata"]["name"] for seen in server.seen if seen.method == "POST"}
            assert names == {server.seen[-1].path.rpartition("/")[2]}
            assert server.seen[-1].json()["series"]["count"] == 3

    asyncio.run(scenario())


def test_events_that_cannot_repeat_are_soon_forgotten(scripted_server: ServerFactory, clock: Clock) -> None:
    """A pod is bound once; what else happens to it may go on for minutes."""

    async def scenario() -> None:
        async with recording(scripted_server, fine, clock) as (_, recorder):
            recorder.record(SCHEDULED)
            recorder.record(FAILED)
            recorder._forget(clock.now_s + 361)
            assert list(recorder._entries) == [SCHEDULED, FAILED], "they wait to be written"
            await drained(recorder)
            recorder._forget(clock.now_s + 29)
            assert list(recorder._entries) == [SCHEDULED, FAILED]
            recorder._forget(clock.now_s + 31)
            assert list(recorder._entries) == [FAILED]
            recorder._forget(clock.now_s + 361)
            assert not recorder._entries

    asyncio.run(scenario())
