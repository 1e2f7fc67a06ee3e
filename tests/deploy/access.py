"""Manifests that are applied for a test, and what their accounts may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from tests.deploy.chart import kubectl


@contextmanager
def applied(plane: ControlPlane, manifests: Path) -> Iterator[ControlPlane]:
    """An API server on which the manifests were applied, and nothing else."""
    kubectl(plane, "apply", "-f", str(manifests))
    yield plane
    kubectl(plane, "delete", "-f", str(manifests), "--wait=false")


def allowed(
    plane: ControlPlane, account: str, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
) -> bool:
    """Whether an account may do it."""
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    spec = {"user": account, "resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.status == 201, answer.content
    return bool(answer.json()["status"]["allowed"])
