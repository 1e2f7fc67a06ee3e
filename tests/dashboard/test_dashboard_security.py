"""Who is answered, and who is not: host names, origins, tokens and headers."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp.test_utils import make_mocked_request

from moorage.adapters.dashboard.backend import DashboardBackend, Refused, StrategyChange, Surroundings
from moorage.adapters.dashboard.hub import RESET, Hub
from moorage.adapters.dashboard.security import Guard, host_name, is_loopback
from moorage.app.dashboard import DashboardOptions, _guard
from moorage.core.events import NodeSeen, ObjectSeen
from moorage.core.objects import Workload
from moorage.sim.rules import rules_of
from moorage.sim.whatif_requests import answer
from moorage.testing.builders import make_node
from moorage.views.world import Settled, World
from tests.dashboard.serving import TOKEN, reading_of, served_world

APPLY = "/api/apply/strategy"
CHECK = "/api/strategy/check"
CHANGE = {"kind": "Deployment", "namespace": "default", "name": "web", "key": "k", "text": "weight=1,nodeSelector=a:b"}


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """A dashboard that takes changes from who has the token."""
    with served_world([NodeSeen(make_node("n1", cpu="4"))], token=TOKEN) as url:
        parts = urlsplit(url)
        assert parts.fragment == f"token={TOKEN}"
        yield parts.hostname or "", parts.port or 0


def ask(
    address: tuple[str, int], method: str, path: str, headers: Mapping[str, str], body: object = None
) -> tuple[int, bytes, Mapping[str, str]]:
    connection = HTTPConnection(*address, timeout=60)
    text = None if body is None else json.dumps(body)
    sent = {"Accept-Encoding": "gzip", **({} if text is None else {"Content-Type": "application/json"}), **headers}
    connection.request(method, path, text, sent)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.headers.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    return answer.status, content, dict(answer.headers)


KEY = {"X-Moorage-Token": TOKEN}
OWN = {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        pytest.param("GET", "/", {}, 200, id="the page"),
        pytest.param("GET", f"/?token={TOKEN}", {}, 303, id="a token in the address is dropped"),
        pytest.param("GET", "/api/snapshot", {}, 401, id="reading by another user of this machine"),
        pytest.param("GET", f"/api/snapshot?token={TOKEN}", {}, 401, id="a token in the address does not count"),
        pytest.param("GET", "/api/pod?key=default/a", OWN, 401, id="a pod without the token"),
        pytest.param("GET", "/api/suggestions?key=default/a", OWN, 401, id="suggestions without the token"),
        pytest.param("GET", "/api/events", OWN, 401, id="news without the token"),
        pytest.param("GET", "/api/snapshot", {"X-Moorage-Token": "gr\xfcn"}, 401, id="a token of other letters"),
        pytest.param("GET", "/api/snapshot", {"X-Moorage-Token": "\xff\xfe"}, 401, id="a token that is no UTF-8"),
        pytest.param("GET", "/api/snapshot", {**OWN, **KEY}, 200, id="reading by the page"),
        pytest.param("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200, id="a link"),
        pytest.param("GET", "/api/snapshot", {"Sec-Fetch-Site": "cross-site"}, 403, id="reading by another site"),
        pytest.param("GET", "/api/snapshot", {"Sec-Fetch-Site": "same-site"}, 403, id="reading by another port"),
        pytest.param("GET", "/api/snapshot", {"Origin": "http://evil.example"}, 403, id="another origin"),
        pytest.param("GET", "/api/snapshot", {"Origin": "null"}, 403, id="an opaque origin"),
        pytest.param("GET", "/api/events", {"Origin": "http://127.0.0.1:1"}, 403, id="news for another port"),
        pytest.param("GET", "/static/main.js", {"Sec-Fetch-Site": "cross-site"}, 403, id="a script for another site"),
        pytest.param("GET", "/api/snapshot", {"Host": "evil.example"}, 403, id="a name that was pointed at us"),
        pytest.param("GET", "/", {"Host": "evil.example:80"}, 403, id="the page under such a name"),
        pytest.param("GET", "/api/snapshot", {**KEY, "Host": "localhost:{port}"}, 200, id="localhost"),
        pytest.param("GET", "/healthz", {}, 200, id="health"),
        pytest.param("GET", "/static/../server.py", {}, 404, id="a file beside the pages"),
        pytest.param("GET", "/api/nothing", KEY, 404, id="nothing"),
        pytest.param("GET", "/api/events?since=x", KEY, 400, id="no number"),
        pytest.param("GET", "/api/series", OWN, 401, id="charts without the token"),
        pytest.param("GET", "/api/series?points=7&from=1&to=2.5&step=3", KEY, 200, id="charts"),
        pytest.param(
            "GET", "/api/series?points=99999999999&from=99999999999", KEY, 200, id="more points than there are"
        ),
        pytest.param("GET", "/api/series?from=nan", KEY, 400, id="charts since no time"),
        pytest.param("GET", "/api/series?step=1e9", KEY, 400, id="charts of no step"),
        pytest.param("GET", "/api/series?to=-1", KEY, 400, id="charts until before all time"),
        pytest.param("GET", "/static/vendor/uPlot.esm.js", {}, 200, id="a file of others"),
        pytest.param("GET", "/static/vendor/SHA256SUMS", {}, 404, id="what is no part of the page"),
        pytest.param("POST", CHECK, {**OWN, **KEY}, 200, id="a check by the page"),
        pytest.param("POST", CHECK, OWN, 401, id="a check without the token"),
        pytest.param("POST", CHECK, {"Origin": "http://evil.example"}, 403, id="a check by another origin"),
        pytest.param("POST", CHECK, {**KEY, "Content-Type": "text/plain"}, 415, id="a form of another page"),
        pytest.param("POST", APPLY, OWN, 401, id="a change without the token"),
        pytest.param("POST", APPLY, {**OWN, "X-Moorage-Token": "wrong"}, 401, id="a change with another token"),
        pytest.param("POST", APPLY, {"X-Moorage-Token": TOKEN}, 409, id="a change with the token, refused as a record"),
        pytest.param(
            "POST", APPLY, {"X-Moorage-Token": TOKEN, "Origin": "http://evil.example"}, 403, id="from another origin"
        ),
        pytest.param(
            "POST", APPLY, {"X-Moorage-Token": TOKEN, "Host": "evil.example"}, 403, id="a change under another name"
        ),
    ],
)
def test_who_is_answered(
    address: tuple[str, int], method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Status by request; refusals are JSON with one line."""
    given = {name: value.format(port=address[1]) for name, value in headers.items()}
    found, body, answered = ask(address, method, path, given, CHANGE if method == "POST" else None)
    assert found == status
    assert "default-src 'none'" in answered["Content-Security-Policy"]
    assert answered["X-Content-Type-Options"] == "nosniff"
    if status >= 400:
        assert "\n" not in json.loads(body)["error"]


