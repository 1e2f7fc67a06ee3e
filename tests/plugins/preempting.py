"""Preemption played on a small cluster, and a plain reference for it that places and counts one pod after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moorage.core.disruption.ledger import BUDGET
from moorage.core.nodes import Node
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.core.selectors import selector_from_labels
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.preemption import ALL_CANDIDATES
from moorage.framework.runner import Runner
from moorage.framework.status import Nomination, Status
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import make_state
from tests.framework.gang_preempting import Gang
from tests.framework.readers import NOW_S, make_profile


@dataclass(frozen=True)
class Cluster:
    """A question: these nodes, the pods on them, budgets, and the pod that needs room."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    preemptor: Pod
    budgets: Sequence[PodDisruptionBudget] = ()
    nominated: Mapping[str, Sequence[Pod]] | None = None
    """Node -> pods that are nominated to it."""
    gangs: Sequence[Gang] = ()
    """Gangs of which members run."""

    def state(self) -> ClusterState:
        state = make_state(self.nodes, self.pods)
        for budget in self.budgets:
            state.put_object(BUDGET, budget.key, budget)
        for gang in self.gangs:
            gang.declare(state)
        for node, pods in (self.nominated or {}).items():
            for pod in pods:
                state.nominations.set(pod, node)
        return state


@dataclass(frozen=True)
class Outcome:
    """What the plugin said, in names."""

    node: str | None
    victims: tuple[str, ...]
    """Most important first."""
    message: str
    nominates: bool
    """False for a status, which leaves an older nomination alone."""
    expires_s: float | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    offers: tuple[tuple[str, ...], ...] = ()
    """Names of the victims of each candidate that was named."""


def budget(name: str, allowed: int, disrupted: Iterable[str] = (), **labels: str) -> PodDisruptionBudget:
    """A budget for the pods with these labels."""
    selector = selector_from_labels(labels)
    return PodDisruptionBudget("default", name, selector, allowed, tuple(sorted(disrupted)))


def preempt(cluster: Cluster, *plugins: Plugin, args: DefaultPreemptionArgs | None = None) -> Outcome:
    """Ask the plugin on a fresh state; the state must be the same afterwards."""
    return preempt_on(cluster.state(), cluster.preemptor, DefaultPreemption(args), *plugins)


def preempt_on(
    state: ClusterState,
    pod: Pod,
    plugin: DefaultPreemption,
    *plugins: Plugin,
    now: float = NOW_S,
    name_all: bool = False,
) -> Outcome:
    """Ask this plugin on this state; with `name_all` as if an extender were to choose."""
    filters = (TaintToleration(), NodePorts(), NodeResourcesFit(), *plugins)
    runner = Runner(make_profile([PrioritySort(), *filters, plugin]), state)
    cycle = Cycle(pod, state, now)
    if name_all:
        cycle.memo[ALL_CANDIDATES] = True
    before = state.resources.requested.copy()
    judgement = runner.judge(cycle, state.rows())
    assert not len(judgement.passed), "the pod fits without any preemption"
    answer = plugin.post_filter(cycle, runner, judgement)
    assert (state.resources.requested == before).all(), "the search left traces"
    if isinstance(answer, Status):
        return Outcome(None, (), answer.message, False, cycle.expires_s, cycle.warnings)
    assert isinstance(answer, Nomination)
    names = []
    for uid in reversed(answer.victims):
        record = state.record(uid)
        assert record is not None
        names.append(record.pod.name)
    offers = tuple(tuple(ref.name for ref in offer.pods) for offer in answer.candidates)
    return Outcome(answer.node, tuple(names), answer.message, True, offers=offers)


# --- the reference ---


def free_cpu(node: Node, pods: Iterable[Pod]) -> int:
    return node.allocatable["cpu"] - sum(pod.requests.get("cpu") for pod in pods)


def fits(node: Node, pods: Sequence[Pod], pod: Pod) -> bool:
    """Cpu, number of pods and host ports."""
    ports = {(port.protocol, port.port) for other in pods for port in other.template.host_ports}
    return (
        free_cpu(node, pods) >= pod.requests.get("cpu")
        and len(pods) < node.allocatable["pods"]
        and not any((port.protocol, port.port) in ports for port in pod.template.host_ports)
    )


def start_of(pod: Pod) -> float:
    return float("inf") if pod.started_s is None else pod.started_s


def importance(pod: Pod) -> tuple[int, float, str]:
    return -pod.template.priority, start_of(pod), pod.key


def breaking(victims: Sequence[Pod], budgets: Iterable[PodDisruptionBudget]) -> set[str]:
    """Uids of the pods that break a budget if all of these go, the most important one counted first."""
    left = {each.key: each.disruptions_allowed for each in budgets}
    found = set()
    for pod in victims:
        for each in budgets:
            covered = each.selector.requirements and pod.template.labels and each.selector.matches(pod.template.labels)
            if covered and each.namespace == pod.namespace and pod.name not in each.disrupted_pods:
                left[each.key] -= 1
                if left[each.key] < 0:
                    found.add(pod.uid)
    return found


def victims_on(cluster: Cluster, node: Node) -> tuple[list[Pod], int] | None:
    """Who has to go from a node and how many budgets that breaks; None if the pod does not fit there all the same."""
    pod = cluster.preemptor
    here = [each for each in cluster.pods if each.node == node.name]
    nominated = [
        p for p in (cluster.nominated or {}).get(node.name, ()) if p.template.priority >= pod.template.priority
    ]
    lower = sorted((p for p in here if p.template.priority < pod.template.priority), key=importance)
    staying = [p for p in here if p not in lower] + nominated
    if not lower or not fits(node, staying, pod):
        return None
    broken = breaking(lower, cluster.budgets)
    victims = []
    for each in sorted(lower, key=lambda p: (p.uid not in broken, importance(p))):
        if fits(node, [*staying, each], pod):
            staying.append(each)
        else:
            victims.append(each)
    victims.sort(key=importance)
    return (victims, sum(p.uid in broken for p in victims)) if victims else None


def rank(victims: Sequence[Pod], violations: int) -> tuple[int, int, int, int, float]:
    """What decides between nodes; the smallest wins."""
    priorities = [pod.template.priority for pod in victims]
    earliest = min(start_of(pod) for pod in victims if pod.template.priority == max(priorities))
    return violations, max(priorities), sum(p + 2**31 for p in priorities), len(victims), -earliest


def best_nodes(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The nodes that may be chosen, with their victims, most important first."""
    found = {node.name: answer for node in cluster.nodes if (answer := victims_on(cluster, node)) is not None}
    ranks = {name: rank(victims, violations) for name, (victims, violations) in found.items()}
    best = min(ranks.values(), default=None)
    return {name: tuple(p.name for p in found[name][0]) for name in found if ranks[name] == best}
