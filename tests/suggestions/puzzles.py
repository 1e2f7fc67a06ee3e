"""Clusters with a pod that fits nowhere, drawn at random: every family of reasons, alone and mixed.

`puzzle(seed)` is the same for the same seed. The pod in question is called `stuck`, or is one of a controller's; there
may be others that wait, before it and behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Plain = dict[str, Any]


@dataclass
class Puzzle:
    """The objects, and which pod is stuck."""

    family: str
    objects: list[Plain] = field(default_factory=list)
    pod: str = "stuck"
    plugins: tuple[str, ...] = ()
    """Plugins beside the default ones."""

    @property
    def nodes(self) -> list[Plain]:
        """The nodes."""
        return [each for each in self.objects if each["kind"] == "Node"]


def thing(kind: str, name: str, api: str = "v1", *, cluster_wide: bool = False, **parts: Any) -> Plain:
    """An object of any kind in the namespace default."""
    metadata: Plain = {"name": name} if cluster_wide else {"name": name, "namespace": "default"}
    for part in ("labels", "annotations", "ownerReferences"):
        if part in parts:
            metadata[part] = parts.pop(part)
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **parts}


def node(name: str, cpu: int, memory_gib: int, zone: str, pods: int = 10, **spec: Any) -> Plain:
    """A node of a zone, with the label disk on every second one."""
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory_gib}Gi", "pods": str(pods)}
    labels = {HOST: name, ZONE: zone, **({"disk": "ssd"} if name[-1] in "13579" else {})}
    return thing("Node", name, cluster_wide=True, labels=labels, spec=spec, status={"allocatable": amounts})


def pod(name: str, cpu: int = 500, memory_mib: int = 256, **spec: Any) -> Plain:
    """A pod with one container; `labels` and `annotations` go to its metadata."""
    parts = {part: spec.pop(part) for part in ("labels", "annotations", "ownerReferences") if part in spec}
    requests = {"cpu": f"{cpu}m", "memory": f"{memory_mib}Mi", **spec.pop("more", {})}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}, **spec.pop("container", {})}
    return thing("Pod", name, spec={"containers": [container], **spec}, **parts)


def cluster(draw: Random) -> Puzzle:
    """Some nodes with some pods on them; a pod leaves room as often as not."""
    made = Puzzle("")
    for number in range(1, draw.randint(2, 6) + 1):
        cpu, memory = draw.choice((1000, 2000, 4000)), draw.choice((2, 4, 8))
        made.objects.append(node(f"n{number}", cpu, memory, draw.choice("abc"), draw.choice((3, 5, 10))))
    for number in range(draw.randint(0, 8)):
        there = draw.choice(made.nodes)["metadata"]["name"]
        labels = {"app": draw.choice(("web", "db", "cache"))}
        size = draw.choice((100, 300, 700))
        made.objects.append(pod(f"old-{number}", size, size // 2, labels=labels, nodeName=there))
    return made


def term(app: str, key: str) -> Plain:
    """A pod affinity term."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def taint(key: str, value: str = "yes", effect: str = "NoSchedule") -> Plain:
    """A taint."""
    return {"key": key, "value": value, "effect": effect}


# --- families: each adds the pod and makes it hard ---


def _cpu(_made: Puzzle, draw: Random) -> Plain:
    return pod("stuck", draw.choice((3900, 5000, 9000)), 100)


def _memory(_made: Puzzle, draw: Random) -> Plain:
    return pod("stuck", 100, draw.choice((7900, 9000, 20000)))


