"""Questions of devices: pools, classes, claims of every kind, templates and extended resources."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.drawing.nodes import GPU, HOSTNAME, ZONE
from tests.parity.drawing.slices import (
    DEVICE_TAINTS,
    GPU_DRIVER,
    MODELS,
    NIC_DRIVER,
    PCIE,
    RESOURCE,
    Slices,
    draw_device_taint,
    draw_taint_rule,
)
from tests.parity.questions import MARK, Object, Question, Step

ADMIN_NAMESPACE = "dra-admin"
NAMESPACES: list[Object] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": ADMIN_NAMESPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
    },
]
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
_GPUS, _NICS, _ANY, _BACKING, _NOWHERE = (f"{MARK}{name}" for name in ("gpus", "nics", "any", "backing", "nowhere"))
_ATTRIBUTES = (f"{GPU_DRIVER}/model", f"{GPU_DRIVER}/numa", f"{GPU_DRIVER}/driverVersion", PCIE, f"{NIC_DRIVER}/numa")
_SELECTORS = (
    'device.attributes["{driver}"].numa == 1',
    'device.attributes["{driver}"].?model.orValue("") == "{model}"',
    'has(device.attributes["{driver}"].model) && device.attributes["{driver}"].model != "{model}"',
    'device.capacity["{driver}"].memory.compareTo(quantity("20Gi")) >= 0',
    'device.capacity["{driver}"].memory.isGreaterThan(quantity("30Gi"))',
    'device.attributes["{driver}"].driverVersion.isLessThan(semver("2.0.0"))',
    'device.attributes["{driver}"].healthy',
    'device.driver == "{driver}"',
    '"{driver}" in device.attributes && !device.attributes["{driver}"].healthy',
    'cel.bind(of, device.attributes["{driver}"], of.numa == 0 || of.healthy)',
)
_FAILING = 'device.attributes["{driver}"].model == "{model}"'
"""An error on devices without a model."""


class _Devices:
    """What has been drawn so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = [f"{MARK}n{number}" for number in range(random.choice((1, 2, 3, 4, 5)))]
        self.tolerant = random.random()
        slices = Slices(random, self.nodes, tainted=random.choice((0, 0.2)), shared=random.choice((0, 0, 0.5)))
        slices.draw()
        self.slices = slices.objects
        self.failing = random.random() < 0.06
        self.extended = random.random() < 0.3
        self.plugged = self.extended and random.random() < 0.4
        """Whether device plugins of some nodes offer what a class backs on others."""
        self.claims: list[Object] = []
        self.templates: list[Object] = []
        self.rules: list[Object] = []

    # --- claims ---

    def claim(self, *, admin: bool = False) -> Object:
        """A claim that holds nothing."""
        name = f"{MARK}claim{len(self.claims)}"
        made = self._object("ResourceClaim", name, self.spec(admin=admin), ADMIN_NAMESPACE if admin else "default")
        self.claims.append(made)
        return made

    def template(self, namespace: str) -> Object:
        """A template of claims."""
        spec = {"spec": self.spec(admin=namespace == ADMIN_NAMESPACE)}
        made = self._object("ResourceClaimTemplate", f"{MARK}template{len(self.templates)}", spec, namespace)
        self.templates.append(made)
        return made

    def _object(self, kind: str, name: str, spec: Object, namespace: str) -> Object:
        return {
            "apiVersion": RESOURCE,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }

    def spec(self, *, admin: bool = False) -> Object:
        """What a claim asks for."""
        random = self.random
        requests = [self._request(f"r{number}", admin=admin) for number in range(random.choice((1, 1, 1, 2, 2, 3)))]
        devices: Object = {"requests": requests}
        if random.random() < 0.25:
            devices["constraints"] = [self._constraint(requests)]
        if random.random() < 0.15:
            config: Object = {"opaque": {"driver": GPU_DRIVER, "parameters": {"kind": "Config", "mode": "claim"}}}
            if random.random() < 0.5:
                config["requests"] = [random.choice(requests)["name"]]
            devices["config"] = [config]
        return {"devices": devices}

    def _constraint(self, requests: list[Object]) -> Object:
        random = self.random
        kind = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        found: Object = {kind: random.choice(_ATTRIBUTES)}
        if random.random() < 0.4:
            request = random.choice(requests)
            alternative = random.choice(request.get("firstAvailable") or [None])
            with_alternative = alternative is not None and random.random() < 0.5
            found["requests"] = [f"{request['name']}/{alternative['name']}" if with_alternative else request["name"]]
        return found

    def _request(self, name: str, *, admin: bool) -> Object:
        random = self.random
        if not admin and random.random() < 0.25:
            choices = [{"name": f"s{n}", **self._choice()} for n in range(random.choice((1, 2, 2, 3)))]
            return {"name": name, "firstAvailable": choices}
        exactly = self._choice()
        if admin and random.random() < 0.7:
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _choice(self) -> Object:
        random = self.random
        driver = random.choice((GPU_DRIVER, GPU_DRIVER, GPU_DRIVER, NIC_DRIVER))
        named = {GPU_DRIVER: _GPUS, NIC_DRIVER: _NICS}[driver]
        found: Object = {"deviceClassName": named if random.random() < 0.8 else _ANY}
        if random.random() < 0.02:
            found["deviceClassName"] = _NOWHERE
        if random.random() < 0.5 and found["deviceClassName"] != _ANY:
            found["selectors"] = [self._selector(driver) for _ in range(random.choice((1, 1, 2)))]
        if random.random() < 0.1:
            found["allocationMode"] = "All"
        else:
            found |= {"allocationMode": "ExactCount", "count": random.choice((1, 1, 1, 1, 2, 2, 3))}
        if random.random() < 0.5 * self.tolerant:
            found["tolerations"] = [_toleration(random)]
        if random.random() < 0.2:
            wanted = {"memory": random.choice(("1Gi", "1500Mi", "3Gi", "30Gi"))}
            if random.random() < 0.3:
                wanted["cores"] = random.choice(("1", "2500m", "6"))
            found["capacity"] = {"requests": wanted}
        return found

    def _selector(self, driver: str) -> Object:
        texts = (*_SELECTORS, *((_FAILING,) * 3 if self.failing else ()))
        text = self.random.choice(texts).replace("{driver}", driver)
        return {"cel": {"expression": text.replace("{model}", self.random.choice(MODELS))}}

    # --- what is in use from the start ---

    def hold(self) -> list[Object]:
        """Claims that hold devices: of pods on nodes, or of nobody; returns the pods."""
        pods: list[Object] = []
        for part in self.slices:
            node = part["spec"].get("nodeName")
            for device in part["spec"].get("devices") or () if node is not None else ():
                if self.random.random() < 0.12 and not device.get("allowMultipleAllocations"):
                    pods += self._holder(part["spec"], device["name"], node)
        return pods

    def _holder(self, part: Object, device: str, node: str) -> list[Object]:
        name = f"{MARK}held{len(self.claims)}"
        spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": _ANY}}]}}
        claim = self._object("ResourceClaim", name, spec, "default")
        claim["metadata"]["finalizers"] = [DELETE_PROTECTION]
        result = {"request": "r0", "driver": part["driver"], "pool": part["pool"]["name"], "device": device}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        claim["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            }
        }
        self.claims.append(claim)
        idle = self.random.random() < 0.3 and not any(each["metadata"].get("labels") for each in self.claims)
        if idle:  # of several idle claims kube-scheduler deallocates one at random
            claim["metadata"]["labels"] = {"idle": "true"}
            return []
        pod = _pod(f"{MARK}e{len(self.claims)}", "100m")
        pod["spec"] |= {"nodeName": node, "resourceClaims": [{"name": "x0", "resourceClaimName": name}]}
        pod["status"] = {"phase": "Running"}
        claim["status"]["reservedFor"] = [
            {"resource": "pods", "name": pod["metadata"]["name"], "uid": f"uid-{pod['metadata']['name']}"}
        ]
        return [pod]

    # --- pods ---

    def pod(self, number: int) -> Object:
        """A pod that comes."""
        random = self.random
        admin = random.random() < 0.08
        pod = _pod(f"{MARK}p{number}", random.choice(("100m", "500m", "1")))
        pod["metadata"]["namespace"] = ADMIN_NAMESPACE if admin else "default"
        weights = random.sample(range(1, 101), len(self.nodes))
        preferences = [
            {"weight": weight, "preference": {"matchExpressions": [_requirement(HOSTNAME, [node])]}}
            for node, weight in zip(self.nodes, weights, strict=True)
        ]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}}
        pod["spec"] |= {"schedulerName": "default-scheduler", "affinity": affinity}
        extended = self.extended and not admin and random.random() < 0.6
        if extended:
            self._extend(pod)
        # kube-scheduler 1.37.1 never binds a pod with claims where a device plugin serves what a class backs elsewhere.
        if not extended or (not self.plugged and random.random() < 0.4):
            self._add_claims(pod, admin=admin)
        return pod

    def _add_claims(self, pod: Object, *, admin: bool) -> None:
        random, namespace = self.random, pod["metadata"]["namespace"]
        entries: list[Object] = []
        for number in range(random.choice((1, 1, 1, 2, 2, 3))):
            entry: Object = {"name": f"x{number}"}
            if random.random() < 0.02:
                entry["resourceClaimName"] = f"{MARK}absent"
            elif random.random() < 0.4:
                entry["resourceClaimTemplateName"] = self._known(
                    self.templates, namespace, lambda: self.template(namespace)
                )
            else:
                entry["resourceClaimName"] = self._known(self.claims, namespace, lambda: self.claim(admin=admin))
            if entry.get("resourceClaimName") not in [each.get("resourceClaimName", "") for each in entries]:
                entries.append(entry)
        pod["spec"]["resourceClaims"] = entries
        resources = pod["spec"]["containers"][0]["resources"]
        resources["claims"] = [{"name": entry["name"]} for entry in entries]

    def _known(self, made: list[Object], namespace: str, make: Any) -> str:
        """One that is there already, or another one."""
        found = [each for each in made if each["metadata"]["namespace"] == namespace]
        known = self.random.choice(found) if found and self.random.random() < 0.35 else make()
        name: str = known["metadata"]["name"]
        return name

    def _extend(self, pod: Object) -> None:
        random = self.random
        names = [GPU] if self.plugged else [GPU, f"deviceclass.resource.kubernetes.io/{_GPUS}"]
        for number, container in enumerate(pod["spec"]["containers"]):
            if number == 0 or random.random() < 0.5:
                container["resources"]["limits"] = {random.choice(names): random.choice(("1", "1", "2"))}
        if random.random() < 0.3:
            more: Object = {"name": "c1", "image": "x", "resources": {"limits": {random.choice(names): "1"}}}
            pod["spec"]["containers"].append(more)
        if random.random() < 0.3:
            init: Object = {"name": "i0", "image": "x"}
            init["resources"] = {"limits": {random.choice(names): random.choice(("1", "2", "3"))}}
            if random.random() < 0.3:
                init["restartPolicy"] = "Always"
            pod["spec"]["initContainers"] = [init]

    # --- the rest of the cluster ---

    def node(self, name: str) -> Object:
        """A node, sometimes with a device plugin."""
        random = self.random
        amounts = {"cpu": random.choice(("1", "2", "4")), "memory": "16Gi", "pods": "110"}
        if self.plugged and random.random() < 0.5:
            amounts[GPU] = random.choice(("0", "1", "2"))
        labels = {HOSTNAME: name}
        if random.random() < 0.9:
            labels[ZONE] = random.choice("abc")
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        spec: Object = {}
        if random.random() < 0.05:
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    def classes(self) -> list[Object]:
        """The classes that claims name, and one behind an extended resource."""
        found = [
            _class(_GPUS, f'device.driver == "{GPU_DRIVER}"'),
            _class(_NICS, f'device.driver == "{NIC_DRIVER}"'),
            _class(_ANY, None),
        ]
        if self.random.random() < 0.3:
            parameters = {"kind": "Config", "mode": "class"}
            found[0]["spec"]["config"] = [{"opaque": {"driver": GPU_DRIVER, "parameters": parameters}}]
        if self.extended:
            found.append(_class(_BACKING, f'device.driver == "{GPU_DRIVER}"'))
            found[-1]["spec"]["extendedResourceName"] = GPU
        return found

    def change(self, number: int) -> list[Object]:
        """What changes before a later pod: a device is tainted or goes, or a rule taints some."""
        random = self.random
        if not self.slices or random.random() > 0.3:
            return []
        if random.random() < 0.3:
            self.rules.append(draw_taint_rule(random, self.slices, f"{MARK}rule{number}"))
            return [self.rules[-1]]
        place = random.randrange(len(self.slices))
        part = self.slices[place]
        if not part["spec"].get("devices"):
            return []
        devices = [dict(device) for device in part["spec"]["devices"]]
        if random.random() < 0.5 and len(devices) > 1:
            devices.pop(random.randrange(len(devices)))
        else:
            random.choice(devices)["taints"] = [draw_device_taint(random)]
        self.slices[place] = {**part, "spec": {**part["spec"], "devices": devices}}
        return [self.slices[place]]