def test_the_policy_allows_nothing_from_elsewhere(address: tuple[str, int]) -> None:
    """No inline scripts, no frames, no other hosts; and the page itself names none."""
    _, page, headers = ask(address, "GET", "/", {"Accept-Encoding": "identity"})
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert b"http" not in page


def test_bad_bodies_are_one_line(address: tuple[str, int]) -> None:
    """No traceback for a body that is no JSON, no object, or lacks a field."""
    for body in (["a list"], {"text": 5}, {}):
        status, answer, _ = ask(address, "POST", CHECK, KEY, body)
        assert status == 400
        assert json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("host", "allow_writes", "private"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("localhost", True, True),
        ("0.0.0.0", False, False),  # noqa: S104 - what is tested
        ("192.0.2.1", True, False),
    ],
)
def test_there_is_always_a_token(host: str, allow_writes: bool, private: bool) -> None:
    """Wherever a cluster is shown; it is for changes only if told so."""
    guard = _guard(DashboardOptions(host, 0, allow_writes=allow_writes))
    assert guard.is_private is private
    assert guard.token
    name = f"[{host}]" if ":" in host else host
    refused = guard.refusal(make_mocked_request("POST", APPLY, {"Host": name, "X-Moorage-Token": guard.token}))
    assert (refused is None) is allow_writes, "a token for looking is none for changes"


STRATEGY = "moorage.dev/schedule-strategy"


