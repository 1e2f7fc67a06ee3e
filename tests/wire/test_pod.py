"""Pods are read as the API means them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.affinity import NodeAffinity, NodeTerm, PodTerm
from moorage.core.pods import UNRESOLVED_CLAIM, Condition, HostPort, Owner, Pod, PodVolume
from moorage.core.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector
from moorage.core.taints import Toleration
from moorage.wire.pod import decode_pod, pod_from_builtin
from moorage.wire.templates import TemplateTable

MI = 2**20
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def manifest(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-0", **metadata},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **(spec or {})},
        "status": status or {},
    }


def read(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    return pod_from_builtin(manifest(spec, status, **metadata))


def as_kubectl_prints(number: int, node: str | None = "n1") -> bytes:
    """A pod of a Deployment with what placement must skip: probes, environment, projected volume, statuses."""
    token = f"kube-api-access-{number:05x}"
    resources = {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}}
    container = {
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "image": "registry.example.com/shop/web:1.2.3",
        "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
        "name": "web",
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": resources,
        "volumeMounts": [{"mountPath": "/var/run/secrets/x", "name": token, "readOnly": True}],
    }
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    obj = manifest(
        {
            "containers": [container],
            "nodeName": node,
            "priority": 0,
            "schedulerName": "moorage",
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [{"name": token, "projected": {"defaultMode": 420, "sources": sources}}],
        },
        {
            "conditions": [
                {"lastProbeTime": None, "status": "True", "type": kind}
                for kind in ("Initialized", "Ready", "PodScheduled")
            ],
            "containerStatuses": [
                {"allocatedResources": resources["requests"], "name": "web", "resources": resources, "state": {}}
            ],
            "phase": "Running",
            "startTime": "2026-09-30T08:15:00Z",
        },
        name=f"web-{number}",
        uid=f"u-{number}",
        labels={"app": "web"},
        managedFields=[{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    )
    return json.dumps(obj).encode()


def test_identity_and_times() -> None:
    """Names, times and versions come from the metadata."""
    pod = read(
        resourceVersion="77",
        generation=3,
        creationTimestamp="1970-01-01T00:01:00Z",
        deletionTimestamp="1970-01-01T00:02:00Z",
        labels={"app": "web"},
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r-1", "controller": True},
        ],
    )
    assert (pod.key, pod.uid, pod.resource_version, pod.generation) == ("shop/web-0", "u-0", "77", 3)
    assert (pod.created_s, pod.deleted_s, pod.started_s) == (60.0, 120.0, None)
    assert pod.template.labels == {"app": "web"}
    assert pod.template.owner == Owner("ReplicaSet", "web", "r-1", "apps/v1")


def test_defaults_of_a_bare_manifest() -> None:
    """What a manifest leaves out is what the API server would put in."""
    pod = pod_from_builtin(
        {"metadata": {"name": "a", "creationTimestamp": None}, "spec": {"containers": [{"name": "c"}]}}
    )
    template = pod.template
    assert (pod.key, pod.uid, pod.phase, pod.node, pod.gates) == ("default/a", "default/a", "Pending", None, ())
    assert (template.scheduler_name, template.priority) == ("default-scheduler", 0)
    assert template.preemption_policy == "PreemptLowerPriority"
    assert [template.node_affinity, template.pod_affinity, template.pod_anti_affinity, template.owner] == [None] * 4
    assert [template.tolerations, template.spread, template.volumes, template.claims, template.features] == [()] * 5
    assert (template.requests.amounts, template.requests.score_cpu_milli) == ((), 100)


def test_null_means_absent() -> None:
    """Every optional field may be null."""
    spec = dict.fromkeys(
        (
            "initContainers", "volumes", "nodeName", "schedulerName", "priority", "preemptionPolicy", "schedulingGates",
            "hostNetwork", "hostUsers", "activeDeadlineSeconds", "resources", "overhead", "nodeSelector", "affinity",
            "topologySpreadConstraints", "tolerations", "resourceClaims", "schedulingGroup",
        )
    )  # fmt: skip
    status = dict.fromkeys(
        ("phase", "nominatedNodeName", "startTime", "conditions", "containerStatuses", "initContainerStatuses",
         "resourceClaimStatuses", "resources", "allocatedResources")
    )  # fmt: skip
    container = {"name": "c", "image": "nginx", "resources": None, "ports": None, "restartPolicy": None}
    pod = read({**spec, "containers": [container]}, status, labels=None, annotations=None, ownerReferences=None)
    assert pod.template == read().template


def test_spec_fields() -> None:
    """Plain fields of the spec."""
    pod = read(
        {
            "nodeName": "n1",
            "schedulerName": "moorage",
            "priority": -5,
            "preemptionPolicy": "Never",
            "schedulingGates": [{"name": "a"}, {"name": "b"}],
            "nodeSelector": {"disk": "ssd"},
            "hostNetwork": True,
            "schedulingGroup": {"podGroupName": "gang"},
        }
    )
    template = pod.template
    assert (pod.node, pod.gates) == ("n1", ("a", "b"))
    assert (template.scheduler_name, template.priority, template.preemption_policy) == ("moorage", -5, "Never")
    assert (template.node_selector, template.host_network, template.group) == ({"disk": "ssd"}, True, "gang")


def test_kubectls_copy_of_the_manifest_is_dropped() -> None:
    """The last-applied annotation is left out, others are kept."""
    pod = read(annotations={"kubectl.kubernetes.io/last-applied-configuration": "{...}", "moorage.dev/priority": "5"})
    assert pod.template.annotations == {"moorage.dev/priority": "5"}


def test_status() -> None:
    """Phase, nomination, start and the PodScheduled condition come from the status."""
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"},
    ]
    pod = read(
        status={
            "phase": "Pending",
            "nominatedNodeName": "n2",
            "startTime": "1970-01-01T00:00:09Z",
            "conditions": conditions,
        }
    )
    assert (pod.phase, pod.nominated_node, pod.started_s) == ("Pending", "n2", 9.0)
    assert pod.scheduled_condition == Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes")
    bound = read(status={"conditions": [{"type": "PodScheduled", "status": "True"}]})
    assert bound.scheduled_condition == Condition("PodScheduled", "True")


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({"activeDeadlineSeconds": 60}, {"startTime": "1970-01-01T00:00:09Z"}, 69.0, id="a-deadline"),
        pytest.param({"activeDeadlineSeconds": 60}, {}, None, id="not-started"),
        pytest.param({}, {"startTime": "1970-01-01T00:00:09Z"}, None, id="no-deadline"),
        pytest.param({"activeDeadlineSeconds": 2**62}, {"startTime": "1970-01-01T00:00:09Z"}, None, id="never"),
    ],
)
def test_the_end_of_a_pod(spec: dict[str, Any], status: dict[str, Any], want: float | None) -> None:
    """A pod with a deadline has ended so long after its start at the latest."""
    assert read(spec, status).ends_s == want


def limited(name: str, **limits: str) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": limits}}


def container(name: str, restart: str | None = None, **requests: object) -> dict[str, Any]:
    return {"name": name, "image": name, "resources": {"requests": requests}, "restartPolicy": restart}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container("a", cpu="500m", memory="1Gi")]}, (500, 1024 * MI), id="texts"),
        pytest.param({"containers": [container("a", cpu=0.5, memory=1024)]}, (500, 1024), id="numbers"),
        pytest.param({"containers": [container("a", cpu=None)]}, (0, 0), id="null"),
        pytest.param(
            {
                "containers": [container("a", cpu=1)],
                "initContainers": [container("b", "Always", cpu=1), container("c", cpu=2)],
            },
            (3000, 0),
            id="init containers and a sidecar",
        ),
        pytest.param({"containers": [container("a", cpu=1)], "overhead": {"cpu": "50m"}}, (1050, 0), id="overhead"),
        pytest.param(
            {"containers": [container("a", cpu=1)], "resources": {"requests": {"cpu": 3, "memory": "1Mi"}}},
            (3000, MI),
            id="pod-level",
        ),
    ],
)
def test_requests(spec: dict[str, Any], want: tuple[int, int]) -> None:
    """The template carries the effective request."""
    requests = read(spec).template.requests
    assert (requests.get("cpu"), requests.get("memory")) == want


@pytest.mark.parametrize(
    ("node", "conditions", "want"),
    [
        pytest.param("n1", [], 700, id="the larger of spec, allocated and actual"),
        pytest.param(
            "n1", [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}], 700, id="a deferred resize"
        ),
        pytest.param(
            "n1",
            [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            600,
            id="an infeasible resize drops the spec",
        ),
        pytest.param(None, [], 700, id="not bound: the spec"),
    ],
)
def test_requests_during_a_resize(node: str | None, conditions: list[dict[str, str]], want: int) -> None:
    """A bound pod counts what it may still hold; its template keeps what the spec says."""
    statuses = [
        {"name": "c", "allocatedResources": {"cpu": "300m"}, "resources": {"requests": {"cpu": "600m"}, "limits": {}}}
    ]
    pod = read(
        {"containers": [container("c", cpu="700m")], "nodeName": node},
        {"containerStatuses": statuses, "conditions": conditions},
    )
    assert pod.requests.get("cpu") == want
    assert pod.template.requests.get("cpu") == 700


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{"name": "a"}]}, (), id="none"),
        pytest.param(
            {"containers": [limited("a", cpu="500m"), limited("b", cpu="1", memory="1Ki")]},
            (("cpu", 1500), ("memory", 1024)),
            id="containers add up",
        ),
        pytest.param(
            {"containers": [limited("a", cpu="1")], "initContainers": [limited("i", cpu="3")]},
            (("cpu", 3000),),
            id="the largest init container",
        ),
        pytest.param(
            {"containers": [limited("a", cpu="1")], "overhead": {"cpu": "100m", "memory": "1Ki"}},
            (("cpu", 1100),),
            id="overhead alone is no limit",
        ),
        pytest.param(
            {"containers": [limited("a", cpu="1")], "resources": {"limits": {"cpu": "4"}}},
            (("cpu", 4000),),
            id="the pod's own",
        ),
    ],
)
def test_limits(spec: dict[str, Any], want: tuple[tuple[str, int], ...]) -> None:
    """For the metrics; they make no difference to placement."""
    assert read(spec).template.limits == want


def test_unchanged_requests_are_shared() -> None:
    """Where the status agrees with the spec, a bound pod holds the very requests of its template."""
    pod = decode_pod(as_kubectl_prints(1))
    assert pod.requests is pod.template.requests


def test_host_ports() -> None:
    """Main containers and sidecars occupy ports of the node; addresses that mean all of them are alike."""
    ports = [
        {"containerPort": 80, "hostPort": 80},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 81, "hostPort": 81, "hostIP": "0.0.0.0"},  # noqa: S104
        {"containerPort": 82},
        {"containerPort": 83, "hostPort": 0},
    ]
    pod = read(
        {
            "containers": [{"name": "a", "ports": ports}],
            "initContainers": [
                {"name": "b", "ports": [{"hostPort": 90}]},
                {"name": "c", "restartPolicy": "Always", "ports": [{"hostPort": 91}]},
            ],
        }
    )
    assert pod.template.host_ports == (
        HostPort("", "TCP", 80),
        HostPort("", "TCP", 81),
        HostPort("", "TCP", 91),
        HostPort("10.0.0.1", "UDP", 53),
    )


def test_images() -> None:
    """Images of all containers and of image volumes count, each as often as it occurs."""
    pod = read(
        {
            "containers": [{"name": "a", "image": "nginx"}, {"name": "b", "image": "nginx"}],
            "initContainers": [{"name": "c", "image": "busybox:1"}],
            "volumes": [{"name": "v", "image": {"reference": "registry:5000/model"}}, {"name": "w", "emptyDir": {}}],
        }
    )
    assert pod.template.images == ("busybox:1", "nginx:latest", "nginx:latest", "registry:5000/model:latest")
    assert pod.template.container_count == 4


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"emptyDir": {}}, ()),
        ({"persistentVolumeClaim": {"claimName": "data"}}, (PodVolume(claim="data"),)),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, (PodVolume(claim="web-0-v", ephemeral=True),)),
        ({"ephemeral": {}}, (PodVolume(claim="web-0-v", ephemeral=True),)),
        ({"csi": {"driver": "d.example.com"}}, (PodVolume(csi_driver="d.example.com"),)),
        (
            {"gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
            (PodVolume(disk=("gcePersistentDisk", "pd", True)),),
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}},
            (PodVolume(disk=("awsElasticBlockStore", "vol", False)),),
        ),
        ({"iscsi": {"iqn": "iqn.1", "lun": 0}}, (PodVolume(disk=("iscsi", "iqn.1", False)),)),
        (
            {"rbd": {"monitors": ["m2", "m1"], "image": "i", "readOnly": True}},
            (PodVolume(disk=("rbd", "m1/rbd/i", True)), PodVolume(disk=("rbd", "m2/rbd/i", True))),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_volumes(source: dict[str, Any], want: tuple[PodVolume, ...]) -> None:
    """Only volumes that placement depends on are kept."""
    assert read({"volumes": [{"name": "v", **source}]}).template.volumes == want


@pytest.mark.parametrize(
    ("claim", "statuses", "want"),
    [
        pytest.param({"resourceClaimName": "gpu"}, None, ("gpu",), id="by name"),
        pytest.param(
            {"resourceClaimTemplateName": "t"}, [{"name": "c", "resourceClaimName": "made"}], ("made",), id="made"
        ),
        pytest.param({"resourceClaimTemplateName": "t"}, None, (UNRESOLVED_CLAIM + "c",), id="not made yet"),
        pytest.param({"resourceClaimTemplateName": "t"}, [{"name": "c"}], (), id="not needed"),
    ],
)
def test_resource_claims(claim: dict[str, str], statuses: list[dict[str, str]] | None, want: tuple[str, ...]) -> None:
    """Claims are named; one that a template has yet to make is recognisable."""
    pod = read({"resourceClaims": [{"name": "c", **claim}]}, {"resourceClaimStatuses": statuses})
    assert pod.template.claims == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostUsers": False}, ()),
        (
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
    ],
)
def test_features(spec: dict[str, Any], want: tuple[str, ...]) -> None:
    """Features that nodes must declare are inferred as NodeDeclaredFeatures does."""
    assert read(spec).template.features == want


def test_tolerations() -> None:
    """Operator Equal is the default; the seconds do not matter to placement."""
    tolerations = [{"key": "a", "value": "b"}, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    assert read({"tolerations": tolerations}).template.tolerations == (
        Toleration("a", "Equal", "b", ""),
        Toleration("", "Exists", "", "NoExecute"),
    )


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({REQUIRED: None}, None, id="null"),
        pytest.param({PREFERRED: []}, None, id="no preferences"),
        pytest.param({REQUIRED: {}}, NodeAffinity(()), id="present and empty: no node"),
        pytest.param({REQUIRED: {"nodeSelectorTerms": []}}, NodeAffinity(()), id="no terms: no node"),
        pytest.param({REQUIRED: {"nodeSelectorTerms": [{}]}}, NodeAffinity((NodeTerm(),)), id="an empty term"),
        pytest.param(
            {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}},
            NodeAffinity((NodeTerm((Requirement("a", Operator.EXISTS),)),)),
            id="a term",
        ),
    ],
)
def test_node_affinity(affinity: dict[str, Any], want: NodeAffinity | None) -> None:
    """A missing requirement is none; one that is there but empty cannot be met."""
    assert read({"affinity": {"nodeAffinity": affinity}}).template.node_affinity == want


def test_preferred_node_affinity() -> None:
    """Preferences keep their weights."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = read(
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": term}]}}}
    ).template.node_affinity
    assert affinity is not None
    assert affinity.required is None
    assert [(each.weight, each.term.fields) for each in affinity.preferred] == [
        (7, (Requirement("metadata.name", Operator.IN, ("n1",)),))
    ]


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({}, PodTerm(NOTHING, "zone"), id="no selector: no pods"),
        pytest.param({"labelSelector": {}}, PodTerm(EVERYTHING, "zone"), id="an empty selector: all pods"),
        pytest.param(
            {"labelSelector": {}, "namespaces": ["b", "a", "b"]},
            PodTerm(EVERYTHING, "zone", ("a", "b")),
            id="namespaces",
        ),
        pytest.param(
            {"labelSelector": {}, "namespaceSelector": {}},
            PodTerm(EVERYTHING, "zone", (), EVERYTHING),
            id="all namespaces",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["rev"]},
            PodTerm(Selector((Requirement("app", Operator.IN, ("web",)),)), "zone"),
            id="matchLabelKeys are the API server's business",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity(kind: str, term: dict[str, Any], want: PodTerm) -> None:
    """Terms are read as they stand."""
    wire = {**term, "topologyKey": "zone"}
    spec = {"affinity": {kind: {REQUIRED: [wire], PREFERRED: [{"weight": 9, "podAffinityTerm": wire}]}}}
    template = read(spec, labels={"app": "web", "rev": "1"}).template
    affinity = template.pod_affinity if kind == "podAffinity" else template.pod_anti_affinity
    assert affinity is not None
    assert affinity.required == (want,)
    assert [(each.weight, each.term) for each in affinity.preferred] == [(9, want)]


