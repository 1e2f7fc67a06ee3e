"""The rights of the chart's accounts: all that the components use on a real API server, and nothing else.

Each component runs with the token of its account and does everything that it ever writes. The API server's audit log
says what it asked for; the roles say what it may. Both have to be the same, but for `UNSEEN`. The API server has its
streaming lists off, as older ones do: then a process that follows a kind lists it and watches it, and both are seen.
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from moorage.adapters.dashboard.security import TOKEN_HEADER
from moorage.bench.controlplane import ControlPlane, Options
from moorage.bench.processes import free_ports
from tests.app.extender_process import mutual_tls
from tests.autoscalers.requests import CRDS, provisioning_crd
from tests.contract.manifests import a_node, a_pod
from tests.deploy.chart import (
    NAMESPACE,
    RELEASE,
    VOLUMES,
    Document,
    Right,
    audited,
    component_process,
    granted,
    kubectl,
    make,
    make_namespace,
    released,
)
from tests.gangs.declarations import crd_objects
from tests.patience import eventually

pytestmark = [
    pytest.mark.xdist_group("chart"),
    pytest.mark.long,
    pytest.mark.since(1, 37, "native PodGroups, whose rights are compared too"),
]

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
GATES_GONE = '-p=[{"op":"remove","path":"/spec/schedulingGates"}]'
GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
SPOT = "config.scheduler.profiles[0].plugins.multiPoint.enabled[0].name=SpotPlacement"
UNSEEN: dict[str, set[Right]] = {
    # The API server asks for this right itself when the status is written; no request names it.
    "scheduler": {("resource.k8s.io", "resourceclaims/binding", "patch")},
    "extender": set(),
    "webhook": set(),
    "keeper": set(),
    "dashboard": set(),
    "shadow": set(),
}


@pytest.fixture(scope="module")
def plane(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    """An API server that keeps an audit log and serves every kind that Moorage reads."""
    accounts = [f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{name}" for name in UNSEEN]
    rules = [{"level": "Metadata", "users": accounts, "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    groups = {"scheduling.k8s.io/v1beta1": True}
    gates = {**dict.fromkeys(GATES, True), "WatchList": False}
    options = Options(feature_gates=gates, runtime_config=groups, audit_policy=policy)
    with ControlPlane.start(options) as started:
        make_namespace(started)
        path, crd = crd_objects("nobody")[0]
        make(started, path, crd)
        make(started, CRDS, provisioning_crd())
        yield started


@pytest.fixture
def empty(plane: ControlPlane) -> ControlPlane:
    """The same without pods and nodes."""
    for kind, where in (("pods", ("-n", "default")), ("nodes", ())):
        kubectl(plane, *where, "delete", kind, "--all", "--force", "--grace-period=0")
    return plane


# --- what was granted, what was used ---


def asked(plane: ControlPlane, component: str) -> list[Document]:
    account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{component}"
    return [event for event in audited(plane, account) if "objectRef" in event]


def used(plane: ControlPlane, component: str) -> set[Right]:
    """What the component has asked the API server to do with objects."""
    found: set[Right] = set()
    for event in asked(plane, component):
        ref = event["objectRef"]
        resource = "/".join(filter(None, (ref["resource"], ref.get("subresource", ""))))
        found.add((ref.get("apiGroup", ""), resource, event["verb"]))
    return found


def forbidden(plane: ControlPlane, component: str) -> list[str]:
    """What it wanted and was not allowed to."""
    decision = "authorization.k8s.io/decision"
    events = asked(plane, component)
    return [event["requestURI"] for event in events if event.get("annotations", {}).get(decision) == "forbid"]


def check(plane: ControlPlane, component: str, *values: str) -> None:
    """Granted and used are the same, verb by verb."""
    assert forbidden(plane, component) == []
    seen = {right for right in used(plane, component) if right[:2] not in VOLUMES or component != "scheduler"}
    assert served(plane, seen) == served(plane, granted(component, *values)) - UNSEEN[component]


def served(plane: ControlPlane, rights: set[Right]) -> set[Right]:
    """Those about kinds that the API server has: others' kinds are followed where they are installed."""
    known: set[tuple[str, str]] = set()
    for group in {group for group, _, _ in rights}:
        about = plane.request("GET", f"/apis/{group}")
        paths = ["/api/v1"] if not group else []
        if group and about.status == 200:
            paths = [f"/apis/{each['groupVersion']}" for each in about.json()["versions"]]
        for path in paths:
            known |= {(group, each["name"]) for each in plane.request("GET", path).json()["resources"]}
    return {right for right in rights if (right[0], right[1].split("/")[0]) in known}