def _containers(_made: Puzzle, draw: Random) -> Plain:
    body = pod("stuck", 3000, 100)
    more = {"name": "second", "image": "pause", "resources": {"limits": {"cpu": "2500m", "memory": "1Gi"}}}
    body["spec"]["containers"].append(more)
    first = {"name": "init", "image": "pause", "resources": {"requests": {"cpu": "8"}}}
    sidecar = {**first, "name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}}
    body["spec"]["initContainers"] = draw.choice(([first], [sidecar], [sidecar, first]))
    if draw.random() < 0.3:
        body["spec"]["overhead"] = {"cpu": "150m"}
    return body


def _extended(made: Puzzle, draw: Random) -> Plain:
    if draw.random() < 0.6:
        made.nodes[0]["status"]["allocatable"]["example.com/gpu"] = "1"
    wanted = {"example.com/gpu": "2"}
    body = pod("stuck", 100, 100, more=wanted)
    body["spec"]["containers"][0]["resources"]["limits"] = dict(wanted)
    return body


def _many_pods(made: Puzzle, _draw: Random) -> Plain:
    for each in made.nodes:
        each["status"]["allocatable"]["pods"] = "1"
        name = each["metadata"]["name"]
        made.objects.append(pod(f"sole-{name}", 10, 10, nodeName=name))
    return pod("stuck", 50, 50)


def _taint(made: Puzzle, draw: Random) -> Plain:
    for each in made.nodes:
        each["spec"]["taints"] = [taint(draw.choice(("gpu", "team")), draw.choice(("", "a")))]
        if draw.random() < 0.3:
            each["spec"]["taints"].append(taint("old", "x", "NoExecute"))
    return pod("stuck", 50, 50)


def _cordon(made: Puzzle, draw: Random) -> Plain:
    for each in made.nodes:
        each["spec"]["unschedulable"] = True
        if draw.random() < 0.5:
            each["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    return pod("stuck", 50, 50)


def _selector(_made: Puzzle, draw: Random) -> Plain:
    wanted = {"disk": draw.choice(("nvme", "tape")), **({"pool": "x"} if draw.random() < 0.4 else {})}
    return pod("stuck", 50, 50, nodeSelector=wanted)


def _affinity(_made: Puzzle, draw: Random) -> Plain:
    rules = [
        {"key": "disk", "operator": "In", "values": ["nvme", "tape"]},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "gen", "operator": "Gt", "values": ["3"]},
        {"key": ZONE, "operator": "NotIn", "values": ["a", "b", "c"]},
        {"key": "pool", "operator": "Exists"},
    ]
    terms = [{"matchExpressions": draw.sample(rules, draw.randint(1, 3))} for _ in range(draw.randint(1, 2))]
    if draw.random() < 0.2:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return pod("stuck", 50, 50, affinity=affinity)


def _port(made: Puzzle, draw: Random) -> Plain:
    ports = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    for each in made.nodes:
        name = each["metadata"]["name"]
        made.objects.append(pod(f"port-{name}", 10, 10, container=ports, nodeName=name))
    mine = [*ports["ports"], *([{"containerPort": 81, "hostPort": 8081}] if draw.random() < 0.5 else [])]
    return pod("stuck", 50, 50, container={"ports": mine}, hostNetwork=draw.random() < 0.2)


def _apart(made: Puzzle, draw: Random) -> Plain:
    key = draw.choice((ZONE, HOST))
    for each in made.nodes:
        name = each["metadata"]["name"]
        made.objects.append(pod(f"web-{name}", 10, 10, labels={"app": "web"}, nodeName=name))
    terms = [term("web", key), *([term("none", HOST)] if draw.random() < 0.4 else [])]
    return pod("stuck", 50, 50, labels={"app": "web"}, affinity={"podAntiAffinity": {REQUIRED: terms}})


def _unwelcome(made: Puzzle, draw: Random) -> Plain:
    key = draw.choice((ZONE, HOST))
    for each in made.nodes:
        name = each["metadata"]["name"]
        affinity = {"podAntiAffinity": {REQUIRED: [term("noisy", key)]}}
        made.objects.append(pod(f"calm-{name}", 10, 10, labels={"app": "calm"}, affinity=affinity, nodeName=name))
    return pod("stuck", 50, 50, labels={"app": "noisy", "tier": "x"})


def _together(_made: Puzzle, draw: Random) -> Plain:
    return pod("stuck", 50, 50, affinity={"podAffinity": {REQUIRED: [term("nobody", draw.choice((ZONE, HOST)))]}})


def _spread(made: Puzzle, draw: Random) -> Plain:
    """All but one domain are full of matching pods, and the empty one takes nobody."""
    key = draw.choice((ZONE, HOST))
    made.nodes[0]["metadata"]["labels"][ZONE] = "z"
    made.nodes[0]["spec"]["taints"] = [taint("closed")]
    for each in made.nodes[1:]:
        name = each["metadata"]["name"]
        made.objects += [pod(f"s{i}-{name}", 10, 10, labels={"app": "s"}, nodeName=name) for i in range(2)]
        each["status"]["allocatable"]["pods"] = "20"
    constraint = {
        "maxSkew": draw.choice((1, 2)),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    return pod("stuck", 50, 50, labels={"app": "s"}, topologySpreadConstraints=[constraint])


def _domains(made: Puzzle, draw: Random) -> Plain:
    for each in made.nodes:
        name = each["metadata"]["name"]
        made.objects.append(pod(f"s-{name}", 10, 10, labels={"app": "s"}, nodeName=name))
    constraint = {
        "maxSkew": 1,
        "minDomains": len(made.nodes) + draw.randint(2, 4),
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    return pod("stuck", 50, 50, labels={"app": "s"}, topologySpreadConstraints=[constraint])


def _no_domain(_made: Puzzle, _draw: Random) -> Plain:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    return pod("stuck", 50, 50, labels={"app": "s"}, topologySpreadConstraints=[constraint])


def _claim(made: Puzzle, draw: Random) -> Plain:
    if draw.random() < 0.6:
        storage = thing("StorageClass", "fast", "storage.k8s.io/v1", cluster_wide=True, provisioner="example.com/disk")
        made.objects.append({**storage, "volumeBindingMode": "WaitForFirstConsumer"})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return pod("stuck", 50, 50, volumes=[volume], container=mounts)


def _far_volume(made: Puzzle, draw: Random) -> Plain:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [draw.choice(("z", "a"))]}]}]
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fixed",
            "csi": {"driver": "example.com/disk", "volumeHandle": "h"},
            "claimRef": {"namespace": "default", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}  # fmt: skip
    made.objects.append(thing("PersistentVolume", "pv", cluster_wide=True, spec=spec, status={"phase": "Bound"}))
    wants = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fixed", "volumeName": "pv",
             "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
    marks = {"pv.kubernetes.io/bind-completed": "yes"}
    bound = thing("PersistentVolumeClaim", "data", annotations=marks, spec=wants, status={"phase": "Bound"})
    made.objects.append(bound)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return pod("stuck", draw.choice((50, 5000)), 50, volumes=[volume])


