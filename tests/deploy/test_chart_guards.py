"""The chart's guards on a real API server: the release's accounts write what components write, and nothing else."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.contract.manifests import a_node, a_pod
from tests.controlplane_fixtures import serves
from tests.deploy.chart import (
    ALL_KINDS,
    NAMESPACE,
    RELEASE,
    Document,
    helm,
    make,
    make_namespace,
    of_kind,
    released,
    rendered,
)

pytestmark = [pytest.mark.xdist_group("chart"), pytest.mark.since(1, 30, "ValidatingAdmissionPolicies")]

PODS, NODES, VOLUMES = "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OURS = {"app.kubernetes.io/managed-by": "moorage"}
DEVICES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
VALUES = ("keeper.enabled=true", "webhook.enabled=true")
COST = "controller.kubernetes.io/pod-deletion-cost"


class Accounts:
    """Asks the API server with the tokens of the release's accounts."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        authority = yaml.safe_load(plane.admin_kubeconfig.read_text())["clusters"][0]["cluster"]
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(authority["certificate-authority-data"]).decode()
        )
        self._tokens: dict[str, str] = {}

    def ask(self, component: str, method: str, path: str, body: Any, content: str = MERGE) -> tuple[int, str]:
        """Status and text of the answer."""
        headers = {"Authorization": f"Bearer {self._token(component)}", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.plane.url + path, data, headers, method=method)  # noqa: S310 - our own
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)
        )
        try:
            with opener.open(request, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def _token(self, component: str) -> str:
        if component not in self._tokens:
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{RELEASE}-{component}/token"
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            self._tokens[component] = self.plane.request("POST", path, body).json()["status"]["token"]
        return self._tokens[component]


@pytest.fixture(scope="module")
def accounts(control_plane_assets: None) -> Iterator[Accounts]:  # noqa: ARG001 it has to be there
    """An API server with the chart, a node, a pod, a volume and a claim; the guards stand."""
    with ControlPlane.start() as plane:
        make_namespace(plane)
        make(plane, NODES, {**a_node("n1"), "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}})
        pod = a_pod("p1", cpu="1m", scheduler="nobody")
        pod["metadata"] |= {"annotations": {"other": "kept"}, "labels": {"app": "web"}}
        make(plane, PODS, pod)
        capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        make(plane, VOLUMES, {"metadata": {"name": "v1"}, "spec": capacity})
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        make(plane, CLAIMS, {"metadata": {"name": "c1"}, "spec": {**wanted, "storageClassName": ""}})
        if serves(1, 34):
            make(plane, DEVICES, {"metadata": {"name": "d1"}, "spec": DEVICE_SPEC})
            told = {**ALLOCATED, "devices": [{**DEVICE, "data": {"a": "b"}}]}
            make(plane, DEVICES, {"metadata": {"name": "d2"}, "spec": DEVICE_SPEC, "status": told})
        with released(plane, *VALUES):
            found = Accounts(plane)
            _await_guards(found)
            yield found


def _await_guards(accounts: Accounts) -> None:
    """API servers hear of policies within a moment: wait until the first and the last are in force."""
    deadline = time.monotonic() + 60
    writes: tuple[tuple[str, str, Any], ...] = (
        ("keeper", f"{PODS}/p1", {"metadata": {"labels": {"app": "x"}}}),
        ("keeper", f"{NODES}/n1", {"metadata": {"labels": {"x": "y"}}}),
        ("keeper", f"{PODS}/p1/status", {"status": {"message": "x"}}),
        ("scheduler", f"{PODS}/p1/status", {"status": {"message": "x"}}),
        ("scheduler", f"{CLAIMS}/c1", {"metadata": {"labels": {"x": "y"}}}),
        ("scheduler", f"{VOLUMES}/v1", {"metadata": {"labels": {"x": "y"}}}),
        ("scheduler", f"{DEVICES}/d1", {"metadata": {"labels": {"x": "y"}}}),
        ("scheduler", DEVICES, {"metadata": {"name": "x"}, "spec": DEVICE_SPEC}),
        ("webhook", LEASES, {"metadata": {"name": "other"}}),
        ("webhook", REGISTRATION, None),
    )
    for component, path, body in (each for each in writes if _is_served(each[1])):
        while True:
            # A dry run passes all of admission and writes nothing.
            if body is None:
                status, text = _update(accounts, lambda found: found["metadata"].update(labels={"x": "y"}))
            else:
                posted = path in (LEASES, DEVICES)
                method, content = ("POST", "application/json") if posted else ("PATCH", MERGE)
                status, text = accounts.ask(component, method, f"{path}?dryRun=All", body, content)
            if status == 403 and "ValidatingAdmissionPolicy" in text:
                break
            assert time.monotonic() < deadline, (component, path, status, text)
            time.sleep(0.1)


SPECIAL, PROTECTION = "resource.kubernetes.io/extended-resource-claim", "resource.kubernetes.io/delete-protection"
DEVICE_SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}}
DEVICE = {"driver": "gpu.example", "pool": "p", "device": "d"}
ALLOCATED = {"allocation": {"devices": {"results": [{"request": "r", **DEVICE}]}}}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
ALLOWED: dict[str, tuple[str, str, str, Any, str]] = {
    "a deletion cost": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"annotations": {COST: "7"}}}, MERGE),
    "no deletion cost": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"annotations": {COST: None}}}, MERGE),
    "a fallback": (
        "keeper", "PATCH", f"{PODS}/p1", {"metadata": {"annotations": {"moorage.dev/fallback-from": "n"}}}, MERGE,
    ),
    "a cordon": (
        "keeper", "PATCH", f"{NODES}/n1",
        {"metadata": {"annotations": {"moorage.dev/keeper-cordoned": "true"}}, "spec": {"unschedulable": True}}, MERGE,
    ),
    "no cordon": (
        "keeper", "PATCH", f"{NODES}/n1",
        {"metadata": {"annotations": {"moorage.dev/keeper-cordoned": None}}, "spec": {"unschedulable": None}}, MERGE,
    ),
    "a promise": ("keeper", "PATCH", f"{PODS}/p1/status", {"status": {"nominatedNodeName": "n1"}}, STRATEGIC),
    "a disruption": (
        "keeper", "PATCH", f"{PODS}/p1/status",
        {"status": {"conditions": [{**CONDITION, "type": "DisruptionTarget"}]}}, STRATEGIC,
    ),
    "why a pod waits": ("scheduler", "PATCH", f"{PODS}/p1/status", {"status": {"conditions": [CONDITION]}}, STRATEGIC),
    "a gang's record": (
        "scheduler", "PATCH", f"{PODS}/p1/status",
        {"status": {"conditions": [{**CONDITION, "type": "moorage.dev/GangStart"}]}}, STRATEGIC,
    ),
    "the devices of a pod": (
        "scheduler", "PATCH", f"{PODS}/p1/status",
        {"status": {"conditions": [{**CONDITION, "type": "moorage.dev/Devices"}]}}, STRATEGIC,
    ),
    "that a pod consumes a request for nodes": (
        "scheduler", "PATCH", f"{PODS}/p1/status",
        {"metadata": {"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}}}, STRATEGIC,
    ),
    "a template for a request": (
        "scheduler", "POST", TEMPLATES,
        {"metadata": {"name": "mine", "labels": OURS}, "template": TEMPLATE}, MERGE,
    ),
    "the end of such a template": ("scheduler", "DELETE", f"{TEMPLATES}/mine", None, MERGE),
    "a nomination": ("scheduler", "PATCH", f"{PODS}/p1/status", {"status": {"nominatedNodeName": None}}, STRATEGIC),
    "the node of a claim": (
        "scheduler", "PATCH", f"{CLAIMS}/c1",
        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}, MERGE,
    ),
    "the claim of a volume": (
        "scheduler", "PATCH", f"{VOLUMES}/v1",
        {
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1"}},
        },
        MERGE,
    ),
    "protection of a claim for devices": (
        "scheduler", "PATCH", f"{DEVICES}/d1", {"metadata": {"finalizers": [PROTECTION]}}, STRATEGIC,
    ),
    "devices for a claim": ("scheduler", "PATCH", f"{DEVICES}/d1/status", {"status": ALLOCATED}, STRATEGIC),
    "no devices": (
        "scheduler", "PATCH", f"{DEVICES}/d2/status", {"status": {"allocation": None, "devices": None}}, STRATEGIC,
    ),
    "a claim for extended resources": (
        "scheduler", "POST", DEVICES,
        {"metadata": {"name": "mine", "annotations": {SPECIAL: "true"}}, "spec": DEVICE_SPEC}, MERGE,
    ),
    "the end of such a claim": ("scheduler", "DELETE", f"{DEVICES}/mine", None, MERGE),
    "a replica's lease": (
        "webhook", "POST", LEASES,
        {"metadata": {"name": "moorage-webhook-host-1"}, "spec": {"holderIdentity": "me"}}, MERGE,
    ),
    "the lease of a replica that is gone": ("webhook", "DELETE", f"{LEASES}/moorage-webhook-host-1", None, MERGE),
}  # fmt: skip

