"""The webhook's HTTPS server, asked as an API server asks, without a cluster."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as some

from moorage.adapters.listening import ListenError, listening
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.webhook.certificates import Serving, issue
from moorage.adapters.webhook.handler import WebhookHandler
from moorage.adapters.webhook.metrics import WebhookMetrics
from moorage.adapters.webhook.server import BOUNDS, application
from moorage.core.events import ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import STATEFUL_SET, Workload
from moorage.engine.admission import Admission
from moorage.testing import make_pod
from moorage.wire.admission import AdmissionQuestion, read_review
from moorage.wire.errors import QuestionError
from tests.app.webhook_process import KEY, SPLIT, bare_pod, patch_of, review

STAMP = "moorage.dev/strategy-rule"
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db-uid", "controller": True}


class Scene:
    """A handler without a server."""

    def __init__(self) -> None:
        self.admission = Admission(excluded=("kube-system",))
        self.metrics = WebhookMetrics(self.admission, lambda: 0.0)
        self.handler = WebhookHandler(self.admission, self.metrics)

    def ask(self, question: object) -> bytes:
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        return asyncio.run(self.handler.mutate(body, certain=True))

    def patch(self, pod: dict[str, Any], **request: Any) -> list[dict[str, Any]]:
        return patch_of(self.ask(review(pod, **request)))

    def page(self) -> str:
        return MetricsPage(self.metrics).render("")[0].decode()


def patched(pod: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod after the patch; only `add` is needed."""
    found: dict[str, Any] = json.loads(json.dumps(pod))
    for step in patch:
        assert step["op"] == "add"
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = found
        for part in path:
            place = place[part]
        place[last] = step["value"]
    return found


# --- patches ---


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (
            bare_pod(),
            [
                {"op": "add", "path": "/spec/nodeSelector", "value": {"node-type": "ondemand"}},
                {"op": "add", "path": "/metadata/annotations/moorage.dev~1strategy-rule", "value": "1"},
            ],
        ),
        (
            bare_pod(nodeSelector={"disk": "ssd"}),
            [
                {"op": "add", "path": "/spec/nodeSelector/node-type", "value": "ondemand"},
                {"op": "add", "path": "/metadata/annotations/moorage.dev~1strategy-rule", "value": "1"},
            ],
        ),
        (
            bare_pod(nodeSelector={"node-type": "ondemand"}),
            [{"op": "add", "path": "/metadata/annotations/moorage.dev~1strategy-rule", "value": "1"}],
        ),
        (bare_pod(None), []),
    ],
    ids=["nothing there", "another selector", "the same selector", "no strategy"],
)
def test_the_patch_is_the_smallest(pod: dict[str, Any], want: list[dict[str, Any]]) -> None:
    """Only what is missing is added, and maps that are missing are added whole."""
    assert Scene().patch(pod) == want


def test_a_pod_without_annotations() -> None:
    """A strategy of the controller: annotations are made, not assumed."""
    scene = Scene()
    owner = Workload(STATEFUL_SET, "default", "db", uid="db-uid", annotations=FrozenDict({KEY: SPLIT}), replicas=3)
    scene.handler.put(ObjectSeen(STATEFUL_SET, owner.key, owner))
    pod = bare_pod(None)
    pod["metadata"] = {"name": "db-0", "ownerReferences": [OWNER]}
    assert scene.patch(pod)[1] == {"op": "add", "path": "/metadata/annotations", "value": {STAMP: "1"}}


def test_its_own_output_needs_no_patch() -> None:
    """Asked about a pod that it has patched, the webhook has nothing to add, for every rule."""
    scene = Scene()
    for _ in range(6):
        pod = bare_pod()
        pod = patched(pod, scene.patch(pod))
        answer = scene.ask(review(pod))
        assert "patch" not in json.loads(answer)["response"]
    assert scene.admission.roster.ledger_count == 6


def test_a_dry_run_is_not_counted() -> None:
    """The answer is that of the real thing."""
    scene = Scene()
    first = [scene.patch(bare_pod(), dry_run=True) for _ in range(3)]
    assert first[0] == first[2] == scene.patch(bare_pod())
    assert "smart_scheduler_pods_placed_total 1.0" in scene.page()


