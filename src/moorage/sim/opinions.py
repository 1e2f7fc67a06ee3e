"""`moorage explain` on files: a pending pod as the simulation places it, a bound one judged as if it were pending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.errors import ApiError
from moorage.core.events import PodSeen
from moorage.core.pods import Pod
from moorage.core.queuereasons import queue_reasons
from moorage.engine.opinion import Opinion, arriving_lines, form_opinion, placed_line
from moorage.engine.queueanswers import order_lines
from moorage.engine.repacking.advice import moves_for
from moorage.engine.repacking.plans import PlannedMove
from moorage.engine.roomanswers import in_vain_lines, never_line
from moorage.sim.costs import input_prices
from moorage.sim.explanations import node_explanation
from moorage.sim.feed import Feed
from moorage.sim.inputs import ClusterInput
from moorage.sim.outcome import PodStory, SimulationOutcome
from moorage.sim.simulation import SimulationError, SimulationRules, by_node_name, simulate, start_time_s
from moorage.sim.suggestions import suggestions_from_files
from moorage.sim.whatif import budgets_of
from moorage.wire.workloadkinds import workloads_in


class UnknownPodError(LookupError):
    """There is no such pod; `known` are those that there are, as `namespace/name`."""

    def __init__(self, known: Iterable[str]) -> None:
        super().__init__("no such pod")
        self.known = sorted(set(known))


def opinion_from_files(given: ClusterInput, rules: SimulationRules, namespace: str, name: str) -> Opinion:
    """What becomes of a pod of the input, or of one that a controller of the input makes.

    Raises `SimulationError` if something in the input cannot be read, `UnknownPodError` if there is no such pod.
    """
    if given.problems:
        raise SimulationError(given.problems)
    cluster = EmbeddedCluster(SIMULATION, seed=rules.settings.seed, start_s=start_time_s(given.objects))
    try:
        cluster.load(by_node_name(given.objects))
    except ApiError as error:
        raise SimulationError([error.message]) from error
    cluster.step()
    every = rules.settings.every(rules.profiles)
    world = Feed(cluster, workloads=workloads_in(every)).pull()
    pods = {event.pod.key: event.pod for event in world if isinstance(event, PodSeen)}
    pod = pods.get(f"{namespace}/{name}")
    before = [*rules.settings.beginning(), *input_prices(given, every, cluster.now_s).events]
    if pod is None or not _is_placed(pod):
        found = _simulated(given, rules, f"{namespace}/{name}", pods)
        if pod is None or found.node is not None:
            return found
        suggestions, faults = suggestions_from_files(given, rules, cluster, [*before, *world], pod)
        return replace(found, suggestions=suggestions, faults=faults)
    others = [*before, *(event for event in world if not (isinstance(event, PodSeen) and event.pod is pod))]
    return form_opinion(rules.profiles, rules.settings, others, pod, cluster.now_s, answers_to_all=rules.answers_to_all)


def _is_placed(pod: Pod) -> bool:
    return pod.node is not None or pod.finished


def _simulated(given: ClusterInput, rules: SimulationRules, key: str, known: Mapping[str, Pod]) -> Opinion:
    """The pod as the whole simulation leaves it: those that come before it take their places first."""
    outcome = simulate(given, rules, explain_only=key)
    for story in outcome.pods:
        if story.key == key:
            placed = _placed(story, outcome)
            queue, moves = _queue(story, outcome, known.get(key)), _moves(story, outcome)
            told = replace(_opinion(story, outcome), queue=queue, topology=placed, planned=bool(placed), moves=moves)
            pod = known.get(key)
            return replace(told, capacity=_capacity(story, outcome, pod), arriving=_arriving(story, outcome, pod))
    raise UnknownPodError([*known, *(story.key for story in outcome.pods)])


def _queue(story: PodStory, outcome: SimulationOutcome, pod: Pod | None) -> tuple[str, ...]:
    if story.node is not None or outcome.world is None or pod is None:
        return ()
    world = outcome.world
    told = *queue_reasons(world.state, pod, world.cluster.now_s), *order_lines(world.engine, pod)
    return *told, *in_vain_lines(world.engine, pod, world.cluster.now_s)


def _capacity(story: PodStory, outcome: SimulationOutcome, pod: Pod | None) -> str:
    if story.node is not None or outcome.world is None or pod is None:
        return ""
    return never_line(outcome.world.engine, pod, outcome.world.cluster.now_s)


def _moves(story: PodStory, outcome: SimulationOutcome) -> tuple[PlannedMove, ...]:
    entry = None if outcome.world is None else outcome.world.engine.queue.get(story.uid)
    if story.node is not None or outcome.world is None or entry is None:
        return ()
    world = outcome.world
    return moves_for(world.engine, entry.pod, world.cluster.now_s, budgets_of(world))


def _arriving(story: PodStory, outcome: SimulationOutcome, pod: Pod | None) -> tuple[str, ...]:
    if story.node is not None or outcome.world is None or pod is None:
        return ()
    return arriving_lines(outcome.world.engine, pod, outcome.world.cluster.now_s)


def _placed(story: PodStory, outcome: SimulationOutcome) -> tuple[str, ...]:
    record = None if outcome.world is None else outcome.world.state.record(story.uid)
    gang = None if record is None else record.pod.template.gang
    plan = None if gang is None else outcome.plans.get(gang)
    return () if gang is None or plan is None else (placed_line(gang, plan),)


def _opinion(story: PodStory, outcome: SimulationOutcome) -> Opinion:
    documents = outcome.explanations.of(story.uid) if outcome.explanations is not None else {}
    return Opinion(
        story.namespace,
        story.name,
        story.scheduler_name,
        node=story.node,
        nominated_node=story.nominated_node,
        victims=tuple(story.victims),
        message=story.message,
        side=story.side,
        nodes={name: node_explanation(document) for name, document in documents.items()},
    )
