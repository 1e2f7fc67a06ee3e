"""Edits become whole objects: changed where they should be, nowhere else, and never in place."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, get_args

import pytest

from moorage.core.edits import (
    AddAlternative,
    AddClaim,
    AddNode,
    Annotate,
    DropAnnotations,
    DropConstraint,
    DropDevices,
    DropHostPort,
    DropLabel,
    DropNodeRules,
    DropPodRule,
    DropSelector,
    DropTaint,
    DropVolume,
    Edit,
    EndedPod,
    EndJob,
    FreeClaim,
    LowerCapacity,
    LowerCount,
    LowerRequest,
    MovePod,
    OpenGates,
    RaiseBound,
    RelaxSpread,
    SetNodeLabel,
    SetSelector,
    ShrinkGang,
    Tolerate,
    TolerateDevice,
    Uncordon,
    UseScheduler,
)
from moorage.core.pods import HostPort, PodVolume
from moorage.core.taints import Taint
from moorage.engine.counterfactual.wording import describe
from moorage.wire.kinds import POD
from moorage.wire.rewriting import Rewriter

Plain = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_BODY: Plain = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "default",
        "labels": {"app": "x", "tier": "y"},
        "annotations": {"note": "n"},
        "managedFields": [{}],
    },
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "schedulingGates": [{"name": "wait"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
        ],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}
                    ]
                }
            },
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}, {"topologyKey": "host"}]},
        },
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "3", "memory": "1Gi"}, "claims": [{"name": "gpu"}]},
                "ports": [{"containerPort": 80, "hostPort": 8080}],
                "volumeMounts": [{"name": "data", "mountPath": "/d"}, {"name": "tmp", "mountPath": "/t"}],
            }
        ],
    },
}
NODE_BODY: Plain = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "uid": "u", "labels": {"kubernetes.io/hostname": "n", "zone": "a"}},
    "spec": {
        "unschedulable": True,
        "providerID": "cloud://n",
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "team", "value": "x", "effect": "NoSchedule"},
        ],
    },
    "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "False"}]},
}
OBJECTS: dict[tuple[str, str, str], Plain] = {
    ("Pod", "default", "p"): POD_BODY,
    ("Pod", "default", "old"): {
        "metadata": {"name": "old", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running", "hostIP": "10.0.0.1"},
    },
    ("Node", "", "n"): NODE_BODY,
    ("CSINode", "", "n"): {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n", "uid": "c"},
        "spec": {"drivers": []},
    },
    ("Deployment", "default", "web"): {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"old": "1"}},
        "spec": {"replicas": 2, "template": {}},
    },
    ("Queue", "", "team"): {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "team"},
        "spec": {"resources": {"cpu": {"quota": "1"}}},
    },
    ("PodGroup", "default", "g"): {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 4},
    },
    ("ResourceClaim", "default", "gpus"): {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "count": 2,
                            "selectors": [{"cel": {"expression": "false"}}],
                            "capacity": {"requests": {"memory": "2Gi"}},
                        },
                    }
                ],
                "constraints": [{"matchAttribute": "d/a"}],
            }
        },
        "status": {"allocation": {"devices": {"results": []}}, "reservedFor": []},
    },
    ("ResourceSlice", "", "n-gpus"): {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "n-gpus", "uid": "s"},
        "spec": {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 3, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoSchedule"}]}],
        },
    },
}


def changed(*edits: Edit, objects: Mapping[tuple[str, str, str], Plain] = OBJECTS) -> list[Plain] | None:
    """The objects that the edits come to, None if they cannot be made; what was given must stay as it is."""
    before = deepcopy(dict(objects))
    pod = POD.from_builtin(objects["Pod", "default", "p"])
    found = Rewriter(lambda *identity: objects.get(identity)).change(pod, edits)
    assert objects == before
    return None if found is None else [dict(each) for each in found.documents]


EVERY: tuple[Edit, ...] = (
    LowerRequest("cpu", 1000),
    Tolerate(Taint("k", "v", "NoExecute")),
    DropSelector("disk"),
    DropNodeRules(),
    DropPodRule(0, anti=True),
    RelaxSpread(0),
    DropHostPort(HostPort("", "TCP", 8080)),
    DropLabel("tier"),
    DropVolume(PodVolume(claim="c")),
    DropDevices(),
    OpenGates(),
    UseScheduler("ours"),
    DropAnnotations(("note",)),
    Uncordon("n"),
    DropTaint("n", Taint("team", "x", "NoSchedule")),
    SetNodeLabel("n", "zone", "b"),
    AddNode("n", "n-1"),
    MovePod("default", "old", "u", "n", "m"),
    Annotate("Deployment", "default", "web", "old", None),
    AddClaim("default", "c", "fast"),
    ShrinkGang("PodGroup", "default", "g", 2),
    RaiseBound("team", "quota", "cpu", 1000, 2000),
    EndJob("Job default/train", "default", (EndedPod("old", "u"),), ("train",)),
    SetSelector("default", "gpus", "gpu", 0, "true", "accept everything"),
    TolerateDevice("default", "gpus", "gpu", Taint("broken")),
    LowerCount("default", "gpus", "gpu", 1),
    LowerCapacity("default", "gpus", "gpu", "memory", "1Gi"),
    AddAlternative("default", "gpus", "gpu", "other"),
    DropConstraint("default", "gpus", 0, "matchAttribute d/a"),
    FreeClaim("default", "gpus", ("gpu-0",), ("old",)),
)
"""One of each kind."""


def test_every_kind_of_edit_is_tried() -> None:
    """A new kind of edit: add one to EVERY."""
    assert [type(edit) for edit in EVERY] == [*get_args(Edit)]


@pytest.mark.parametrize("edit", EVERY, ids=lambda edit: type(edit).__name__)
def test_every_edit_can_be_made_and_said(edit: Edit) -> None:
    """What has no words or no rewriter would cost a pod all its suggestions."""
    assert changed(edit)
    assert describe(POD.from_builtin(POD_BODY), (edit,))


@pytest.mark.parametrize(
    ("edit", "path", "want"),
    [
        pytest.param(DropSelector("disk"), "nodeSelector", None, id="selector"),
        pytest.param(OpenGates(), "schedulingGates", None, id="gates"),
        pytest.param(UseScheduler("ours"), "schedulerName", "ours", id="scheduler"),
        pytest.param(
            Tolerate(Taint("k", "v", "NoExecute")),
            "tolerations",
            [
                {"key": "a", "operator": "Exists"},
                {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"},
            ],
            id="toleration",
        ),
        pytest.param(
            RelaxSpread(0, max_skew=4),
            "topologySpreadConstraints",
            [{"maxSkew": 4, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}],
            id="skew",
        ),
        pytest.param(
            RelaxSpread(0, min_domains=2),
            "topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}],
            id="domains",
        ),
        pytest.param(
            RelaxSpread(0),
            "topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            id="preference",
        ),
        pytest.param(
            DropPodRule(0, anti=True),
            "affinity.podAntiAffinity",
            {REQUIRED: [{"topologyKey": "host"}]},
            id="anti-affinity",
        ),
        pytest.param(
            DropNodeRules(0, ("a",)),
            "affinity.nodeAffinity",
            {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}},
            id="node-rule",
        ),
        pytest.param(DropNodeRules(), "affinity.nodeAffinity", {}, id="node-rules"),
        pytest.param(DropVolume(PodVolume(claim="c")), "volumes", [{"name": "tmp", "emptyDir": {}}], id="volume"),
        pytest.param(DropDevices(), "resourceClaims", None, id="devices"),
    ],
)
def test_a_pod_changes_in_one_place(edit: Edit, path: str, want: Any) -> None:
    """All else is as it was, but for who manages which field."""
    documents = changed(edit)
    assert documents is not None
    (document,) = documents
    found: Any = document["spec"]
    for step in path.split("."):
        found = (found or {}).get(step)
    assert found == want
    assert "managedFields" not in document["metadata"]


def test_ports_and_mounts_go_with_what_they_belong_to() -> None:
    """The container keeps its port but not the node's; mounts of other volumes stay; so do other labels."""
    documents = changed(
        DropHostPort(HostPort("", "TCP", 8080)), DropVolume(PodVolume(claim="c")), DropDevices(), DropLabel("tier")
    )
    assert documents is not None
    container = documents[0]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80}]
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/t"}]
    assert "claims" not in container["resources"]
    assert documents[0]["metadata"]["labels"] == {"app": "x"}