def test_a_bad_strategy_is_a_warning() -> None:
    """One line that fits a header, however long the strategy; the pod is allowed and unchanged."""
    scene = Scene()
    response = json.loads(scene.ask(review(bare_pod("base=\u00e9\n" + "x" * 5000), uid="abc")))["response"]
    assert (response["uid"], response["allowed"]) == ("abc", True)
    (warning,) = response["warnings"]
    assert len(warning) <= 256
    assert "\n" not in warning
    assert "column" in warning
    assert "smart_scheduler_placement_errors_total 1.0" in scene.page()


@given(some.text(max_size=100), some.dictionaries(some.text(max_size=30), some.text(max_size=30), max_size=3))
@settings(max_examples=200)
def test_no_annotation_is_an_exception(text: str, more: dict[str, str]) -> None:
    """Whatever annotations hold, the pod is allowed."""
    pod = bare_pod()
    pod["metadata"]["annotations"] = {**more, KEY: text, STAMP: text}
    body = json.dumps(review(pod)).encode("utf-8", "surrogatepass")
    try:
        answer = Scene().ask(body)
    except QuestionError:
        assert any("\ud800" <= character <= "\udfff" for character in text + "".join([*more, *more.values()]))
        return
    response = json.loads(answer)["response"]
    assert response["allowed"] is True


@pytest.mark.parametrize("escape", ["\\ud800", "\\u0000", "\\udfff\\ud800", "\\n"])
def test_odd_escapes(escape: str) -> None:
    """Halves of characters and control characters are answered, or refused as no question at all."""
    body = json.dumps(review(bare_pod("STRATEGY"))).replace("STRATEGY", escape).encode()
    with contextlib.suppress(QuestionError):
        assert json.loads(Scene().ask(body))["response"]["allowed"] is True


# --- other questions ---


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "binding"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"namespace": "kube-system"},
    ],
    ids=["update", "delete", "subresource", "another kind", "excluded namespace"],
)
def test_what_is_not_ours_is_allowed(request_fields: dict[str, Any]) -> None:
    """Other questions get a plain yes."""
    response = json.loads(Scene().ask(review(bare_pod(), **request_fields)))["response"]
    assert response == {"uid": "q-1", "allowed": True}


MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"kind": "\xff"}',
    "a list": b"[]",
    "a number": b"7",
    "another kind": b'{"apiVersion": "v1", "kind": "Pod"}',
    "an old version": json.dumps({**review(bare_pod()), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
    "no request": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
    "no uid": json.dumps(review(bare_pod(), uid="")).encode(),
    "no object": json.dumps(review(bare_pod(), object=None)).encode(),
    "an object of another shape": json.dumps(review(bare_pod(), object=[1])).encode(),
    "annotations that are numbers": json.dumps(review({"metadata": {"annotations": {"a": 1}}})).encode(),
    "a deep hole": b"[" * 100_000,
}


@asynccontextmanager
async def served(scene: Scene) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    tls = Serving(issue(["localhost"], 3600.0)).context
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        listening(application(scene.handler.mutate, scene.metrics), "127.0.0.1", 0, tls, bounds=BOUNDS) as url,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield session, url


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    }
}


@pytest.mark.parametrize("spoilt", [False, True], ids=["readable", "a volume that cannot be read"])
def test_a_question_says_which_nodes_could_take_the_pod(spoilt: bool) -> None:
    """By requests, tolerations and affinity; a part that is not ours and cannot be read takes nothing else away."""
    pod = bare_pod(tolerations=[{"key": "spot", "operator": "Exists"}], affinity=AFFINITY, nodeSelector={"a": "b"})
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    if spoilt:
        pod["spec"]["volumes"] = [{"name": 7}]
    question = read_review(json.dumps(review(pod)).encode())
    assert isinstance(question, AdmissionQuestion)
    template = question.template
    assert (template.namespace, template.node_selector, template.annotations) == ("default", {"a": "b"}, {KEY: SPLIT})
    assert template.requests.get("cpu") == (0 if spoilt else 500)
    assert len(template.tolerations) == (0 if spoilt else 1)
    assert (template.node_affinity is not None) is not spoilt


def test_malformed_questions_get_a_clear_400() -> None:
    """One line that says what is wrong, and the server lives on."""

    async def scenario() -> dict[str, tuple[int, str]]:
        async with served(Scene()) as (session, url):
            found = {}
            for name, body in MALFORMED.items():
                async with session.post(f"{url}/mutate", data=body) as response:
                    found[name] = response.status, await response.text()
            async with session.post(f"{url}/mutate", json=review(bare_pod())) as response:
                assert response.status == 200
            return found

    for name, (status, text) in asyncio.run(scenario()).items():
        assert status == 400, name
        assert text.startswith("POST /mutate: not an AdmissionReview of admission.k8s.io/v1: "), name
        assert text.count("\n") == 1, name


