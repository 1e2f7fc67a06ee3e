"""What is taken from files, and what is said about the rest."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.checks import check_file
from moorage.sim.inputs import read_cluster
from moorage.wire.manifests import parse_manifests

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p%s}
spec:
  containers: [{name: c, image: x%s}]
%s
"""
OWNER = """
apiVersion: %s
kind: %s
metadata: {name: web%s}
spec:
  selector: {matchLabels: {a: b}}
  %s
"""


def problems(text: str) -> list[str]:
    """What `simulate` would refuse."""
    return [str(problem) for problem in read_cluster(parse_manifests("c.yaml", text.encode())).problems]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(
            POD % ("", ", resources: {requests: {cpu: 12qi}}", ""),
            ["c.yaml", "Pod default/p", "spec.containers[0].resources.requests.cpu", "12qi", "500m"],
            id="quantity of a request",
        ),
        pytest.param(
            POD % ("", ", resources: {limits: {cpu: 12qi}}", ""),
            ["c.yaml", "Pod default/p", "spec.containers[0].resources.limits.cpu", "12qi", "500m"],
            id="quantity of a limit",
        ),
        pytest.param(
            POD % ("", "", "  tolerations: [{key: a, operator: Maybe}]"),
            ["c.yaml", "Pod default/p", "spec.tolerations[0].operator", "Maybe", "Exists"],
            id="operator of a toleration",
        ),
        pytest.param(
            POD % ("", "", "  nodeSelector: {a: 1}"),
            ["c.yaml", "Pod default/p", "spec.nodeSelector.a", "1"],
            id="label that is not text",
        ),
        pytest.param(
            OWNER
            % ("apps/v1", "Deployment", "", "template: {spec: {containers: [{resources: {requests: {cpu: x}}}]}}"),
            ["c.yaml", "Deployment default/web", "spec.template.spec.containers[0].resources.requests.cpu", "'x'"],
            id="quantity in a template",
        ),
        pytest.param(
            OWNER % ("apps/v1", "DaemonSet", "", "template: {spec: {containers: [{resources: {limits: {cpu: x}}}]}}"),
            ["c.yaml", "DaemonSet default/web", "spec.template.spec.containers[0].resources.limits.cpu", "'x'"],
            id="limit in a template",
        ),
        pytest.param(
            OWNER % ("batch/v1", "CronJob", "", "jobTemplate: {spec: {template: {spec: {containers: 3}}}}"),
            ["c.yaml", "CronJob default/web", "spec.jobTemplate.spec.template.spec.containers", "3"],
            id="containers of a cron job",
        ),
        pytest.param(
            OWNER
            % ("apps/v1", "StatefulSet", "", "volumeClaimTemplates: [{metadata: {name: d}, spec: {resources: 1}}]"),
            ["c.yaml", "StatefulSet default/web", "spec.volumeClaimTemplates[0].spec.resources", "1"],
            id="claim template",
        ),
        pytest.param(
            OWNER % ("apps/v1", "StatefulSet", "", "volumeClaimTemplates: [7]"),
            ["c.yaml", "StatefulSet default/web", "spec.volumeClaimTemplates[0]", "7"],
            id="claim template that is none",
        ),
        pytest.param(
            OWNER % ("apps/v1", "Deployment", "", "replicas: -1"),
            ["c.yaml", "Deployment default/web", "spec.replicas", "-1"],
            id="negative replicas",
        ),
        pytest.param(
            POD % ("", "", "  tolerations: [{operator: Equal, value: x}]"),
            ["c.yaml", "Pod default/p", "spec.tolerations[0].operator", "Equal", "must be Exists"],
            id="toleration without key",
        ),
        pytest.param(
            POD % ("", "", "  tolerations: [{operator: Exists, effect: Never}]"),
            ["c.yaml", "Pod default/p", "spec.tolerations[0].effect", "Never", "NoExecute"],
            id="effect of a toleration",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Node, metadata: {name: n}, spec: {taints: [{key: a, effect: Never}]}}",
            ["c.yaml", "Node n", "spec.taints[0].effect", "Never", "NoExecute"],
            id="effect of a taint",
        ),
        pytest.param("a: [", ["c.yaml:", "not YAML"], id="broken YAML"),
        pytest.param("kind: Pod\napiVersion: v1", ["c.yaml", "metadata.name", "missing"], id="no name"),
        pytest.param("just text", ["c.yaml", "is not a Kubernetes object"], id="not an object"),
    ],
)
def test_bad_content_is_one_line(text: str, wanted: list[str]) -> None:
    """A problem names the file, the object, the field, the value and the remedy, in one line."""
    (line,) = problems(text)
    assert "\n" not in line
    for part in wanted:
        assert part in line


def test_all_problems_at_once() -> None:
    """Every document is looked at, whatever is wrong with the others."""
    bad = ", resources: {requests: {cpu: 12qi}}"
    found = problems("---".join([POD % (1, bad, ""), POD % (2, "", ""), POD % (3, bad, ""), "\na: [\n"]))
    assert len(found) == 3
    assert any("document 1" in line for line in found)
    assert any("document 3" in line for line in found)


