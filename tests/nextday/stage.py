"""One cell while it runs: its namespace and its nodes, what is done to them, and what is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletThread
from tests.nextday.auditor import Expected, Seen, is_answered, is_over
from tests.nextday.examples import Example
from tests.nextday.installation import Installation, kubectl, moorage
from tests.nextday.rules import Eviction
from tests.nextday.scene import Object, Scene, app_of, is_leaving, name_of, node_of
from tests.patience import eventually

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["delete", "create"],
            "resources": [{"group": "", "resources": ["pods", "pods/eviction"]}],
        },
        {"level": "None"},
    ],
}
"""Who deleted which pod."""
PATIENCE_S = 35.0
"""How long something that should go on may stand still before it is a breach: longer than any backoff and lease."""
BOUND_S = 180.0
"""How long a cell may go on and on."""
REST_S = 2.0
"""How long something that cannot go on must stand still until it is judged."""
LOOK_S = 0.2
IMAGE = "registry.example/app:v{}"
EXPLAINED = 2
WHOLES = ("deployments", "statefulsets")
WORKLOADS = (*WHOLES, "replicasets")
LEAVES = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
]
STRATEGIES: dict[str, Object] = {
    "default": {},
    "surge0": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    "surge100": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
    "recreate": {"type": "Recreate"},
}


@dataclass(slots=True)
class Stage:
    """A running cell."""

    plane: ControlPlane
    kubelet: KubeletThread
    installation: Installation
    example: Example
    capacity: str
    namespace: str
    rng: Random
    nodes: list[str] = field(default_factory=list)
    placed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Pods that ever had a node, their workloads and their nodes."""
    simulated: dict[str, list[int]] = field(default_factory=dict)
    """What `simulate` says about workloads, once it was asked."""

    # --- set-up ---

    def open(self) -> None:
        """Make the namespace and the nodes."""
        answer = self.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert answer.status == 201, answer.content
        nodes = [node for each in self.example.at(self.capacity) for node in each.nodes(self.namespace)]
        self.nodes = [node.name for node in nodes]
        self.kubelet.add_nodes(nodes)

    def close(self) -> None:
        """Take everything away."""
        for node in self.nodes:
            self.kubelet.revive(node)
        paths = (f"/apis/apps/v1/namespaces/{self.namespace}/{kind}" for kind in WORKLOADS)
        everything = [*paths, f"/api/v1/namespaces/{self.namespace}/pods"]
        eventually(lambda: not [self._emptied(path) for path in everything if self._emptied(path)], 60, "all is gone")
        self.kubelet.remove_nodes(self.nodes)

    def _emptied(self, path: str) -> int:
        items = self.plane.request("GET", path).json()["items"]
        for item in items:
            self.plane.request("DELETE", f"{path}/{name_of(item)}", {"gracePeriodSeconds": 0})
        return len(items)

    # --- what is done ---

    def deploy(
        self,
        app: str,
        replicas: int | None = None,
        *,
        strategy: str = "default",
        annotations: dict[str, str] | None = None,
        pod_annotations: dict[str, str] | None = None,
        selector: dict[str, str] | None = None,
        kind: str = "Deployment",
        **spec: Any,
    ) -> Object:
        """Create a workload of pods of one CPU each, like the samples of the example; returns its manifest."""
        container = {
            "name": "app",
            "image": IMAGE.format(1),
            "resources": {"requests": {"cpu": "1", "memory": "16Mi"}},
        }
        template_spec: Object = {
            "schedulerName": self.example.scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "tolerations": [*LEAVES, *spec.pop("tolerations", ())],
            **({"nodeSelector": selector} if selector else {}),
            **self.example.pod_spec,
            **spec,
        }
        marks = dict(self.example.pod_annotations) if pod_annotations is None else pod_annotations
        metadata = {"name": app, "namespace": self.namespace}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {**metadata, "annotations": dict(self.example.annotations) | (annotations or {})},
            "spec": {
                "replicas": self.example.replicas if replicas is None else replicas,
                "selector": {"matchLabels": {"app": app}},
                **({"strategy": STRATEGIES[strategy]} if kind == "Deployment" else {}),
                "template": {"metadata": {"labels": {"app": app}, "annotations": marks}, "spec": template_spec},
            },
        }
        self._post(f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s", body)
        return body

    def roll(self, app: str, kind: str = "deployment", **template: Any) -> None:
        """Start a rollout by another image, and by other fields of the template."""
        patch = {"containers": [{"name": "app", "image": IMAGE.format(2)}], **template.pop("spec", {})}
        body = json.dumps({"spec": {"template": {"spec": patch, **template}}})
        kubectl(self.plane, "patch", kind, app, "-n", self.namespace, "-p", body)

    def scale(self, app: str, replicas: int) -> None:
        """Set the number of replicas, by the subresource as an autoscaler does."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{app}/scale"
        assert self.plane.request("PATCH", path, {"spec": {"replicas": replicas}}).status == 200

    def annotate(self, app: str, **annotations: str) -> None:
        """Set annotations of a Deployment."""
        words = [f"{key}={value}" for key, value in annotations.items()]
        kubectl(self.plane, "annotate", "--overwrite", "deployment", app, "-n", self.namespace, *words)

    def patch_node(self, name: str, **spec: Any) -> None:
        """Change a node's spec."""
        assert self.plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": spec}).status == 200

    def label_node(self, name: str, **labels: str) -> None:
        """Set labels of a node."""
        body = {"metadata": {"labels": labels}}
        assert self.plane.request("PATCH", f"/api/v1/nodes/{name}", body).status == 200

    def delete_pod(self, pod: Object) -> None:
        """Delete a pod as its user would."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}"
        assert self.plane.request("DELETE", path).status in {200, 202}

    def evict(self, pod: Object) -> None:
        """Evict a pod as `kubectl drain` does."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name_of(pod), "namespace": self.namespace},
        }
        assert self.plane.request("POST", path, body).status == 201

    def remove_binding(self, name: str) -> None:
        """Take the rights of the example's accounts away."""
        kubectl(self.plane, "delete", "clusterrolebinding", name)

    def restore(self) -> None:
        """Apply the example's own files again."""
        self.installation.apply()

    def install_beside(self, namespace: str) -> None:
        """Apply the same files for another namespace, as `setup.sh NAMESPACE` writes them."""
        self.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.installation.apply_in(namespace)

    def _post(self, path: str, body: Object) -> None:
        answer = self.plane.request("POST", path, body)
        assert answer.status == 201, answer.content

    # --- what is seen ---

    def scene(self) -> Scene:
        """What there is now."""
        nodes = [node for node in self._items("/api/v1/nodes") if name_of(node) in self.nodes]
        where = f"namespaces/{self.namespace}"
        scene = Scene(
            nodes,
            [each for kind in WHOLES for each in self._items(f"/apis/apps/v1/{where}/{kind}")],
            self._items(f"/api/v1/{where}/pods"),
            self._items(f"/apis/events.k8s.io/v1/{where}/events"),
        )
        self.placed |= {name_of(pod): (app_of(pod), node_of(pod)) for pod in scene.pods if node_of(pod)}
        return scene

    def settle(self, expected: Expected) -> Seen:
        """Wait until what must come has come, or until nothing goes on any more; then ask the other components."""
        scene = self.rest(expected)
        explained, fits = {}, {}
        for pod in () if self.example.is_stock else scene.waiting()[:EXPLAINED]:
            explained[name_of(pod)], fits[name_of(pod)] = self.explain(pod)
        return Seen(
            scene=scene,
            evicted=self.evicted(),
            explained=explained,
            fits=fits,
            simulated={
                app: counts
                for app, counts in self.simulated.items()
                if any(each.app == app for each in expected.wanted)
            },
        )

    def rest(self, expected: Expected) -> Scene:
        """The scene that is judged."""
        began_s = still_s = time.monotonic()
        scene = self.scene()
        while (now_s := time.monotonic()) - began_s < BOUND_S:
            if now_s - still_s >= (REST_S if self._is_well(scene, expected) else PATIENCE_S):
                break
            time.sleep(LOOK_S)
            before, scene = scene, self.scene()
            if before.print() != scene.print():
                still_s = time.monotonic()
        return scene

    def _is_well(self, scene: Scene, expected: Expected) -> bool:
        """Whether nothing is left that anybody would have to do."""
        if any(map(is_leaving, scene.pods)) or not is_answered(scene):
            return False
        return is_over(scene, expected) and not self.example.rule.broken(scene)

    def logged(self) -> str:
        """What the processes of the example have said."""
        return "".join(child.log.read_text(errors="replace") for child in self.installation.children)

    def until(self, condition: Callable[[Scene], object], what: str, within_s: float = 60.0) -> None:
        """Wait for something in between."""
        eventually(lambda: condition(self.scene()), within_s, what)

    def explain(self, pod: Object) -> tuple[str, bool]:
        """What `moorage explain` says about a pod of the live cluster, and whether it finds a node for it."""
        flags = ("-n", self.namespace, "--config", self.installation.config, "-o", "json")
        done = moorage("explain", name_of(pod), *flags, "--kubeconfig", self.plane.admin_kubeconfig)
        if done.returncode:
            return done.stderr.strip(), False
        answer = json.loads(done.stdout)
        told = [answer.get("message") or "", *(each["text"] for each in answer.get("suggestions") or ())]
        return " ".join(told), answer.get("node") is not None

    def simulate(self, app: str, manifest: Object, scratch: Path, seeds: int = 8) -> None:
        """Ask `moorage simulate` about the nodes and a workload; the first answer that is like the live one is kept.

        What equal nodes get is a matter of chance in both.
        """
        nodes = [_bare(node) for node in self.scene().nodes]
        file = scratch / f"{self.namespace}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, manifest]}))
        live = _counts(node_of(pod) for pod in self.scene().of(app))
        for seed in range(seeds):
            words = ("-f", file, "--config", self.installation.config, "--seed", str(seed), "-o", "json")
            done = moorage("simulate", *words)
            assert done.returncode == 0, done.stderr
            self.simulated[app] = _counts(pod["node"] or "" for pod in json.loads(done.stdout)["pods"])
            if self.simulated[app] == live:
                return

    def evicted(self) -> list[Eviction]:
        """Pods that had a node and were deleted by the example's own accounts."""
        found = {}
        keepers = {each.user for each in self.installation.components if each.program == "keeper"}
        for line in self.plane.audit_log.read_text().splitlines():
            if self.namespace not in line or not line.endswith("}"):
                continue
            event = json.loads(line)
            about, user = event["objectRef"], event["user"]["username"]
            mine = about.get("namespace") == self.namespace and user in self.installation.users
            deletes = event["verb"] == "delete" or about.get("subresource") == "eviction"
            good = (event.get("responseStatus") or {}).get("code", 0) < 300
            if mine and deletes and good and about["name"] in self.placed:
                name = about["name"]
                found[name] = Eviction(name, *self.placed[name], by_keeper=user in keepers)
        return list(found.values())

    def _items(self, path: str) -> list[Object]:
        items: list[Object] = self.plane.request("GET", path).json()["items"]
        return items


def _counts(nodes: Iterator[str]) -> list[int]:
    found: dict[str, int] = {}
    for node in nodes:
        found[node] = found.get(node, 0) + 1
    return sorted(found.values(), reverse=True)


def _bare(node: Object) -> Object:
    """A node as its owner would write it."""
    meta = {"name": name_of(node), "labels": node["metadata"]["labels"]}
    status = {"allocatable": node["status"]["allocatable"], "capacity": node["status"]["capacity"]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": node["spec"], "status": status}
