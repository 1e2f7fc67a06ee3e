"""A driver of devices: publishes them, makes them ready or fails to, and takes them away. Nothing here is Moorage's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Literal, Self

from moorage.core.claims import DELETE_PROTECTION
from tests.faults.history import is_leaving
from tests.faults.world import Object, World
from tests.gangs.cluster import RefusedError

RESOURCE = "/apis/resource.k8s.io/v1"
READY, FAILED = "test/ready", "test/failed"
Temper = Literal["ready", "fails", "silent"]
_POLL_S = 0.05


class Driver:
    """The driver of one run; an async context manager, which leaves no slices and classes behind.

    Every node has a pool of its own name. The last `awaited` devices of a node have binding conditions: the first
    allocations to a claim fail or are never answered where its name says so (`fails`, `silent`), later ones succeed.
    """

    def __init__(self, world: World, nodes: int, devices: int, *, awaited: int = 0) -> None:
        self.name = f"{world.name}.test"
        self.plain, self.awaiting = f"{world.name}-plain", f"{world.name}-awaiting"
        """Classes of devices: of those that are ready at once, and of those that are not."""
        self.resource = f"{self.name}/device"
        """The extended resource that the plain class backs."""
        self._world = world
        self._nodes = [f"n{number}" for number in range(nodes)]
        self._devices = devices
        self._awaited = awaited
        self._paths: list[str] = []
        self._tempers: dict[tuple[str, str], Temper] = {}
        """By claim and time of the allocation."""
        self._task: asyncio.Task[None] | None = None
        self.set_conditions = 0

    async def __aenter__(self) -> Self:
        world = self._world
        world.allow(kept_elsewhere=world.terms.kept_elsewhere | {self.resource})
        await world.add_nodes(*(world.node(stem, cpu="64") for stem in self._nodes))
        for name, awaiting in ((self.plain, "false"), (self.awaiting, "true")):
            text = f'device.driver == "{self.name}" && device.attributes["{self.name}"].awaiting == {awaiting}'
            spec: Object = {"selectors": [{"cel": {"expression": text}}]}
            if name == self.plain:
                spec["extendedResourceName"] = self.resource
            await self._create("deviceclasses", {"metadata": {"name": name}, "spec": spec})
        for stem in self._nodes:
            await self._create("resourceslices", self._slice(stem))
        self._task = asyncio.ensure_future(self._play())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for path in self._paths:
            await self._world.cluster.delete(path)

    async def _create(self, plural: str, body: Object) -> None:
        await self._world.cluster.create(f"{RESOURCE}/{plural}", body)
        self._paths.append(f"{RESOURCE}/{plural}/{body['metadata']['name']}")

    def _slice(self, stem: str) -> Object:
        node = f"{self._world.name}-{stem}"
        spec = {
            "driver": self.name,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [self._device(number) for number in range(self._devices)],
        }
        return {"metadata": {"name": f"{node}-slice"}, "spec": spec}

    def _device(self, number: int) -> Object:
        awaiting = number >= self._devices - self._awaited
        device: Object = {"name": f"dev-{number}", "attributes": {"awaiting": {"bool": awaiting}}}
        if awaiting:
            device |= {"bindingConditions": [READY], "bindingFailureConditions": [FAILED], "bindsToNode": True}
        return device

    # --- what users write ---

    def claim_spec(self, *, awaiting: bool = False, count: int = 1) -> Object:
        """What a claim asks for."""
        named = self.awaiting if awaiting else self.plain
        return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": named, "count": count}}]}}

    async def add_claim(self, name: str, *, protected: bool = False, **wanted: Any) -> None:
        """A claim that pods share; with the finalizer already if it is protected."""
        path = f"{RESOURCE}/namespaces/{self._world.name}/resourceclaims"
        metadata = {"name": name, "finalizers": [DELETE_PROTECTION] if protected else []}
        await self._world.cluster.create(path, {"metadata": metadata, "spec": self.claim_spec(**wanted)})

    async def add_template(self, name: str, **wanted: Any) -> None:
        """A template of claims, one for each pod."""
        path = f"{RESOURCE}/namespaces/{self._world.name}/resourceclaimtemplates"
        body = {"metadata": {"name": name}, "spec": {"spec": self.claim_spec(**wanted)}}
        await self._world.cluster.create(path, body)

    def pod(self, name: str, *, claim: str = "", template: str = "", extended: int = 0) -> Object:
        """A pod with devices."""
        pod = self._world.pod(name, cpu="10m")
        resources = pod["spec"]["containers"][0]["resources"]
        if extended:
            resources["requests"][self.resource] = resources.setdefault("limits", {})[self.resource] = str(extended)
        if claim or template:
            source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
            pod["spec"]["resourceClaims"] = [{"name": "d", **source}]
            resources["claims"] = [{"name": "d"}]
        return pod

    # --- what happens to devices ---

    async def take_away(self, stem: str, *devices: int) -> None:
        """Publish a node's pool without some of its devices."""
        body = self._slice(stem)
        gone = {f"dev-{number}" for number in devices}
        left = [device for device in body["spec"]["devices"] if device["name"] not in gone]
        pool = {**body["spec"]["pool"], "generation": 2}
        path = f"{RESOURCE}/resourceslices/{body['metadata']['name']}"
        await self._world.patch(path, {"spec": {"pool": pool, "devices": left}})

    @property
    def claims(self) -> list[Object]:
        """All claims of the run."""
        return [dict(claim) for claim in self._world.auditor.now("resourceclaims", self._world.name)]

    @property
    def holders(self) -> list[Object]:
        """Those that hold devices."""
        return [claim for claim in self.claims if (claim.get("status") or {}).get("allocation")]

    async def _play(self) -> None:
        while True:
            for claim in self.holders:
                with contextlib.suppress(RefusedError, RuntimeError):  # it was deallocated meanwhile
                    await self._answer(claim)
            await asyncio.sleep(_POLL_S)

    async def _answer(self, claim: Object) -> None:
        status, metadata = claim.get("status") or {}, claim["metadata"]
        allocation = status.get("allocation") or {}
        told = (allocation.get("devices") or {}).get("results") or ()
        results = [each for each in told if "bindingConditions" in each]
        if not results or status.get("devices") or is_leaving(claim):
            return
        temper = self._temper(metadata, allocation.get("allocationTimestamp", ""))
        if temper == "silent":
            return
        condition = {
            "type": READY if temper == "ready" else FAILED,
            "status": "True",
            "reason": "Test",
            "message": temper,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        answers = [
            {**{key: result[key] for key in ("driver", "pool", "device")}, "conditions": [condition]}
            for result in results
        ]
        path = f"{RESOURCE}/namespaces/{metadata['namespace']}/resourceclaims/{metadata['name']}/status"
        version = {"resourceVersion": metadata["resourceVersion"]}
        await self._world.patch(path, {"metadata": version, "status": {"devices": answers}})
        self.set_conditions += 1

    def _temper(self, metadata: Object, allocated: str) -> Temper:
        key = str(metadata["uid"]), allocated
        if key not in self._tempers:
            again = any(uid == key[0] for uid, _ in self._tempers)
            name = str(metadata["name"])
            self._tempers[key] = (
                "ready" if again else "fails" if "fails" in name else "silent" if "silent" in name else "ready"
            )
        return self._tempers[key]