def has_used(plane: ControlPlane, component: str, *rights: Right) -> None:
    """Wait until it has."""
    for right in rights:
        eventually(lambda right=right: right in used(plane, component), 60, lambda right=right: right)  # type: ignore[misc]


# --- what happens ---


def make_pod(plane: ControlPlane, name: str, labels: dict[str, str] | None = None, **fields: object) -> None:
    body = a_pod(name, **fields)  # type: ignore[arg-type]
    body["metadata"]["labels"] = labels or {}
    body["spec"]["terminationGracePeriodSeconds"] = 0
    make(plane, PODS, body)


def node_of(plane: ControlPlane, name: str) -> str:
    return str(plane.request("GET", f"{PODS}/{name}").json()["spec"].get("nodeName", ""))


def is_bound(plane: ControlPlane, *names: str) -> None:
    eventually(lambda: all(node_of(plane, name) for name in names), 60, lambda: names)


def refuse(plane: ControlPlane, subresource: str, body: Document) -> None:
    """Have the API server refuse binds, or evictions, of pods named refused-..., and see that it does."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [f"pods/{subresource}"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!object.metadata.name.startsWith('refused')"}],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    metadata = {"name": f"refuse-{subresource}"}
    if plane.request("GET", f"{path}ies/{metadata['name']}").status == 404:
        make(plane, f"{path}ies", {"metadata": metadata, "spec": spec})
        binding = {"policyName": metadata["name"], "validationActions": ["Deny"]}
        make(plane, f"{path}ybindings", {"metadata": metadata, "spec": binding})
    make_pod(plane, "refused-probe", scheduler="nobody")
    asking = f"{PODS}/refused-probe/{subresource}?dryRun=All"
    body = {**body, "metadata": {"name": "refused-probe"}}
    eventually(lambda: plane.request("POST", asking, body).status == 422, 60, lambda: "the policy is in force")


def refuse_binds(plane: ControlPlane) -> None:
    """Those of pods named refused-..."""
    refuse(plane, "binding", {"target": {"kind": "Node", "name": "n1"}})


def refuse_evictions(plane: ControlPlane) -> None:
    """Those of pods named refused-..."""
    refuse(plane, "eviction", {"apiVersion": "policy/v1", "kind": "Eviction"})


def place_gang(plane: ControlPlane) -> None:
    """Two pods of a native group."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    make(
        plane, "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", {"metadata": {"name": "g"}, "spec": spec}
    )
    for name in ("g-1", "g-2"):
        make_pod(plane, name, cpu="100m", schedulingGroup={"podGroupName": "g"})
    is_bound(plane, "g-1", "g-2")


