"""Gangs that preempt and are preempted, played on small clusters, and what must hold for the outcome in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moorage.core.disruption.ledger import BUDGET
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import COSCHEDULING_KIND, NATIVE_KIND, GangTerms
from moorage.core.membership import GROUP_LABEL, Declared, GangKey
from moorage.core.nodes import Node
from moorage.core.objects import COSCHEDULING_GROUPS, PodDisruptionBudget, PodGroup
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.victims import Ranks
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Runner
from moorage.framework.status import Code, GangNomination
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import make_pod, make_state
from tests.framework.readers import NOW_S, make_profile

SINGLE, WHOLE, CRD, ANNOTATED = "single", "whole", "crd", "annotated"
"""Ways in which the gangs of these tests are declared; the first two are native."""


@dataclass(frozen=True)
class Gang:
    """A gang that runs: how it is declared, and its minimum."""

    name: str
    way: str
    least: int = 1

    def member(self, name: str, cpu: str, on: str, **fields: Any) -> Pod:
        """One of its pods."""
        if self.way == ANNOTATED:
            fields["annotations"] = {"pod-group": self.name, "moorage.dev/pod-group-min-available": str(self.least)}
        elif self.way == CRD:
            fields["labels"] = {**fields.get("labels", {}), GROUP_LABEL: self.name}
        else:
            fields["group"] = self.name
        started_s = fields.pop("started_s", 0.0)
        return replace(make_pod(name, cpu=cpu, node=on, **fields), started_s=started_s)

    def declare(self, state: ClusterState) -> None:
        """Put its object, if it has one."""
        group = PodGroup("default", self.name, min_count=self.least, evict_whole=self.way == WHOLE)
        if self.way == CRD:
            group = replace(group, api_group=COSCHEDULING_GROUPS)
            state.put_object(COSCHEDULING_KIND, group.key, group)
        elif self.way != ANNOTATED:
            state.put_object(NATIVE_KIND, group.key, group)

    def disturbed(self, left: int, gone: int) -> bool:
        """Whether so many may not be left when so many are gone."""
        if not gone or not left or self.way == SINGLE:
            return False
        return self.way == WHOLE or left < self.least


@dataclass(frozen=True)
class Scene:
    """Nodes, the pods on them, their gangs and budgets, and the members of a gang that wait."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    members: Sequence[Pod]
    gangs: Sequence[Gang] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    needed: int | None = None
    """All of the members if not given."""

    def state(self) -> ClusterState:
        """The scene as a state."""
        state = make_state(self.nodes, self.pods)
        for gang in self.gangs:
            gang.declare(state)
        for budget in self.budgets:
            state.put_object(BUDGET, budget.key, budget)
        return state

    def gang_of(self, pod: Pod) -> Gang | None:
        """The running gang that a pod belongs to."""
        key = pod.template.gang
        return next((gang for gang in self.gangs if key is not None and gang.name == key.name), None)


@dataclass(frozen=True)
class GangOutcome:
    """What the plugin said, in names."""

    nodes: dict[str, str] = field(default_factory=dict)
    victims: tuple[str, ...] = ()
    """Most important first."""
    message: str = ""
    code: Code = Code.SUCCESS
    expires_s: float | None = None
    warnings: tuple[tuple[str, str], ...] = ()


def runner_with(state: ClusterState, plugin: DefaultPreemption, *plugins: Plugin, ranks: Ranks | None = None) -> Runner:
    """A runner of a small profile with this plugin and more filters."""
    filters = (TaintToleration(), NodePorts(), NodeResourcesFit(), *plugins)
    return Runner(make_profile([PrioritySort(), *filters, plugin]), state, lambda: ranks)


def preempt_gang(scene: Scene, *plugins: Plugin, plugin: DefaultPreemption | None = None) -> GangOutcome:
    """Ask the plugin on a fresh state; the state must be the same afterwards."""
    return preempt_gang_on(scene.state(), scene, plugin or DefaultPreemption(), *plugins)