WEB = {"matchLabels": {"app": "web"}}
APP = Requirement("app", Operator.IN, ("web",))
REV = Requirement("rev", Operator.IN, ("7",))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, NOTHING, id="no selector"),
        pytest.param({"matchLabelKeys": ["rev"]}, NOTHING, id="no selector to merge into"),
        pytest.param({"labelSelector": WEB}, Selector((APP,)), id="as it stands"),
        pytest.param({"labelSelector": WEB, "matchLabelKeys": ["rev"]}, Selector((APP, REV)), id="merged"),
        pytest.param({"labelSelector": {}, "matchLabelKeys": ["rev"]}, Selector((REV,)), id="merged into all"),
        pytest.param({"labelSelector": WEB, "matchLabelKeys": ["other"]}, Selector((APP,)), id="a key it has not"),
        pytest.param(
            {
                "labelSelector": {**WEB, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["7"]}]},
                "matchLabelKeys": ["rev"],
            },
            Selector((APP, REV)),
            id="merged already",
        ),
    ],
)
def test_spread_selector(fields: dict[str, Any], want: Selector) -> None:
    """The pod's own values of matchLabelKeys narrow the selector, once."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    template = read({"topologySpreadConstraints": [constraint]}, labels={"app": "web", "rev": "7"}).template
    assert [each.selector for each in template.spread] == [want]


def test_spread_fields() -> None:
    """Policies and counts, given and left out."""
    plain = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    full = {
        "maxSkew": 2,
        "topologyKey": "host",
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }
    first, second = read({"topologySpreadConstraints": [plain, full]}).template.spread
    assert (first.max_skew, first.topology_key, first.hard, first.min_domains) == (1, "zone", True, 1)
    assert (first.honor_node_affinity, first.honor_node_taints) == (True, False)
    assert (second.max_skew, second.topology_key, second.hard, second.min_domains) == (2, "host", False, 3)
    assert (second.honor_node_affinity, second.honor_node_taints) == (False, True)


def test_equal_pods_share_one_template() -> None:
    """Pods of one controller share a template, bound or not, whatever differs that placement does not read."""
    table = TemplateTable()
    pods = [decode_pod(as_kubectl_prints(number, node), table) for number, node in enumerate(("n1", "n2", None))]
    assert len({id(pod.template) for pod in pods}) == 1
    assert [pod.node for pod in pods] == ["n1", "n2", None]
    assert len({pod.uid for pod in pods}) == 3
    assert len(table) == 1


def test_differently_written_pods_share_one_template() -> None:
    """Templates are interned by value: another order or spelling does not matter."""
    table = TemplateTable()
    first = pod_from_builtin(manifest({"containers": [container("a", cpu="1", memory="1Gi")]}), table)
    second = pod_from_builtin(manifest({"containers": [container("a", memory="1024Mi", cpu="1000m")]}), table)
    assert first.template is second.template


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": 1},
        {"schedulerName": "x"},
        {"hostNetwork": True},
        {"nodeSelector": {"a": "b"}},
        {"overhead": {"cpu": 1}},
        {"containers": [container("c", cpu=1)]},
        {"initContainers": [{"name": "i", "image": "nginx"}]},
        {"tolerations": [{"operator": "Exists"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]},
        {"schedulingGroup": {"podGroupName": "g"}},
        {"resourceClaims": [{"name": "c", "resourceClaimName": "r"}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_different_pods_do_not(spec: dict[str, Any]) -> None:
    """Whatever a rule may read makes another template, also with a warm table."""
    table = TemplateTable()
    assert pod_from_builtin(manifest(), table).template != pod_from_builtin(manifest(spec), table).template


def test_the_table_is_bounded() -> None:
    """A table forgets what no pod has and keeps what one has; values stay equal either way."""
    table = TemplateTable(limit=4)
    kept = pod_from_builtin(manifest(), table).template
    for number in range(100):
        pod_from_builtin(manifest({"priority": number + 1}), table)
        assert pod_from_builtin(manifest(), table).template is kept
    assert len(table) == 5
    assert len(table._entries) == 5
    assert pod_from_builtin(manifest({"priority": 1}), table).template == read({"priority": 1}).template
