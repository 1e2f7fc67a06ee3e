"""Questions of placement: a cluster with some pods, then pods that come while nodes and pods change."""

from __future__ import annotations

import copy
from random import Random

from tests.parity.drawing.nodes import draw_labels, draw_node, draw_nodes, draw_taints
from tests.parity.drawing.pods import APPS, NAMESPACES, draw_pod
from tests.parity.drawing.preemption import EVERY_CLASS
from tests.parity.questions import MARK, Object, Question, Step, key_of

PROFILES = ("default-scheduler", "default-scheduler", "default-scheduler", "binpack", "ratio", "weighted", "listspread")
HAPPENINGS = (
    "label",
    "taint",
    "cordon",
    "shrink",
    "new node",
    "node gone",
    "new pod",
    "new pod",
    "pod gone",
    "relabel",
)
POD_LEVEL = ({"cpu": "1", "memory": "2Gi"}, {"memory": "3Gi"}, {"cpu": "500m"}, {"cpu": "3", "memory": "10Gi"})
EVERY_NAMESPACE: tuple[Object, ...] = tuple(
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/metadata.name": name,
                **({"team": name[-1]} if name.startswith("team-") else {}),
            },
        },
    }
    for name in NAMESPACES
)


def draw_placement(seed: int) -> Question:
    """One question."""
    random = Random(seed)
    nodes = draw_nodes(random)
    profile = random.choice((*PROFILES, "added"))
    bound = [_bound(random, f"{MARK}e{i}", nodes) for i in range(random.randrange(2 * len(nodes) + 2))]
    others = [*EVERY_NAMESPACE, *_runtime_classes(random), *_services(random), *_owners(random)]
    start = [*nodes, *bound]
    steps: list[Step] = []
    for number in range(random.choice((1, 2, 3, 4, 6))):
        put, remove = _changes(random, number, nodes, bound) if number else ([], [])
        pod = draw_pod(random, f"{MARK}p{number}")
        pod["spec"]["schedulerName"] = profile
        _dress(random, pod, [*others, *nodes])
        steps.append(Step(pod, put, remove))
    kind = "placement"
    if random.random() < 0.2:
        kind = "rivalry"
        others += EVERY_CLASS
        _rank(random, [*start, *(pod for step in steps for pod in (step.pod, *step.put))])
    return Question(seed, kind, [*others, *start], steps)


def _rank(random: Random, objects: list[Object]) -> None:
    """Give every pod a priority, the same to all versions of it."""
    low = ("p0", "p10", "p20")
    chosen: dict[str, str] = {}
    for pod in objects:
        if pod["kind"] == "Pod":
            choice = random.choice(low if "nodeName" in pod["spec"] else (*low, "p50"))
            pod["spec"]["priorityClassName"] = chosen.setdefault(pod["metadata"]["name"], choice)


def _bound(random: Random, name: str, nodes: list[Object]) -> Object:
    pod = draw_pod(random, name, rules=0.6)
    pod["spec"]["nodeName"] = random.choice(nodes)["metadata"]["name"]
    # A constraint that nothing looks at once the pod is bound would only make the question longer.
    pod["spec"].pop("topologySpreadConstraints", None)
    return pod


def _runtime_classes(random: Random) -> list[Object]:
    if random.random() < 0.9:
        return []
    overhead = {"podFixed": {"cpu": random.choice(("250m", "1")), "memory": "120Mi"}}
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": f"{MARK}vm"},
            "handler": "vm",
            "overhead": overhead,
        }
    ]


def _services(random: Random) -> list[Object]:
    """What the default spread constraints look at."""
    if random.random() < 0.7:
        return []
    metadata = {"name": f"{MARK}s", "namespace": random.choice(NAMESPACES)}
    spec = {"selector": {"app": random.choice(APPS)}, "ports": [{"port": 80}]}
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]