def _gated(_made: Puzzle, draw: Random) -> Plain:
    gates = [{"name": "example.com/wait"}]
    return pod("stuck", draw.choice((50, 9000)), 50, schedulingGates=gates)


def _mixed(made: Puzzle, draw: Random) -> Plain:
    """Two reasons on every node."""
    for each in made.nodes:
        each["spec"]["taints"] = [taint("gpu")]
    extra = draw.choice(({"nodeSelector": {"disk": "tape"}}, {"labels": {"app": "x"}}))
    return pod("stuck", draw.choice((50, 9000)), 50, **extra)


def _rivals(made: Puzzle, draw: Random) -> Plain:
    """Others of the same size come first, and get what there is."""
    size = draw.choice((900, 1900, 5000))
    made.objects += [pod(f"first-{number}", size, 50) for number in range(draw.randint(3, 14))]
    return pod("stuck", size, 50)


def _deployment(made: Puzzle, draw: Random) -> Plain:
    """The last of a controller's pods."""
    count, size = draw.randint(2, 12), draw.choice((900, 1900, 4500))
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x", size, 50)["spec"]}
    if draw.random() < 0.3:
        template["spec"]["nodeSelector"] = {"disk": "tape"}
    selector = {"matchLabels": {"app": "d"}}
    made.pod = f"d-{count - 1}"
    kind = draw.choice(("Deployment", "StatefulSet", "ReplicaSet"))
    return thing(kind, "d", "apps/v1", spec={"replicas": count, "selector": selector, "template": template})


def _important(made: Puzzle, draw: Random) -> Plain:
    """More important than those that stand, on nodes that it does not tolerate."""
    for each in made.nodes:
        each["spec"]["taints"] = [taint("gpu")]
        name, cpu = each["metadata"]["name"], int(each["status"]["allocatable"]["cpu"][:-1])
        used = [p for p in made.objects if p["kind"] == "Pod" and p["spec"].get("nodeName") == name]
        made.objects = [each for each in made.objects if each not in used]
        made.objects.append(pod(f"low-{name}", cpu, 10, nodeName=name))
    return pod("stuck", 800, 50, priority=draw.choice((0, 100)))


def _hosts(made: Puzzle, _draw: Random) -> Plain:
    """A controller whose pods must stand on more hosts than take them."""
    made.plugins = ("ControllerSpread",)
    for each in made.nodes[1:]:
        each["spec"]["unschedulable"] = True
    made.nodes[0]["status"]["allocatable"] = {"cpu": "9", "memory": "16Gi", "pods": "30"}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x", 10, 10)["spec"]}
    made.pod = "d-1"
    selector = {"matchLabels": {"app": "d"}}
    return thing("ReplicaSet", "d", "apps/v1", spec={"replicas": 2, "selector": selector, "template": template})