def test_requests_are_counted_as_controller_runtime_does() -> None:
    """By path and code, with their latency and those in flight."""
    scene = Scene()

    async def scenario() -> int:
        async with served(scene) as (session, url):
            await (await session.post(f"{url}/mutate", json=review(bare_pod()))).read()
            await (await session.post(f"{url}/mutate", data=b"{")).read()
            async with session.get(f"{url}/mutate") as response:
                return response.status

    assert asyncio.run(scenario()) == 405
    page = scene.page()
    for line in (
        'controller_runtime_webhook_requests_total{code="200",webhook="/mutate"} 1.0',
        'controller_runtime_webhook_requests_total{code="400",webhook="/mutate"} 1.0',
        'controller_runtime_webhook_latency_seconds_count{webhook="/mutate"} 2.0',
        'controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 0.0',
        "controller_runtime_webhook_panics_total 0.0",
        'controller_runtime_reconcile_total{controller="mutatingwebhookconfiguration",result="success"} 0.0',
        'controller_runtime_reconcile_errors_total{controller="mutatingwebhookconfiguration"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="mutatingwebhookconfiguration"} 0.0',
        'controller_runtime_reconcile_panics_total{controller="mutatingwebhookconfiguration"} 0.0',
        'controller_runtime_reconcile_time_seconds_count{controller="mutatingwebhookconfiguration"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="mutatingwebhookconfiguration"} 1.0',
        'controller_runtime_active_workers{controller="mutatingwebhookconfiguration"} 0.0',
        "smart_scheduler_pods_placed_total 1.0",
        "smart_scheduler_placement_errors_total 0.0",
        "moorage_webhook_ledger_pods 1.0",
    ):
        assert line in page.splitlines()


def test_a_taken_port_is_one_clear_line() -> None:
    """It names the address and the remedy."""

    async def scenario() -> None:
        scene = Scene()
        tls = Serving(issue(["localhost"], 3600.0)).context
        app = application(scene.handler.mutate, scene.metrics)
        async with listening(app, "127.0.0.1", 0, tls, bounds=BOUNDS) as url:
            port = int(url.rpartition(":")[2])
            async with listening(
                application(scene.handler.mutate, scene.metrics), "127.0.0.1", port, tls, bounds=BOUNDS
            ):
                pass

    with pytest.raises(ListenError, match="the port is taken; choose another one"):
        asyncio.run(scenario())


def test_a_question_waits_for_its_controller() -> None:
    """The watch may be a moment behind; the pod is placed as soon as the controller has been seen."""

    async def scenario() -> bytes:
        scene = Scene()
        pod = bare_pod(None)
        pod["metadata"]["ownerReferences"] = [OWNER]
        asking = asyncio.create_task(scene.handler.mutate(json.dumps(review(pod)).encode(), certain=True))
        scene.handler.put(PodSeen(make_pod("noise")))
        await asyncio.sleep(0.01)
        assert not asking.done()
        owner = Workload(STATEFUL_SET, "default", "db", uid="db-uid", annotations=FrozenDict({KEY: SPLIT}), replicas=3)
        scene.handler.put(ObjectSeen(STATEFUL_SET, owner.key, owner))
        return await asking

    answer = asyncio.run(scenario())
    assert base64.b64decode(json.loads(answer)["response"]["patch"]).count(b"node-type") == 1


@pytest.mark.parametrize("pod", [bare_pod(SPLIT), bare_pod(None)], ids=["a rule", "no strategy"])
def test_a_follower_logs_what_the_other_replica_gave(pod: dict[str, Any]) -> None:
    """Whichever replica the API server calls, its log says rule and nodeSelector."""
    elder = Scene()

    async def ask_elder(body: bytes) -> bytes:
        return await elder.handler.mutate(body, certain=True)

    follower = Admission(me="b")
    follower.peers, follower.follows = 1, True
    metrics = WebhookMetrics(follower, lambda: 0.0)
    handler = WebhookHandler(follower, metrics, forward=ask_elder)
    with structlog.testing.capture_logs() as logged:
        asyncio.run(handler.mutate(json.dumps(review(pod)).encode(), certain=True))
    told = [line for line in logged if line["event"] == "placement by another replica"]
    has_rule = KEY in pod["metadata"].get("annotations", {})
    assert [(line["rule"], line["node_selector"]) for line in told] == [("1", "node-type:ondemand")] * has_rule
