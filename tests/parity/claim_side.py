"""Device claims of a question on the API server: what the claim controller would do, and what became of the claims.

There are no controllers beside kube-scheduler, so that nothing happens that the question does not say. Binding
conditions stay unset: a pod whose claims wait for them has its node, and its way ends there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.parity.questions import Key, Object

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
_SUFFIX = "aaaaa"
_GENERATED = re.compile(r"(-(?:x[0-9]|extended-resources)-)[a-z0-9]{5}(?![a-z0-9-])")
_KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers", "uid")


def masked(text: str) -> str:
    """A text without the random ends of generated names."""
    return _GENERATED.sub(r"\1*", text)


def make_claims(pod: Object, read: Callable[[Key], Object]) -> tuple[list[Object], list[Object]]:
    """The claims that a pod gets from its templates, and what its status says of them."""
    metadata, claims, statuses = pod["metadata"], [], []
    for entry in pod["spec"].get("resourceClaims") or ():
        template = entry.get("resourceClaimTemplateName")
        if template is None:
            continue
        name = f"{metadata['name']}-{entry['name']}-{_SUFFIX}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        claims.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": CLAIM,
                "metadata": {
                    "name": name,
                    "namespace": metadata["namespace"],
                    "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                },
                "spec": read((TEMPLATE, metadata["namespace"], template))["spec"]["spec"],
            }
        )
        statuses.append({"name": entry["name"], "resourceClaimName": name})
    return claims, statuses


def of_pod(pod: Object, claims: Iterable[Object]) -> list[Object]:
    """The claims that are reserved for a pod."""
    uid = pod["metadata"]["uid"]
    return [claim for claim in claims if any(each["uid"] == uid for each in _status(claim).get("reservedFor") or ())]


def awaits_driver(pod: Object, claims: Iterable[Object]) -> bool:
    """Whether all claims of a pod are its own, and some have devices that are not ready.

    The claim for extended resources is made after the others are reserved, and the pod's status tells of it last.
    """
    reserved = of_pod(pod, claims)
    if len(reserved) < len(pod["spec"].get("resourceClaims") or ()) + _asks_for_extended(pod):
        return False
    return any(result.get("bindingConditions") for claim in reserved for result in results_of(_status(claim)))


def _asks_for_extended(pod: Object) -> bool:
    """Whether containers ask for extended resources; where device plugins serve them, no claim is made."""
    containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    return any("/" in name for each in containers for name in (each.get("resources") or {}).get("limits") or ())


def results_of(status: Mapping[str, Any]) -> list[Object]:
    """The devices that a claim holds."""
    found: list[Object] = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return found


def cleaned(claim: Object) -> Object:
    """A claim without what only the API server says."""
    metadata = {name: claim["metadata"][name] for name in _KEPT if name in claim["metadata"]}
    found = {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM, "metadata": metadata, "spec": claim["spec"]}
    return {**found, "status": claim["status"]} if claim.get("status") else found


def told(claims: Iterable[Object]) -> dict[str, Object]:
    """What the verdict says of claims, under names without random ends."""
    return {
        masked(f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"): {
            "allocation": _status(claim).get("allocation"),
            "reservedFor": [each["name"] for each in _status(claim).get("reservedFor") or ()],
        }
        for claim in claims
    }


def _status(claim: Object) -> Object:
    found: Object = claim.get("status") or {}
    return found
