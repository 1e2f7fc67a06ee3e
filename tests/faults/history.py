"""What the auditor has seen: every revision of every object, and what follows from it. Nothing here is Moorage's.

Everything in one etcd shares one count of revisions, so states of different kinds are put in order by their resource
versions, without a clock. When a state was seen is noted too, by the auditor's own clock.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Object = Mapping[str, Any]

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_FINAL = frozenset({"Succeeded", "Failed"})
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"^([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]*))$")


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of one object."""

    kind: str
    change: str
    object: Object
    version: int
    seen_s: float

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Of the object, empty if it has none."""
        return str(self.object["metadata"].get("namespace", ""))


@dataclass(slots=True)
class History:
    """Revisions in the order of their versions, and whether any may be missing."""

    revisions: list[Revision] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    def of(self, kind: str) -> Iterator[Revision]:
        """Those of one kind."""
        return (each for each in self.revisions if each.kind == kind)

    def last(self, kind: str) -> dict[str, Object]:
        """What is there at the end, by uid."""
        found: dict[str, Object] = {}
        for each in self.of(kind):
            if each.change == DELETED:
                found.pop(each.uid, None)
            else:
                found[each.uid] = each.object
        return found

    def part(self, namespaces: Iterable[str], nodes: str) -> History:
        """What concerns these namespaces, and the nodes whose name begins so."""
        wanted = set(namespaces)
        kept = [
            each
            for each in self.revisions
            if each.namespace in wanted or (each.kind == "nodes" and each.name.startswith(nodes))
        ]
        return History(sorted(kept, key=lambda each: each.version), list(self.gaps))


# --- reading objects ---


@functools.lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """Return the amount of a Kubernetes quantity."""
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, exponent, suffix = Decimal(match[1]), match[2], match[3] or ""
    if exponent is not None:
        return number * Decimal(10) ** int(exponent)
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    return number * Decimal(10) ** _SUFFIXES[suffix]


def node_of(pod: Object) -> str:
    """Where it is bound, or nothing."""
    return str(pod["spec"].get("nodeName") or "")


def is_finished(pod: Object) -> bool:
    """Whether all its containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in _FINAL


def is_leaving(pod: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    """Whether its condition says so."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def requests(pod: Object) -> dict[str, Decimal]:
    """What it takes of a node: containers together, or its largest init container, and overhead; one pod."""
    spec = pod["spec"]
    total = _summed(_asked(each) for each in spec["containers"])
    sidecars: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for each in spec.get("initContainers") or []:
        asked = _asked(each)
        if each.get("restartPolicy") == "Always":
            sidecars = _summed([sidecars, asked])
            peak = _largest(peak, sidecars)
        else:
            peak = _largest(peak, _summed([sidecars, asked]))
    total = _largest(_summed([total, sidecars]), peak)
    overhead = {name: quantity(amount) for name, amount in (spec.get("overhead") or {}).items()}
    return _summed([total, overhead, {"pods": Decimal(1)}])


def host_ports(pod: Object) -> set[tuple[str, int, str]]:
    """Protocol, port and address of each host port."""
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    ports = [port for each in containers for port in each.get("ports") or [] if port.get("hostPort")]
    return {(each.get("protocol", "TCP"), each["hostPort"], each.get("hostIP") or "0.0.0.0") for each in ports}  # noqa: S104


def clash(ours: AbstractSet[tuple[str, int, str]], theirs: AbstractSet[tuple[str, int, str]]) -> bool:
    """Whether two pods cannot have these host ports on one node."""
    return any(
        a[:2] == b[:2] and (a[2] == b[2] or "0.0.0.0" in {a[2], b[2]})  # noqa: S104
        for a in ours
        for b in theirs
    )


def allocatable(node: Object) -> dict[str, Decimal]:
    """What the node has for pods."""
    return {name: quantity(amount) for name, amount in (node["status"].get("allocatable") or {}).items()}


def refuses(node: Object, pod: Object) -> str:
    """Why the node must not be given the pod: cordoned, or tainted; empty if neither."""
    spec = node.get("spec") or {}
    if is_leaving(node):
        return "leaving"
    taints = [each for each in spec.get("taints") or [] if each["effect"] in {"NoSchedule", "NoExecute"}]
    if spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    tolerations = pod["spec"].get("tolerations") or []
    bad = [each for each in taints if not any(_tolerates(one, each) for one in tolerations)]
    return f"tainted {bad[0]['key']}" if bad else ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def _asked(container: Mapping[str, Any]) -> dict[str, Decimal]:
    given = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity(amount) for name, amount in given.items()}


def _summed(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _largest(left: Mapping[str, Decimal], right: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {*left, *right}}
