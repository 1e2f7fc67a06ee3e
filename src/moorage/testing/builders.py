"""Pods, nodes and clusters in a line each, for tests. Texts are written as in manifests and on kubectl's command line.

make_node("n1", cpu="4", memory="16Gi", zone="z1", taints=["dedicated=db:NoSchedule"])
make_pod("a", cpu="500m", tolerations=["dedicated=db:NoSchedule"], ports=[8080, "53/UDP"], node="n1")
make_pod("b", node_affinity=make_node_affinity(required=[["disk In ssd,nvme"]], preferred=[(10, ["gen Gt 3"])]))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moorage.core.affinity import NodeAffinity, NodeTerm, PreferredNodeTerm
from moorage.core.extendedclaims import container_asks
from moorage.core.frozen import FrozenDict
from moorage.core.images import normalized_image
from moorage.core.labelnames import HOSTNAME as HOSTNAME_LABEL
from moorage.core.labelnames import ZONE as ZONE_LABEL
from moorage.core.nodes import Node, NodeImage
from moorage.core.pods import PENDING, RUNNING, HostPort, Owner, Pod, PodTemplate
from moorage.core.quantity import amount, whole
from moorage.core.requests import ContainerResources, PodResources, effective_requests
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from moorage.core.selectors import Operator, Requirement
from moorage.core.state import ClusterState
from moorage.core.taints import NO_SCHEDULE, Taint, Toleration

_NAME_FIELD = "metadata.name"

Quantities = Mapping[str, str | int]
"""Resource names with quantities, as in `resources.requests`."""


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    cpu: str | int | None = None,
    memory: str | int | None = None,
    requests: Quantities | None = None,
    containers: Sequence[Quantities] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Iterable[str | Toleration] = (),
    ports: Iterable[int | str | HostPort] = (),
    images: Iterable[str] = (),
    owner: str | Owner | None = None,
    gates: Iterable[str] = (),
    created_s: float = 0.0,
    nominated_node: str | None = None,
    **template: Any,
) -> Pod:
    """A pod with one container, running on `node` if that is given, else pending.

    `requests` adds other resources to `cpu` and `memory`; `containers` gives those of several containers instead.
    Further keywords are fields of `PodTemplate`: priority, scheduler_name, node_affinity, spread, group and so on.
    """
    single = _requests_of(cpu, memory, requests)
    if containers is not None and single:
        raise ValueError("give either containers or cpu, memory and requests")
    amounts = [_amounts(single)] if containers is None else [_amounts(each) for each in containers]
    resources = PodResources(tuple(ContainerResources(f"c{number}", each) for number, each in enumerate(amounts)))
    wanted = effective_requests(resources)
    spec = PodTemplate(
        namespace=namespace,
        labels=FrozenDict(labels or {}),
        annotations=FrozenDict(annotations or {}),
        owner=Owner("ReplicaSet", owner, f"{namespace}/{owner}", "apps/v1") if isinstance(owner, str) else owner,
        requests=wanted,
        node_selector=FrozenDict(node_selector or {}),
        tolerations=tuple(parse_toleration(each) for each in tolerations),
        host_ports=tuple(sorted(parse_port(each) for each in ports)),
        images=tuple(normalized_image(image) for image in images),
        container_count=len(amounts),
        asks=container_asks(resources),
    )
    return Pod(
        uid=uid or f"{namespace}/{name}",
        name=name,
        template=replace(spec, **template) if template else spec,
        node=node,
        nominated_node=nominated_node,
        phase=RUNNING if node else PENDING,
        gates=tuple(gates),
        requests=wanted,
        created_s=created_s,
    )


def make_node(
    name: str,
    *,
    cpu: str | int = "4",
    memory: str | int = "16Gi",
    pods: int = 110,
    resources: Quantities | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[str | Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, str | int] | None = None,
    **fields: Any,
) -> Node:
    """A node with a hostname label and, if `zone` is given, a zone label.

    `resources` adds other resources, `images` maps names to sizes. Further keywords are fields of `Node`.
    """
    all_labels = {HOSTNAME_LABEL: name, **({ZONE_LABEL: zone} if zone else {}), **(labels or {})}
    offered = {CPU: cpu, MEMORY: memory, PODS: pods, EPHEMERAL_STORAGE: "100Gi", **(resources or {})}
    return Node(
        name=name,
        uid=fields.pop("uid", f"node/{name}"),
        labels=FrozenDict(all_labels),
        annotations=FrozenDict(annotations or {}),
        taints=tuple(parse_taint(each) for each in taints),
        unschedulable=unschedulable,
        allocatable=FrozenDict(_amounts(offered)),
        images=tuple(NodeImage((normalized_image(n),), whole(str(size))) for n, size in (images or {}).items()),
        **fields,
    )


def make_state(nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), *, seed: int = 0) -> ClusterState:
    """A state with these nodes, in this order, and the pods that are on nodes."""
    state = ClusterState(seed)
    for node in nodes:
        state.upsert_node(node)
    for pod in pods:
        state.observe_pod(pod)
    return state


def make_node_affinity(
    *, required: Iterable[Iterable[str]] | None = None, preferred: Iterable[tuple[int, Iterable[str]]] = ()
) -> NodeAffinity:
    """Node affinity from terms; a term is a list of conditions such as `disk In ssd,nvme` or `metadata.name In n1`."""
    return NodeAffinity(
        None if required is None else tuple(make_node_term(*term) for term in required),
        tuple(PreferredNodeTerm(weight, make_node_term(*term)) for weight, term in preferred),
    )


def make_node_term(*conditions: str) -> NodeTerm:
    """A node selector term; conditions on `metadata.name` become field conditions."""
    parsed = [parse_requirement(condition) for condition in conditions]
    return NodeTerm(
        tuple(each for each in parsed if each.key != _NAME_FIELD),
        tuple(each for each in parsed if each.key == _NAME_FIELD),
    )


def parse_requirement(text: str) -> Requirement:
    """`key Operator` or `key Operator value,value`."""
    key, operator, *values = text.split()
    return Requirement(key, Operator(operator), tuple(",".join(values).split(",")) if values else ())


def parse_taint(taint: str | Taint) -> Taint:
    """`key=value:Effect` or `key:Effect`, as `kubectl taint` takes it."""
    if isinstance(taint, Taint):
        return taint
    pair, _, effect = taint.partition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect or NO_SCHEDULE)


def parse_toleration(toleration: str | Toleration) -> Toleration:
    """`key=value:Effect`, `key:Effect` for any value, `key` for any effect too, `*` for every taint."""
    if isinstance(toleration, Toleration):
        return toleration
    pair, _, effect = toleration.partition(":")
    key, equals, value = pair.partition("=")
    return Toleration("" if key == "*" else key, "Equal" if equals else "Exists", value, effect)


def parse_port(port: int | str | HostPort) -> HostPort:
    """`8080`, `53/UDP` or `10.0.0.1:8080/TCP`."""
    if isinstance(port, HostPort):
        return port
    place, _, protocol = str(port).partition("/")
    address, _, number = place.rpartition(":")
    return HostPort("" if address == "0.0.0.0" else address, protocol or "TCP", int(number))  # noqa: S104 - not a bind


def _requests_of(cpu: str | int | None, memory: str | int | None, more: Quantities | None) -> Quantities:
    named = {CPU: cpu, MEMORY: memory, **(more or {})}
    return {name: quantity for name, quantity in named.items() if quantity is not None}


def _amounts(quantities: Quantities) -> dict[str, int]:
    return {name: amount(name, str(quantity)) for name, quantity in quantities.items()}
