"""What a cell needs to know of each of the five examples, and of kube-scheduler: rule, size, nodes and workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.nextday.capacities import Pool, pool
from tests.nextday.rules import CAPACITY, HostsAtLeast, NoRule, OnePerNode, Rule, Split, SpotFirst

STRATEGY = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One of the folders of deploy/examples."""

    name: str
    folder: str
    scheduler: str
    rule: Rule
    replicas: int
    pools: Sequence[Mapping[str, Pool]]
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the workload."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    pod_spec: Mapping[str, Any] = field(default_factory=dict)
    one_per_node: bool = False
    whole_gangs: bool = False
    """What does not fit whole does not start."""

    @property
    def is_stock(self) -> bool:
        """Whether nothing of Moorage runs: the auditor's expectations are tried on the real kube-scheduler."""
        return not self.folder

    def at(self, capacity: str) -> list[Pool]:
        """The pools of nodes with this capacity."""
        return [each[capacity] for each in self.pools]

    def slots(self, capacity: str) -> int:
        """How many pods find a node at a time."""
        return sum(self.room(room) for each in self.at(capacity) for room in each.rooms)

    def room(self, cpus: float) -> int:
        """How many pods a node of this size takes."""
        return min(int(cpus), 1) if self.one_per_node else int(cpus)


PLAN = Example(
    name="plan",
    folder="custom-scheduler",
    scheduler="custom-scheduler",
    rule=OnePerNode("custom-scheduler"),
    replicas=3,
    pools=[pool("n", spare=[4] * 6, one_over=[4] * 4, full=[4] * 3, short=[4] * 2)],
    pod_annotations={"priority": "50", "pod-group": "group-a"},
    one_per_node=True,
    whole_gangs=True,
)
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app"}}}
STOCK = Example(
    name="stock",
    folder="",
    scheduler="default-scheduler",
    rule=OnePerNode("default-scheduler"),
    replicas=3,
    pools=PLAN.pools,
    pod_spec={"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    one_per_node=True,
)
"""The rule of the plan in kube-scheduler's own words."""
SPREAD = Example(
    name="spread",
    folder="controller-spread-scheduler",
    scheduler="controller-spread-scheduler",
    rule=HostsAtLeast(),
    replicas=3,
    pools=[pool("n", spare=[2, 2, 2], one_over=[2, 1, 1], full=[1, 1, 1], short=[1, 1])],
)
PACKING = Example(
    name="packing",
    folder="custom-k8s-scheduler",
    scheduler="custom-k8s-scheduler",
    rule=NoRule(),
    replicas=4,
    pools=[pool("n", spare=[4, 4], one_over=[3, 2], full=[2, 2], short=[2, 1])],
)
SMART = Example(
    name="smart",
    folder="smart-scheduler",
    scheduler="default-scheduler",
    rule=Split(),
    replicas=6,
    pools=[
        pool("od", {"node-type": "ondemand"}, spare=[6], one_over=[4], full=[3], short=[4]),
        pool("spot", {"node-type": "spot"}, spare=[3, 3], one_over=[2, 2], full=[2, 1], short=[1, 1]),
    ],
    annotations={"smart-scheduler.io/schedule-strategy": STRATEGY},
)
SPOT = Example(
    name="spot",
    folder="spot-extender",
    scheduler="default-scheduler",
    rule=SpotFirst(),
    replicas=4,
    pools=[
        pool("spot", {CAPACITY: "spot"}, spare=[4, 4], one_over=[3, 1], full=[2, 1], short=[1, 1]),
        pool("od", {CAPACITY: "on-demand"}, spare=[4], one_over=[1], full=[1], short=[1]),
    ],
)
EXAMPLES = {example.name: example for example in (PLAN, SPREAD, SPOT, SMART, PACKING, STOCK)}