def test_strange_kinds_are_counted() -> None:
    """Kinds that are not read are counted by kind, even without a name, and never fatal."""
    text = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: b}
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
"""
    found = read_cluster(parse_manifests("c.yaml", text.encode()))
    assert (found.problems, found.objects) == ([], [])
    assert found.ignored == {"Ingress": 2, "Kustomization": 1}


def test_groups_of_the_same_name() -> None:
    """Two PodGroups of different API groups cannot both live in a cluster of kinds; the second is left out, aloud."""
    text = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2}
"""
    found = read_cluster(parse_manifests("c.yaml", text.encode()))
    assert len(found.objects) == 1
    (warning,) = found.warnings
    assert "PodGroup default/g" in warning


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        pytest.param("moorage.dev/min-hosts", "3", None, id="min hosts"),
        pytest.param("moorage.dev/min-hosts", "0", "at least 1", id="no hosts"),
        pytest.param("controller-spread-scheduler/min-hosts", "many", "at least 1", id="hosts in words"),
        pytest.param("moorage.dev/min-hosts", "１", "at least 1", id="full-width digit"),
        pytest.param("moorage.dev/min-host", "1", "did you mean moorage.dev/min-hosts", id="misspelt"),
        pytest.param("example.com/min-hosts", "x", None, id="of others"),
        pytest.param("moorage.dev/on-demand-base", "0", None, id="none on on-demand"),
        pytest.param("moorage.dev/on-demand-base", "-1", "at least 0", id="fewer than none on on-demand"),
        pytest.param("moorage.dev/on-demand-base", "-0", "at least 0", id="a sign"),
    ],
)
def test_annotations_of_owners(key: str, value: str, wanted: str | None) -> None:
    """What a controller's annotations must look like."""
    annotated = f", annotations: {{{key}: '{value}'}}"
    spec = "template: {metadata: {labels: {a: b}}, spec: {}}"
    _check(OWNER % ("apps/v1", "Deployment", annotated, spec), f"metadata.annotations[{key}]", wanted)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        pytest.param("moorage.dev/priority", "-5", None, id="priority"),
        pytest.param("priority", "1_000", "whole number", id="priority with underscore"),
        pytest.param("moorage.dev/priority", "high", "whole number", id="priority in words"),
        pytest.param("moorage.dev/priority", "2147483648", "at most", id="priority too large"),
        pytest.param("moorage.dev/pod-group-min-available", "0", "at least 1", id="empty gang"),
        pytest.param("moorage.dev/pod-group-min-available", "12345678", "at least 1", id="huge gang"),
        pytest.param("pod-group", " ", "must not be empty", id="gang without name"),
        pytest.param("moorage.dev/run-seconds", "soon", "seconds", id="run time in words"),
        pytest.param("moorage.dev/run-seconds", "1.5", None, id="run time"),
        pytest.param("moorage.dev/spot", "never", None, id="never on spot"),
        pytest.param("moorage.dev/spot", "no", "write never", id="spot in other words"),
    ],
)
@pytest.mark.parametrize("where", ["pod", "template"])
def test_annotations_of_pods(where: str, key: str, value: str, wanted: str | None) -> None:
    """What a pod's annotations must look like, on the pod and in templates."""
    annotated = f"annotations: {{{key}: '{value}'}}"
    if where == "pod":
        _check(POD % (f", {annotated}", "", ""), f"metadata.annotations[{key}]", wanted)
    else:
        template = f"template: {{metadata: {{labels: {{a: b}}, {annotated}}}, spec: {{}}}}"
        _check(OWNER % ("batch/v1", "Job", "", template), f"spec.template.metadata.annotations[{key}]", wanted)


def _check(text: str, path: str, wanted: str | None) -> None:
    found: list[Any] = check_file("c.yaml", text.encode(), Registry(BUILTIN)).problems
    if wanted is None:
        assert found == []
    else:
        (line,) = map(str, found)
        assert path in line
        assert wanted in line


QUEUE_GROUPS = ("moorage.dev/v1alpha1", "scheduling.run.ai/v2", "scheduling.volcano.sh/v1beta1")


@pytest.mark.parametrize("groups", [each for count in (2, 3) for each in permutations(QUEUE_GROUPS, count)])
def test_of_queues_with_one_name_the_kind_decides(groups: tuple[str, ...]) -> None:
    """Moorage's takes the place of KAI's, which takes that of Volcano's, in whatever order they are written."""
    text = "---".join(f"\napiVersion: {group}\nkind: Queue\nmetadata: {{name: a}}\n" for group in groups)
    found = read_cluster(parse_manifests("c.yaml", text.encode()))
    want = min(groups, key=QUEUE_GROUPS.index)
    assert [body["apiVersion"] for body in found.objects] == [want]
    assert found.places["Queue", "", "a"].api_version == want
    assert len(found.warnings) == len(groups) - 1
    assert all("Queue a: is ignored; " in warning for warning in found.warnings)
    assert any(f"of {want}, takes its place" in warning for warning in found.warnings) == (groups[0] != want)