ENDS = {
    "the end of such a template": "a template for a request",
    "the end of such a claim": "a claim for extended resources",
    "the lease of a replica that is gone": "a replica's lease",
}
"""What is deleted is written first, so that each case stands alone."""


def _is_served(path: str) -> bool:
    """Older servers have no claims for devices in this version."""
    return not path.startswith(DEVICES) or serves(1, 34)


@pytest.mark.parametrize("case", [case for case, each in ALLOWED.items() if _is_served(each[2])])
def test_what_components_write_passes(accounts: Accounts, case: str) -> None:
    """Every write of scheduler, keeper and webhook that a guard looks at."""
    if case in ENDS:
        status, text = _written(accounts, ENDS[case])
        assert status in (201, 409), text
    status, text = _written(accounts, case)
    assert status in (200, 201), text


def _written(accounts: Accounts, case: str) -> tuple[int, str]:
    component, method, path, body, content = ALLOWED[case]
    return accounts.ask(component, method, path, body, "application/json" if method == "POST" else content)


REFUSED: dict[str, tuple[str, str, str, Any, str]] = {
    "an image": (
        "keeper", "PATCH", f"{PODS}/p1", {"spec": {"containers": [{"name": "c", "image": "evil"}]}}, "spec",
    ),
    "a deadline": ("keeper", "PATCH", f"{PODS}/p1", {"spec": {"activeDeadlineSeconds": 1}}, "spec"),
    "a label": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"labels": {"app": "x"}}}, "labels"),
    "no label": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"labels": None}}, "labels"),
    "an annotation": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"annotations": {"a": "b"}}}, "annotations"),
    "another's annotation": (
        "keeper", "PATCH", f"{PODS}/p1", {"metadata": {"annotations": {"other": None}}}, "annotations",
    ),
    "a finalizer": ("keeper", "PATCH", f"{PODS}/p1", {"metadata": {"finalizers": ["a.b/c"]}}, "finalizers"),
    "an owner": (
        "keeper", "PATCH", f"{PODS}/p1",
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]}}, "owners",
    ),
    "a node's label": ("keeper", "PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}}, "labels"),
    "a node's taint": ("keeper", "PATCH", f"{NODES}/n1", {"spec": {"taints": []}}, "taints"),
    "a node's provider": ("keeper", "PATCH", f"{NODES}/n1", {"spec": {"providerID": "x://y"}}, "unschedulable"),
    "a phase": ("keeper", "PATCH", f"{PODS}/p1/status", {"status": {"phase": "Failed"}}, "status"),
    "an address": ("scheduler", "PATCH", f"{PODS}/p1/status", {"status": {"podIPs": [{"ip": "10.0.0.9"}]}}, "status"),
    "readiness": (
        "scheduler", "PATCH", f"{PODS}/p1/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "conditions",
    ),
    "an annotation beside the status": (
        "scheduler", "PATCH", f"{PODS}/p1/status", {"metadata": {"annotations": {"a": "b"}}}, "annotations",
    ),
    "a template like a user's": (
        "scheduler", "POST", TEMPLATES, {"metadata": {"name": "x"}, "template": TEMPLATE}, "manages itself",
    ),
    "the keeper as a scheduler": (
        "keeper", "PATCH", f"{PODS}/p1/status",
        {"status": {"conditions": [{**CONDITION, "message": "other"}]}}, "conditions",
    ),
    "a claim's label": ("scheduler", "PATCH", f"{CLAIMS}/c1", {"metadata": {"labels": {"a": "b"}}}, "labels"),
    "a volume's policy": (
        "scheduler", "PATCH", f"{VOLUMES}/v1", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "claimRef",
    ),
    "a label of a claim for devices": (
        "scheduler", "PATCH", f"{DEVICES}/d1", {"metadata": {"labels": {"a": "b"}}}, "labels",
    ),
    "another finalizer of it": (
        "scheduler", "PATCH", f"{DEVICES}/d1", {"metadata": {"finalizers": ["a.b/c"]}}, "finalizers",
    ),
    "the claim of a user": ("scheduler", "DELETE", f"{DEVICES}/d1", None, "extended resources"),
    "a claim like a user's": (
        "scheduler", "POST", DEVICES, {"metadata": {"name": "x"}, "spec": DEVICE_SPEC}, "extended resources",
    ),
    "the scheduler's lease": ("webhook", "POST", LEASES, {"metadata": {"name": "moorage"}, "spec": {}}, "own leases"),
}  # fmt: skip