def _owners(random: Random) -> list[Object]:
    """Controllers that want no more pods: the default spread constraints look at their selectors."""
    if random.random() < 0.8:
        return []
    found: list[Object] = []
    for kind, api_version in (("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")):
        if random.random() < 0.5:
            labels = {"app": random.choice(APPS)}
            container = {"name": "c", "image": "x"}
            spec = {
                "replicas": 0,
                "selector": labels if kind == "ReplicationController" else {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            }
            metadata = {"name": f"{MARK}{kind.lower()}", "namespace": random.choice(NAMESPACES), "uid": f"uid-{kind}"}
            found.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    return found


def _dress(random: Random, pod: Object, objects: list[Object]) -> None:
    """Rarer things that a pod may have."""
    spec = pod["spec"]
    classes = [obj for obj in objects if obj["kind"] == "RuntimeClass"]
    if classes and random.random() < 0.7:
        spec["runtimeClassName"] = classes[0]["metadata"]["name"]
    if random.random() < 0.05:
        spec["resources"] = {"requests": random.choice(POD_LEVEL)}
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["resources"] = {"requests": {"cpu": "100m"}} if random.random() < 0.3 else {}
    owners = [obj for obj in objects if obj["metadata"].get("uid")]
    if owners and random.random() < 0.8:
        owner = random.choice(owners)
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        pod["metadata"]["ownerReferences"] = [
            {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        ]
        pod["metadata"]["namespace"] = owner["metadata"]["namespace"]
        spec.pop("topologySpreadConstraints", None)
    if random.random() < 0.03:
        nodes = [obj for obj in objects if obj["kind"] == "Node"]
        term = {"key": "metadata.name", "operator": "In", "values": [random.choice(nodes)["metadata"]["name"]]}
        required = {"nodeSelectorTerms": [{"matchFields": [term]}]}
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required


def _changes(
    random: Random, number: int, nodes: list[Object], bound: list[Object]
) -> tuple[list[Object], list[tuple[str, str, str]]]:
    """One or two things that happen between two pods; `nodes` and `bound` follow."""
    put: list[Object] = []
    remove: list[tuple[str, str, str]] = []
    for index in range(random.choice((0, 1, 1, 2))):
        what = random.choice(HAPPENINGS)
        if what == "node gone":
            _lose_node(random, nodes, bound, put, remove)
        elif what == "new node":
            nodes.append(draw_node(random, f"{MARK}m{number}{index}"))
            # kube-scheduler does not tell the nodes it knows already how many nodes have an image once one more has it.
            nodes[-1]["status"]["images"] = []
            put.append(nodes[-1])
        elif what == "new pod":
            bound.append(_bound(random, f"{MARK}f{number}{index}", nodes))
            put.append(bound[-1])
        elif what in ("pod gone", "relabel"):
            _change_pod(random, what, bound, put, remove)
        else:
            put.append(_changed_node(random, what, nodes))
    return put, remove


def _lose_node(
    random: Random, nodes: list[Object], bound: list[Object], put: list[Object], remove: list[tuple[str, str, str]]
) -> None:
    """A node that was there before the step goes, with its pods as far as we made them."""
    touched = {key_of(obj) for obj in put}
    # Only nodes without images go, for the same reason for which only such nodes come.
    there = [node for node in nodes if key_of(node) not in touched and not node["status"]["images"]]
    if len(nodes) < 2 or not there:
        return
    node = random.choice(there)
    name = node["metadata"]["name"]
    nodes.remove(node)
    remove.append(key_of(node))
    lost = [pod for pod in bound if pod["spec"]["nodeName"] == name]
    bound[:] = [pod for pod in bound if pod not in lost]
    put[:] = [obj for obj in put if obj not in lost]
    remove += [key_of(pod) for pod in lost if key_of(pod) not in touched]


def _changed_node(random: Random, what: str, nodes: list[Object]) -> Object:
    index = random.randrange(len(nodes))
    node = nodes[index] = copy.deepcopy(nodes[index])
    name = node["metadata"]["name"]
    if what == "label":
        node["metadata"]["labels"] = draw_labels(random, name)
    elif what == "taint":
        node["spec"]["taints"] = draw_taints(random)
    elif what == "cordon":
        node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
    else:
        node["status"]["allocatable"]["cpu"] = random.choice(("1", "2", "6"))
    return node


def _change_pod(
    random: Random, what: str, bound: list[Object], put: list[Object], remove: list[tuple[str, str, str]]
) -> None:
    if not bound:
        return
    index = random.randrange(len(bound))
    if what == "pod gone":
        gone = key_of(bound.pop(index))
        fresh = any(key_of(obj) == gone for obj in put)
        put[:] = [obj for obj in put if key_of(obj) != gone]
        # A pod that would come and go within one step was never there.
        if not fresh:
            remove.append(gone)
    else:
        pod = bound[index] = copy.deepcopy(bound[index])
        pod["metadata"]["labels"]["app"] = random.choice(APPS)
        put.append(pod)