def draw_devices(seed: int) -> Question:
    """One question: a few pods, one after the other."""
    drawn = _Devices(Random(seed))
    slices = list(drawn.slices)
    rules: list[Object] = []
    if slices and drawn.random.random() < 0.15:
        rules.append(draw_taint_rule(drawn.random, slices, f"{MARK}rule"))
    holders = drawn.hold()
    steps: list[Step] = []
    for number in range(drawn.random.choice((1, 2, 3, 4))):
        put = drawn.change(number) if number else []
        steps.append(Step(drawn.pod(number), put))
    nodes = [drawn.node(name) for name in drawn.nodes]
    parts = [*drawn.classes(), *slices, *rules, *drawn.claims, *drawn.templates]
    return Question(seed, "devices", [*NAMESPACES, *nodes, *parts, *holders], steps)


def _class(name: str, selector: str | None) -> Object:
    spec: Object = {} if selector is None else {"selectors": [{"cel": {"expression": selector}}]}
    return {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _toleration(random: Random) -> Object:
    kind = random.random()
    if kind < 0.4:
        return {"operator": "Exists"}
    found: Object = {"key": random.choice(DEVICE_TAINTS), "operator": random.choice(("Exists", "Equal"))}
    if found["operator"] == "Equal":
        found["value"] = "y"
    if random.random() < 0.3:
        found["effect"] = random.choice(("NoSchedule", "NoExecute"))
    return found


def _requirement(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def _pod(name: str, cpu: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c0", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