@pytest.mark.parametrize(
    ("writes", "change", "want_written"),
    [
        pytest.param(True, {}, True, id="the annotation of a known workload"),
        pytest.param(False, {}, False, id="read-only"),
        pytest.param(True, {"key": "example.com/owner"}, False, id="another annotation"),
        pytest.param(True, {"key": ""}, False, id="no annotation"),
        pytest.param(True, {"name": "web/scale"}, False, id="a subresource"),
        pytest.param(True, {"namespace": "", "name": "default/web"}, False, id="a name with a namespace"),
        pytest.param(True, {"name": "other"}, False, id="an unknown workload"),
        pytest.param(True, {"kind": "Secret"}, False, id="another kind"),
    ],
)
def test_where_a_strategy_is_written(writes: bool, change: dict[str, str], want_written: bool) -> None:
    """Only where strategies belong, and only on workloads that are there."""
    written: list[StrategyChange] = []

    async def write(wanted: StrategyChange) -> None:
        written.append(wanted)

    async def scenario() -> None:
        world = World(reading_of().profiles, answers_to_all=True)
        backend = DashboardBackend(world, Surroundings("live", "a test", time.time, writes=writes, apply=write))
        workload = Workload("Deployment", "default", "web")
        backend.put(ObjectSeen("Deployment", "default/web", workload), Settled())
        await backend.take_over()
        with nullcontext() if want_written else pytest.raises(Refused):
            await backend.apply(StrategyChange(**{**CHANGE, "key": STRATEGY, **change}))
        backend.close()

    asyncio.run(scenario())
    assert bool(written) is want_written


@pytest.mark.parametrize(
    ("header", "name"),
    [("Localhost:80", "localhost"), ("[::1]:80", "::1"), ("::1", "::1"), ("a.example", "a.example"), ("", "")],
)
def test_host_names(header: str, name: str) -> None:
    """Ports and brackets do not matter."""
    assert host_name(header) == name


def test_names_that_are_no_loopback() -> None:
    """Names that only look like it are not this machine."""
    for name in ("127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", ""):
        assert not is_loopback(name)
    assert Guard("0.0.0.0").is_private is False  # noqa: S104


def test_news_for_those_who_were_away() -> None:
    """What is kept is told again; who missed more, or comes from another server, begins anew."""

    async def first_of(hub: Hub, since: int, last: int) -> bytes:
        async for message in hub.listen(since, last):
            return message
        return b""

    async def scenario() -> None:
        hub = Hub()
        for number in range(1, 301):
            hub.publish(number, b"{}")
        assert (await first_of(hub, 299, 300)).startswith(b"id: 300")
        assert (await first_of(hub, 250, 300)).startswith(b"id: 251")
        assert await first_of(hub, 3, 300) == RESET
        assert await first_of(hub, 900, 300) == RESET
        waiting = asyncio.ensure_future(first_of(hub, 301, 300))
        await asyncio.sleep(0)
        hub.publish(301, b"{}")
        hub.publish(302, b"{}")
        assert (await waiting).startswith(b"id: 302"), "it knew of 301 already"
        slow = hub.listen(302, 302)
        begun = asyncio.ensure_future(anext(slow))
        await asyncio.sleep(0)
        for number in range(303, 403):
            hub.publish(number, b"{}")
        assert await begun == RESET
        assert hub.visitors == 1

    asyncio.run(scenario())


WHAT_IFS: dict[str, tuple[dict[str, Any], str]] = {
    "a million replicas": ({"scale": ["deployment/web=1000000"]}, "1000000 replicas are too many to ask for here"),
    "many together": ({"scale": [f"deployment/w{number}=9999" for number in range(5)]}, "49995 replicas are too many"),
    "a million nodes": ({"add": [{"number": 10**6, "like": "n1"}]}, "1000000 new nodes are too many"),
    "a million changes": ({"drain": ["n1"] * 10**6}, "1000000 changes are too many"),
}


@pytest.mark.parametrize(("asked", "want"), WHAT_IFS.values(), ids=WHAT_IFS.keys())
def test_what_ifs_have_a_size(asked: dict[str, Any], want: str) -> None:
    """A page is not the place for all that somebody can write; the command is named that is."""
    rules = rules_of(reading_of(), 0, answers_to_all=True)
    with pytest.raises(ValueError, match=f"{want}.*use moorage simulate$"):
        answer([], rules, asked, "the cluster")


def test_elsewhere_everything_needs_the_token() -> None:
    """A server that others can reach tells nothing to who has no token."""
    reached = Guard("192.0.2.1", TOKEN, more_hosts=frozenset({"moorage.example"}))
    for headers, refused in (
        ({}, 401),
        ({"X-Moorage-Token": "wrong"}, 401),
        ({"X-Moorage-Token": TOKEN}, None),
        ({"X-Moorage-Token": TOKEN, "Host": "moorage.example"}, None),
        ({"X-Moorage-Token": TOKEN, "Host": "other.example"}, 403),
    ):
        request = make_mocked_request("GET", "/api/snapshot", {"Host": "192.0.2.1:8080", **headers})
        found = reached.refusal(request)
        assert (None if found is None else found[0]) == refused
