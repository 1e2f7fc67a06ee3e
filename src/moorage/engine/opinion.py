"""One pod judged on the cluster as it is: where it would go, or why nowhere, with the result of every node.

The engine that schedules makes one attempt for this pod and, if it is in a gang, for the other members. Other waiting
pods are left out, but their nominations count. Only a plan, which is one result for all pods, is made for all of them.
Nothing of it reaches a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from moorage.core.commands import DeletePod, PatchPodStatus
from moorage.core.disruption.away import MOVED, Away
from moorage.core.events import Event, PodSeen
from moorage.core.gangdomains import standing_lines
from moorage.core.membership import GangKey
from moorage.core.pods import Pod, as_pending
from moorage.core.queuereasons import queue_reasons
from moorage.core.trials import Side
from moorage.core.values import dataclass
from moorage.engine.counterfactual.search import suggest, waiting_ahead
from moorage.engine.engine import Engine
from moorage.engine.explain import NodeExplanation, explain
from moorage.engine.gate import refused
from moorage.engine.queueanswers import order_lines
from moorage.engine.repacking.advice import moves_for
from moorage.engine.repacking.plans import PlannedMove
from moorage.engine.roomanswers import in_vain_lines, never_line
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import GangPlan
from moorage.framework.profiles import Profile
from moorage.framework.runner import Runner

if TYPE_CHECKING:
    from moorage.engine.counterfactual.scene import Rewrites
    from moorage.engine.counterfactual.search import Suggestion


@dataclass(frozen=True, slots=True)
class Opinion:
    """What would happen to a pod now."""

    namespace: str
    name: str
    scheduler_name: str
    node: str | None = None
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    """Pods that would be evicted for it, as `namespace/name`."""
    message: str | None = None
    """Why it has no node; None if it has one."""
    nodes: Mapping[str, NodeExplanation] = field(default_factory=dict)
    """Every node by name; empty if the pod would not be tried at all."""
    stands_on: str | None = None
    """The node of a bound pod, which was judged as if it were pending."""
    suggestions: tuple[Suggestion, ...] = ()
    """What would let a waiting pod fit, the smallest change first; empty if that was not asked for."""
    moves: tuple[PlannedMove, ...] = ()
    """Moves of other pods after which a waiting pod would fit, as repacking proves them; likewise."""
    capacity: str = ""
    """Why a gang, or a pod of a queue, could not start even if all nodes were empty; empty if it might."""
    queue: tuple[str, ...] = ()
    """What its queue and those above it have and may have, and what follows from that; empty if it has no queue."""
    topology: tuple[str, ...] = ()
    """Of a member of a gang that asks for levels: the domains that are used, how good that is, what no longer holds."""
    arriving: tuple[str, ...] = ()
    """Of a pod that waits: nodes on their way that would fit, what an autoscaler was asked for, and the units that
    come first in a plan."""
    planned: bool = False
    """Whether the node is that of a plan for the whole gang, not the one that scores best."""
    side: Side | None = None
    """Which side of a trial it is on; None if none is in force for such pods."""
    faults: tuple[str, ...] = ()
    """What raised meanwhile, a line for each."""


def form_opinion(
    profiles: Sequence[Profile],
    settings: EngineSettings,
    world: Iterable[Event],
    pod: Pod,
    now_s: float,
    *,
    answers_to_all: bool = False,
    rewriter: Rewrites | None = None,
) -> Opinion:
    """Judge a pod in a world that does not include it; a bound pod is judged as if it were pending.

    With a rewriter, and if the pod waits and does not fit, changes that would help are searched for.
    """
    stands_on = pod.node
    if stands_on is not None or pod.finished:
        pod = as_pending(pod)
    explained: dict[str, NodeExplanation] = {}

    def observe(runner: Runner, cycle: Cycle) -> None:
        if cycle.pod.uid == pod.uid:
            explained.update(explain(runner, cycle.state, cycle.pod, cycle.now))

    engine = Engine(profiles, settings, answers_to_all=answers_to_all, observer=observe)
    engine.handle(world, now_s, budget=0)
    ahead = waiting_ahead(engine, pod)
    reasons = _queue_reasons(engine, pod, now_s) if stands_on is None else ()
    gang = pod.template.gang
    unit = {pod.uid, *(each.pod.uid for each in engine.queue.entries() if gang is not None and each.unit.gang == gang)}
    if engine.planning is not None and engine.planning.plans(pod):
        commands, _ = engine.handle([PodSeen(pod)], now_s)
    else:
        for entry in [*engine.queue.entries()]:
            if entry.pod.uid not in unit:
                engine.queue.remove(entry.pod.uid, now_s)
                if engine.state.queues.active and not entry.pod.gates:
                    engine.state.queues.wait(entry.pod)  # what its queue may have follows from it, too
        commands, _ = engine.handle([PodSeen(pod)], now_s, budget=1)
    if engine.planning is not None and not explained and (judge := engine.runner_of(pod)) is not None:
        explained.update(explain(judge, engine.state, pod, now_s))  # the plan has no node for it, so it was not tried
    binding = engine.bindings.get(pod.uid)
    written = [each for each in commands if isinstance(each, PatchPodStatus) and each.pod.uid == pod.uid]
    nominated = [each.nominated_node for each in written if each.nominated_node]
    evictions = [(each.pod, each.preemptor) for each in commands if isinstance(each, DeletePod)]
    victims = [f"{pod.namespace}/{pod.name}" for pod, by in evictions if by is not None and by.uid in unit]
    waits = binding is None and stands_on is None
    helps = waits and rewriter is not None
    return Opinion(
        pod.namespace,
        pod.name,
        pod.template.scheduler_name,
        node=None if binding is None else binding.node,
        nominated_node=nominated[-1] if nominated else engine.state.nominations.node_of(pod.uid),
        victims=tuple(victims),
        message=waiting_message(engine, pod) if binding is None else None,
        nodes=explained,
        stands_on=stands_on,
        side=engine.sides.side_of(pod),
        capacity=never_line(engine, pod, now_s) if waits else "",
        queue=(*reasons, *(in_vain_lines(engine, pod, now_s) if waits and not evictions else ())) if waits else (),
        topology=_topology_lines(engine, pod, stands_on),
        arriving=arriving_lines(engine, pod, now_s) if waits else (),
        planned=gang is not None and gang in engine.gangs.plans,
        suggestions=suggest(engine, pod, now_s, rewriter, ahead=ahead) if helps and rewriter is not None else (),
        moves=moves_for(engine, pod, now_s) if helps else (),
        faults=tuple(engine.faults.take()),
    )


def arriving_lines(engine: Engine, pod: Pod, now: float) -> tuple[str, ...]:
    """What is on its way for a pod that waits, a line each."""
    request = engine.gangs.provisioning.request_of(pod)
    lines = [engine.gangs.arriving(pod, now).told]
    ahead = () if engine.planning is None else engine.planning.ahead(pod)
    lines += [f"units that come first in the plan: {', '.join(ahead)}"] if ahead else []
    if request is not None:
        said = ", ".join(request.conditions) or "no answer yet"
        lines.append(f"ProvisioningRequest {request.key}: {said}{f' ({request.message})' if request.message else ''}")
    return tuple(line for line in lines if line)


def _topology_lines(engine: Engine, pod: Pod, stands_on: str | None) -> tuple[str, ...]:
    """The domains of a member's gang: those of its plan, or where it stands."""
    gang = pod.template.gang
    if gang is None:
        return ()
    plan = engine.gangs.plans.get(gang)
    if stands_on is None and plan is not None:
        return (placed_line(gang, plan),)
    state, row = engine.state, None if stands_on is None else engine.state.row_of(stands_on)
    with state.statement():
        if row is not None:  # it was judged as if it were pending, and may have found another node, or none
            Away(state).take((state.record(pod.uid),), MOVED)
            state.assume(pod, row)
        return tuple(standing_lines(state, gang)) if state.gangs.standing(gang) else ()


