"""Small clusters generated from a seed, with a bit of everything that plugins read: the same seed, the same cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeVar

from moorage.core.affinity import NodeAffinity
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.testing.builders import make_node, make_node_affinity, make_pod, make_state

GPU = "example.com/gpu"
_IMAGES = ("app:v1", "registry.example:5000/db", "tool@sha256:aa", "big/model:v2", "sidecar")
_TAINTS = ("dedicated=db:NoSchedule", "spot:PreferNoSchedule", "maint=soon:PreferNoSchedule", "broken:NoExecute")
_TOLERATIONS = ("dedicated=db:NoSchedule", "spot", "*:PreferNoSchedule", "broken:NoExecute", "*", "dedicated=web")
_PORTS = ("8080", "9090", "8080/UDP", "10.0.0.1:8080", "10.0.0.2:8080")
_CONDITIONS = ("disk In ssd,nvme", "disk NotIn hdd", "gen Gt 2", "gen Lt 4", "gpu Exists", "zone-free DoesNotExist")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GeneratedCluster:
    """Nodes, the pods on them, and pending pods."""

    seed: int
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    pending: tuple[Pod, ...]

    def state(self, nodes: Iterable[Node] | None = None) -> ClusterState:
        """The cluster as a state, optionally with its nodes in another order."""
        return make_state(self.nodes if nodes is None else nodes, self.pods)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods on a node."""
        return [pod for pod in self.pods if pod.node == node]


def generate_cluster(seed: int, *, nodes: int = 9, pods: int = 24, pending: int = 6) -> GeneratedCluster:
    """Generate a cluster. Some nodes are full, cordoned, tainted or lack a resource; some pods request nothing."""
    random = Random(seed)
    drawn = tuple(_node(random, f"n{number}") for number in range(nodes))
    names = [node.name for node in drawn]
    standing = tuple(_pod(random, f"p{number}", names, random.choice(names)) for number in range(pods if names else 0))
    waiting = tuple(_pod(random, f"w{number}", names, None) for number in range(pending))
    shares = Random(f"shares {seed}")
    return GeneratedCluster(
        seed,
        tuple(_with_devices(shares, node) for node in drawn),
        tuple(_with_share(shares, pod) for pod in standing),
        tuple(_with_share(shares, pod) for pod in waiting),
    )


def _with_devices(random: Random, node: Node) -> Node:
    """The node with devices that pods may share, or without."""
    devices, sized = random.choice((0, 1, 2, 4)), random.random() < 0.7
    labels = {"nvidia.com/gpu.product": random.choice(("T4", "A10")), "nvidia.com/gpu.memory": "16000"}
    return replace(
        node,
        allocatable=FrozenDict({**node.allocatable, "nvidia.com/gpu": devices}),
        labels=FrozenDict({**node.labels, **labels}) if devices and sized else node.labels,
    )


def _with_share(random: Random, pod: Pod) -> Pod:
    """The pod with the wish for a share of a device, or without."""
    shares = {"gpu-fraction": "0.3"}, {"gpu-fraction": "0.7"}, {"gpu-memory": "5000"}
    wish: dict[str, str] = random.choice(({}, {}, *shares, {"alibabacloud.com/gpu-count": "2"}))
    template = replace(pod.template, annotations=FrozenDict({**pod.template.annotations, **wish}))
    return replace(pod, template=template) if wish else pod


def _node(random: Random, name: str) -> Node:
    labels = {"disk": random.choice(("ssd", "hdd", "nvme")), "gen": random.choice(("1", "2", "3", "4", "old"))}
    if random.random() < 0.3:
        labels["gpu"] = "yes"
    return make_node(
        name,
        cpu=random.choice(("0", "1", "2", "3700m", "8")),
        memory=random.choice(("1Gi", "2Gi", "5000M", "16Gi", "0")),
        pods=random.choice((1, 4, 110)),
        resources=_some(random, {GPU: random.choice((0, 1, 4)), "hugepages-2Mi": "64Mi"}),
        zone=random.choice(("a", "b", "c")),
        labels=_some(random, labels),
        taints=_few(random, _TAINTS),
        unschedulable=random.random() < 0.15,
        images={image: random.choice(("5Mi", "150Mi", "700Mi", "4Gi")) for image in _few(random, _IMAGES)},
    )


def _pod(random: Random, name: str, nodes: list[str], node: str | None) -> Pod:
    requests = {
        "cpu": random.choice(("0", "100m", "333m", "1", "5")),
        "memory": random.choice(("0", "64Mi", "300M", "1Gi", "7Gi")),
        "ephemeral-storage": random.choice(("1Gi", "200Gi")),
        GPU: random.choice((1, 2)),
    }
    return make_pod(
        name,
        namespace=random.choice(("default", "team-a")),
        containers=[_some(random, requests) for _ in range(random.choice((1, 1, 2)))],
        labels={"app": random.choice(("web", "db"))},
        node=node,
        node_selector={"disk": "ssd"} if random.random() < 0.2 else None,
        node_affinity=_affinity(random, nodes) if random.random() < 0.5 else None,
        tolerations=_few(random, _TOLERATIONS),
        ports=_few(random, _PORTS, most=1),
        images=_few(random, _IMAGES),
        priority=random.choice((0, 0, 10, 1000)),
        owner=random.choice((None, "web", "db")),
    )


def _affinity(random: Random, nodes: list[str]) -> NodeAffinity:
    required = [_few(random, _CONDITIONS, most=2) for _ in range(random.choice((1, 2)))]
    if nodes and random.random() < 0.3:
        required[0] = [*required[0], f"metadata.name In {random.choice(nodes)}"]
    preferred = [(random.randint(1, 100), _few(random, _CONDITIONS, most=2)) for _ in range(random.choice((0, 1, 2)))]
    return make_node_affinity(required=required if random.random() < 0.6 else None, preferred=preferred)


def _few(random: Random, choices: tuple[str, ...], most: int = 2) -> list[str]:
    return random.sample(choices, random.randint(0, most))


def _some(random: Random, items: dict[str, T]) -> dict[str, T]:
    return {key: value for key, value in items.items() if random.random() < 0.75}
