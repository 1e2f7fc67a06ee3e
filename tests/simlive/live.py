"""A live cluster for files: API server, the real workload controllers, virtual kubelets, and `moorage scheduler`.

One file at a time: its nodes, then, once the scheduler knows them, its workloads in the order of the file, each when
those before it have their pods, as a simulation takes them. All at once is another story: the controllers then make
pods of several workloads in turn, as it happens. What comes of a file is read back, and all of it is deleted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import kubelet_thread
from tests.app.scheduling import scheduler
from tests.patience import eventually
from tests.simlive.files import HOSTNAME, KINDS, SCHEDULER, Object

PATIENCE_S = 120.0
CALM_S = 0.5
"""How long nothing must come any more: longer than a controller takes to see that an owner is gone."""
CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in (
        "deployment", "replicaset", "replicationcontroller", "statefulset", "daemonset", "job", "cronjob",
        "garbage-collector",
    )
)  # fmt: skip
PATHS = {
    "Node": "/api/v1/nodes",
    "Service": "/api/v1/namespaces/default/services",
    "ReplicationController": "/api/v1/namespaces/default/replicationcontrollers",
    **{
        kind: f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
    **{kind: f"/apis/batch/v1/namespaces/default/{kind.lower()}s" for kind in ("CronJob", "Job")},
    "Pod": "/api/v1/namespaces/default/pods",
}
"""Owners before what they own, so that these are not made again while they are deleted."""
API_VERSIONS = {
    kind: "v1" if path.startswith("/api/") else path.removeprefix("/apis/").partition("/namespaces")[0]
    for kind, path in PATHS.items()
}
_TRIED = re.compile(r'"?Attempting to schedule pod"?.*?pod="?default/([a-z0-9.-]+)')


class Rest(NamedTuple):
    """A file at rest in the cluster."""

    objects: list[Object]
    """Everything but pods, as the API server has it."""
    pods: list[Object]
    """In the order in which they were last tried."""


class Live:
    """The cluster; `play` brings one file to rest."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self._plane = plane
        self._log = log

    def play(self, objects: Sequence[Object], *, together: bool = False) -> Rest:
        """Create the objects, wait, read back; the cluster is empty before and after. `together`: all at once."""
        began = self._log.stat().st_size
        try:
            for each in objects:
                if each["kind"] == "Node":
                    self._create(each)
            self._await_nodes([each["metadata"]["name"] for each in objects if each["kind"] == "Node"])
            begun: list[Object] = []
            for each in objects:
                if each["kind"] != "Node":
                    self._create(each)
                    begun.append(each)
                    if not together:
                        self._at_rest(begun)
            pods = self._at_rest(begun)
            order = self._order(began, pods)
            pods.sort(key=lambda pod: order[pod["metadata"]["name"]])
            kinds = [kind for kind in PATHS if kind != "Pod"]
            return Rest([each for kind in kinds for each in self._list(kind)], pods)
        finally:
            self.clear()

    def clear(self) -> None:
        """Delete everything, and wait until it is gone and stays so: a controller may make one more pod meanwhile."""
        seen_s = time.monotonic()

        def gone() -> bool:
            nonlocal seen_s
            if self._deletes_any():
                seen_s = time.monotonic()
            return time.monotonic() - seen_s > CALM_S

        eventually(gone, PATIENCE_S, "everything is deleted")

    def _deletes_any(self) -> bool:
        """Delete what there is; whether there was anything."""
        left = False
        for kind, path in PATHS.items():
            for each in self._list(kind):
                name = each["metadata"]["name"]
                if name == "kubernetes":
                    continue
                left = True
                if each["metadata"].get("finalizers"):
                    self._plane.request("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}})
                how = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
                self._plane.request("DELETE", f"{path}/{name}", how)
        return left

    def _create(self, obj: Object) -> None:
        path = PATHS[obj["kind"]]
        answer = self._plane.request("POST", path, obj)
        assert answer.status == 201, answer.content
        if obj["kind"] == "CronJob":  # its time has been missed by an hour, so that the controller makes a Job at once
            due = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            name = f"{path}/{obj['metadata']['name']}/status"
            answer = self._plane.request("PATCH", name, {"status": {"lastScheduleTime": due}})
            assert answer.status == 200, answer.content

    def _await_nodes(self, names: Sequence[str]) -> None:
        """The scheduler knows all nodes when it has bound a pod for each; it forgets these before others come."""
        spec = {
            "schedulerName": SCHEDULER,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "registry.example/probe"}],
        }
        for name in names:
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"probe-{name}"},
                "spec": spec | {"nodeSelector": {HOSTNAME: name}},
            }
            self._create(pod)
        eventually(lambda: all(each["spec"].get("nodeName") for each in self._list("Pod")), PATIENCE_S, "probes")
        for name in names:
            self._plane.request("DELETE", f"{PATHS['Pod']}/probe-{name}", {"gracePeriodSeconds": 0})
        eventually(lambda: not self._list("Pod"), PATIENCE_S, "the probes are gone")

    def _at_rest(self, objects: Sequence[Object]) -> list[Object]:
        """All pods, once there are as many as there should be, and each runs or fits nowhere."""
        pods: list[Object] = []

        def rests() -> bool:
            pods[:] = self._list("Pod")
            return all(map(_settled, pods)) and all(self._is_complete(each, pods) for each in objects)

        eventually(rests, PATIENCE_S, lambda: sorted((each["metadata"]["name"], _settled(each)) for each in pods))
        return pods

    def _is_complete(self, obj: Object, pods: Sequence[Object]) -> bool:
        """Whether a workload has all of its pods, or the last one holds the others back."""
        kind, spec, name = obj["kind"], obj["spec"], obj["metadata"]["name"]
        if kind not in KINDS:
            return True
        own = [pod for pod in pods if top_name(pod["metadata"]["name"]) == name]
        if kind == "DaemonSet":
            status = self._plane.request("GET", f"{PATHS[kind]}/{name}").json().get("status", {})
            return "observedGeneration" in status and len(own) == int(status["desiredNumberScheduled"])
        if spec.get("podManagementPolicy") == "OrderedReady" and any(not pod["spec"].get("nodeName") for pod in own):
            return True
        job = spec.get("jobTemplate", obj)["spec"]
        wanted = min(job["parallelism"], job["completions"]) if "parallelism" in job else spec["replicas"]
        return len(own) == int(wanted)

    def _order(self, began: int, pods: Sequence[Object]) -> dict[str, tuple[int, str, str]]:
        """Pod -> the place of its last attempt among all attempts; that of a gang is told first of one of its pods."""
        with self._log.open("rb") as log:
            log.seek(began)
            text = log.read().decode()
        tried = {name: place for place, name in enumerate(_TRIED.findall(text))}
        places: dict[str, int] = {}
        for pod in pods:
            name, place = _unit(pod), tried.get(pod["metadata"]["name"], len(text))
            places[name] = min(place, places.get(name, place))
        return {
            pod["metadata"]["name"]: (
                places[_unit(pod)],
                pod["metadata"]["creationTimestamp"],
                pod["metadata"]["name"],
            )
            for pod in pods
        }

    def _list(self, kind: str) -> list[Object]:
        items: list[Any] = self._plane.request("GET", PATHS[kind]).json()["items"]
        return [{"apiVersion": API_VERSIONS[kind], "kind": kind, **each} for each in items]


