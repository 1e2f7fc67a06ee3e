"""The webhook beside a real API server, kube-controller-manager and a stock kube-scheduler."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.core.strategy import parse_strategy, targets
from tests.app.extender_process import DEPLOYMENT_PATH, eventually, make_deployment, make_node, placements
from tests.app.webhook_process import KEY, NAME, REGISTRATIONS, SPLIT, balancer, bare_pod, webhook
from tests.controlplane_fixtures import clear

pytestmark = pytest.mark.long

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Deployments become pods here, and what a test leaves is removed."""
    plane = empty_control_plane
    manager = plane.start_controller_manager(
        "--controllers=deployment,replicaset,garbagecollector", "--kube-api-qps=1000", "--kube-api-burst=1000"
    )
    try:
        yield plane
        plane.request("DELETE", f"{REGISTRATIONS}/{NAME}")
        for item in plane.request("GET", DEPLOYMENT_PATH).json()["items"]:
            plane.request("DELETE", f"{DEPLOYMENT_PATH}/{item['metadata']['name']}")
        eventually(lambda: not placements(plane), "the pods are gone", within_s=60)
    finally:
        manager.kill()
        clear(plane)


def scale(plane: ControlPlane, name: str, replicas: int) -> None:
    answer = plane.request("PATCH", f"{DEPLOYMENT_PATH}/{name}", {"spec": {"replicas": replicas}})
    assert answer.status == 200, answer.content


def split(plane: ControlPlane, name: str, replicas: int) -> Counter[str]:
    """On which kind of node the pods stand, once all have one."""

    def all_placed() -> list[str] | None:
        nodes = placements(plane).get(name, [])
        return nodes if len(nodes) == replicas and all(nodes) else None

    nodes: list[str] = eventually(all_placed, f"{replicas} pods have a node", within_s=60)
    return Counter(node.rpartition("-")[0] for node in nodes)


def test_a_deployment_keeps_its_split_as_it_grows(plane: ControlPlane, tmp_path: Path) -> None:
    """0 -> 6 -> 20 under a stock scheduler: exact at each step; without the webhook pods are created all the same."""
    for number in range(3):
        make_node(plane, f"spot-{number}", **{"node-type": "spot"})
        make_node(plane, f"ondemand-{number}", **{"node-type": "ondemand"})
    scheduler = plane.start_scheduler()
    try:
        with webhook(plane, tmp_path) as running:
            make_deployment(plane, "web-app", 0, **{KEY: SPLIT})
            for replicas in (6, 20):
                scale(plane, "web-app", replicas)
                ondemand, spot = targets(parse_strategy(SPLIT), replicas)
                assert split(plane, "web-app", replicas) == {"ondemand": ondemand, "spot": spot}
            assert running.metric("smart_scheduler_pods_placed_total") == 20
            assert running.metric("smart_scheduler_placement_errors_total") == 0
            lines = [line for line in running.log.read_text().splitlines() if "placement" in line and "pod=" in line]
            assert len(lines) == 20
            assert running.stop() == 0
        assert plane.request("GET", f"{REGISTRATIONS}/{NAME}").status == 404
        scale(plane, "web-app", 22)
        split(plane, "web-app", 22)
    finally:
        scheduler.kill()


def stamps(plane: ControlPlane, name: str) -> Counter[str]:
    """How many pods of an app carry which rule; the empty text stands for none."""
    pods = plane.request("GET", f"{PODS}?labelSelector=app%3D{name}").json()["items"]
    return Counter((pod["metadata"].get("annotations") or {}).get("moorage.dev/strategy-rule", "") for pod in pods)


@pytest.mark.parametrize("text", [SPLIT, SPLIT.replace("base=1", "base=37")], ids=["base 1", "base 37"])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_burst_of_100(plane: ControlPlane, tmp_path: Path, replicas: int, text: str) -> None:
    """The controller manager creates 100 pods as fast as it can: exact, as one replica decides for all."""
    ports = free_ports(replicas)
    with ExitStack() as stack:
        door = stack.enter_context(balancer(ports))
        url = f"https://127.0.0.1:{door}/mutate"
        running = [
            stack.enter_context(webhook(plane, tmp_path / str(port), port=port, fields={"url": url})) for port in ports
        ]
        make_deployment(plane, "burst", 100, **{KEY: text})
        eventually(lambda: stamps(plane, "burst").total() == 100, "100 pods", within_s=60)
        assert [each.metric("smart_scheduler_pods_placed_total") for each in running] == [100, 0, 0][:replicas]
        forwarded = [each.metric("moorage_webhook_forwarded_total") for each in running]
        assert forwarded[0] == 0
        assert all(forwarded[1:])
    wanted = targets(parse_strategy(text), 100)
    assert stamps(plane, "burst") == {str(rule): number for rule, number in enumerate(wanted, start=1)}