@pytest.mark.parametrize("case", [case for case, each in REFUSED.items() if _is_served(each[2])])
def test_what_components_do_not_write_is_refused(accounts: Accounts, case: str) -> None:
    """RBAC would allow it; the refusal names the policy and what is wrong."""
    component, method, path, body, words = REFUSED[case]
    content = "application/json" if method == "POST" else STRATEGIC
    status, text = accounts.ask(component, method, path, body, content)
    assert status == 403, text
    assert "ValidatingAdmissionPolicy" in text
    assert words in text


DEVICES_OF_POD = "moorage.dev/devices"
TENANTS: dict[str, tuple[str, dict[str, str | None], int]] = {
    "a pod that names devices": ("POST", {DEVICES_OF_POD: "0"}, 403),
    "a pod that names none": ("POST", {"gpu-fraction": "0.5"}, 201),
    "devices of a running pod": ("PATCH", {DEVICES_OF_POD: "1"}, 403),
    "no devices of a running pod": ("PATCH", {DEVICES_OF_POD: None}, 403),
    "another annotation beside them": ("PATCH", {"gpu-fraction": "0.1"}, 200),
}


@pytest.mark.parametrize("case", TENANTS)
def test_who_may_say_which_devices_a_pod_has(accounts: Accounts, case: str) -> None:
    """Only the scheduler, with the Binding: an administrator is refused like any tenant."""
    plane, (method, annotations, want) = accounts.plane, TENANTS[case]
    name = case.replace(" ", "-")
    body = a_pod(name, cpu="1m", scheduler="nobody")
    if method == "POST":
        body["metadata"]["annotations"] = annotations
        answer = plane.request("POST", f"{PODS}?dryRun=All", body)
    else:
        make(plane, PODS, body)
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": {DEVICES_OF_POD: "0"}}}
        bind["target"] = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        assert plane.request("POST", f"{PODS}/{name}/binding", bind).status == 201
        answer = plane.request("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": annotations}})
    assert answer.status == want, answer.content
    assert (want != 403) or b"ValidatingAdmissionPolicy" in answer.content


REGISTRATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{RELEASE}-webhook"
EXCLUDED = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["quiet"]}
KEPT: dict[str, Callable[[Document], object]] = {
    "authorities": lambda found: found["webhooks"][0]["clientConfig"].update(caBundle=_bundle()),
    "an excluded namespace": lambda found: found["webhooks"][0]["namespaceSelector"]["matchExpressions"].append(
        EXCLUDED
    ),
}
WIDENED: dict[str, tuple[Callable[[Document], object], str]] = {
    "everything": (
        lambda found: found["webhooks"][0]["rules"][0].update(apiGroups=["*"], resources=["*/*"], operations=["*"]),
        "new pods only",
    ),
    "secrets too": (
        lambda found: found["webhooks"][0]["rules"].append(
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
        ),
        "new pods only",
    ),
    "updates": (lambda found: found["webhooks"][0]["rules"][0].update(operations=["UPDATE"]), "new pods only"),
    "kube-system": (
        lambda found: found["webhooks"][0]["namespaceSelector"].update(matchExpressions=[EXCLUDED]),
        "none may be added",
    ),
    "every namespace": (lambda found: found["webhooks"][0].pop("namespaceSelector"), "none may be added"),
    "another place": (
        lambda found: found["webhooks"][0].update(clientConfig={"url": "https://evil.example/mutate"}),
        "where the webhook is found",
    ),
    "failure": (lambda found: found["webhooks"][0].update(failurePolicy="Fail"), "only the CA bundle"),
    "another webhook": (
        lambda found: found["webhooks"].append({**found["webhooks"][0], "name": "second.moorage.dev"}),
        "only the CA bundle",
    ),
    "a label": (lambda found: found["metadata"].update(labels={"a": "b"}), "labels"),
}