def preempt_gang_on(
    state: ClusterState,
    scene: Scene,
    plugin: DefaultPreemption,
    *plugins: Plugin,
    now: float = NOW_S,
    ranks: Ranks | None = None,
) -> GangOutcome:
    """Ask this plugin on this state."""
    runner = runner_with(state, plugin, *plugins, ranks=ranks)
    cycles = [Cycle(pod, state, now) for pod in scene.members]
    before = _picture(state)
    count = scene.needed or len(cycles)
    needs = GangNeeds(GangKey("default", "incoming", Declared.SPEC), GangTerms(count), count)
    answer = plugin.post_filter_gang(cycles, runner, needs)
    assert _picture(state) == before, "the search left traces"
    names = {pod.uid: pod.name for pod in (*scene.pods, *scene.members)}
    expires_s, warnings = cycles[-1].expires_s, cycles[0].warnings
    if not isinstance(answer, GangNomination):
        return GangOutcome(message=answer.message, code=answer.code, expires_s=expires_s, warnings=warnings)
    nodes = {names[uid]: node for uid, node in answer.nodes.items()}
    return GangOutcome(nodes, tuple(names[uid] for uid in reversed(answer.victims)), answer.message)


def _picture(state: ClusterState) -> object:
    records = {record.pod.uid: (record.node, record.row, record.assumed) for record in state.records()}
    nominated = {node: sorted(pod.uid for pod in state.nominations.on(node)) for node in state.nominations.nodes()}
    return records, nominated, [column.tolist() for column in state.resources.requested if column.any()]


# --- in plain words ---


def fits_all(nodes: Iterable[Node], pods: Iterable[Pod]) -> bool:
    """Whether no node has too little cpu or too many pods; every pod names its node."""
    cpu: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for pod in pods:
        cpu[pod.node or ""] += pod.requests.get("cpu")
        count[pod.node or ""] += 1
    return all(cpu[n.name] <= n.allocatable["cpu"] and count[n.name] <= n.allocatable["pods"] for n in nodes)


def units_of(scene: Scene, victims: Sequence[Pod]) -> list[list[Pod]]:
    """The victims as they would come back: one by one, or all of a gang that has to stand together."""
    found: dict[str, list[Pod]] = {}
    for victim in victims:
        gang = scene.gang_of(victim)
        left = 0 if gang is None else sum(scene.gang_of(pod) is gang and pod not in victims for pod in scene.pods)
        alone = gang is None or gang.way == SINGLE or (gang.way != WHOLE and left >= gang.least)
        found.setdefault(victim.uid if alone or gang is None else f"gang {gang.name}", []).append(victim)
    return list(found.values())


def check_outcome(scene: Scene, outcome: GangOutcome) -> None:
    """Everybody fits, only lesser pods go, gangs are not torn, and nobody goes in vain."""
    if not outcome.nodes:
        assert not outcome.victims
        return
    by_name = {pod.name: pod for pod in (*scene.pods, *scene.members)}
    victims = [by_name[name] for name in outcome.victims]
    preemptors = [replace(by_name[name], node=node) for name, node in outcome.nodes.items()]
    remaining = [pod for pod in scene.pods if pod not in victims]
    assert len(preemptors) >= (scene.needed or len(scene.members))
    assert fits_all(scene.nodes, [*remaining, *preemptors])
    assert all(v.template.priority < min(m.template.priority for m in scene.members) for v in victims)
    for gang in scene.gangs:
        left = sum(scene.gang_of(pod) is gang for pod in remaining)
        assert not gang.disturbed(left, sum(scene.gang_of(pod) is gang for pod in victims))
    for unit in units_of(scene, victims):
        assert not fits_all(scene.nodes, [*remaining, *preemptors, *unit]), f"{[pod.name for pod in unit]} go in vain"
