"""The chart on a real API server: installed, upgraded and removed by helm, in a namespace that is locked down."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import serves
from tests.deploy.chart import (
    ALL_KINDS,
    COMPONENTS,
    NAMESPACE,
    PRICES,
    RELEASE,
    ROOT,
    STRANGERS,
    Document,
    account_kubeconfig,
    add_kinds,
    install,
    kubectl,
    make_namespace,
    of_kind,
    released,
    rendered,
    served_part,
    switches,
)
from tests.patience import eventually

pytestmark = pytest.mark.xdist_group("chart")

MANIFESTS = sorted((ROOT / "deploy/manifests").glob("*.yaml"))
EXAMPLES = sorted((ROOT / "deploy/examples").glob("*/manifests.yaml"))


@pytest.fixture(scope="module")
def bare(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    """A cluster as it comes, with a namespace that enforces `restricted`."""
    with ControlPlane.start() as plane:
        make_namespace(plane)
        yield plane


@pytest.fixture(scope="module")
def equipped(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 as above
    """A cluster with the kinds of the Prometheus operator and cert-manager."""
    with ControlPlane.start() as plane:
        make_namespace(plane)
        add_kinds(plane)
        yield plane


def objects_of(plane: ControlPlane, documents: list[Document]) -> set[tuple[str, str]]:
    """Which of these objects exist: kind and name."""
    text = yaml.safe_dump_all(documents)
    listed = kubectl(plane, "get", "--ignore-not-found", "-o", "json", "-f", "-", given=text)
    items = json.loads(listed)["items"] if listed.strip() else []
    return {(item["kind"], item["metadata"]["name"]) for item in items}


def names_of(documents: list[Document]) -> set[tuple[str, str]]:
    return {(document["kind"], document["metadata"]["name"]) for document in documents}


def create_pods(plane: ControlPlane, documents: list[Document], namespace: str) -> list[str]:
    """Make the pods of these Deployments, dry-run only, and tell who was let in. Deployments only get a warning."""
    admitted = []
    for name, found in of_kind(documents, "Deployment").items():
        template = found["spec"]["template"]
        body = {"metadata": {**template["metadata"], "name": name}, "spec": template["spec"]}
        answer = plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
        assert answer.status == 201, answer.content
        admitted.append(name)
    return admitted


# --- a release's life ---


def test_everything_is_installed_where_the_cluster_has_all_kinds(equipped: ControlPlane) -> None:
    """All switches on: each object exists, all pods may run in a restricted namespace, and all goes again."""
    documents = rendered(*switches(), more=ALL_KINDS)
    with released(equipped, *switches()) as notes:
        assert ("WARNING: guards.enabled has no effect" in notes) == (not serves(1, 30))
        assert notes.count("WARNING") == (0 if serves(1, 30) else 1)
        assert objects_of(equipped, documents) == names_of(documents)
        want = sorted(f"{RELEASE}-{component}" for component in COMPONENTS)
        assert sorted(create_pods(equipped, documents, NAMESPACE)) == want
    assert objects_of(equipped, documents) == set()


@pytest.mark.long
def test_everything_is_installed_where_it_has_none(bare: ControlPlane) -> None:
    """Objects of unknown kinds are left out, and the notes say which wishes were in vain."""
    documents = rendered(*switches())
    assert not {document["kind"] for document in documents} & STRANGERS.keys()
    with released(bare, *switches()) as notes:
        for wish in ("webhook.certManager", "metrics.serviceMonitor", "metrics.prometheusRule"):
            assert f"WARNING: {wish}.enabled has no effect" in notes
        assert objects_of(bare, documents) == names_of(documents)
    assert objects_of(bare, documents) == set()


def replicas_in(plane: ControlPlane) -> dict[str, int]:
    """Deployment -> wanted replicas."""
    items = json.loads(kubectl(plane, "-n", NAMESPACE, "get", "deployments", "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in items}


@pytest.mark.long
def test_an_upgrade_changes_what_changed_and_no_more(bare: ControlPlane) -> None:
    """Components come and go with their switches; what a component has written into its registration stays."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/moorage-webhook"
    with released(bare, "webhook.enabled=true"):
        entry = bare.request("GET", path).json()["webhooks"][0]
        entry["clientConfig"]["caBundle"] = _authority(bare)
        answer = bare.request("PATCH", path, {"webhooks": [entry]})
        assert answer.status == 200, answer.content
        install(bare, "webhook.enabled=true", "keeper.enabled=true", "scheduler.replicaCount=3", verb="upgrade")
        after = bare.request("GET", path).json()["webhooks"][0]
        assert after["clientConfig"]["caBundle"] == entry["clientConfig"]["caBundle"]
        assert replicas_in(bare) == {"moorage-scheduler": 3, "moorage-webhook": 2, "moorage-keeper": 2}
        install(bare, verb="upgrade")
        assert replicas_in(bare) == {"moorage-scheduler": 2}
        assert bare.request("GET", path).status == 404


def _authority(plane: ControlPlane) -> str:
    """Some certificate in base64, as API objects carry it."""
    document = yaml.safe_load(plane.admin_kubeconfig.read_text())
    return str(document["clusters"][0]["cluster"]["certificate-authority-data"])


@pytest.mark.long
def test_two_releases_live_side_by_side(bare: ControlPlane) -> None:
    """Nothing of theirs has the same name, cluster-wide objects included."""
    with released(bare, *switches(), name="moorage"), released(bare, *switches(), name="blue"):
        assert {"moorage-scheduler", "blue-moorage-scheduler"} <= replicas_in(bare).keys()


