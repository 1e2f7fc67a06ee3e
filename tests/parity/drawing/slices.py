"""Devices drawn at random: pools of every kind, attributes, capacities, counters, taints and binding conditions."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.drawing.nodes import ZONE
from tests.parity.questions import MARK, Object

RESOURCE = "resource.k8s.io/v1"
GPU_DRIVER, NIC_DRIVER = "gpu.example.com", "nic.example.org"
DRIVERS = (GPU_DRIVER, GPU_DRIVER, NIC_DRIVER)
MODELS = ("a100", "h100", "l4")
PCIE = "resource.kubernetes.io/pcieRoot"
DEVICE_TAINTS = ("example.com/broken", "example.com/slow")
READY, BROKEN = "example.com/ready", "example.com/failed"
_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "None")
_MEMORY = ("10Gi", "20Gi", "40Gi", "80Gi")


class Slices:
    """The slices of a question, as far as they are drawn."""

    def __init__(self, random: Random, nodes: list[str], *, tainted: float, shared: float) -> None:
        self._random = random
        self._nodes = nodes
        self._tainted = tainted
        self._shared = shared
        self.objects: list[Object] = []

    def draw(self) -> None:
        """Pools for some of the nodes, for zones, for all nodes, or device by device."""
        random = self._random
        for node in self._nodes:
            if random.random() < 0.8:
                self._pool(random.choice(DRIVERS), node, {"nodeName": node})
        if random.random() < 0.25:
            for zone in random.sample("abc", random.randint(1, 2)):
                self._pool(random.choice(DRIVERS), f"{MARK}zone-{zone}", {"nodeSelector": _in_zone([zone])})
        if random.random() < 0.2:
            self._pool(random.choice(DRIVERS), f"{MARK}fabric", {"allNodes": True})
        if random.random() < 0.2:
            self._pool(random.choice(DRIVERS), f"{MARK}each", {"perDeviceNodeSelection": True})

    def _pool(self, driver: str, name: str, where: Object) -> None:
        random = self._random
        generation = random.choice((1, 1, 1, 2))
        counters = random.random() < 0.2
        devices = self._devices(where, counters=counters)
        parts = [devices]
        if len(devices) > 1 and random.random() < 0.3:
            cut = random.randrange(1, len(devices))
            parts = [devices[cut:], devices[:cut]]
        bodies: list[Object] = [{"devices": part} for part in parts]
        if counters:
            bodies.append({"sharedCounters": [_counter_set(random)]})
        count = len(bodies)
        flaw = random.random()
        if flaw < 0.03:
            count += 1
        elif flaw < 0.06:
            devices[-1]["name"] = devices[0]["name"] if len(parts) > 1 else devices[-1]["name"]
        for number, body in enumerate(bodies):
            self.objects.append(_slice(driver, name, number, generation, count, {**where, **body}))
        if flaw > 0.95:
            older = generation - 1 if flaw > 0.97 else generation + 1
            part = {**where, "devices": self._devices(where, counters=False)}
            self.objects.append(_slice(driver, name, 9, older, 1, part))

    def _devices(self, where: Object, *, counters: bool) -> list[Object]:
        random = self._random
        shared = random.random() < self._shared
        awaited = random.random() < 0.04
        found = []
        for number in range(random.choice((1, 2, 2, 3, 4))):
            device = self._device(f"dev-{number}", shared=shared)
            if counters:
                need = {"slots": {"value": random.choice(("1", "2"))}}
                if random.random() < 0.5:
                    need["memory"] = {"value": random.choice(_MEMORY)}
                device["consumesCounters"] = [{"counterSet": "board", "counters": need}]
            if awaited:
                device |= {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
                device["bindsToNode"] = random.random() < 0.5
            if "perDeviceNodeSelection" in where:
                device |= self._own_place()
            found.append(device)
        return found

    def _own_place(self) -> Object:
        kind = self._random.random()
        if kind < 0.5:
            return {"nodeName": self._random.choice(self._nodes)}
        return {"allNodes": True} if kind < 0.7 else {"nodeSelector": _in_zone(self._random.sample("abc", 2))}

    def _device(self, name: str, *, shared: bool) -> Object:
        random = self._random
        attributes: dict[str, Any] = {
            "numa": {"int": random.randrange(2)},
            "healthy": {"bool": random.random() < 0.8},
            "driverVersion": {"version": random.choice(("1.2.3", "1.10.0", "2.0.0-rc.1"))},
        }
        if random.random() < 0.85:
            attributes["model"] = {"string": random.choice(MODELS)}
        if random.random() < 0.6:
            attributes[PCIE] = {"string": f"pci0000:{random.choice(('00', '40'))}"}
        capacity: dict[str, Any] = {"memory": {"value": random.choice(_MEMORY)}}
        if random.random() < 0.6:
            capacity["cores"] = {"value": random.choice(("4", "8"))}
        device: Object = {"name": name, "attributes": attributes, "capacity": capacity}
        if shared:
            device["allowMultipleAllocations"] = True
            for each in capacity.values():
                if random.random() < 0.5:
                    each["requestPolicy"] = _policy(random, each["value"])
        if random.random() < self._tainted:
            device["taints"] = [draw_device_taint(random)]
        return device


def draw_device_taint(random: Random) -> Object:
    """A taint of a device."""
    taint = {"key": random.choice(DEVICE_TAINTS), "effect": random.choice(_EFFECTS)}
    return {**taint, "value": "y"} if random.random() < 0.4 else taint


def draw_taint_rule(random: Random, slices: list[Object], name: str) -> Object:
    """A rule that taints devices of a driver, of a pool, or one."""
    part = random.choice(slices)["spec"]
    selector: Object = {"driver": part["driver"]}
    if random.random() < 0.8:
        selector["pool"] = part["pool"]["name"]
    if part.get("devices") and random.random() < 0.5:
        selector["device"] = random.choice(part["devices"])["name"]
    spec = {"deviceSelector": selector, "taint": draw_device_taint(random)}
    return {"apiVersion": RESOURCE, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def _policy(random: Random, value: str) -> Object:
    """How requests for a capacity are rounded; memory is in Gi, cores are whole."""
    unit = "Gi" if value.endswith("Gi") else ""
    most = int(value.removesuffix("Gi"))
    if random.random() < 0.4:
        return {"default": f"2{unit}", "validValues": [f"{n}{unit}" for n in (1, 2, 4) if n <= most]}
    limits = {"min": f"1{unit}"}
    if random.random() < 0.5:
        limits["max"] = f"{most}{unit}"
    if random.random() < 0.6:
        limits["step"] = f"1{unit}"
    return {"default": f"{random.choice((1, 2))}{unit}", "validRange": limits}


def _counter_set(random: Random) -> Object:
    slots, memory = random.choice(("2", "3", "4")), random.choice(("40Gi", "80Gi", "160Gi"))
    return {"name": "board", "counters": {"slots": {"value": slots}, "memory": {"value": memory}}}


def _in_zone(zones: list[str]) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}]}


def _slice(driver: str, pool: str, number: int, generation: int, count: int, body: Object) -> Object:
    # Names do not follow the order in which slices are made, as slices are searched by name.
    name = f"{MARK}s-{driver.partition('.')[0]}-{pool.removeprefix(MARK)}-{'bacdefghij'[number]}"
    of = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": driver, "pool": of, **body}
    return {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
