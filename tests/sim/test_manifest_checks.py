"""What `moorage validate` finds in files of people who come from another scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from moorage.app.plugins import find_plugins
from moorage.bench.controlplane import ControlPlane
from moorage.sim.annotations import _KNOWN
from moorage.sim.checks import check_file
from moorage.sim.spelling import meant_key
from tests.sim.other_keys import OTHERS

CONTAINERS = [{"name": "c", "image": "x"}]
PATHS = {
    "Deployment": "apis/apps/v1",
    "ReplicaSet": "apis/apps/v1",
    "StatefulSet": "apis/apps/v1",
    "DaemonSet": "apis/apps/v1",
    "Job": "apis/batch/v1",
    "ReplicationController": "api/v1",
}
PRIORITY, GROUP, HOSTS = "priority", "pod-group", "controller-spread-scheduler/min-hosts"
STRATEGY, SPOT = "smart-scheduler.io/schedule-strategy", "node.kubernetes.io/capacity"
RULE = "weight=1,nodeSelector=a:b"


def findings(*bodies: Mapping[str, Any]) -> list[str]:
    """Every problem of a file with these objects, without the name of the file."""
    data = "\n".join(map(json.dumps, bodies)).encode()
    return [
        str(problem).removeprefix("f.json: ")
        for problem in check_file("f.json", data, find_plugins().registry).problems
    ]


def workload(
    kind: str = "Deployment",
    *,
    own: Mapping[str, str] | None = None,
    pods: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    scheduler: str = "custom-scheduler",
    **spec: Any,
) -> dict[str, Any]:
    """A workload with these annotations of its own and of its pods, and these labels of its pods."""
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "a", **(labels or {})}, "annotations": dict(pods or {})},
        "spec": {"containers": CONTAINERS, "schedulerName": scheduler},
    }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": PATHS[kind].removeprefix("apis/").removeprefix("api/"),
        "kind": kind,
        "metadata": {"name": "w", "annotations": dict(own or {})},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **spec},
    }


def pod(
    annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": "p", "annotations": dict(annotations or {}), "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": CONTAINERS, **spec}}


def node(**labels: str) -> dict[str, Any]:
    written = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": written}}


# --- selectors ---

UNSELECTED: dict[str, Any] = {"selector": None}
SELECTORS: Mapping[str, tuple[dict[str, Any], str]] = {
    **{
        f"{kind}: {name}": (workload(kind, **spec), said)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
        for name, spec, said in (
            ("none", UNSELECTED, "is missing; write matchLabels: {app: a}"),
            ("empty", {"selector": {}}, "is empty; write matchLabels: {app: a}"),
            (
                "another",
                {"selector": {"matchLabels": {"app": "b"}}},
                "does not match spec.template.metadata.labels; write matchLabels: {app: a}",
            ),
            ("its own", {}, ""),
        )
    },
    "ReplicationController: none": (workload("ReplicationController", **UNSELECTED), ""),
    "ReplicationController: another": (workload("ReplicationController", selector={"app": "b"}), "does not match"),
    "Job: none": (workload("Job", **UNSELECTED), ""),
    "Job: none by hand": (workload("Job", selector=None, manualSelector=True), "is missing"),
    "Job: another by hand": (
        workload("Job", selector={"matchLabels": {"app": "b"}}, manualSelector=True),
        "does not match",
    ),
    "Job: its own by hand": (workload("Job", manualSelector=True), ""),
}


@pytest.mark.parametrize("case", SELECTORS)
def test_a_workload_must_select_its_own_pods(case: str) -> None:
    """The line says what to write."""
    body, wanted = SELECTORS[case]
    found = findings(body)
    assert bool(found) == bool(wanted)
    if wanted:
        assert len(found) == 1
        assert found[0].startswith(f"{body['kind']} default/w: spec.selector: ")
        assert wanted in found[0]


def test_the_api_server_refuses_the_same_selectors(control_plane: ControlPlane) -> None:
    """What is found is refused, what is not found is accepted."""
    for case, (body, wanted) in SELECTORS.items():
        written = {**body, "spec": {key: value for key, value in body["spec"].items() if value is not None}}
        if body["kind"] == "StatefulSet":
            written["spec"]["serviceName"] = "w"
        kind = f"{body['kind'].lower()}s"
        where = f"/{PATHS[body['kind']]}/namespaces/default/{kind}?dryRun=All"
        assert (control_plane.request("POST", where, written).status == 422) == bool(wanted), case


# --- keys ---

STRAY: Mapping[str, tuple[dict[str, Any], str]] = {
    "name of the first": (workload(own={"controller-spread-scheduler/min-host": "3"}), f"did you mean {HOSTS}?"),
    "prefix of the first": (workload(own={"controller-spread-schedular/min-hosts": "3"}), f"did you mean {HOSTS}?"),
    "no prefix": (workload(own={"min-hosts": "3"}), "did you mean moorage.dev/min-hosts?"),
    "priority": (workload(pods={"priorty": "3"}), "did you mean priority?"),
    "case": (pod({"Pod-Group": "g"}, schedulerName="custom-scheduler"), "did you mean pod-group?"),
    "one word": (workload(pods={"podgroup": "g"}), "did you mean pod-group?"),
    "strategy": (workload(own={"smart-scheduler.io/scheduling-strategy": RULE}), f"did you mean {STRATEGY}?"),
    "prefix of the strategy": (workload(own={"smart-scheduler/schedule-strategy": RULE}), f"did you mean {STRATEGY}?"),
    "our own": (workload(pods={"moorage.dev/pod-grup": "g"}), "did you mean moorage.dev/pod-group?"),
    "capacity": (node(node_kubernetes_io__capcity="spot"), f"did you mean {SPOT}?"),
    "capacity type": (node(node_kubernetes_io__capacityType="spot"), f"did you mean {SPOT}?"),
    "value of the capacity": (node(node_kubernetes_io__capacity="ondemand"), "write spot or on-demand"),
    "gang label": (pod(labels={"scheduling.x-k8s.io/podgroup": "g"}), "did you mean scheduling.x-k8s.io/pod-group?"),
    "schedulerName": (pod(schedulername="custom-k8s-scheduler"), "did you mean schedulerName?"),
}


@pytest.mark.parametrize("case", STRAY)
def test_misspelt_keys_of_every_system(case: str) -> None:
    """One line, with the key that was meant."""
    body, wanted = STRAY[case]
    (found,) = findings(body)
    assert wanted in found


STRANGERS = {
    "other prefixes": workload(own={"example.com/min-hosts": "3", "example.com/schedule-strategy": "x"}),
    "other names": workload(
        own={"team": "a", "prometheus.io/scrape": "true"}, pods={"spot": "x", "checksum/config": "1"}
    ),
    "a priority that is not for us": workload(
        own={"priority": "1"}, labels={"priority": "2"}, scheduler="default-scheduler"
    ),
    "labels of nodes": node(node_kubernetes_io__instanceType="m5", kubernetes_io__arch="arm64"),
    "a long key": workload(own={f"moorage.dev/{'min-hosts' * 100}": "3"}),
    "levels of a pod group": {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "annotations": {f"moorage.dev/{key}": "[]" for key in ("topology-slices", "subgroups")},
        },
        "spec": {"minMember": 2},
    },
    "both places": workload(own={PRIORITY: "1", HOSTS: "2"}, pods={PRIORITY: "1", HOSTS: "2"}),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_keys_of_others_are_left_alone(case: str) -> None:
    """Others' annotations and labels are no mistakes."""
    assert findings(STRANGERS[case]) == []