def test_another_replica_takes_over(plane: ControlPlane, tmp_path: Path) -> None:
    """The one that decides is killed: the next pods get their rules from the other one, and the split is exact."""
    ports = free_ports(2)
    with ExitStack() as stack:
        door = stack.enter_context(balancer(ports))
        url = f"https://127.0.0.1:{door}/mutate"
        first, second = (
            stack.enter_context(webhook(plane, tmp_path / str(port), port=port, fields={"url": url})) for port in ports
        )
        make_deployment(plane, "web-app", 6, **{KEY: SPLIT})
        eventually(lambda: stamps(plane, "web-app") == {"1": 3, "2": 3}, "3 and 3", within_s=30)
        assert second.metric("smart_scheduler_pods_placed_total") == 0
        first.process.kill()
        first.process.wait()
        eventually(lambda: "placement is decided here" in second.log.read_text(), "the other one decides", within_s=30)
        scale(plane, "web-app", 8)
        eventually(lambda: stamps(plane, "web-app").total() == 8, "8 pods", within_s=30)
        placed = second.metric("smart_scheduler_pods_placed_total")
        unplaced = stamps(plane, "web-app")[""]
        assert placed + unplaced == 2  # the balancer still sends every second call to the one that is gone
        assert placed


def test_the_registration_is_kept_true(plane: ControlPlane, tmp_path: Path) -> None:
    """Rules, excluded namespaces and CA bundle come back when somebody changes them; the rest is theirs."""
    with webhook(plane, tmp_path):
        path = f"{REGISTRATIONS}/{NAME}"
        right = plane.request("GET", path).json()
        (entry,) = right["webhooks"]
        assert (entry["failurePolicy"], entry["timeoutSeconds"], entry["sideEffects"]) == ("Ignore", 2, "None")
        assert entry["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system"]
        changed = {**entry, "rules": [], "timeoutSeconds": 7, "namespaceSelector": {}}
        changed["clientConfig"] = {"url": entry["clientConfig"]["url"]}
        assert plane.request("PATCH", path, {"webhooks": [changed]}).status == 200

        def restored() -> bool:
            (now,) = plane.request("GET", path).json()["webhooks"]
            ours = ("rules", "clientConfig", "namespaceSelector")
            return now["timeoutSeconds"] == 7 and all(now.get(field) == entry[field] for field in ours)

        eventually(restored, "the registration is as it was", within_s=10)


def test_others_authorities_stay_in_the_bundle(plane: ControlPlane, tmp_path: Path) -> None:
    """Two replicas trust each other's presence: each adds its authority, none is lost."""
    with webhook(plane, tmp_path / "a"), webhook(plane, tmp_path / "b"):
        (entry,) = plane.request("GET", f"{REGISTRATIONS}/{NAME}").json()["webhooks"]
        bundle = base64.b64decode(entry["clientConfig"]["caBundle"])
        names = {authority.subject.rfc4514_string() for authority in x509.load_pem_x509_certificates(bundle)}
        assert len(names) == 2


BAD = [
    "", " ", ";", ",", "=", ":", "base", "base=", "base=1", "weight=1", "nodeSelector=a:b", "weight=1,nodeSelector=",
    "weight=1,nodeSelector=a", "weight=1,nodeSelector=a:b:c", "weight=-1,nodeSelector=a:b",
    "weight=1.5,nodeSelector=a:b",
    "weight=\uff11,nodeSelector=a:b", "weight=1e9,nodeSelector=a:b", "weight=99999999999,nodeSelector=a:b",
    "base=x,weight=1,nodeSelector=a:b", "base=1,base=2,weight=1,nodeSelector=a:b", "weight=0,nodeSelector=a:b",
    ";weight=1,nodeSelector=a:b", "weight=1,nodeSelector=a:b;weight=1,nodeSelector=a:b",
    "wieght=1,nodeSelector=a:b", "weight=1,nodeselector=a:b", "weight=1,nodeSelector=/a:b",
    "weight=1,nodeSelector=a:" + "x" * 64, "weight=1,nodeSelector=a b:c", "\u0000weight=1,nodeSelector=a:b",
    '{"weight": 1, "nodeSelector": {"a": "b"}}',
]  # fmt: skip


def test_bad_strategies_never_keep_a_pod_from_being_created(plane: ControlPlane, tmp_path: Path) -> None:
    """Each pod is created unchanged, with a warning, an event, a log line and the error counted."""
    with webhook(plane, tmp_path) as running:
        for text in BAD:
            answer = plane.request("POST", PODS, bare_pod(text))
            assert answer.status == 201, (text, answer.content)
            made: dict[str, Any] = answer.json()
            assert "nodeSelector" not in made["spec"]
            assert made["metadata"]["annotations"] == {KEY: text}
        assert running.metric("smart_scheduler_placement_errors_total") == len(BAD)
        assert running.log.read_text().count("placement left to default scheduling") == len(BAD)

        def told() -> bool:
            events = plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
            return [event["reason"] for event in events].count("MalformedStrategy") == len(BAD)

        eventually(told, "an event for each pod", within_s=20)
        clear(plane)


def test_dry_runs_and_excluded_namespaces(plane: ControlPlane, tmp_path: Path) -> None:
    """A dry run is answered and leaves no trace; pods of kube-system are not asked about."""
    with webhook(plane, tmp_path) as running:
        for _ in range(3):
            made = plane.request("POST", f"{PODS}?dryRun=All", bare_pod()).json()
            assert made["spec"]["nodeSelector"] == {"node-type": "ondemand"}
        assert running.metric("smart_scheduler_pods_placed_total") == 0
        asked = running.metric("controller_runtime_webhook_requests_total")
        system = bare_pod()
        system["metadata"]["namespace"] = "kube-system"
        made = plane.request("POST", "/api/v1/namespaces/kube-system/pods", system)
        assert made.status == 201, made.content
        assert "nodeSelector" not in made.json()["spec"]
        assert running.metric("controller_runtime_webhook_requests_total") == asked == 3