def container(name: str, **resources: Any) -> Plain:
    return {"name": name, "resources": resources}


@pytest.mark.parametrize(
    ("spec", "edit", "want"),
    [
        pytest.param(
            {"containers": [container("a", requests={"cpu": "3"}), container("b", requests={"cpu": "1"})]},
            LowerRequest("cpu", 2500),
            {"a": "1500m"},
            id="the-largest-first",
        ),
        pytest.param(
            {"containers": [container("a", requests={"cpu": "3"}), container("b", requests={"cpu": "2"})]},
            LowerRequest("cpu", 1000),
            {"a": "0", "b": "1"},
            id="then-the-next",
        ),
        pytest.param(
            {"containers": [container("a", limits={"cpu": "3"})]}, LowerRequest("cpu", 200), {"a": "200m"}, id="limits"
        ),
        pytest.param(
            {"containers": [container("a", requests={"cpu": "3"})], "overhead": {"cpu": "100m"}},
            LowerRequest("cpu", 1000),
            {"a": "900m"},
            id="overhead-stays",
        ),
        pytest.param(
            {
                "containers": [container("a", requests={"memory": "1Gi"})],
                "initContainers": [container("i", requests={"memory": "4Gi"})],
            },
            LowerRequest("memory", 2 << 30),
            {"i": "2Gi"},
            id="an-init-container",
        ),
        pytest.param(
            {
                "containers": [container("a", requests={"cpu": "1"})],
                "initContainers": [
                    {**container("s", requests={"cpu": "1"}), "restartPolicy": "Always"},
                    container("i", requests={"cpu": "4"}),
                ],
            },
            LowerRequest("cpu", 3000),
            {"i": "2"},
            id="beside-a-sidecar",
        ),
    ],
)
def test_requests_are_lowered_where_they_are_largest(spec: Plain, edit: LowerRequest, want: dict[str, str]) -> None:
    """The pod as a whole takes what the edit says, exactly; only some containers change."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    documents = changed(edit, objects={("Pod", "default", "p"): body})
    assert documents is not None
    found = {}
    for group in ("containers", "initContainers"):
        for before, after in zip(spec.get(group, ()), documents[0]["spec"].get(group, ()), strict=True):
            if before != after:
                found[after["name"]] = after["resources"]["requests"][edit.resource]
    assert found == want
    made = POD.from_builtin({**documents[0], "spec": {**documents[0]["spec"]}})
    assert made.template.requests.get(edit.resource) == edit.amount


def test_extended_resources_keep_limit_and_request_equal() -> None:
    """The API server refuses them otherwise."""
    resources = {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
    spec = {"containers": [container("a", **resources)]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    documents = changed(LowerRequest("example.com/gpu", 1), objects={("Pod", "default", "p"): body})
    assert documents is not None
    assert documents[0]["spec"]["containers"][0]["resources"] == {
        "requests": {"example.com/gpu": "1"},
        "limits": {"example.com/gpu": "1"},
    }


def test_nodes_change_and_multiply() -> None:
    """An uncordoned node loses the taint of the cordon; a new one has neither troubles nor an identity."""
    documents = changed(Uncordon("n"), DropTaint("n", Taint("team", "x")), SetNodeLabel("n", "zone", None))
    assert documents is not None
    assert documents[0]["spec"] == {"providerID": "cloud://n"}
    assert documents[0]["metadata"]["labels"] == {"kubernetes.io/hostname": "n"}
    documents = changed(AddNode("n", "m"))
    assert documents == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "m", "labels": {"kubernetes.io/hostname": "m", "zone": "a"}},
            "spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4"}},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "m"},
            "spec": {"drivers": []},
        },
    ]


def test_other_objects() -> None:
    """Moved pods, annotated controllers, smaller gangs and new claims are whole objects, too."""
    documents = changed(
        MovePod("default", "old", "uid", "n", "m"),
        Annotate("Deployment", "default", "web", "new", "2"),
        Annotate("Deployment", "default", "web", "old", None),
        ShrinkGang("PodGroup", "default", "g", 2),
        AddClaim("default", "c", "fast"),
    )
    assert documents is not None
    moved, annotated, bare, group, claim = documents
    assert (moved["apiVersion"], moved["kind"], moved["spec"]["nodeName"]) == ("v1", "Pod", "m")
    assert moved["status"] == {"phase": "Running"}
    assert annotated["metadata"]["annotations"] == {"old": "1", "new": "2"}
    assert bare["metadata"]["annotations"] == {}
    assert group["spec"] == {"minMember": 2}
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize(
    ("edit", "part", "want"),
    [
        pytest.param(
            SetSelector("default", "gpus", "gpu", 0, "true", ""),
            "selectors",
            [{"cel": {"expression": "true"}}],
            id="another selector",
        ),
        pytest.param(SetSelector("default", "gpus", "gpu", 0, "", ""), "selectors", None, id="no selector"),
        pytest.param(
            TolerateDevice("default", "gpus", "gpu", Taint("broken")),
            "tolerations",
            [{"key": "broken", "operator": "Exists", "effect": "NoSchedule"}],
            id="toleration",
        ),
        pytest.param(LowerCount("default", "gpus", "gpu", 1), "count", 1, id="fewer"),
        pytest.param(
            LowerCapacity("default", "gpus", "gpu", "memory", "1Gi"),
            "capacity",
            {"requests": {"memory": "1Gi"}},
            id="less",
        ),
    ],
)
def test_requests_for_devices(edit: Edit, part: str, want: object) -> None:
    """What a request asks for changes, and nothing else."""
    documents = changed(edit)
    assert documents is not None
    exactly = documents[0]["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly.get(part) == want
    before = OBJECTS["ResourceClaim", "default", "gpus"]["spec"]["devices"]["requests"][0]["exactly"]
    known = ("allocationMode", part)
    assert {key: exactly[key] for key in exactly if key not in known} == {
        key: before[key] for key in before if key not in known
    }


def test_another_alternative() -> None:
    """What was asked for comes first, then as many of the other class; there can be eight."""
    documents = changed(AddAlternative("default", "gpus", "gpu", "other"))
    assert documents is not None
    request = documents[0]["spec"]["devices"]["requests"][0]
    assert set(request) == {"name", "firstAvailable"}
    first, second = request["firstAvailable"]
    assert (first["name"], first["deviceClassName"], first["count"]) == ("first", "gpu", 2)
    assert second == {"name": "other-0", "deviceClassName": "other", "count": 2}
    full = deepcopy(documents[0])
    full["spec"]["devices"]["requests"][0]["firstAvailable"] = [{**second, "name": f"a{each}"} for each in range(8)]
    objects = {**OBJECTS, ("ResourceClaim", "default", "gpus"): full}
    assert changed(AddAlternative("default", "gpus", "gpu", "more"), objects=objects) is None


def test_claims_let_go_and_nodes_bring_devices() -> None:
    """A claim that is set free holds nothing, its pods have finished; a new node has a pool without troubles."""
    documents = changed(FreeClaim("default", "gpus", ("gpu-0",), ("old",)))
    assert documents is not None
    assert "status" not in documents[0]
    assert documents[1]["status"]["phase"] == "Succeeded"
    documents = changed(AddNode("n", "m", ("n-gpus",)))
    assert documents is not None
    assert documents[1] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "n-gpus-m"},
        "spec": {
            "driver": "d",
            "nodeName": "m",
            "pool": {"name": "m", "generation": 3, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(SetSelector("default", "gpus", "gpu", 1, "true", ""), id="no-such-selector"),
        pytest.param(LowerCount("default", "gpus", "none", 1), id="no-such-request"),
        pytest.param(LowerCount("default", "gpus", "gpu/none", 1), id="no-such-alternative"),
        pytest.param(LowerCapacity("default", "gpus", "gpu", "none", "1"), id="no-such-capacity"),
        pytest.param(DropConstraint("default", "gpus", 1, ""), id="no-such-constraint"),
        pytest.param(FreeClaim("default", "none", ()), id="no-such-claim"),
        pytest.param(DropSelector("none"), id="no-such-key"),
        pytest.param(DropPodRule(7, anti=True), id="no-such-term"),
        pytest.param(DropPodRule(0, anti=False), id="no-affinity"),
        pytest.param(DropHostPort(HostPort("", "TCP", 1)), id="no-such-port"),
        pytest.param(LowerRequest("cpu", 3000), id="nothing-changes"),
        pytest.param(Uncordon("unknown"), id="no-such-node"),
        pytest.param(Annotate("Deployment", "default", "unknown", "k", "v"), id="no-such-object"),
    ],
)
def test_what_cannot_be_changed_is_no_change(edit: Edit) -> None:
    """Nothing is invented."""
    assert changed(edit) is None