@pytest.mark.long
def test_uninstalling_keeps_the_policies_of_users(bare: ControlPlane) -> None:
    """Helm leaves CustomResourceDefinitions alone, since removing one would remove everything made of it."""
    with released(bare):
        pass
    kubectl(bare, "get", "crd", "placementpolicies.moorage.dev")


# --- files for kubectl ---


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda path: path.name)
def test_the_server_takes_the_manifests(control_plane: ControlPlane, file: Path) -> None:
    """Every field is known and every value valid; the pods may run in the namespace that the file makes."""
    make_namespace(control_plane)
    documents = served_part(file)
    if not documents:
        pytest.skip(f"{file.name}: from Kubernetes 1.30 on")
    text = yaml.safe_dump_all(documents)
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=text)
    create_pods(control_plane, documents, NAMESPACE)


def test_the_server_takes_what_the_chart_renders_without_other_kinds(control_plane: ControlPlane) -> None:
    """All switches on, in a cluster that has none of the kinds of the Prometheus operator and cert-manager."""
    # A dry run makes no priority class that the pods could have.
    documents = rendered(*switches(), "priorityClass.create=false")
    make_namespace(control_plane)
    text = yaml.safe_dump_all(documents)
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=text)
    assert len(create_pods(control_plane, documents, NAMESPACE)) == len(COMPONENTS)


@pytest.mark.long
def test_the_manifests_can_be_applied_together(bare: ControlPlane) -> None:
    """What they share is the same in all of them, so the order does not matter."""
    files = [documents for file in MANIFESTS if (documents := served_part(file))]
    for documents in files:
        kubectl(bare, "apply", "-f", "-", given=yaml.safe_dump_all(documents))
    for documents in files:
        assert kubectl(bare, "diff", "-f", "-", given=yaml.safe_dump_all(documents)) == ""
    for documents in files:
        text = yaml.safe_dump_all(document for document in documents if document["kind"] != "Namespace")
        kubectl(bare, "delete", "--ignore-not-found", "-f", "-", given=text)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_server_takes_the_examples(equipped: ControlPlane, file: Path) -> None:
    """The manifests of every example are admitted, and so are their pods where `restricted` is enforced."""
    documents = [document for document in yaml.safe_load_all(file.read_text()) if document]
    for namespace in of_kind(documents, "Namespace"):
        make_namespace(equipped, namespace)
    kubectl(equipped, "apply", "--dry-run=server", "--validate=strict", "-f", str(file))
    assert create_pods(equipped, documents, NAMESPACE)


@pytest.mark.long
@pytest.mark.parametrize("file", MANIFESTS, ids=lambda path: path.name)
def test_moorage_validates_the_manifests(file: Path) -> None:
    """The project's own tool has nothing to say either."""
    command = [sys.executable, "-m", "moorage", "validate", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("verb", "name", "namespace", "want"),
    [("list", "prices", "costs", True), ("watch", "prices", "costs", True), ("get", "prices", "costs", False),
     ("list", "others", "costs", False), ("list", "prices", "default", False)],
    ids=["list", "watch", "get", "another one", "elsewhere"],
)  # fmt: skip
def test_prices_are_all_that_may_be_read_of_configmaps(
    control_plane: ControlPlane, verb: str, name: str, namespace: str, want: bool
) -> None:
    """As the API server sees it."""
    make_namespace(control_plane, "costs")
    roles = [each for each in rendered(*PRICES) if each["metadata"].get("namespace") == "costs"]
    kubectl(control_plane, "apply", "-f", "-", given=yaml.safe_dump_all(roles))
    attributes = {"verb": verb, "resource": "configmaps", "name": name, "namespace": namespace}
    account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-scheduler"
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body = {**review, "spec": {"user": account, "resourceAttributes": attributes}}

    def allowed() -> bool:
        answer = control_plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        return bool(answer.json()["status"]["allowed"])

    eventually(lambda: allowed() == want, 30, lambda: body)


# --- priority and fairness ---

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FLOWS = {
    "the lease": (LEASES, "moorage-leader-election"),
    "pods": ("/api/v1/pods?limit=1", "moorage"),
    "discovery": ("/apis", "moorage"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", FLOWS)
def test_requests_of_the_scheduler_go_before_others(bare: ControlPlane, tmp_path: Path, case: str) -> None:
    """The API server says which FlowSchema a request was of; it is the chart's."""
    path, schema = FLOWS[case]
    with released(bare):
        kubeconfig = account_kubeconfig(bare, tmp_path, "scheduler")
        version = "v1" if serves(1, 29) else "v1beta3"
        found = bare.request("GET", f"/apis/flowcontrol.apiserver.k8s.io/{version}/flowschemas/{schema}")
        uid = found.json()["metadata"]["uid"]
        eventually(lambda: flow_of(bare, kubeconfig, path) == uid, 30, lambda: flow_of(bare, kubeconfig, path))


def flow_of(plane: ControlPlane, kubeconfig: Path, path: str) -> str:
    """The uid of the FlowSchema that a request is of, whether it is allowed or not."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    tls = ssl.create_default_context(cafile=str(plane.token_folder / "ca.crt"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    request = urllib.request.Request(plane.url + path, headers={"Authorization": f"Bearer {user['token']}"})  # noqa: S310
    try:
        with opener.open(request, timeout=10) as answer:
            return str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"])
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers["X-Kubernetes-PF-FlowSchema-UID"])
