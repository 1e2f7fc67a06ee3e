"""Pods drawn at random: requests, ports, images, tolerations, affinities, spread constraints."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.drawing.nodes import EFFECTS, GPU, HOSTNAME, HUGE, IMAGES, LABEL_VALUES, REGION, TAINT_KEYS, ZONE
from tests.parity.questions import Object

NAMESPACES = ("default", "team-a", "team-b")
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
CPU = ("100m", "100m", "250m", "250m", "0.5", "500m", "1", "1", "1500m", "2", "3")
MEMORY = ("128Mi", "200M", "512Mi", "1Gi", "1.5Gi", "2Gi", "3000000Ki", "4G")
TOPOLOGY_KEYS = (ZONE, ZONE, HOSTNAME, HOSTNAME, "disk", REGION)
TEMPLATE_HASH = "pod-template-hash"
IGNORED = "IgnoredDuringExecution"


def draw_pod(random: Random, name: str, *, rules: float = 1.0) -> Object:
    """A pod without node; `rules` scales how likely it has affinities and the like."""
    labels = {"app": random.choice(APPS)}
    if random.random() < 0.5:
        labels["tier"] = random.choice(TIERS)
    if random.random() < 0.3:
        labels[TEMPLATE_HASH] = random.choice(("h1", "h2"))
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "containers": [draw_container(random, f"c{i}") for i in range(random.choice((1, 1, 1, 2)))],
    }
    if random.random() < 0.15:
        spec["initContainers"] = [draw_init(random, f"i{i}") for i in range(random.choice((1, 2)))]
    if random.random() < 0.06:
        spec["hostNetwork"] = True
        for container in spec["containers"]:
            for port in container.get("ports", ()):
                port.pop("hostIP", None)
    _add_rules(random, spec, labels, rules)
    metadata = {"name": name, "namespace": random.choice(NAMESPACES), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _add_rules(random: Random, spec: dict[str, Any], labels: dict[str, str], rules: float) -> None:
    if random.random() < 0.12 * rules:
        key = random.choice((ZONE, "disk", "gpu", "node-type"))
        spec["nodeSelector"] = {key: random.choice(LABEL_VALUES.get(key, ("a", "b")))}
    affinity = draw_affinity(random, labels, rules)
    if affinity:
        spec["affinity"] = affinity
    if random.random() < 0.35 * rules:
        spec["topologySpreadConstraints"] = draw_spread(random, labels)
    if random.random() < 0.4 * rules:
        spec["tolerations"] = [draw_toleration(random) for _ in range(random.choice((1, 1, 2)))]


def draw_requests(random: Random) -> dict[str, Any]:
    """Requests, limits, or nothing."""
    requests: dict[str, str] = {}
    if random.random() < 0.8:
        requests["cpu"] = random.choice(CPU)
    if random.random() < 0.75:
        requests["memory"] = random.choice(MEMORY)
    if random.random() < 0.1:
        requests["ephemeral-storage"] = random.choice(("1Gi", "1Gi", "30Gi"))
    if random.random() < 0.1:
        return {"limits": requests}
    return {"requests": requests} if requests else {}


def draw_container(random: Random, name: str) -> Object:
    """A main container."""
    resources = draw_requests(random)
    if random.random() < 0.06:
        count = random.choice(("1", "2"))
        resources = {
            "requests": {**resources.get("requests", {}), GPU: count},
            "limits": {**resources.get("limits", {}), GPU: count},
        }
    elif random.random() < 0.03:
        amounts = {"cpu": "100m", HUGE: random.choice(("4Mi", "32Mi"))}
        resources = {"requests": amounts, "limits": amounts}
    container: Object = {"name": name, "image": _image(random), "resources": resources}
    # Two containers of a pod must not want the same port.
    if name == "c0" and random.random() < 0.15:
        number = random.choice((8080, 9090))
        port: Object = {"containerPort": number, "hostPort": number, "protocol": random.choice(("TCP", "UDP"))}
        if random.random() < 0.3:
            port["hostIP"] = random.choice(("127.0.0.1", "10.0.0.1", "0.0.0.0"))  # noqa: S104 - nothing listens
        container["ports"] = [port]
    return container


def draw_init(random: Random, name: str) -> Object:
    """An init container, sometimes one that stays (a sidecar)."""
    container: Object = {"name": name, "image": _image(random), "resources": draw_requests(random)}
    if random.random() < 0.3:
        container["restartPolicy"] = "Always"
    return container


def _image(random: Random) -> str:
    """One of the images that nodes may have; without a tag it means the latest."""
    return random.choice(("plain", *sorted(IMAGES)))


def draw_toleration(random: Random) -> Object:
    """Of one of the taints that nodes have, or of all."""
    toleration: Object = {"operator": random.choice(("Equal", "Exists"))}
    if toleration["operator"] == "Equal" or random.random() < 0.7:
        toleration["key"] = random.choice(TAINT_KEYS)
    if toleration["operator"] == "Equal":
        toleration["value"] = random.choice(("", "x", "y"))
    if random.random() < 0.5:
        toleration["effect"] = random.choice(EFFECTS)
    return toleration


def draw_affinity(random: Random, labels: dict[str, str], rules: float) -> Object:
    """Any of the three kinds, required and preferred."""
    affinity: Object = {}
    node: Object = {}
    if random.random() < 0.12 * rules:
        terms = [draw_node_term(random) for _ in range(random.choice((1, 2, 2)))]
        node[f"requiredDuringScheduling{IGNORED}"] = {"nodeSelectorTerms": terms}
    if random.random() < 0.2 * rules:
        node[f"preferredDuringScheduling{IGNORED}"] = [
            {"weight": random.choice((1, 5, 20, 50, 100)), "preference": draw_node_term(random)}
            for _ in range(random.choice((1, 2)))
        ]
    if node:
        affinity["nodeAffinity"] = node
    for name in ("podAffinity", "podAntiAffinity"):
        part = _draw_pod_affinity(random, labels, rules)
        if part:
            affinity[name] = part
    return affinity


def _draw_pod_affinity(random: Random, labels: dict[str, str], rules: float) -> Object:
    part: Object = {}
    if random.random() < 0.13 * rules:
        terms = [draw_pod_term(random, labels) for _ in range(random.choice((1, 1, 2)))]
        part[f"requiredDuringScheduling{IGNORED}"] = terms
    if random.random() < 0.2 * rules:
        part[f"preferredDuringScheduling{IGNORED}"] = [
            {"weight": random.choice((1, 10, 50, 100)), "podAffinityTerm": draw_pod_term(random, labels)}
            for _ in range(random.choice((1, 1, 2)))
        ]
    return part


def draw_node_term(random: Random) -> Object:
    """A node selector term of one or two expressions."""
    return {"matchExpressions": [_draw_node_expression(random) for _ in range(random.choice((1, 1, 2)))]}


def _draw_node_expression(random: Random) -> Object:
    key = random.choice((ZONE, "disk", "gen", "node-type", "gpu"))
    values = LABEL_VALUES.get(key, ("a", "b", "c"))
    operators = ["In", "NotIn", "Exists", "DoesNotExist"]
    if key == "gen":
        operators += ["Gt", "Lt"]
    operator = random.choice(operators)
    expression: Object = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = random.sample(values, random.randint(1, min(2, len(values))))
    elif operator in ("Gt", "Lt"):
        expression["values"] = [random.choice(("1", "2", "5"))]
    return expression


def draw_selector(random: Random) -> Object:
    """A label selector over the labels that pods have; now and then one that selects all."""
    kind = random.random()
    if kind < 0.05:
        return {}
    if kind < 0.65:
        return {"matchLabels": {"app": random.choice(APPS)}}
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Object = {"key": random.choice(("app", "tier")), "operator": operator}
    if operator in ("In", "NotIn"):
        values = APPS if expression["key"] == "app" else TIERS
        expression["values"] = random.sample(values, random.randint(1, 2))
    return {"matchExpressions": [expression]}


def draw_pod_term(random: Random, labels: dict[str, str]) -> Object:
    """A pod affinity term."""
    term: Object = {"labelSelector": draw_selector(random), "topologyKey": random.choice(TOPOLOGY_KEYS)}
    scope = random.random()
    if scope < 0.15:
        term["namespaces"] = random.sample(NAMESPACES, random.choice((1, 2)))
    elif scope < 0.25:
        term["namespaceSelector"] = random.choice(({}, {"matchLabels": {"team": "a"}}))
    if TEMPLATE_HASH in labels and random.random() < 0.4:
        term[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = [TEMPLATE_HASH]
    return term


def draw_spread(random: Random, labels: dict[str, str]) -> list[Object]:
    """One or two constraints, each topology key only once per way of being unsatisfied."""
    found: dict[tuple[str, str], Object] = {}
    for _ in range(random.choice((1, 1, 2))):
        key = random.choice(TOPOLOGY_KEYS)
        unsatisfiable = random.choice(("DoNotSchedule", "ScheduleAnyway"))
        constraint: Object = {
            "maxSkew": random.choice((1, 1, 2, 3)),
            "topologyKey": key,
            "whenUnsatisfiable": unsatisfiable,
            "labelSelector": draw_selector(random),
        }
        if unsatisfiable == "DoNotSchedule" and random.random() < 0.25:
            constraint["minDomains"] = random.choice((2, 3, 4))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if random.random() < 0.25:
                constraint[policy] = random.choice(("Honor", "Ignore"))
        if TEMPLATE_HASH in labels and random.random() < 0.5:
            constraint["matchLabelKeys"] = [TEMPLATE_HASH]
        found[key, unsatisfiable] = constraint
    return [*found.values()]
