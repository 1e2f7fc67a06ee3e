"""The adapter on the real API server: what the scripted server can only pretend."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.adapters.kube.discovery import served_resources, server_version
from moorage.adapters.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from moorage.adapters.kube.events import EventRecorder
from moorage.adapters.kube.reflector import Phase, Reflector, ReflectorPace
from moorage.adapters.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    Resource,
)
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.bench.controlplane import ControlPlane
from moorage.core.commands import Bind, DeletePod, PatchPodStatus, PodRef, RecordEvent
from moorage.core.events import BindDone, BindOutcome, DeleteDone, PatchDone, StatusDone
from moorage.core.pods import Condition
from tests.controlplane_fixtures import serves

if TYPE_CHECKING:
    from tests.controlplane_fixtures import PlaneFactory

QUICK = ReflectorPace(first_pause_s=0.02, longest_pause_s=0.1, look_again_s=0.05, page_size=500)


class Copy:
    """Keeps name and resource version of what exists."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}

    def replaced(self, objects: list[dict[str, str]]) -> None:
        self.objects = {each["name"]: each["resourceVersion"] for each in objects}

    def upserted(self, obj: dict[str, str]) -> None:
        self.objects[obj["name"]] = obj["resourceVersion"]

    def deleted(self, meta: ObjectMeta) -> None:
        del self.objects[meta.name]


def parse(raw: msgspec.Raw) -> dict[str, str]:
    metadata: dict[str, str] = msgspec.json.decode(raw)["metadata"]
    return metadata


@asynccontextmanager
async def following(
    client: KubeClient, resource: Resource, **options: Any
) -> AsyncIterator[tuple[Copy, Reflector[Any]]]:
    sink = Copy()
    options = {"pace": QUICK, **options}
    reflector = Reflector(client, resource, sink, parse=parse, jitter=random.random, **options)
    task = asyncio.ensure_future(reflector.run())
    try:
        yield sink, reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.01)


def on(
    plane: ControlPlane,
    scenario: Callable[[KubeClient, str], Coroutine[Any, Any, None]],
    kubeconfig: Path | None = None,
) -> None:
    """Run a scenario with a client and a namespace of its own."""

    async def run() -> None:
        namespace = f"kube-{random.getrandbits(40):x}"
        async with KubeClient(from_kubeconfig([plane.admin_kubeconfig])) as admin:
            await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
        async with KubeClient(from_kubeconfig([kubeconfig or plane.admin_kubeconfig])) as client:
            await scenario(client, namespace)

    asyncio.run(run())


def certificate_kubeconfig(plane: ControlPlane, folder: Path, user: str, *groups: str) -> Path:
    """Write the kubeconfig of somebody who logs in with a client certificate."""
    certificate, key = plane.client_certificate(user, groups)
    content = yaml.safe_load(plane.admin_kubeconfig.read_text())
    content["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "registry.example/x"}]}}


async def created(client: KubeClient, namespace: str, name: str = "p") -> PodRef:
    made = json.loads(await client.create(PODS, pod(name), namespace))
    return PodRef(namespace, name, made["metadata"]["uid"])


async def read(client: KubeClient, ref: PodRef) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await client.get(PODS, ref.name, ref.namespace))
    return found


def binder_of(client: KubeClient) -> Binder:
    return Binder(client, lambda _: None, jitter=random.random)


def test_version_and_discovery(control_plane: ControlPlane) -> None:
    """Aggregated and plain discovery tell the same."""

    async def scenario(client: KubeClient, _: str) -> None:
        version = await server_version(client)
        assert version.git_version.startswith(f"v{version.major}.{version.minor}.")
        assert version.major == 1
        served = await served_resources(client)
        assert served == await served_resources(client, aggregated=False)
        assert served.serves(PODS)
        assert not served.serves(POD_GROUPS)
        assert served.find("apps", "deployments") == DEPLOYMENTS
        assert served.find("apps", "deployments", ["v1beta2", "v1"]) == DEPLOYMENTS
        assert served.find("moorage.dev", "ships") is None

    on(control_plane, scenario)


