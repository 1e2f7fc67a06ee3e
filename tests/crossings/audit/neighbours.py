"""What pods say about the pods beside them: spread, affinity, ports."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crossings.audit.scene import Object, is_leaving, labels, namespace_of, spec, uid_of
from tests.crossings.audit.selectors import matches, tolerates, wants_node
from tests.crossings.audit.whatif import WhatIf

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ports(pod: Object) -> set[tuple[str, int]]:
    """The host ports of a pod."""
    return {
        (port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in spec(pod).get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def neighbours_fit(view: WhatIf, pod: Object, node: str) -> str:
    """Why a pod cannot be beside those on a node and around it; empty if it can."""
    mine = ports(pod)
    if mine and any(mine & ports(other) for other in view.on(node)):
        return "host port"
    return _spread(view, pod, node) or _affinity(view, pod, node)


def _terms(pod: Object, kind: str) -> Iterator[Object]:
    yield from ((spec(pod).get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()


def _covers(term: Object, owner: Object, other: Object) -> bool:
    return namespace_of(owner) == namespace_of(other) and matches(term.get("labelSelector"), labels(other))


def _affinity(view: WhatIf, pod: Object, node: str) -> str:
    nodes = view.scene.nodes
    here = labels(nodes[node])
    others = [
        (other, labels(nodes[where]))
        for other, where in view.standing()
        if _near(pod) or next(_terms(other, "podAntiAffinity"), None)
    ]
    for term in _terms(pod, "podAntiAffinity"):
        key = term["topologyKey"]
        if key in here and any(at.get(key) == here[key] and _covers(term, pod, other) for other, at in others):
            return "anti-affinity"
    for other, at in others:
        for term in _terms(other, "podAntiAffinity"):
            key = term["topologyKey"]
            if key in here and at.get(key) == here[key] and _covers(term, other, pod):
                return "anti-affinity of others"
    return _wanted(pod, here, others)


def _wanted(pod: Object, here: Object, others: list[tuple[Object, Object]]) -> str:
    terms = list(_terms(pod, "podAffinity"))
    found = [[at for other, at in others if _covers(term, pod, other)] for term in terms]
    if terms and not any(found) and all(_covers(term, pod, pod) for term in terms):
        return "" if all(term["topologyKey"] in here for term in terms) else "affinity"
    for term, places in zip(terms, found, strict=True):
        key = term["topologyKey"]
        if key not in here or not any(at.get(key) == here[key] for at in places):
            return "affinity"
    return ""


def _near(pod: Object) -> bool:
    return any(True for kind in ("podAffinity", "podAntiAffinity") for _ in _terms(pod, kind))


def _spread(view: WhatIf, pod: Object, node: str) -> str:
    for rule in spec(pod).get("topologySpreadConstraints") or ():
        if rule.get("whenUnsatisfiable") == "DoNotSchedule" and not _even(view, pod, node, rule):
            return "spread"
    return ""


def _even(view: WhatIf, pod: Object, node: str, rule: Object) -> bool:
    key, selector = rule["topologyKey"], rule.get("labelSelector")
    keys = [each["topologyKey"] for each in spec(pod)["topologySpreadConstraints"]]
    nodes = view.scene.nodes
    if key not in labels(nodes[node]):
        return False
    counts: dict[str, int] = {}
    for name, each in nodes.items():
        if not all(other in labels(each) for other in keys) or not wants_node(pod, each):
            continue
        if rule.get("nodeTaintsPolicy") == "Honor" and not tolerates(pod, each):
            continue
        value = labels(each)[key]
        found = sum(
            namespace_of(other) == namespace_of(pod)
            and not is_leaving(other)
            and uid_of(other) != uid_of(pod)
            and matches(selector, labels(other))
            for other in view.on(name)
        )
        counts[value] = counts.get(value, 0) + found
    mine = counts.get(labels(nodes[node])[key], 0) + matches(selector, labels(pod))
    return mine - min(counts.values(), default=0) <= int(rule["maxSkew"])