def placed_line(gang: GangKey, plan: GangPlan) -> str:
    """The domains of a plan, and how good it is."""
    return f"pod group {gang.object_key} is placed in {plan.told}"


def _queue_reasons(engine: Engine, pod: Pod, now_s: float) -> tuple[str, ...]:
    """Asked while all pods wait that ask for shares, and this one with them."""
    queues = engine.state.queues
    if not queues.active:
        return ()
    queues.wait(pod)
    try:
        return *queue_reasons(engine.state, pod, now_s), *order_lines(engine, pod)
    finally:
        queues.unwait(pod.uid)


def waiting_message(engine: Engine, pod: Pod) -> str:
    """Why a pod has no node yet."""
    runner = engine.runner_of(pod)
    if runner is None:
        known = ", ".join(engine.runners)
        return f"no profile has the scheduler name {pod.template.scheduler_name}; there are: {known}"
    if pod.deleted_s is not None:
        return "the pod is being deleted"
    binding = engine.bindings.get(pod.uid)
    if binding is not None and binding.held_by is not None:
        return f"{binding.held_by.name} holds the pod on its way to node {binding.node}"
    entry = engine.queue.get(pod.uid)
    if entry is None or entry.message or entry.place is not Place.GATED:
        return "" if entry is None else entry.message
    refusal = refused(runner, pod, engine.faults)
    return "" if refusal is None else refusal.message