def _strategy(made: Puzzle, _draw: Random) -> Plain:
    made.plugins = ("PlacementStrategy",)
    notes = {"moorage.dev/schedule-strategy": "base=1,weight=1,nodeSelector=pool:none"}
    return pod("stuck", 50, 50, annotations=notes)


def _fragmented(made: Puzzle, draw: Random) -> Plain:
    """Room enough in all, but not in one place."""
    made.objects = made.nodes[:2]
    for each in made.objects:
        each["status"]["allocatable"] = {"cpu": "3", "memory": "4Gi", "pods": "10"}
    size = draw.choice((300, 600))
    for each, count in zip(made.nodes, (2, 1), strict=True):
        name = each["metadata"]["name"]
        rest = 3000 - 900 - size * count
        made.objects.append(pod(f"large-{name}", rest, 50, nodeName=name))
        made.objects += [pod(f"small{i}-{name}", size, 50, nodeName=name) for i in range(count)]
    return pod("stuck", 900 + size, 50, nodeSelector={HOST: "n1"} if draw.random() < 0.3 else {})


def _daemons(made: Puzzle, draw: Random) -> Plain:
    """A new node has less room than it seems: daemons come first."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod("x", 300, 50)["spec"]}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    made.objects.append(thing("DaemonSet", "agent", "apps/v1", spec=spec))
    return pod("stuck", draw.choice((1800, 3800)), 50)


def _full_driver(made: Puzzle, _draw: Random) -> Plain:
    """Every node has as many volumes of a driver as it can hold."""
    storage = thing("StorageClass", "fast", "storage.k8s.io/v1", cluster_wide=True, provisioner="example.com/disk")
    made.objects.append({**storage, "volumeBindingMode": "WaitForFirstConsumer"})
    for each in made.nodes:
        name = each["metadata"]["name"]
        drivers = [{"name": "example.com/disk", "nodeID": name, "allocatable": {"count": 1}}]
        made.objects.append(thing("CSINode", name, "storage.k8s.io/v1", cluster_wide=True, spec={"drivers": drivers}))
        _bound_claim(made, f"held-{name}")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"held-{name}"}}
        made.objects.append(pod(f"holder-{name}", 10, 10, volumes=[volume], nodeName=name))
    _bound_claim(made, "mine")
    return pod("stuck", 10, 10, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}])


def _bound_claim(made: Puzzle, name: str) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "csi": {"driver": "example.com/disk", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name}}  # fmt: skip
    volume = thing("PersistentVolume", f"pv-{name}", cluster_wide=True, spec=spec, status={"phase": "Bound"})
    wants = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeName": f"pv-{name}",
             "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
    marks = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = thing("PersistentVolumeClaim", name, annotations=marks, spec=wants, status={"phase": "Bound"})
    made.objects += [volume, claim]


def _gang(made: Puzzle, draw: Random) -> Plain:
    count, size = draw.randint(2, 6), draw.choice((1500, 3500))
    group = {"minMember": count}
    made.objects.append(thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec=group))
    mark = {"scheduling.x-k8s.io/pod-group": "g"}
    made.objects += [pod(f"member-{number}", size, 50, labels=mark) for number in range(count - 1)]
    return pod("stuck", size, 50, labels=mark)


# --- devices ---

DRIVER = "gpu.example.com"
_RESOURCE = "resource.k8s.io/v1"


def _gpus(made: Puzzle, draw: Random) -> list[tuple[str, str]]:
    """Classes, and a pool of devices for most nodes; the node and the name of each device."""
    for name, condition in (("gpu", ""), ("small", f' && device.attributes["{DRIVER}"].model == "t4"')):
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"{condition}'}}]
        made.objects.append(thing("DeviceClass", name, _RESOURCE, cluster_wide=True, spec={"selectors": selectors}))
    found = []
    for each in made.nodes[: draw.randint(1, 3)]:
        name, devices = each["metadata"]["name"], []
        for number in range(draw.randint(1, 4)):
            bus = {"string": draw.choice("xy")}
            body: Plain = {
                "name": f"gpu-{number}",
                "attributes": {"model": {"string": draw.choice(("a100", "t4"))}, "bus": bus},
                "capacity": {"memory": {"value": draw.choice(("16Gi", "40Gi"))}},
            }
            if draw.random() < 0.3:
                body["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
            devices.append(body)
            found.append((name, body["name"]))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        made.objects.append(thing("ResourceSlice", f"{name}-gpus", _RESOURCE, cluster_wide=True, spec=spec))
    return found


def _user(made: Puzzle, number: int, node_name: str, device: str) -> None:
    """A pod that has a device."""
    name = f"user-{number}"
    fields = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    result = {"request": "r", "driver": DRIVER, "pool": node_name, "device": device}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    consumer = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = thing("ResourceClaim", name, _RESOURCE, spec={"devices": {"requests": [request]}})
    claim["status"] = {"allocation": allocation, "reservedFor": [consumer]}
    body = pod(name, 10, 10, nodeName=node_name, resourceClaims=[{"name": "c", "resourceClaimName": name}])
    body["metadata"]["uid"] = f"uid-{name}"
    made.objects += [claim, body]


def _wish(draw: Random) -> Plain:
    """What a claim asks for: often more than there is."""
    memory = draw.choice(("16Gi", "40Gi", "80Gi"))
    model = f'device.attributes["{DRIVER}"].model == "{draw.choice(("a100", "h100"))}"'
    expression = f'{model} && device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}")) >= 0'
    exactly: Plain = {"deviceClassName": draw.choice(("gpu", "small")), "count": draw.choice((1, 1, 2))}
    if draw.random() < 0.7:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    devices: Plain = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if draw.random() < 0.4:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/bus"}]
    return {"devices": devices}


def _device_claim(made: Puzzle, draw: Random) -> Plain:
    for number, (node_name, device) in enumerate(_gpus(made, draw)):
        if draw.random() < 0.5:
            _user(made, number, node_name, device)
    made.objects.append(thing("ResourceClaim", "wish", _RESOURCE, spec=_wish(draw)))
    return pod("stuck", 10, 10, resourceClaims=[{"name": "gpu", "resourceClaimName": "wish"}])


def _device_template(made: Puzzle, draw: Random) -> Plain:
    _gpus(made, draw)
    made.objects.append(thing("ResourceClaimTemplate", "wish", _RESOURCE, spec={"spec": _wish(draw)}))
    claims = [{"name": "gpu", "resourceClaimTemplateName": "wish"}]
    made.objects += [pod(f"ahead-{number}", 10, 10, resourceClaims=claims) for number in range(draw.randint(0, 2))]
    return pod("stuck", 10, 10, resourceClaims=claims)


def _device_resource(made: Puzzle, draw: Random) -> Plain:
    for number, (node_name, device) in enumerate(_gpus(made, draw)):
        if draw.random() < 0.5:
            _user(made, number, node_name, device)
    wanted = {"deviceclass.resource.kubernetes.io/small": str(draw.choice((1, 2, 5)))}
    body = pod("stuck", 10, 10, more=wanted)
    body["spec"]["containers"][0]["resources"]["limits"] = dict(wanted)
    return body


FAMILIES: dict[str, Callable[[Puzzle, Random], Plain]] = {
    "cpu": _cpu,
    "memory": _memory,
    "containers": _containers,
    "extended": _extended,
    "many-pods": _many_pods,
    "taint": _taint,
    "cordon": _cordon,
    "selector": _selector,
    "affinity": _affinity,
    "port": _port,
    "apart": _apart,
    "unwelcome": _unwelcome,
    "together": _together,
    "spread": _spread,
    "domains": _domains,
    "no-domain": _no_domain,
    "claim": _claim,
    "far-volume": _far_volume,
    "gated": _gated,
    "mixed": _mixed,
    "rivals": _rivals,
    "deployment": _deployment,
    "important": _important,
    "hosts": _hosts,
    "strategy": _strategy,
    "gang": _gang,
    "fragmented": _fragmented,
    "daemons": _daemons,
    "full-driver": _full_driver,
    "device-claim": _device_claim,
    "device-template": _device_template,
    "device-resource": _device_resource,
}


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed; whether the pod is really stuck is for a simulation to say."""
    draw = Random(seed)
    family = list(FAMILIES)[seed % len(FAMILIES)]
    made = cluster(draw)
    made.family = family
    body = FAMILIES[family](made, draw)
    made.objects.append(body)
    return made
