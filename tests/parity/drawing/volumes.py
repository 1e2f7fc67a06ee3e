"""Questions of volumes: claims of every kind, zones, limits of drivers, storage capacity."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.drawing.nodes import HOSTNAME, ZONE
from tests.parity.questions import MARK, Object, Question, Step

DRIVER = f"{MARK}csi.example.com"
STORAGE = "storage.k8s.io/v1"
SIZES = ("1Gi", "2Gi", "5Gi", "10Gi")
IMMEDIATE, WAIT, LOCAL, NEVER = f"{MARK}imm", f"{MARK}wait", f"{MARK}local", f"{MARK}never"


class _Volumes:
    """What has been drawn so far."""

    def __init__(self, random: Random, nodes: list[str]) -> None:
        self.random = random
        self.nodes = nodes
        self.objects: list[Object] = []
        self.claims = 0
        self.volumes = 0

    def claim(self, kind: str) -> str:
        """Draw a claim of a kind, with the volumes behind it; its name."""
        name = f"{MARK}claim{self.claims}"
        self.claims += 1
        if kind == "missing":
            return name
        mode = "ReadWriteOncePod" if kind == "single" else "ReadWriteOnce"
        storage_class = {"wait": WAIT, "local": LOCAL, "never": NEVER}.get(kind, IMMEDIATE)
        claim = _claim(name, storage_class, self.random.choice(SIZES), mode)
        if kind in ("bound", "single"):
            self._bind(claim)
        elif kind == "lost":
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            claim["spec"]["volumeName"] = f"{MARK}gone"
            claim["status"] = {"phase": "Lost"}
        self.objects.append(claim)
        return name

    def _bind(self, claim: Object) -> None:
        volume = self.volume(IMMEDIATE, claim["spec"]["resources"]["requests"]["storage"])
        metadata = claim["metadata"]
        volume["spec"]["accessModes"] = claim["spec"]["accessModes"]
        volume["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
        }
        volume["status"] = {"phase": "Bound"}
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["status"] = {
            "phase": "Bound",
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        }

    def volume(self, storage_class: str, size: str) -> Object:
        """Draw a volume: a disk of the driver in a zone, or a local one."""
        random, name = self.random, f"{MARK}pv{self.volumes}"
        self.volumes += 1
        labels: dict[str, str] = {}
        spec: dict[str, Any] = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        }
        local = storage_class == LOCAL or random.random() < 0.3
        if local:
            spec["local"] = {"path": "/data"}
        else:
            spec["csi"] = {"driver": DRIVER, "volumeHandle": name}
            if random.random() < 0.4:
                labels[ZONE] = random.choice(("a", "b", "c", "a__b"))
        if local or random.random() < 0.6:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._term(by_host=local)]}}
        volume: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"phase": "Available"},
        }
        self.objects.append(volume)
        return volume

    def _term(self, *, by_host: bool) -> Object:
        random = self.random
        if by_host and random.random() < 0.7:
            key, values = HOSTNAME, random.sample(self.nodes, random.randint(1, min(2, len(self.nodes))))
        else:
            key, values = ZONE, random.sample("abc", random.randint(1, 2))
        return {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}


def draw_volumes(seed: int) -> Question:
    """One question."""
    random = Random(seed)
    names = [f"{MARK}n{i}" for i in range(random.randint(1, 6))]
    found = _Volumes(random, names)
    for _ in range(random.randrange(5)):
        found.volume(LOCAL, random.choice((*SIZES, "20Gi")))
    shared: list[str] = []
    bound = [_bound(random, found, number, names, shared) for number in range(random.randrange(2 * len(names)))]
    kinds = ("bound",) * 6 + ("single",) * 3 + ("wait",) * 5 + ("local",) * 5 + ("never", "lost", "missing")
    claims = [found.claim(random.choice(kinds)) for _ in range(random.choice((1, 1, 2, 3)))]
    if shared and random.random() < 0.25:
        claims.append(random.choice(shared))
    pod = _pod(f"{MARK}p", random.choice(("100m", "500m", "1", "2")), list(dict.fromkeys(claims)))
    pod["spec"]["schedulerName"] = "default-scheduler"
    nodes = [_node(random, name) for name in names]
    drivers = [_csi_node(random, name) for name in names if random.random() < 0.8]
    objects = [*nodes, *drivers, *_classes(random), *_capacities(random), *found.objects, *bound]
    return Question(seed, "volumes", objects, [Step(pod)])


def _bound(random: Random, found: _Volumes, number: int, nodes: list[str], shared: list[str]) -> Object:
    claims = [found.claim(random.choice(("bound", "bound", "single"))) for _ in range(random.choice((0, 1, 1, 2)))]
    shared += claims
    pod = _pod(f"{MARK}e{number}", random.choice(("100m", "500m", "1")), claims)
    pod["spec"]["nodeName"] = random.choice(nodes)
    pod["status"] = {"phase": "Running"}
    return pod


def _pod(name: str, cpu: str, claims: list[str]) -> Object:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            "volumes": volumes,
        },
    }


def _claim(name: str, storage_class: str, size: str, mode: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Pending"},
    }


def _node(random: Random, name: str) -> Object:
    labels = {HOSTNAME: name}
    if random.random() < 0.9:
        labels[ZONE] = random.choice("abc")
    amounts = {"cpu": random.choice(("2", "4")), "memory": "8Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _csi_node(random: Random, name: str) -> Object:
    driver: Object = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    if random.random() < 0.6:
        driver["allocatable"] = {"count": random.choice((1, 2, 3))}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def _classes(random: Random) -> list[Object]:
    driver_spec: Object = {"attachRequired": True, "storageCapacity": random.random() < 0.4}
    if random.random() < 0.15:
        driver_spec["preventPodSchedulingIfMissing"] = True
    found: list[Object] = [
        {"apiVersion": STORAGE, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": driver_spec}
    ]
    for name, provisioner, mode in (
        (IMMEDIATE, DRIVER, "Immediate"),
        (WAIT, DRIVER, "WaitForFirstConsumer"),
        (LOCAL, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        # Bound at once if at all; nobody makes such volumes, so claims of it stay as they are on both sides.
        (NEVER, "kubernetes.io/no-provisioner", "Immediate"),
    ):
        found.append(
            {
                "apiVersion": STORAGE,
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": mode,
            }
        )
    if random.random() < 0.3:
        values = random.sample("abc", random.randint(1, 2))
        found[2]["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]
    return found


def _capacities(random: Random) -> list[Object]:
    found: list[Object] = []
    for zone in "abc":
        if random.random() < 0.35:
            capacity: Object = {
                "apiVersion": STORAGE,
                "kind": "CSIStorageCapacity",
                "metadata": {"name": f"{MARK}room-{zone}", "namespace": "default"},
                "storageClassName": WAIT,
                "capacity": random.choice(("1Gi", "5Gi", "20Gi", "100Gi")),
                "nodeTopology": {"matchLabels": {ZONE: zone}},
            }
            if random.random() < 0.3:
                capacity["maximumVolumeSize"] = random.choice(("2Gi", "10Gi"))
            found.append(capacity)
    return found