def test_errors_of_the_real_server(control_plane: ControlPlane) -> None:
    """Each answer becomes the error that callers distinguish."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        ref = await created(client, namespace)
        with pytest.raises(AlreadyExists):
            await client.create(PODS, pod("p"), namespace)
        with pytest.raises(NotFound):
            await client.get(PODS, "q", namespace)
        with pytest.raises(Invalid) as caught:
            await client.create(PODS, {"metadata": {"name": "X_"}, "spec": {}}, namespace)
        assert caught.value.details["causes"]
        with pytest.raises(Conflict, match="UID"):
            await client.delete(PODS, "p", namespace, uid="another")
        await client.delete(PODS, "p", namespace, uid=ref.uid, grace_period_s=0)
        assert json.loads(await client.list(PODS, namespace))["items"] == []

    on(control_plane, scenario)


def test_without_permission(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Somebody without rights gets Forbidden, and a reflector says so instead of pretending an empty cluster."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        with pytest.raises(Forbidden, match="nobody"):
            await client.list(PODS, namespace)
        async with following(client, PODS) as (_, reflector):
            state = await reflector.settled()
            assert state.phase is Phase.FORBIDDEN
            assert "nobody" in state.error

    on(control_plane, scenario, certificate_kubeconfig(control_plane, tmp_path, "nobody"))


def test_streaming_and_paged_lists_agree(control_plane: ControlPlane) -> None:
    """2,000 objects listed both ways, then changed, stay equal to what the server says."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        slots = asyncio.Semaphore(64)

        async def make(index: int) -> None:
            async with slots:
                await client.create(PODS, pod(f"p{index}"), namespace)

        await asyncio.gather(*(make(index) for index in range(2000)))
        here: dict[str, Any] = {"namespace": namespace}
        async with (
            following(client, PODS, **here) as (streamed, one),
            following(client, PODS, streaming=False, **here) as (paged, two),
        ):
            await one.settled()
            await two.settled()
            assert len(streamed.objects) == 2000
            assert streamed.objects == paged.objects
            for index in range(20):
                await client.delete(PODS, f"p{index}", namespace, grace_period_s=0)
                await client.patch(PODS, f"p{index + 20}", {"metadata": {"labels": {"x": "y"}}}, namespace)
            await created(client, namespace, "last")
            listed = json.loads(await client.list(PODS, namespace))["items"]
            want = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in listed}
            await until(lambda: streamed.objects == want and paged.objects == want)
            assert (one.listed_count, two.listed_count) == (1, 1)

    on(control_plane, scenario)


def test_selectors(control_plane: ControlPlane) -> None:
    """A pod that no longer matches is reported as deleted."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        ref = await created(client, namespace)
        await created(client, namespace, "q")
        options: dict[str, Any] = {"namespace": namespace, "field_selector": "spec.nodeName="}
        async with following(client, PODS, **options) as (sink, reflector):
            await reflector.settled()
            assert set(sink.objects) == {"p", "q"}
            assert (await binder_of(client).bind(Bind(ref, "n"))).outcome is BindOutcome.BOUND
            await until(lambda: set(sink.objects) == {"q"})

    on(control_plane, scenario)


@pytest.mark.since(1, 34, "ResourceClaims that can be turned off")
def test_kinds_that_are_turned_off_are_skipped_and_found_later(fresh_control_plane: PlaneFactory) -> None:
    """A group that is off is not served; a kind added later is found, and listed again when its versions are gone."""
    plane = fresh_control_plane(runtime_config={"resource.k8s.io/v1": False}, feature_gates={"WatchList": False})
    ships = Resource("moorage.test", "v1", "ships")
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.moorage.test"},
        "spec": {
            "group": "moorage.test",
            "names": {"plural": "ships", "kind": "Ship"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }

    async def scenario(client: KubeClient, namespace: str) -> None:
        assert not (await served_resources(client)).serves(RESOURCE_CLAIMS)
        await created(client, namespace)
        async with (
            following(client, RESOURCE_CLAIMS) as (_, off),
            following(client, ships) as (fleet, reflector),
            following(client, PODS) as (pods, paged),
        ):
            assert (await off.settled()).phase is Phase.NOT_SERVED
            assert (await reflector.settled()).phase is Phase.NOT_SERVED
            # This server refuses streaming lists as well, so the pods come in pages.
            assert (await paged.settled()).phase is Phase.SYNCED
            assert set(pods.objects) == {"p"}
            definitions = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
            await client.create(definitions, definition)
            await until(lambda: reflector.state.phase is Phase.SYNCED)
            ship = {"apiVersion": "moorage.test/v1", "kind": "Ship", "metadata": {"name": "s"}}
            await client.create(ships, ship, namespace)
            await until(lambda: set(fleet.objects) == {"s"})
            assert (await served_resources(client)).serves(ships)
            # As after a long break: the attempt is broken off, and the version at hand is older than the kind.
            reflector._version, reflector._last = "1", None
            assert reflector._attempt is not None
            reflector._attempt.cancel()
            await until(lambda: reflector.listed_count == 2)
            assert set(fleet.objects) == {"s"}

    on(plane, scenario)


def test_bind_outcomes(control_plane: ControlPlane) -> None:
    """404, 409 and success as the real server produces them."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        binder = binder_of(client)
        ref = await created(client, namespace)
        gone = await binder.bind(Bind(PodRef(namespace, "nobody", "u"), "n1"))
        assert gone.outcome is BindOutcome.GONE
        stranger = await binder.bind(Bind(PodRef(namespace, "p", "another-uid"), "n1"))
        assert stranger.outcome is BindOutcome.GONE
        assert (await read(client, ref))["spec"].get("nodeName") is None
        assert await binder.bind(Bind(ref, "n1")) == BindDone(ref.uid, BindOutcome.BOUND, "n1")
        assert await binder.bind(Bind(ref, "n1")) == BindDone(ref.uid, BindOutcome.BOUND, "n1")
        elsewhere = await binder.bind(Bind(ref, "n2"))
        assert (elsewhere.outcome, elsewhere.node) == (BindOutcome.ELSEWHERE, "n1")
        assert (await read(client, ref))["spec"]["nodeName"] == "n1"

    on(control_plane, scenario)


