"""Whether the webhook answers, asked as the API server asks it."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
import structlog
from aiohttp import web

from moorage.adapters.kube.errors import Forbidden, KubeError, NotFound
from moorage.adapters.listening import listening
from moorage.adapters.webhook.certificates import Serving, issue
from moorage.adapters.webhook.server import BOUNDS, application
from moorage.app.webhookcheck import WebhookCheck
from moorage.core.events import WebhookAsked
from moorage.wire.webhooks import addresses, excluded_namespaces
from tests.adapters.test_webhook_server import Scene

EXCLUDES = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
}


class Api:
    """An API server that knows one registration, or answers with an error."""

    def __init__(self) -> None:
        self.error: KubeError | None = None
        self.document: dict[str, Any] = {}

    async def get(self, *_: object) -> bytes:
        if self.error is not None:
            raise self.error
        return json.dumps(self.document).encode()


def registration(url: str, authority: bytes) -> dict[str, Any]:
    client = {"url": f"{url}/mutate", "caBundle": base64.b64encode(authority).decode()}
    return {"webhooks": [{"name": "w", "clientConfig": client, "namespaceSelector": EXCLUDES}]}


def test_what_the_webhook_answers_is_heard_and_told_once() -> None:
    """While it serves, when it is not ready, when it has ended, and with another CA."""
    tls, other = issue(["localhost"], 3600.0), issue(["localhost"], 3600.0)
    api, unready, heard = Api(), [""], []

    async def scenario() -> None:
        scene = Scene()

        def app() -> web.Application:
            return application(scene.handler.mutate, scene.metrics, unready=lambda: unready[0])

        check = WebhookCheck(api, "hook")  # type: ignore[arg-type]
        async with listening(app(), "127.0.0.1", 0, Serving(tls).context, bounds=BOUNDS) as url:
            reached = url.replace("127.0.0.1", "localhost")
            api.document = registration(reached, tls.authority or b"")
            heard.append(await check.ask())
            unready[0] = "starting"
            heard.extend([await check.ask(), await check.ask()])
            unready[0] = ""
            heard.append(await check.ask())
        heard.append(await check.ask())
        await check.aclose()
        check = WebhookCheck(api, "hook")  # type: ignore[arg-type]
        async with listening(app(), "127.0.0.1", 0, Serving(other).context, bounds=BOUNDS) as url:
            api.document = registration(url.replace("127.0.0.1", "localhost"), tls.authority or b"")
            heard.append(await check.ask())
        await check.aclose()

    with structlog.testing.capture_logs() as logged:
        asyncio.run(scenario())
    well, starting, again, back, gone, foreign = heard
    assert well == back == WebhookAsked("", frozenset({"kube-system"}))
    assert starting == again
    assert starting.problem == "it answers with status 503"
    assert gone.problem
    assert "certificate" in foreign.problem.lower()
    told = [line["log_level"] for line in logged if "the webhook " in line["event"]]
    assert told == ["warning", "info", "warning", "warning"]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (NotFound("not there"), "there is no MutatingWebhookConfiguration hook"),
        (Forbidden("no"), "MutatingWebhookConfiguration hook may not be read; grant get on it to this account"),
    ],
    ids=["no registration", "no right"],
)
def test_without_a_registration_nobody_is_asked(error: KubeError, want: str) -> None:
    """The reason says what is missing."""
    api = Api()
    api.error = error
    asked = asyncio.run(WebhookCheck(api, "hook").ask())  # type: ignore[arg-type]
    assert asked == WebhookAsked(want, None)


def test_a_registration_that_cannot_be_read_is_a_problem_and_no_more() -> None:
    """Each time it is asked: the API server lets ports pass that there are not."""
    api = Api()
    api.document = registration("https://h:99999", b"")
    check = WebhookCheck(api, "hook")  # type: ignore[arg-type]
    for _ in range(2):
        asked = asyncio.run(check.ask())
        assert asked.problem.startswith("MutatingWebhookConfiguration hook: Port out of range")


SERVICE = {"service": {"namespace": "ns", "name": "svc"}}


@pytest.mark.parametrize(
    ("entries", "want"),
    [
        ([], ((), None)),
        ([{"clientConfig": SERVICE}], (("svc.ns.svc:443",), frozenset())),
        ([{"clientConfig": {"url": "https://h/m"}, "namespaceSelector": EXCLUDES}], (("h:443",), {"kube-system"})),
        ([{"clientConfig": SERVICE, "namespaceSelector": {"matchLabels": {"a": "b"}}}], (("svc.ns.svc:443",), None)),
        ([{"clientConfig": SERVICE, "objectSelector": {"matchLabels": {"a": "b"}}}], (("svc.ns.svc:443",), None)),
    ],
    ids=["none", "a service", "an address", "labels of namespaces", "labels of pods"],
)
def test_where_the_api_server_is_sent_and_for_whom(entries: list[Any], want: tuple[Any, Any]) -> None:
    """What no name of a namespace decides is not guessed."""
    document = {"webhooks": entries}
    assert (addresses(document), excluded_namespaces(document)) == want