def top_name(pod: str) -> str:
    """The name of the workload that a pod is called after."""
    return pod.partition("-")[0]


def _unit(pod: Object) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get("moorage.dev/pod-group") or pod["metadata"]["name"])


def _settled(pod: Object) -> bool:
    """Whether it runs, or was found to fit nowhere."""
    if pod["spec"].get("nodeName"):
        return bool(pod["status"].get("phase") == "Running")
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


@contextmanager
def live(folder: Path, profiles: Sequence[Object] = ({"schedulerName": SCHEDULER},)) -> Iterator[Live]:
    """The cluster, empty, and a scheduler with these profiles."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start())
        plane.start_controller_manager(f"--controllers={CONTROLLERS}", "--concurrent-cron-job-syncs=5")
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
        body = {"metadata": {"name": "simlive"}, "roleRef": role, "subjects": [user]}
        assert plane.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body).status == 201
        stack.enter_context(kubelet_thread(plane.admin_kubeconfig, adopt_all=True))
        file, log = folder / "config.yaml", folder / "scheduler.log"
        given = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [*profiles],
        }
        file.write_text(yaml.safe_dump(given))
        stack.enter_context(scheduler(plane, log, "--config", str(file), "--log-format=text", "-v", "4"))
        yield Live(plane, log)
