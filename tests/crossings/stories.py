"""Short stories for the auditor, told object by object; no engine takes part."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tests.crossings.audit.auditor import Auditor
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.bodies import NAMESPACE, Body, body, node, pod_spec
from tests.crossings.capabilities.queues import LABEL

STRICT: list[Body] = [
    {"name": plugin, "args": {"pdbPolicy": "Strict"}} for plugin in ("FairShare", "DefaultPreemption")
]
PREEMPTED = "moorage: preempting to accommodate a higher priority pod"


def configuration(plugins: Sequence[str] = (), arguments: Sequence[Body] = ()) -> list[Body]:
    """The documents of a configuration with these plugins."""
    points = {"multiPoint": {"enabled": [{"name": name} for name in plugins]}}
    return [{"profiles": [{"schedulerName": "moorage", "plugins": points, "pluginConfig": list(arguments)}]}]


def pod(name: str, cpu: str = "1", *, on: str = "", **about: Any) -> Body:
    """A pod; `labels`, `notes`, `priority`, `owner`, `group`, `queue` and `spec` say more."""
    metadata: Body = {"uid": f"u-{name}", "labels": {"app": name, **about.get("labels", {})}}
    metadata["annotations"] = dict(about.get("notes", {}))
    if about.get("queue"):
        metadata["labels"][LABEL] = about["queue"]
    if about.get("owner"):
        metadata["ownerReferences"] = [
            {"kind": "ReplicaSet", "name": about["owner"], "uid": f"u-{about['owner']}", "controller": True}
        ]
    if about.get("group"):
        metadata["annotations"] |= {
            "moorage.dev/pod-group": about["group"],
            "moorage.dev/pod-group-min-available": str(about["least"]),
        }
    spec = {**pod_spec(cpu), **about.get("spec", {}), "priority": about.get("priority", 0)}
    told = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
    made = body("v1", "Pod", name, NAMESPACE, metadata=metadata, spec=spec, status={"conditions": told})
    return bound(made, on) if on else made


def bound(given: Body, where: str) -> Body:
    """The pod as it runs on a node."""
    made = deepcopy(given)
    made["spec"]["nodeName"] = where
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return made


def leaving(given: Body, reason: str = "PreemptionByScheduler", message: str = PREEMPTED) -> Body:
    """The pod as it is being deleted by the scheduler."""
    made = deepcopy(given)
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    made["status"].setdefault("conditions", []).append(told)
    return made


def replica_set(name: str, replicas: int = 1) -> Body:
    """An owner that makes pods again."""
    return body("apps/v1", "ReplicaSet", name, NAMESPACE, metadata={"uid": f"u-{name}"}, spec={"replicas": replicas})


class Story:
    """What is told to one auditor."""

    def __init__(self, plugins: Sequence[str] = (), arguments: Sequence[Body] = (), cpu: int = 4) -> None:
        self.auditor = Auditor(configuration(plugins, arguments))
        self._known: dict[tuple[str, str, str], Body] = {}
        self.now_s = 0.0
        self.put(node("n0", cpu=cpu, amounts={"nvidia.com/gpu": "1"}))

    def put(self, *objects: Body) -> None:
        """Objects come or change."""
        for each in objects:
            key = (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
            self.auditor.changed(each["kind"], self._known.get(key), each, self.now_s)
            self._known[key] = each

    def drop(self, each: Body) -> None:
        """An object goes."""
        key = (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        self.auditor.changed(each["kind"], self._known.pop(key), None, self.now_s)

    def bind(self, given: Body, where: str = "n0", notes: dict[str, str] | None = None) -> Body:
        """A pod comes and is bound."""
        self.put(given)
        made = bound(given, where)
        made["metadata"]["annotations"] |= notes or {}
        self.put(made)
        return made

    def order(self, *orders: Order) -> None:
        """The scheduler decides."""
        self.auditor.ordered(orders, self.now_s)

    def evict(self, victims: Sequence[Body], claimant: Body | None = None, **about: str) -> None:
        """The scheduler decides that pods go, and they do."""
        reason, message = about.get("reason", "PreemptionByScheduler"), about.get("message", PREEMPTED)
        uid = "" if claimant is None else claimant["metadata"]["uid"]
        names = [(each["metadata"]["uid"], f"{NAMESPACE}/{each['metadata']['name']}") for each in victims]
        self.order(*(Order(Verb.EVICT, *name, reason=reason, message=message, claimant=uid) for name in names))
        for each in victims:
            self.put(leaving(each, reason, message))
            self.drop(leaving(each, reason, message))

    def rest(self) -> set[str]:
        """Nothing happens for long; the rules that are breached."""
        self.now_s += 400.0
        self.auditor.looked(self.now_s)
        self.auditor.rested(self.now_s)
        return {each.rule for each in self.auditor.breaches()}
