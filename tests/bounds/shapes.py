"""The worst object of each shape: pods and nodes of the largest size that an API server accepts, in one field each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from moorage.core import limits

SIZE_BYTES = 1_500_000
ANNOTATION_BYTES = 256 * 1024
"""The API server takes no more of these."""
_BATCH = 1_000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Make = Callable[[int], Any]
"""The entry of a list by its number, or the key and value of a mapping."""
Wrap = Callable[[Any], dict[str, Any]]


def filled(make: Make, size: int, most: int | None = None, start: int = 0) -> list[Any]:
    """As many entries as fit, about, or at most so many, with numbers from `start` on."""
    if most is not None:
        return [make(number) for number in range(start, start + most)]
    found: list[Any] = []
    left = size - 2_000
    while True:
        batch = [make(number) for number in range(start + len(found), start + len(found) + _BATCH)]
        taken = len(msgspec.json.encode(batch))
        if taken > left:
            return found + batch[: int(_BATCH * left / taken * 0.99)]
        found += batch
        left -= taken


def _wide(number: int) -> dict[str, Any]:
    """A selector that matches nearly every pod."""
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{number}"]}]}


def _term(number: int) -> dict[str, Any]:
    return {"topologyKey": f"key-{number % 7}", "labelSelector": _wide(number), "namespaceSelector": {}}


def _own(number: int) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"a{number}"}}}


def _weighted(make: Make) -> Make:
    return lambda number: {"weight": 1 + number % 100, "podAffinityTerm": make(number)}


def _spread(number: int, *, hard: bool) -> dict[str, Any]:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    key = f"key-{number % 7}"
    return {"maxSkew": 1000, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": _wide(number)}


def _requests(number: int) -> dict[str, Any]:
    return {"name": f"c{number}", "resources": {"requests": {"cpu": "1m", f"example.com/r{number}": 1}}}


def _expression(number: int) -> dict[str, Any]:
    return {"key": f"k{number}", "operator": "NotIn", "values": ["x"]}


def _claim(number: int) -> dict[str, Any]:
    return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}}


def _rbd(number: int) -> dict[str, Any]:
    return {"name": f"v{number}", "rbd": {"monitors": [f"m{number}-{each}" for each in range(50)], "image": "i"}}


def _text(number: int) -> tuple[str, str]:
    return f"k{number}", f"v{number}"


def _number(number: int) -> str:
    return f"v{number}"


def _metadata(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def _affinity(kind: str, which: str) -> Wrap:
    return lambda entries: _spec(affinity={kind: {which: entries}})


def _node_terms(terms: list[Any]) -> dict[str, Any]:
    return _spec(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


_POD_LISTS: dict[str, tuple[Make, Wrap]] = {
    "owner references": (
        lambda n: {"kind": "ReplicaSet", "name": f"o{n}", "uid": f"u{n}"},
        lambda entries: _metadata(ownerReferences=entries),
    ),
    "tolerations": (
        lambda n: {"key": f"k{n}", "operator": "Exists", "effect": "NoSchedule"},
        lambda entries: _spec(tolerations=entries),
    ),
    "node terms": (lambda n: {"matchExpressions": [_expression(n)]}, _node_terms),
    "node term's expressions": (_expression, lambda entries: _node_terms([{"matchExpressions": entries}])),
    "node term's values": (
        _number,
        lambda entries: _node_terms([{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": entries}]}]),
    ),
    "node term's names": (
        _number,
        lambda entries: _node_terms(
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": entries}]}]
        ),
    ),
    "preferred node terms": (
        lambda n: {"weight": 1, "preference": {"matchExpressions": [_expression(n)]}},
        _affinity("nodeAffinity", PREFERRED),
    ),
    "affinity terms": (_term, _affinity("podAffinity", REQUIRED)),
    "anti-affinity terms": (_term, _affinity("podAntiAffinity", REQUIRED)),
    "anti-affinity terms about others": (_own, _affinity("podAntiAffinity", REQUIRED)),
    "preferred affinity terms": (_weighted(_term), _affinity("podAffinity", PREFERRED)),
    "preferred anti-affinity terms": (_weighted(_term), _affinity("podAntiAffinity", PREFERRED)),
    "selector's expressions": (
        _expression,
        lambda entries: _spec(
            affinity={
                "podAntiAffinity": {REQUIRED: [{"topologyKey": "k", "labelSelector": {"matchExpressions": entries}}]}
            }
        ),
    ),
    "selector's values": (
        _number,
        lambda entries: _spec(
            affinity={
                "podAntiAffinity": {
                    REQUIRED: [
                        {
                            "topologyKey": "k",
                            "labelSelector": {
                                "matchExpressions": [{"key": "app", "operator": "In", "values": entries}]
                            },
                        }
                    ]
                }
            }
        ),
    ),
    "term's namespaces": (
        _number,
        lambda entries: _spec(
            affinity={
                "podAntiAffinity": {REQUIRED: [{"topologyKey": "k", "labelSelector": _wide(0), "namespaces": entries}]}
            }
        ),
    ),
    "hard spread constraints": (
        lambda n: _spread(n, hard=True),
        lambda entries: _spec(topologySpreadConstraints=entries),
    ),
    "soft spread constraints": (
        lambda n: _spread(n, hard=False),
        lambda entries: _spec(topologySpreadConstraints=entries),
    ),
    "containers": (lambda n: {"name": f"c{n}", "image": f"i{n}"}, lambda entries: _spec(containers=entries)),
    "containers with resources": (_requests, lambda entries: _spec(containers=entries)),
    "init containers": (_requests, lambda entries: _spec(initContainers=entries)),
    "sidecars": (
        lambda n: {**_requests(n), "restartPolicy": "Always"},
        lambda entries: _spec(initContainers=entries),
    ),
    "host ports": (
        lambda n: {"hostPort": 1 + n % 65535, "hostIP": f"10.0.{n % 250}.1"},
        lambda entries: _spec(containers=[{"name": "c", "ports": entries}]),
    ),
    "claims": (_claim, lambda entries: _spec(volumes=entries)),
    "ephemeral volumes": (lambda n: {"name": f"v{n}", "ephemeral": {}}, lambda entries: _spec(volumes=entries)),
    "image volumes": (lambda n: {"name": f"v{n}", "image": {"reference": f"i{n}"}}, lambda e: _spec(volumes=e)),
    "disks of many monitors": (_rbd, lambda entries: _spec(volumes=entries)),
    "resource claims": (
        lambda n: {"name": f"c{n}", "resourceClaimName": f"c{n}"},
        lambda entries: _spec(resourceClaims=entries),
    ),
    "conditions": (lambda n: {"type": f"t{n}", "status": "True"}, lambda entries: _status(conditions=entries)),
    "container statuses": (
        lambda n: {"name": f"c{n}", "allocatedResources": {"cpu": "1", f"example.com/s{n}": 1}},
        lambda entries: _status(containerStatuses=entries),
    ),
}

_POD_MAPS: dict[str, tuple[Make, Wrap]] = {
    "labels": (_text, lambda entries: _metadata(labels=entries)),
    "annotations": (_text, lambda entries: _metadata(annotations=entries)),
    "node selector": (_text, lambda entries: _spec(nodeSelector=entries)),
    "selector's labels": (
        _text,
        lambda entries: _spec(
            affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "k", "labelSelector": {"matchLabels": entries}}]}}
        ),
    ),
    "resource names": (
        lambda n: (f"example.com/r{n}", 1),
        lambda entries: _spec(containers=[{"name": "c", "resources": {"requests": entries}}]),
    ),
    "resource limits": (
        lambda n: (f"example.com/r{n}", 1),
        lambda entries: _spec(containers=[{"name": "c", "resources": {"limits": entries}}]),
    ),
    "overhead": (lambda n: (f"example.com/r{n}", 1), lambda entries: _spec(overhead=entries)),
}

_NODE_LISTS: dict[str, tuple[Make, Wrap]] = {
    "taints": (
        lambda n: {"key": f"k{n}", "effect": "PreferNoSchedule", "value": f"{n}"},
        lambda entries: _spec(taints=entries),
    ),
    "images": (lambda n: {"names": [f"i{n}"], "sizeBytes": 1}, lambda entries: _status(images=entries)),
    "names of one image": (_number, lambda entries: _status(images=[{"names": entries, "sizeBytes": 1}])),
    "node conditions": (lambda n: {"type": f"t{n}", "status": "True"}, lambda entries: _status(conditions=entries)),
    "features": (_number, lambda entries: _status(declaredFeatures=entries)),
}

_NODE_MAPS: dict[str, tuple[Make, Wrap]] = {
    "node labels": (_text, lambda entries: _metadata(labels=entries)),
    "node annotations": (_text, lambda entries: _metadata(annotations=entries)),
    "allocatable": (lambda n: (f"example.com/r{n}", 1), lambda entries: _status(allocatable=entries)),
}

POD_SHAPES = (*_POD_LISTS, *_POD_MAPS)
NODE_SHAPES = (*_NODE_LISTS, *_NODE_MAPS)


def _merged(parts: Iterator[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            whole[key] = {**whole.get(key, {}), **value}
    return whole


@lru_cache(maxsize=4)
def _entries(shape: str, most: int | None, start: int) -> tuple[Any, Wrap]:
    size = ANNOTATION_BYTES if "annotations" in shape else SIZE_BYTES
    if shape in _POD_LISTS or shape in _NODE_LISTS:
        make, wrap = {**_POD_LISTS, **_NODE_LISTS}[shape]
        return filled(make, size, most, start), wrap
    make, wrap = {**_POD_MAPS, **_NODE_MAPS}[shape]
    return dict(filled(make, size - 1_000, most, start)), wrap


def pod_json(
    shape: str, *, node: str | None = None, name: str = "worst", most: int | None = None, start: int = 0
) -> bytes:
    """A pod as large as may be in one way, or with at most so many entries; pending unless it has a node."""
    entries, wrap = _entries(shape, most, start)
    plain = _metadata(name=name, namespace="tenant", uid=name, resourceVersion="1")
    plain |= _spec(schedulerName="moorage", nodeName=node, containers=[{"name": "c"}])
    plain |= _status(phase="Running" if node else "Pending")
    return msgspec.json.encode(_merged(iter([plain, wrap(entries)])))


def node_json(shape: str, *, name: str = "worst-node", most: int | None = None, start: int = 0) -> bytes:
    """A node as large as may be in one way, or with at most so many entries."""
    entries, wrap = _entries(shape, most, start)
    plain = _metadata(name=name, uid=name, resourceVersion="1")
    plain |= _status(allocatable={"cpu": "4", "memory": "16Gi", "pods": "110"})
    return msgspec.json.encode(_merged(iter([plain, wrap(entries)])))


AT_LIMIT: dict[str, int] = {
    "tolerations": limits.TOLERATIONS,
    "node terms": limits.NODE_TERMS,
    "node term's expressions": limits.SELECTOR_PARTS // 2,
    "node term's values": limits.SELECTOR_PARTS - 1,
    "node term's names": limits.SELECTOR_PARTS - 1,
    "preferred node terms": limits.NODE_TERMS,
    "affinity terms": limits.POD_TERMS,
    "anti-affinity terms": limits.POD_TERMS,
    "anti-affinity terms about others": limits.POD_TERMS,
    "preferred affinity terms": limits.POD_TERMS,
    "preferred anti-affinity terms": limits.POD_TERMS,
    "selector's expressions": limits.SELECTOR_PARTS // 2,
    "selector's values": limits.SELECTOR_PARTS - 1,
    "term's namespaces": limits.SELECTOR_PARTS - 3,
    "hard spread constraints": limits.SPREAD_CONSTRAINTS,
    "soft spread constraints": limits.SPREAD_CONSTRAINTS,
    "containers": limits.CONTAINERS,
    "host ports": limits.HOST_PORTS,
    "image volumes": limits.VOLUMES,
    "claims": limits.VOLUMES,
    "resource claims": limits.RESOURCE_CLAIMS,
    "labels": limits.POD_LABELS,
    "node selector": limits.NODE_SELECTOR,
    "selector's labels": limits.SELECTOR_PARTS // 2,
    "resource names": limits.RESOURCE_NAMES,
    "sidecars": limits.RESOURCE_NAMES - 1,
}
"""How many entries of a pod just count, so that it is scheduled as any other."""
