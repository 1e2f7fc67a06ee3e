"""The real API server for worlds: its kinds, what it shows in the order of its versions, and what is done to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from moorage.bench.apiserver import Options
from moorage.bench.controlplane import ControlPlane
from tests.crossings.bodies import Body

PLANE = Options(feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1beta1": True})
CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in (
        "deployment", "replicaset", "statefulset", "daemonset", "job", "garbage-collector", "disruption",
        "resourceclaim", "persistentvolume-binder", "ephemeral-volume",
    )
)  # fmt: skip


class Route(NamedTuple):
    """Where objects of a kind are."""

    group: str
    plural: str
    namespaced: bool = True

    def everywhere(self) -> str:
        """All of them."""
        return f"{self.group}/{self.plural}"

    def inside(self, namespace: str) -> str:
        """Those of a namespace."""
        return f"{self.group}/namespaces/{namespace}/{self.plural}" if self.namespaced else self.everywhere()


_APPS, _DEVICES, _STORAGE, _OURS = (
    "/apis/apps/v1",
    "/apis/resource.k8s.io/v1",
    "/apis/storage.k8s.io/v1",
    "/apis/moorage.dev/v1alpha1",
)
ROUTES: Mapping[tuple[str, str], Route] = {
    ("apps/v1", "Deployment"): Route(_APPS, "deployments"),
    ("apps/v1", "ReplicaSet"): Route(_APPS, "replicasets"),
    ("apps/v1", "StatefulSet"): Route(_APPS, "statefulsets"),
    ("apps/v1", "DaemonSet"): Route(_APPS, "daemonsets"),
    ("batch/v1", "Job"): Route("/apis/batch/v1", "jobs"),
    ("v1", "Pod"): Route("/api/v1", "pods"),
    ("v1", "Namespace"): Route("/api/v1", "namespaces", namespaced=False),
    ("v1", "PersistentVolumeClaim"): Route("/api/v1", "persistentvolumeclaims"),
    ("v1", "PersistentVolume"): Route("/api/v1", "persistentvolumes", namespaced=False),
    ("storage.k8s.io/v1", "StorageClass"): Route(_STORAGE, "storageclasses", namespaced=False),
    ("resource.k8s.io/v1", "DeviceClass"): Route(_DEVICES, "deviceclasses", namespaced=False),
    ("resource.k8s.io/v1", "ResourceSlice"): Route(_DEVICES, "resourceslices", namespaced=False),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): Route(_DEVICES, "resourceclaimtemplates"),
    ("resource.k8s.io/v1", "ResourceClaim"): Route(_DEVICES, "resourceclaims"),
    ("policy/v1", "PodDisruptionBudget"): Route("/apis/policy/v1", "poddisruptionbudgets"),
    ("scheduling.k8s.io/v1", "PriorityClass"): Route("/apis/scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    ("scheduling.k8s.io/v1beta1", "PodGroup"): Route("/apis/scheduling.k8s.io/v1beta1", "podgroups"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): Route("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
    ("moorage.dev/v1alpha1", "Queue"): Route(_OURS, "queues", namespaced=False),
    ("moorage.dev/v1alpha1", "Topology"): Route(_OURS, "topologies", namespaced=False),
    ("events.k8s.io/v1", "Event"): Route("/apis/events.k8s.io/v1", "events"),
    ("v1", "Node"): Route("/api/v1", "nodes", namespaced=False),
}
"""Workloads first and nodes last, as they are deleted."""
_BY_KIND = {kind: route for (_, kind), route in ROUTES.items()}
_SYSTEM = ("system-", "kube-", "default")


class Shown(NamedTuple):
    """A change that the API server shows."""

    version: int
    kind: str
    old: Body | None
    new: Body | None


class RealServer:
    """One API server, followed by short watches that begin where the last ones ended."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._pool = ThreadPoolExecutor(len(ROUTES))
        self._known: dict[tuple[str, str], dict[str, Body]] = {each: {} for each in ROUTES}
        self._since = dict.fromkeys(ROUTES, "")

    def changes(self) -> list[Shown]:
        """What has happened since the last call, in order; it takes a second."""
        found = [each for shown in self._pool.map(self._follow, ROUTES) for each in shown]
        return sorted(found, key=lambda each: each.version)

    def _follow(self, about: tuple[str, str]) -> list[Shown]:
        path = ROUTES[about].everywhere()
        if not self._since[about]:
            listed = self.plane.request("GET", path).json()
            self._since[about] = listed["metadata"]["resourceVersion"]
        since = self._since[about]
        answer = self.plane.request("GET", f"{path}?watch=true&resourceVersion={since}&timeoutSeconds=1")
        found: list[Shown] = []
        for line in answer.content.splitlines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                self._since[about] = ""
                break
            found += self._note(about, event)
        return found

    def _note(self, about: tuple[str, str], event: Body) -> Iterator[Shown]:
        api_version, kind = about
        new: Body = {"apiVersion": api_version, "kind": kind, **event["object"]}
        uid, version = new["metadata"]["uid"], new["metadata"]["resourceVersion"]
        self._since[about] = version
        known = self._known[about]
        old = known.pop(uid, None)
        gone = event["type"] == "DELETED"
        if not gone:
            known[uid] = new
        if kind != "Namespace" or not new["metadata"]["name"].startswith(_SYSTEM):
            yield Shown(int(version), kind, old or (new if gone else None), None if gone else new)

    # --- requests ---

    def create(self, obj: Body) -> None:
        """Create an object, with its status where that is another request."""
        route = ROUTES[obj["apiVersion"], obj["kind"]]
        path = route.inside(obj["metadata"].get("namespace", ""))
        given = {**obj, "metadata": {**obj["metadata"]}}
        answer = self.plane.request("POST", path, given)
        assert answer.status in (201, 409), answer.content
        if obj["kind"] == "ResourceClaim" and obj.get("status"):
            self.plane.request("PATCH", f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})

    def patch(self, deed: Body, subresource: str = "") -> None:
        """Merge a patch into an object, or its status."""
        path = f"{_BY_KIND[deed['kind']].inside(deed.get('namespace', ''))}/{deed['name']}{subresource}"
        self.plane.request("PATCH", path, {"status": deed["patch"]} if subresource else deed["patch"])

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object."""
        how = {"propagationPolicy": "Background"}
        self.plane.request("DELETE", f"{_BY_KIND[kind].inside(namespace)}/{name}", how)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """As another scheduler does it."""
        binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.plane.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)

    def listed(self, kind: str) -> list[Body]:
        """All objects of a kind, of every group that has it."""
        found: list[Any] = []
        for (_, name), route in ROUTES.items():
            if name == kind:
                found += self.plane.request("GET", route.everywhere()).json()["items"]
        return [each for each in found if not each["metadata"]["name"].startswith(_SYSTEM)]

    def clear(self) -> bool:
        """Delete what is left; whether there was anything."""
        left = False
        for (_, kind), route in ROUTES.items():
            items = self.plane.request("GET", route.everywhere()).json()["items"]
            for each in items:
                metadata = each["metadata"]
                if metadata["name"].startswith(_SYSTEM) or kind == "Event":
                    continue
                left = True
                path = f"{route.inside(metadata.get('namespace', ''))}/{metadata['name']}"
                if metadata.get("finalizers") and kind != "Namespace":
                    self.plane.request("PATCH", path, {"metadata": {"finalizers": None}})
                self.plane.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        return left