def reserve_device(plane: ControlPlane) -> None:
    """A pod with a claim that was allocated before."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}}
    result = {"request": "r", "driver": "gpu.example", "pool": "p", "device": "d"}
    claim = {"metadata": {"name": "gpu"}, "spec": spec, "status": {"allocation": {"devices": {"results": [result]}}}}
    make(plane, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
    make_pod(plane, "device", cpu="100m", resourceClaims=[{"name": "d", "resourceClaimName": "gpu"}])
    is_bound(plane, "device")


def allocate_devices(plane: ControlPlane) -> None:
    """A claim without devices, an extended resource that a class backs, and the special claim of an earlier attempt."""
    devices = "/apis/resource.k8s.io/v1"
    claims = f"{devices}/namespaces/default/resourceclaims"
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "example.com/gpu"}
    make(plane, f"{devices}/deviceclasses", {"metadata": {"name": "gpus"}, "spec": spec})
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    found = {"driver": "gpu.example", "pool": pool, "nodeName": "n1", "devices": [{"name": f"g{n}"} for n in range(4)]}
    make(plane, f"{devices}/resourceslices", {"metadata": {"name": "n1"}, "spec": found})
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}}
    make(plane, claims, {"metadata": {"name": "mine"}, "spec": asked})
    make_pod(plane, "claiming", cpu="100m", resourceClaims=[{"name": "d", "resourceClaimName": "mine"}])
    gpu = {"requests": {"cpu": "100m", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    container = {"name": "c", "image": "registry.example/app:v1", "resources": gpu}
    make_pod(plane, "extended", containers=[container])
    is_bound(plane, "claiming", "extended")
    make_pod(plane, "again", containers=[container], schedulingGates=[{"name": "wait"}])
    pod = plane.request("GET", f"{PODS}/again").json()["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "again", "uid": pod["uid"], "controller": True}
    metadata = {
        "name": "left",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    make(plane, claims, {"metadata": metadata, "spec": asked})
    kubectl(plane, "-n", "default", "patch", "pod", "again", "--type=json", GATES_GONE)
    is_bound(plane, "again")


def evict_for_a_better_one(plane: ControlPlane) -> None:
    """The only node for it is full of a pod that matters less."""
    make(plane, NODES, a_node("small", cpu="1", labels={"small": "yes"}))
    make(plane, "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    make_pod(plane, "low", cpu="1", nodeSelector={"small": "yes"})
    is_bound(plane, "low")
    make_pod(plane, "high", cpu="1", nodeSelector={"small": "yes"}, priorityClassName="high")
    eventually(lambda: plane.request("GET", f"{PODS}/low").status == 404, 60, lambda: "the victim is gone")
    is_bound(plane, "high")


def fail_twice(plane: ControlPlane) -> None:
    """A pod that never fits; room that others leave has it tried again, in vain for the same reason."""
    make_pod(plane, "huge", cpu="64")
    told = ("events.k8s.io", "events")
    eventually(lambda: events_about(plane, "huge"), 60, lambda: "an event says why it waits")
    for name in ("fits", "device"):
        kubectl(plane, "-n", "default", "delete", "pod", name, "--force", "--grace-period=0")
    has_used(plane, "scheduler", ("", "pods/status", "patch"), (*told, "create"), (*told, "patch"))


def events_about(plane: ControlPlane, name: str) -> list[Document]:
    items = plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
    return [item for item in items if item.get("regarding", {}).get("name") == name]


def read(url: str, token: str = "") -> str:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    headers = {"Authorization": f"Bearer {token}", TOKEN_HEADER: token}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own
    with opener.open(request, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def ask(url: str, body: object, trust: ssl.SSLContext | None = None, token: str = "") -> Document:
    """POST JSON to a component of ours; without `trust` the certificate is not looked at."""
    tls = trust or ssl.create_default_context()
    if trust is None:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    headers = {"Content-Type": "application/json", TOKEN_HEADER: token}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - our own
    with opener.open(request, timeout=20) as answer:
        found: Document = json.loads(answer.read())
    return found


def share_a_queue(plane: ControlPlane) -> None:
    """The leader says in the status of a queue what it has."""
    queue = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "team"}}
    make(plane, "/apis/moorage.dev/v1alpha1/queues", {**queue, "spec": {"resources": {"cpu": {"quota": "1"}}}})
    has_used(plane, "scheduler", ("moorage.dev", "queues/status", "patch"))


def wait_for_nodes(plane: ControlPlane) -> None:
    """A gang that fits nowhere asks for nodes, and no longer does so when it is gone."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    make(plane, groups, {"metadata": {"name": "large"}, "spec": spec})
    for name in ("large-1", "large-2"):
        make_pod(plane, name, cpu="64", schedulingGroup={"podGroupName": "large"})
    requests, templates = ("autoscaling.x-k8s.io", "provisioningrequests"), ("", "podtemplates")
    has_used(plane, "scheduler", (*templates, "create"), (*requests, "create"))
    kubectl(plane, "-n", "default", "delete", "pod", "large-1", "large-2", "--force", "--grace-period=0")
    has_used(plane, "scheduler", (*requests, "delete"), (*templates, "delete"))


