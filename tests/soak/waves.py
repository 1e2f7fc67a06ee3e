"""What a soak creates and deletes: waves of nodes and workloads of which no name, label, taint or selector comes twice.

Pure: a wave follows from its number. Whatever of it a process still knows after its objects are gone is a leak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moorage.bench.virtualnodes import VirtualNode

NAMESPACE = "soak"
SCHEDULER = "moorage"
NODES_PER_WAVE = 8
STORAGE_CLASS = "soak-static"
STRATEGY = "smart-scheduler.io/schedule-strategy"
_CAPACITY = "node.kubernetes.io/capacity"
_HOSTNAME = "kubernetes.io/hostname"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave; everything in it carries its number."""

    number: int

    @property
    def nodes(self) -> list[VirtualNode]:
        """Half of them spot, each with a taint, a label key and a resource that only this wave has."""
        return [
            VirtualNode(
                name=f"w{self.number}-n{index}",
                zone=f"z{self.number}-{index % 3}",
                capacity={"cpu": "8", "memory": "32Gi", "pods": "110", f"soak.example/r{self.number}": "64"},
                labels={
                    "soak.example/wave": str(self.number),
                    f"soak.example/k{self.number}": str(index),
                    _CAPACITY: "spot" if index % 2 else "on-demand",
                },
                taints=[self.taint(index, 0)],
            )
            for index in range(NODES_PER_WAVE)
        ]

    def taint(self, index: int, beat: int) -> dict[str, str]:
        """A taint as an autoscaler writes it, with a time in it."""
        return {
            "key": f"soak.example/candidate-{self.number}",
            "value": f"{self.number}-{index}-{beat}",
            "effect": "PreferNoSchedule",
        }

    def node_patch(self, index: int, beat: int) -> Object:
        """What changes on a node while it lives: its taint, a label, an annotation."""
        return {
            "metadata": {
                "labels": {"soak.example/beat": f"{self.number}-{index}-{beat}"},
                "annotations": {"soak.example/beat": f"{self.number}-{beat}"},
            },
            "spec": {"taints": [self.taint(index, beat)]},
        }

    def pod_patch(self, beat: int) -> Object:
        """What changes on a pod while it runs."""
        return {"metadata": {"labels": {"soak.example/beat": f"{self.number}-{beat}"}}}

    @property
    def objects(self) -> list[tuple[str, Object]]:
        """Collections and what to create in them, in this order; namespaced ones go with the selector of the wave."""
        apps, core = f"/apis/apps/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"
        policies = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
        return [
            (f"{apps}/deployments", self._deployment("plain", 6, spread=True)),
            (f"{apps}/deployments", self._deployment("apart", 5, apart=True)),
            (f"{apps}/deployments", self._deployment("split", 6, annotations={STRATEGY: self._strategy()})),
            (f"{apps}/deployments", self._deployment("gang", 4, gang=True)),
            (policies, self._budget()),
            ("/api/v1/persistentvolumes", self._volume()),
            (f"{core}/persistentvolumeclaims", self._claim()),
            (f"{core}/pods", self._pod("claims", volumes=[_claimed(f"w{self.number}-claim")])),
            (f"{core}/pods", self._pod("nowhere", nodeSelector={"soak.example/no": str(self.number)})),
            (f"{core}/pods", self._pod("unknown", request={f"soak.example/u{self.number}": "1"})),
        ]

    @property
    def selector(self) -> str:
        """A label selector for the wave's objects."""
        return f"soak.example/wave={self.number}"

    def _strategy(self) -> str:
        spot = f"weight={1 + self.number % 50},nodeSelector={_CAPACITY}:spot"
        return f"base=1,weight=1,nodeSelector={_CAPACITY}:on-demand;{spot}"

    def _labels(self, name: str) -> dict[str, str]:
        return {"soak.example/wave": str(self.number), "app": f"w{self.number}-{name}"}

    def _meta(self, name: str, **more: Any) -> Object:
        return {"name": f"w{self.number}-{name}", "labels": self._labels(name), **more}

    def _spec(self, request: dict[str, str] | None = None, **more: Any) -> Object:
        requests = {"cpu": "100m", "memory": "64Mi", **(request or {})}
        resources = {"requests": requests, "limits": dict(request or {})}
        return {
            "schedulerName": SCHEDULER,
            "nodeSelector": {"soak.example/wave": str(self.number)},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": f"registry.example/app:w{self.number}", "resources": resources}],
            **more,
        }

    def _pod(self, name: str, **spec: Any) -> Object:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._meta(name), "spec": self._spec(**spec)}

    def _deployment(
        self,
        name: str,
        replicas: int,
        *,
        annotations: dict[str, str] | None = None,
        spread: bool = False,
        apart: bool = False,
        gang: bool = False,
    ) -> Object:
        matched = {"labelSelector": {"matchLabels": self._labels(name)}}
        spec = self._spec({f"soak.example/r{self.number}": "1"} if spread else None)
        if spread:
            limits = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [limits | matched]
        if apart:
            term = {"topologyKey": _HOSTNAME, **matched}
            near = {"weight": 10, "podAffinityTerm": {"topologyKey": "topology.kubernetes.io/zone", **matched}}
            spec["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]},
            }
        group = {"moorage.dev/pod-group": f"w{self.number}-gang", "moorage.dev/pod-group-min-available": str(replicas)}
        template = {"metadata": {"labels": self._labels(name), "annotations": group if gang else {}}, "spec": spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self._meta(name, annotations=annotations or {}),
            "spec": {"replicas": replicas, "selector": {"matchLabels": self._labels(name)}, "template": template},
        }

    def _budget(self) -> Object:
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": self._labels("plain")}}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": self._meta("plain"), "spec": spec}

    def _volume(self) -> Object:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": f"/soak/{self.number}"},
        }
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": self._meta("volume"), "spec": spec}

    def _claim(self) -> Object:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": STORAGE_CLASS,
        }
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": self._meta("claim"), "spec": spec}


def _claimed(name: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}
