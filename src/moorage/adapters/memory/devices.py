"""The resource claim controller, and drivers: claims are made from templates, given back, and their devices made ready.

- A pod that names a template gets a claim of its own, named in its status.
- A pod that is gone or has finished gives up its reservations; a claim that is reserved for no pod any more gives its
  devices back.
- Drivers set every binding condition of an allocated device at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.objects import (
    FINISHED,
    NOTHING,
    KubeObject,
    key_of,
    metadata_of,
    reference_to,
    spec_of,
    status_of,
    timestamp,
)
from moorage.adapters.memory.store import Store
from moorage.core.claims import DELETE_PROTECTION

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class DeviceControllers:
    """Claim controller and drivers of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch(("Pod", TEMPLATE, CLAIM), replay=True)
        self._lacking: dict[str, None] = {}
        """Uids of pods that wait for a template."""

    def step(self) -> None:
        """Do what pods, templates and claims call for that have changed."""
        for change in self._watch.pull():
            if change.kind == TEMPLATE:
                for uid in [*self._lacking]:
                    self._make_claims(uid)
            elif change.kind == CLAIM and change.type is not ChangeType.DELETED:
                self._make_ready(change.object)
                self._let_go(change.object)
            elif change.kind == "Pod":
                if change.type is ChangeType.DELETED or status_of(change.object).get("phase") in FINISHED:
                    self._give_back(change.object)
                elif change.old is None and spec_of(change.object).get("resourceClaims"):
                    self._make_claims(change.object["metadata"]["uid"])

    # --- the claim controller ---

    def _make_claims(self, uid: str) -> None:
        """Make the claims of a pod, as far as their templates are there."""
        self._lacking.pop(uid, None)
        pod = self._store.find_uid(uid)
        if pod is None:
            return
        known = {each["name"] for each in status_of(pod).get("resourceClaimStatuses") or ()}
        made = []
        for entry in spec_of(pod).get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            if not template or entry["name"] in known:
                continue
            found = self._store.find(TEMPLATE, pod["metadata"]["namespace"], template)
            if found is None:
                self._lacking[uid] = None
            else:
                made.append({"name": entry["name"], "resourceClaimName": self._make_claim(pod, entry["name"], found)})
        if made:
            kind, namespace, name = key_of(pod)
            statuses = [*(status_of(pod).get("resourceClaimStatuses") or ()), *made]
            self._store.patch_status(kind, namespace, name, {"resourceClaimStatuses": statuses})

    def _make_claim(self, pod: KubeObject, entry: str, template: KubeObject) -> str:
        spec = spec_of(template)
        metadata: dict[str, Any] = {**metadata_of(spec)}
        owner = pod["metadata"]
        name = f"{owner['name']}-{entry}-{self._store.suffix()}"
        metadata |= {"name": name, "namespace": owner["namespace"], "ownerReferences": [reference_to(pod)]}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: entry}
        body = {"apiVersion": template["apiVersion"], "kind": CLAIM, "metadata": metadata, "spec": spec_of(spec)}
        self._store.create(body)
        return name

    def _give_back(self, pod: KubeObject) -> None:
        uid = pod["metadata"]["uid"]
        for claim in self._store.list(CLAIM, pod["metadata"]["namespace"]):
            status = status_of(claim)
            others = [each for each in status.get("reservedFor") or () if each.get("uid") != uid]
            if len(others) == len(status.get("reservedFor") or ()):
                continue
            kind, namespace, name = key_of(claim)
            freed = {} if others else {"allocation": None, "devices": None}
            self._store.patch_status(kind, namespace, name, {"reservedFor": others or None, **freed})
            if not others:
                self._unprotect(claim)

    def _let_go(self, claim: KubeObject) -> None:
        """A claim that is deleted before any pod used it is protected by its finalizer only."""
        if metadata_of(claim).get("deletionTimestamp"):
            present = self._store.find(*key_of(claim))
            if present is not None and not status_of(present).get("reservedFor"):
                self._unprotect(present)

    def _unprotect(self, claim: KubeObject) -> None:
        finalizers = metadata_of(claim).get("finalizers") or ()
        if DELETE_PROTECTION in finalizers:
            left = [each for each in finalizers if each != DELETE_PROTECTION]
            self._store.patch(*key_of(claim), {"metadata": {"finalizers": left or None}})

    # --- drivers ---

    def _make_ready(self, claim: KubeObject) -> None:
        status = status_of(claim)
        results = ((status.get("allocation") or NOTHING).get("devices") or NOTHING).get("results") or ()
        told = {_device(each) for each in status.get("devices") or ()}
        ready = [
            {
                **dict(zip(("driver", "pool", "device"), _device(each), strict=True)),
                "conditions": [self._condition(name) for name in each["bindingConditions"]],
            }
            for each in results
            if each.get("bindingConditions") and _device(each) not in told
        ]
        if ready:
            kind, namespace, name = key_of(claim)
            self._store.patch_status(kind, namespace, name, {"devices": [*(status.get("devices") or ()), *ready]})

    def _condition(self, name: str) -> dict[str, str]:
        now = timestamp(self._store.clock.now_s)
        return {"type": name, "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": now}


def _device(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry.get("driver", ""), entry.get("pool", ""), entry.get("device", "")