def test_the_scheduler_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """Binds, refusals, evictions, gangs, devices, events, the lease, and who reads its metrics."""
    plane = empty
    make(plane, NODES, a_node("n1"))
    (port,) = free_ports(1)
    arguments = (f"--secure-port={port}", "--bind-address=127.0.0.1")
    with released(plane), component_process(plane, tmp_path, "scheduler", *arguments, says="scheduling"):
        make_pod(plane, "fits", cpu="100m")
        is_bound(plane, "fits")
        refuse_binds(plane)
        make_pod(plane, "refused", cpu="100m")
        has_used(plane, "scheduler", ("", "pods", "get"))
        kubectl(plane, "-n", "default", "delete", "pod", "refused", "--force", "--grace-period=0")
        for happening in (
            place_gang,
            reserve_device,
            allocate_devices,
            share_a_queue,
            evict_for_a_better_one,
            wait_for_nodes,
            fail_twice,
        ):
            happening(plane)
        assert "scheduler_pending_pods" in read(f"https://127.0.0.1:{port}/metrics", plane.token_of("admin"))
    check(plane, "scheduler")


def test_the_extender_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """It reads controllers, tells of malformed annotations, and binds where it is asked to."""
    plane = empty
    for name in ("n1", "n2"):
        make(plane, NODES, a_node(name, labels={"node.kubernetes.io/capacity": "spot"}))
    container = {"name": "c", "image": "registry.example/app:v1"}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    odd = {"name": "a", "annotations": {"moorage.dev/on-demand-base": "many"}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    owner = make(plane, "/apis/apps/v1/namespaces/default/replicasets", {"metadata": odd, "spec": spec})
    body = a_pod("a-1", scheduler="stock")
    ref = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "a",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    body["metadata"]["ownerReferences"] = [ref]
    pod = make(plane, PODS, body)
    (port,) = free_ports(1)
    refuse_binds(plane)
    secrets = ("extender.tlsSecretName=serving", "extender.clientCASecretName=callers")
    values = ("scheduler.enabled=false", "extender.enabled=true", "extender.binds=true", *secrets, SPOT)
    tls = mutual_tls(tmp_path)
    with (
        released(plane, *values),
        component_process(plane, tmp_path, "extender", f"--listen=127.0.0.1:{port}", *tls.flags(), says="answering"),
    ):
        put = partial(ask, trust=tls.certified)
        url = f"https://127.0.0.1:{port}"
        assert not put(f"{url}/filter", {"Pod": pod, "NodeNames": ["n1", "n2"]}).get("Error")
        has_used(plane, "extender", ("events.k8s.io", "events", "create"))
        who = {"PodName": "a-1", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"]}
        assert not put(f"{url}/bind", {**who, "Node": "n1"}).get("Error")
        refused = plane.request("GET", f"{PODS}/refused-probe").json()["metadata"]["uid"]
        assert put(f"{url}/bind", {**who, "PodName": "refused-probe", "PodUID": refused, "Node": "n2"})["Error"]
        has_used(plane, "extender", ("", "pods", "get"))
    check(plane, "extender", *values[2:])


def test_the_webhook_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """It keeps its registration true, tells of malformed strategies, and knows of other replicas by their leases."""
    plane = empty
    https, metrics, health = free_ports(3)
    arguments = (f"--listen=127.0.0.1:{https}", f"--metrics-listen=127.0.0.1:{metrics}")
    values = ("scheduler.enabled=false", "webhook.enabled=true")
    with (
        released(plane, *values),
        component_process(
            plane, tmp_path, "webhook", *arguments, f"--health-listen=127.0.0.1:{health}", "--self-signed",
            says="ready for placement",
        ),
    ):  # fmt: skip
        body = a_pod("bad")
        body["metadata"]["annotations"] = {"moorage.dev/schedule-strategy": "weight=none"}
        request = {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE"}
        request |= {"resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "default"}
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {**request, "object": body},
        }
        assert ask(f"https://127.0.0.1:{https}/mutate", review)["response"]["allowed"]
        make(plane, PODS, body)
        lease = ("coordination.k8s.io", "leases")
        has_used(plane, "webhook", ("events.k8s.io", "events", "create"), (*lease, "patch"))
    has_used(plane, "webhook", (*lease, "delete"))
    check(plane, "webhook")


def test_the_keeper_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """It cordons, marks, evicts, tries again, promises places, cleans up behind nodes, and tells how policies stand."""
    plane = empty
    refuse_evictions(plane)
    for name, capacity in (("goes", "spot"), ("gone", "spot"), ("stays", "on-demand")):
        make(plane, NODES, a_node(name, labels={"node.kubernetes.io/capacity": capacity}))
    make_owner(plane, "web")
    make_owner(plane, "ruled", {"moorage.dev/schedule-strategy": "weight=1,nodeSelector=kubernetes.io/os:linux"})
    make_owner(plane, "refused")
    make_member(plane, "web", 1, "goes")
    make_member(plane, "refused", 1, "goes")
    make_member(plane, "ruled", 1, "gone")
    metrics, health = free_ports(2)
    arguments = (f"--metrics-listen=127.0.0.1:{metrics}", f"--health-listen=127.0.0.1:{health}")
    with (
        released(plane, "scheduler.enabled=false", "keeper.enabled=true"),
        component_process(plane, tmp_path, "keeper", *arguments, says="keeping"),
    ):
        make_policy(plane)
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
        assert plane.request("PATCH", f"{NODES}/goes", {"spec": {"taints": [taint]}}).status == 200
        eventually(lambda: plane.request("GET", f"{PODS}/web-1").status == 404, 60, lambda: "web-1 is evicted")
        make_member(plane, "web", 2)
        has_used(plane, "keeper", ("", "pods/eviction", "create"), ("", "pods/status", "patch"))
        body = {"metadata": {"name": "web-2"}, "target": {"kind": "Node", "name": "stays"}}
        assert plane.request("POST", f"{PODS}/web-2/binding", body).status == 201
        run(plane, "web-2")
        assert plane.request("DELETE", f"{NODES}/gone").status == 200
        has_used(plane, "keeper", ("", "nodes", "get"), ("", "pods", "delete"), ("", "pods", "patch"))
        has_used(plane, "keeper", ("moorage.dev", "placementpolicies/status", "patch"), ("", "nodes", "patch"))
        # An event that happens again within six minutes is the same object.
        has_used(plane, "keeper", ("events.k8s.io", "events", "create"), ("events.k8s.io", "events", "patch"))
    check(plane, "keeper")


def test_the_dashboard_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """It follows what the pages show, lists what a what-if needs, and reads what would let a pod fit."""
    plane = empty
    make(plane, NODES, a_node("n1"))
    make_pod(plane, "huge", cpu="64")
    (port,) = free_ports(1)
    with (
        released(plane, "scheduler.enabled=false", "dashboard.enabled=true"),
        component_process(plane, tmp_path, "dashboard", f"--listen=127.0.0.1:{port}", says="dashboard at"),
    ):
        url = f"http://127.0.0.1:{port}/api"
        token = (tmp_path / "dashboard.log").read_text().partition("#token=")[2].split()[0].strip('",}')
        assert "error" not in ask(f"{url}/whatif", {"drain": ["n1"]}, token=token)
        assert read(f"{url}/suggestions?key=default/huge", token)
        has_used(plane, "dashboard", ("", "nodes", "watch"), ("", "pods", "watch"), ("", "events", "watch"))
        has_used(plane, "dashboard", ("coordination.k8s.io", "leases", "watch"))
    check(plane, "dashboard")


def test_the_shadow_has_the_rights_that_it_uses(empty: ControlPlane, tmp_path: Path) -> None:
    """It follows what the profiles and its figures read."""
    plane = empty
    make(plane, NODES, a_node("n1"))
    arguments = ("--metrics-listen=", "--health-listen=")
    with (
        released(plane, "scheduler.enabled=false", "shadow.enabled=true"),
        component_process(plane, tmp_path, "shadow", *arguments, says="comparing"),
    ):
        has_used(plane, "shadow", ("", "nodes", "watch"), ("", "pods", "watch"))
    check(plane, "shadow")


def make_owner(plane: ControlPlane, name: str, annotations: dict[str, str] | None = None) -> None:
    """A ReplicaSet that wants one pod."""
    container = {"name": "c", "image": "registry.example/app:v1"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "annotations": annotations or {}}
    make(plane, "/apis/apps/v1/namespaces/default/replicasets", {"metadata": metadata, "spec": spec})


def make_member(plane: ControlPlane, owner: str, number: int, node: str = "") -> None:
    """A pod of a ReplicaSet; it runs if it has a node."""
    uid = plane.request("GET", f"/apis/apps/v1/namespaces/default/replicasets/{owner}").json()["metadata"]["uid"]
    body = a_pod(f"{owner}-{number}", cpu="100m")
    body["spec"] |= {"terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {})}
    ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid, "controller": True}
    body["metadata"] |= {"labels": {"app": owner}, "ownerReferences": [ref]}
    make(plane, PODS, body)
    if node:
        run(plane, f"{owner}-{number}")


def run(plane: ControlPlane, pod: str) -> None:
    """What its kubelet says when it has started it."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    answer = plane.request("PATCH", f"{PODS}/{pod}/status", {"status": status})
    assert answer.status == 200, answer.content


def make_policy(plane: ControlPlane) -> None:
    """A PlacementPolicy, whose kind the chart has brought along."""
    path = "/apis/moorage.dev/v1alpha1/namespaces/default/placementpolicies"
    eventually(lambda: plane.request("GET", path).status == 200, 30, lambda: "the kind is served")
    rules = [{"weight": 1, "nodeSelector": {"kubernetes.io/os": "linux"}}]
    body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "p"}}
    make(plane, path, body | {"spec": {"selector": {"matchLabels": {"app": "web"}}, "rules": rules}})


# --- what nobody may ---

TABLE: Sequence[tuple[str, str, bool, bool, bool, bool]] = (
    # verb, resource                              scheduler extender webhook keeper
    ("create", "pods/binding",                        True, False, False, False),
    ("create", "pods/eviction",                       False, False, False, True),
    ("delete", "pods",                                True, False, False, True),
    ("patch", "nodes",                                False, False, False, True),
    ("create", "resourceclaims.resource.k8s.io",      True, False, False, False),
    ("patch", "resourceclaims.resource.k8s.io",       True, False, False, False),
    ("patch", "resourceclaims.resource.k8s.io/status", True, False, False, False),
    ("update", "resourceclaims.resource.k8s.io",      False, False, False, False),
    ("patch", "resourceslices.resource.k8s.io",       False, False, False, False),
    ("create", "pods",                                False, False, False, False),
    ("create", "pods/exec",                           False, False, False, False),
    ("get", "secrets",                                False, False, False, False),
    ("list", "secrets",                               False, False, False, False),
    ("list", "configmaps",                            False, False, False, False),
    ("patch", "deployments.apps",                     False, False, False, False),
    ("create", "endpoints",                           False, False, False, False),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", False, False, False, False),
    ("update", "mutatingwebhookconfigurations.admissionregistration.k8s.io/moorage-webhook", False, False, True, False),
    ("update", "mutatingwebhookconfigurations.admissionregistration.k8s.io/other", False, False, False, False),
    ("update", "leases.coordination.k8s.io/kube-scheduler -n kube-system", False, False, False, False),
    ("impersonate", "users",                          False, False, False, False),
)  # fmt: skip


def test_accounts_may_do_their_work_and_no_more(plane: ControlPlane) -> None:
    """`kubectl auth can-i` gives the answers of the table, one column for each account."""
    components = ("scheduler", "extender", "webhook", "keeper")
    with released(plane, *(f"{component}.enabled=true" for component in components)):
        found = []
        for verb, resource, *_ in TABLE:
            what, _, where = resource.partition(" -n ")
            namespace = ("-n", where) if where else ("-n", "default")
            answers = [can(plane, component, verb, what, *namespace) for component in components]
            found.append((verb, resource, *answers))
    assert found == list(TABLE)


def can(plane: ControlPlane, component: str, verb: str, what: str, *where: str) -> bool:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{RELEASE}-{component}"
    subresource: tuple[str, ...] = ()
    if what.startswith("pods/") or what.endswith("/status"):
        what, _, name = what.partition("/")
        subresource = (f"--subresource={name}",)
    answer = kubectl(plane, "auth", "can-i", verb, what, *subresource, *where, account, good=None)
    return answer.splitlines()[-1].strip() == "yes"