def _bundle() -> str:
    return base64.b64encode(trustme.CA().cert_pem.bytes()).decode()


def _update(accounts: Accounts, change: Callable[[Document], object]) -> tuple[int, str]:
    """Write the webhook's registration as its account, as the webhook does."""
    found = accounts.plane.request("GET", REGISTRATION).json()
    change(found)
    return accounts.ask("webhook", "PUT", f"{REGISTRATION}?dryRun=All", found, "application/json")


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_the_webhook_keeps_its_registration_true(accounts: Accounts, change: Callable[[Document], object]) -> None:
    """Authorities come and go, rules are put back, and namespaces are left alone."""
    status, text = _update(accounts, change)
    assert status == 200, text


@pytest.mark.parametrize(("change", "words"), WIDENED.values(), ids=WIDENED)
def test_the_webhook_cannot_widen_its_registration(
    accounts: Accounts, change: Callable[[Document], object], words: str
) -> None:
    """It is asked about new pods at its own address, and about nothing else."""
    status, text = _update(accounts, change)
    assert status == 403, text
    assert words in text


def test_with_cert_manager_nobody_updates_the_registration() -> None:
    """The account may look at it; cert-manager writes the authority, as the annotation asks it to."""
    documents = rendered("webhook.enabled=true", "webhook.certManager.enabled=true", more=ALL_KINDS)
    verbs = {
        verb
        for rule in of_kind(documents, "ClusterRole")[f"{RELEASE}-webhook"]["rules"]
        if "mutatingwebhookconfigurations" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"list", "watch"}
    (registration,) = of_kind(documents, "MutatingWebhookConfiguration").values()
    assert registration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{RELEASE}-webhook"
    assert f"{RELEASE}-webhook-registration" not in of_kind(documents, "ValidatingAdmissionPolicy")


def test_others_are_not_looked_at(accounts: Accounts) -> None:
    """The guards are about the accounts of the release only."""
    answer = accounts.plane.request("PATCH", f"{PODS}/p1", {"metadata": {"labels": {"by": "admin"}}})
    assert answer.status == 200


# --- what is rendered ---


def test_guards_can_be_left_out() -> None:
    """By a switch, and where Kubernetes has none."""
    assert "moorage-keeper-pods" in of_kind(rendered(*VALUES), "ValidatingAdmissionPolicy")
    assert not of_kind(rendered(*VALUES, "guards.enabled=false"), "ValidatingAdmissionPolicy")
    assert not of_kind(rendered(*VALUES, more=("--kube-version=1.28.0",)), "ValidatingAdmissionPolicy")


def test_components_that_share_an_account_cannot_be_told_apart() -> None:
    """One would be held to the other's fields."""
    shared = [f"{component}.serviceAccount.name=same" for component in ("scheduler", "keeper")]
    words = [word for value in (*VALUES, *shared) for word in ("--set", value)]
    text = helm("template", RELEASE, "deploy/helm/moorage", *words, good=False)
    assert "guards.enabled: true needs an account for each component" in text
