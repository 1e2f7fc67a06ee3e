"""What `moorage bench cluster` creates: nodes, and the pods of each workload, as Kubernetes JSON.

A workload is a table row. Its pods come in two groups that never look at each other: the burst, which exists before the
scheduler starts, and the pods that arrive at a steady rate afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.bench.devices import SERVED, device_claims, device_objects
from moorage.bench.virtualnodes import VirtualNode, node_object
from moorage.core.labelnames import HOSTNAME, ZONE
from moorage.core.values import dataclass

Manifest = dict[str, Any]

NAMESPACE = "bench"
SCHEDULER_NAME = "default-scheduler"
GANG = 10
"""Members of a gang."""
UNSCHEDULABLE = 1_000
"""Pods that fit nowhere, in the workload of that name."""
TEMPLATES = 20
FILLER_CPU_MILLI = 8_000
PREEMPTOR_CPU_MILLI = 4_000
_ZONES = 3
_CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi"}
_HIGH, _LOW = "bench-high", "bench-low"


def nodes(count: int, *, first: int = 0) -> Iterator[Manifest]:
    """Healthy nodes in three zones, with room for many pods each."""
    now = datetime.now(UTC)
    for number in range(first, first + count):
        node = VirtualNode(name=f"node-{number}", capacity=_CAPACITY, zone=f"zone-{number % _ZONES}")
        yield node_object(node, f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", now)


def pod(name: str, *, labels: Mapping[str, str], cpu: str = "100m", memory: str = "500Mi", **spec: object) -> Manifest:
    """A pod of one container that asks for a little."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "containers": [{**container, "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **spec,
        },
    }


def present_pods(count: int, node_count: int) -> Iterator[Manifest]:
    """Pods that stand on the nodes already, the same number on each."""
    for number in range(count):
        yield pod(f"present-{number}", labels={"app": "present"}, nodeName=f"node-{number % node_count}")


def _term(app: str, topology_key: str) -> Manifest:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}


def _spread(app: str, when: str) -> list[Manifest]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]


def _required(kind: str, app: str, topology_key: str) -> Manifest:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, topology_key)]}}


def _preferred(kind: str, app: str, topology_key: str) -> Manifest:
    term = {"weight": 10, "podAffinityTerm": _term(app, topology_key)}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _equal(app: str, count: int, **spec: object) -> Iterator[Manifest]:
    return (pod(f"{app}-{number}", labels={"app": app}, **spec) for number in range(count))  # type: ignore[arg-type]


def basic_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods without rules."""
    return _equal(app, count)


def spread_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods that must be spread over the zones."""
    return _equal(app, count, topologySpreadConstraints=_spread(app, "DoNotSchedule"))


def soft_spread_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods that like to be spread over the zones."""
    return _equal(app, count, topologySpreadConstraints=_spread(app, "ScheduleAnyway"))


def anti_affinity_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods of which no two may share a host."""
    return _equal(app, count, affinity=_required("podAntiAffinity", app, HOSTNAME))


def affinity_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods that must share a zone."""
    return _equal(app, count, affinity=_required("podAffinity", app, ZONE))


def preferred_affinity_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods that like to share a zone."""
    return _equal(app, count, affinity=_preferred("podAffinity", app, ZONE))


def mixed_pods(app: str, count: int) -> Iterator[Manifest]:
    """Twenty templates in turn, as many teams at once would send them."""
    for number in range(count):
        template = number % TEMPLATES
        team = f"{app}-{template // 4}"
        kinds: list[Manifest] = [
            {},
            {"topologySpreadConstraints": _spread(team, "DoNotSchedule")},
            {"affinity": _preferred("podAffinity", team, ZONE)},
            {"affinity": _preferred("podAntiAffinity", team, HOSTNAME)},
        ]
        yield pod(f"{app}-{number}", labels={"app": team}, cpu=f"{50 + 5 * template}m", **kinds[template % 4])


def gang_members(app: str, count: int) -> Iterator[Manifest]:
    """Pods of native PodGroups, ten each; the last group may be smaller."""
    for number in range(count):
        group = {"podGroupName": f"{app}-{number // GANG}"}
        yield pod(f"{app}-{number}", labels={"app": app}, schedulingGroup=group)


