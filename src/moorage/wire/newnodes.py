"""Another node like one that there is, as it is when it has just come up."""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import deepcopy
from typing import Any

from moorage.core.labelnames import HOSTNAME

_OF_ONE = frozenset({"uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences", "selfLink",
                     "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "finalizers"})  # fmt: skip
_TROUBLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How the keys of taints begin that say how a node is at present, not what kind of node it is."""
_PAST = ("csi.volume.kubernetes.io/", "moorage.dev/")
"""The same of annotations that tell what was done on a node, or with it."""


def node_like(model: Mapping[str, Any], name: str, status: Container[str]) -> dict[str, Any]:
    """A node of the same kind without pods, troubles and an identity of its own; of the status it has these parts."""
    before = model["metadata"]
    given = before.get("labels") or {}
    labels = {key: name if key == HOSTNAME or text == before["name"] else text for key, text in given.items()}
    notes = {key: text for key, text in (before.get("annotations") or {}).items() if not key.startswith(_PAST)}
    metadata = {key: value for key, value in before.items() if key not in _OF_ONE and key != "annotations"}
    metadata |= {"name": name, **({"labels": labels} if labels else {}), **({"annotations": notes} if notes else {})}
    given_taints = (model.get("spec") or {}).get("taints") or ()
    taints = [deepcopy(each) for each in given_taints if not str(each.get("key")).startswith(_TROUBLE)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": taints} if taints else {},
        "status": {key: deepcopy(value) for key, value in (model.get("status") or {}).items() if key in status},
    }


def slice_like(model: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The devices of a node as another one has them, in a pool of its own; nothing is wrong with them."""
    before = model["metadata"]
    spec = deepcopy(dict(model.get("spec") or {}))
    pool = spec["pool"] = dict(spec.get("pool") or {})
    pool["name"] = node if pool.get("name") == spec.get("nodeName") else f"{pool.get('name')}-{node}"
    spec["nodeName"] = node
    for device in spec.get("devices") or ():
        device.pop("taints", None)
    metadata = {"name": f"{before['name']}-{node}"}
    return {"apiVersion": model["apiVersion"], "kind": model["kind"], "metadata": metadata, "spec": spec}