def test_bindings_carry_annotations(control_plane: ControlPlane) -> None:
    """The server copies a binding's annotations to the pod."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        ref = await created(client, namespace)
        binder = Binder(client, lambda _: None, jitter=random.random, annotations=lambda: {"moorage.dev/term": "7"})
        await binder.bind(Bind(ref, "n1"))
        assert (await read(client, ref))["metadata"]["annotations"]["moorage.dev/term"] == "7"

    on(control_plane, scenario)


def test_a_gated_pod_cannot_be_bound(control_plane: ControlPlane) -> None:
    """A refusal of another kind is a failure with the server's words."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        gated = pod("p")
        gated["spec"]["schedulingGates"] = [{"name": "wait"}]
        made = json.loads(await client.create(PODS, gated, namespace))
        done = await binder_of(client).bind(Bind(PodRef(namespace, "p", made["metadata"]["uid"]), "n1"))
        assert done.outcome is BindOutcome.FAILED
        assert "gate" in done.message.lower()

    on(control_plane, scenario)


def test_status_and_eviction(control_plane: ControlPlane) -> None:
    """Conditions are merged by type, the nominated node is set and cleared, an evicted pod is marked first."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        binder = binder_of(client)
        ref = await created(client, namespace)
        condition = Condition("PodScheduled", "False", "Unschedulable", "0/0 nodes are available")
        await binder.patch_status(PatchPodStatus(ref, condition, "n1", 1))
        status = (await read(client, ref))["status"]
        [first] = status["conditions"]
        assert status["nominatedNodeName"] == "n1"
        assert (first["reason"], first["message"]) == ("Unschedulable", "0/0 nodes are available")
        assert first.get("observedGeneration") == 1 or not serves(1, 34), "older servers may drop it"
        assert first["lastTransitionTime"]
        other = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
        await binder.patch_status(PatchPodStatus(ref, other, "", 1))
        status = (await read(client, ref))["status"]
        assert "nominatedNodeName" not in status
        [second] = status["conditions"]
        assert second == {**first, "message": "0/1 nodes are available"}
        stranger = PodRef(namespace, "p", "another-uid")
        await binder.patch_status(PatchPodStatus(stranger, None, "n9"))
        assert "nominatedNodeName" not in (await read(client, ref))["status"]
        assert await binder.delete(DeletePod(stranger, "PreemptionByScheduler", "m")) == DeleteDone(
            "another-uid", ok=True
        )
        # Bound, so that the deletion waits for a kubelet and the mark can be seen.
        await binder.bind(Bind(ref, "n1"))
        assert await binder.delete(DeletePod(ref, "PreemptionByScheduler", "make room")) == DeleteDone(ref.uid, ok=True)
        evicted = await read(client, ref)
        assert evicted["metadata"]["deletionTimestamp"]
        marks = {each["type"]: each for each in evicted["status"]["conditions"]}
        assert marks["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert marks["PodScheduled"]["status"] == "True"

    on(control_plane, scenario)


def test_events_and_their_series(control_plane: ControlPlane) -> None:
    """The server takes our events, long notes included, and counts repetitions."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        ref = await created(client, namespace)
        recorder = EventRecorder(client, jitter=random.random)
        task = asyncio.ensure_future(recorder.run())
        long = RecordEvent(ref, "Warning", "FailedScheduling", "Scheduling", "é" * 2000, "moorage", related=ref)
        recorder.record(RecordEvent(ref, "Normal", "Scheduled", "Binding", "Successfully assigned", "moorage"))
        for _ in range(3):
            recorder.record(long)
            assert await recorder.flush(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = json.loads(await client.list(EVENTS, namespace))["items"]
        counts = {each["reason"]: each.get("series", {}).get("count") for each in found}
        assert counts == {"Scheduled": None, "FailedScheduling": 3}
        assert recorder.dropped_count == 0

    on(control_plane, scenario)


def test_many_binds_at_once(control_plane: ControlPlane) -> None:
    """The pipeline binds every pod exactly once."""

    async def scenario(client: KubeClient, namespace: str) -> None:
        refs = await asyncio.gather(*(created(client, namespace, f"p{index}") for index in range(300)))
        done: list[BindDone | DeleteDone | PatchDone | StatusDone] = []
        binder = Binder(client, done.append, jitter=random.random)
        task = asyncio.ensure_future(binder.run())
        for ref in refs:
            binder.submit(Bind(ref, "n1"))
        assert await binder.drained(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert sorted(each.uid for each in done if isinstance(each, BindDone)) == sorted(ref.uid for ref in refs)
        assert {each.outcome for each in done if isinstance(each, BindDone)} == {BindOutcome.BOUND}

    on(control_plane, scenario)


def test_client_certificates_log_in(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The real server knows us by our certificate."""

    async def scenario(client: KubeClient, _: str) -> None:
        assert "items" in json.loads(await client.list(NODES))

    on(control_plane, scenario, certificate_kubeconfig(control_plane, tmp_path, "me", "system:masters"))