def test_what_moorage_writes_is_no_misspelling() -> None:
    """Its own notes on pods and nodes are not near to anything that users write."""
    assert [key for key in OTHERS if meant_key(key, _KNOWN)] == []


CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "w", "annotations": {GROUP: "g"}},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {"spec": workload("Job", pods={HOSTS: "2"}, **UNSELECTED)["spec"]},
    },
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "w", "annotations": {HOSTS: "2"}}, "spec": {}}
MISPLACED: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "of the controller, on its pods": (
        workload(pods={HOSTS: "2"}),
        [f"spec.template.metadata.annotations[{HOSTS}]", "is not read here; it belongs in metadata.annotations"],
    ),
    "of the controller, on a pod": (
        pod({HOSTS: "2"}),
        [f"metadata.annotations[{HOSTS}]", "it belongs in metadata.annotations of the workload that makes the pod"],
    ),
    "of pods, on the controller": (
        workload(own={PRIORITY: "5"}),
        ["metadata.annotations[priority]", "is not read here; it belongs in spec.template.metadata.annotations"],
    ),
    "a gang, on the controller": (workload(own={GROUP: "g"}), ["it belongs in spec.template.metadata.annotations"]),
    "as a label of pods": (
        workload(labels={PRIORITY: "5"}),
        ["labels[priority]", "is an annotation, not a label; it belongs in spec.template.metadata.annotations"],
    ),
    "of the controller, as a label of pods": (
        workload(labels={HOSTS: "2"}),
        ["is an annotation, not a label; it belongs in metadata.annotations"],
    ),
    "a label as an annotation": (
        workload(pods={"scheduling.x-k8s.io/pod-group": "g"}),
        ["is a label, not an annotation; it belongs in spec.template.metadata.labels"],
    ),
    "on another kind": (SERVICE, ["it belongs in metadata.annotations of a workload or its pod template"]),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_annotations_on_the_wrong_object(case: str) -> None:
    """One line, with the place where it belongs."""
    body, wanted = MISPLACED[case]
    (found,) = findings(body)
    for part in wanted:
        assert part in found


def test_annotations_at_the_wrong_places_of_a_cron_job() -> None:
    """The template of the pods is two levels down."""
    found = findings(CRON_JOB)
    assert len(found) == 2
    assert "it belongs in spec.jobTemplate.spec.template.metadata.annotations" in found[0]
    assert found[1].endswith("it belongs in metadata.annotations")


# --- configuration in ConfigMaps ---

PROFILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def config_map(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "kube-system"},
        "data": data,
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(f"{PROFILE}parallelism: -1\n", "parallelism: -1: ", id="a value"),
        pytest.param(f"{PROFILE}profile: []\n", "profile", id="a field"),
        pytest.param(f"{PROFILE}profiles: [\n", "not YAML", id="no YAML"),
        pytest.param(
            "apiVersion: moorage.dev/v1alpha1\nkind: KeperConfiguration\n", "KeeperConfiguration", id="a kind"
        ),
    ],
)
def test_configuration_in_a_config_map_is_looked_into(text: str, wanted: str) -> None:
    """The line names the ConfigMap and its entry."""
    (found,) = findings(config_map(config=text, other="x: ["))
    assert found.startswith("ConfigMap kube-system/m: data[config]:")
    assert wanted in found


def test_other_config_maps_are_not_looked_into() -> None:
    """Only one with a configuration counts as looked into, and a good one is good."""
    data = f"{json.dumps(config_map(a='x: ['))}\n{json.dumps(config_map(config=PROFILE))}".encode()
    found = check_file("f", data, find_plugins().registry)
    assert (found.checked, found.problems, found.unread) == (1, [], {"ConfigMap": 1})