def pod_groups(app: str, count: int) -> Iterator[tuple[str, Manifest]]:
    """The groups of `gang_members`, each with the path where it is created."""
    for first in range(0, count, GANG):
        policy = {"gang": {"minCount": min(GANG, count - first)}}
        yield (
            f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups",
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": f"{app}-{first // GANG}", "namespace": NAMESPACE},
                "spec": {"schedulingPolicy": policy},
            },
        )


def device_pods(app: str, count: int) -> Iterator[Manifest]:
    """Pods with a claim for one device each."""
    for number in range(count):
        name = f"{app}-{number}"
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        yield pod(name, labels={"app": app}, **spec)  # type: ignore[arg-type]


def claims_of_pods(app: str, count: int) -> Iterator[tuple[str, Manifest]]:
    """The claims of `device_pods`."""
    return device_claims(NAMESPACE, (f"{app}-{number}" for number in range(count)))


def preemptors(app: str, count: int) -> Iterator[Manifest]:
    """Important pods that fit only where others make room."""
    cpu = f"{PREEMPTOR_CPU_MILLI}m"
    return (pod(f"{app}-{number}", labels={"app": app}, cpu=cpu, priorityClassName=_HIGH) for number in range(count))


def fillers(node_count: int) -> Iterator[Manifest]:
    """Unimportant pods that leave no cpu on any node, and that vanish at once when they are evicted."""
    for number in range(node_count * (32_000 // FILLER_CPU_MILLI)):
        spec = {
            "priorityClassName": _LOW,
            "terminationGracePeriodSeconds": 0,
            "nodeName": f"node-{number % node_count}",
        }
        yield pod(f"filler-{number}", labels={"app": "filler"}, cpu=f"{FILLER_CPU_MILLI}m", **spec)  # type: ignore[arg-type]


def priority_classes(_nodes: int) -> Iterator[tuple[str, Manifest]]:
    """The two priorities of the workload `preemption`."""
    for name, value in ((_HIGH, 1000), (_LOW, 1)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        yield "/apis/scheduling.k8s.io/v1/priorityclasses", body


def hopeless_pods(count: int) -> Iterator[Manifest]:
    """Pods that fit nowhere."""
    return (pod(f"hopeless-{number}", labels={"app": "hopeless"}, cpu="1000") for number in range(count))


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """One workload."""

    title: str
    pods: Callable[[str, int], Iterator[Manifest]]
    """(group, count) -> the pods to place."""
    objects: Callable[[str, int], Iterator[tuple[str, Manifest]]] | None = None
    """(group, count) -> what these pods need, with the paths where it is created."""
    equipment: Callable[[int], Iterator[tuple[str, Manifest]]] | None = None
    """Number of nodes -> what all pods need, likewise."""
    per_node: int = 100
    """How many pods a node has room for."""
    gangs: bool = False
    """Whether the gates of native PodGroups have to be on."""
    full: bool = False
    """Whether the nodes are full of unimportant pods."""
    hopeless: int = 0
    """So many pods that fit nowhere are there as well."""
    churn: bool = False
    """Whether nodes come, change and go all the while."""
    by_default: bool = False


LOADS: dict[str, ClusterLoad] = {
    "basic": ClusterLoad("basic", basic_pods, by_default=True),
    "spread": ClusterLoad("zone spread", spread_pods, by_default=True),
    "anti-affinity": ClusterLoad("host anti-affinity", anti_affinity_pods, per_node=1, by_default=True),
    "affinity": ClusterLoad("zone affinity", affinity_pods, by_default=True),
    "preferred-affinity": ClusterLoad("preferred affinity", preferred_affinity_pods),
    "soft-spread": ClusterLoad("soft spread", soft_spread_pods),
    "mixed": ClusterLoad("mixed templates", mixed_pods),
    "gangs": ClusterLoad("gangs", gang_members, objects=pod_groups, gangs=True),
    "preemption": ClusterLoad("preemption", preemptors, equipment=priority_classes, per_node=2, full=True),
    "devices": ClusterLoad(
        "devices", device_pods, objects=claims_of_pods, equipment=device_objects, per_node=SERVED // 2
    ),
    "unschedulable": ClusterLoad("beside unschedulable", basic_pods, hopeless=UNSCHEDULABLE),
    "churn": ClusterLoad("node churn", basic_pods, churn=True),
}
"""Name on the command line -> workload."""
