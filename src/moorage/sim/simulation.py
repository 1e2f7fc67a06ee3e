"""A cluster from files, decided on by the very engine that schedules real ones, until nothing can change any more.

The embedded cluster plays API server, kubelets and controllers; the engine's commands are carried out there and what
comes of them is fed back. Time is virtual: it jumps to the next moment at which time alone could change something, one
hour at most. Same input and seed: same plan, whatever the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Protocol

from moorage.adapters.memory.clock import START_S
from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.errors import ApiError
from moorage.adapters.memory.objects import KubeObject, controller_of, key_of, status_of
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.bills import nodes_in_use_now
from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus, RecordEvent
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.core.prices import PriceList
from moorage.core.quantity import format_amount
from moorage.core.resources import CPU, MEMORY, PODS
from moorage.core.times import time_s
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.opinion import waiting_message
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import Profile
from moorage.sim.arrivals import PodArrivals
from moorage.sim.costs import input_prices, nodes_in_use_at_first
from moorage.sim.explanations import Explanations
from moorage.sim.feed import Feed
from moorage.sim.inputs import ClusterInput
from moorage.sim.outcome import FinalCluster, NodeLoad, PodStory, SimulationOutcome
from moorage.sim.unread_rules import unread_rules
from moorage.views.queuetree import accounts_of
from moorage.views.trials import account_of
from moorage.wire.problems import ABSENT, Problem
from moorage.wire.workloadkinds import workloads_in

LONGEST_S = 3600.0
_MOST_ROUNDS, _ROUNDS_PER_POD = 10_000, 10
"""Rounds of deciding and carrying out; a plan that needs more is going in circles. Claims take some for each pod."""


class SimulationError(ValueError):
    """The input cannot be simulated; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[Problem | str]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class SimulationRules:
    """The profiles and options of the simulation."""

    profiles: Sequence[Profile]
    settings: EngineSettings = field(default_factory=EngineSettings)
    answers_to_all: bool = False
    """Whether the first profile decides for pods of every scheduler name."""


def simulate(
    given: ClusterInput,
    rules: SimulationRules,
    *,
    explain: bool = False,
    explain_only: str | None = None,
    then: Callable[[SimulationOutcome], None] | None = None,
) -> SimulationOutcome:
    """Run the input to its end; `SimulationError` if something in it cannot be read.

    Attempts are explained if `explain` says so, or only those of one pod (`namespace/name`). `then` is called at the
    end and may change the cluster (`SimulationOutcome.world`); the simulation then goes on to another end.
    """
    if given.problems:
        raise SimulationError(given.problems)
    run = _Run(given, rules, Explanations(explain_only) if explain or explain_only else None)
    run.start()
    run.finish()
    if then is not None:
        then(run.outcome())
        run.finish()
    return run.outcome()


class SimulationWatcher(Protocol):
    """Looks on while a simulation or a replay runs, and changes nothing."""

    def begin(self, engine: Engine, now_s: float, prices: PriceList | None) -> None:
        """The cluster is at rest, and the course begins; prices are those of figures."""

    def turn(self, engine: Engine, now_s: float, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """The engine was told these events and gave these commands."""

    def until(self, engine: Engine, next_s: float) -> None:
        """Nothing happens until then."""


@dataclass(frozen=True, slots=True)
class Course:
    """What happens to a cluster from when it has come to rest; times are seconds from then on."""

    arrivals: PodArrivals = field(default_factory=PodArrivals)
    changes: Sequence[tuple[float, Callable[[SimulationOutcome], Collection[str]]]] = ()
    """What is changed, and when; a change returns the nodes that pods of `arrivals` have to leave."""
    horizon_s: float | None = None
    """When it ends; None: with the last arrival, and if there is none, when nothing changes any more."""
    watcher: SimulationWatcher | None = None


def play(given: ClusterInput, rules: SimulationRules, course: Course) -> SimulationOutcome:
    """Let a cluster come to rest, then run the course; `SimulationError` if something in the input cannot be read.

    The pods of the outcome are those of the input; only the watcher is told of those that arrive.
    """
    if given.problems:
        raise SimulationError(given.problems)
    run = _Run(given, rules, None, course)
    run.start()
    run.finish()
    run.go_on()
    return run.outcome()


class _Run:
    """One simulation on its way."""

    def __init__(
        self,
        given: ClusterInput,
        rules: SimulationRules,
        explanations: Explanations | None,
        course: Course | None = None,
    ) -> None:
        self._given = given
        self._course = course or Course()
        self._arrivals = self._course.arrivals
        self._watcher = self._course.watcher
        self._known = -1
        """The version of the cluster that the engine was told of."""
        every = rules.settings.every(rules.profiles)
        self._workloads = workloads_in(every)
        self._explanations = explanations
        self._cluster = EmbeddedCluster(SIMULATION, seed=rules.settings.seed, start_s=start_time_s(given.objects))
        self._runner = CommandRunner(self._cluster.store, keep_events=0)
        observer = explanations.observe if explanations is not None else None
        self._engine = Engine(rules.profiles, rules.settings, answers_to_all=rules.answers_to_all, observer=observer)
        self._stories: dict[str, PodStory] = {}
        self._pods: dict[str, Pod] = {}
        """Pods with a story, as last seen."""
        self._ended: dict[str, str] = {}
        """`namespace/name` of pods that are gone and still have a story -> uid; another one of the name takes over."""
        self._evictions: dict[str, tuple[str, str]] = {}
        """uid of the victim -> victim and preemptor, both as `namespace/name`."""
        self._prices = input_prices(given, every, self._cluster.now_s)
        if self._prices.problems:
            raise SimulationError(self._prices.problems)
        self._interrupted = False
        """Whether pods may be left that could be decided on."""
        self._watched = 0
        """How many of the answers that the engine has not heard yet the watcher knows already."""
        self._used_before: set[str] | None = None
        """The nodes that were in use at the start; None until then."""
        self._warnings: list[str] = list(self._prices.warnings)
        self._warnings += unread_rules(given.objects, rules.profiles, answers_to_all=rules.answers_to_all)
        self._untold: list[Event] = [*rules.settings.beginning(), *self._prices.events]
        """What the engine has to hear before anything else."""

    def start(self) -> None:
        """Put the input into the cluster and let the controllers make their pods."""
        try:
            self._cluster.load(by_node_name(self._given.objects))
        except ApiError as error:
            raise SimulationError([error.message]) from error
        self._cluster.step()
        self._feed = Feed(self._cluster, workloads=self._workloads)

    def go_on(self) -> None:
        """Run the course; at its end, time has moved on to the horizon."""
        start_s, course = self._cluster.now_s, self._course
        if self._watcher is not None:
            self._watcher.begin(self._engine, start_s, self._prices.figures_from)
        self._arrivals.begin(start_s)
        last_s = self._arrivals.last_s
        for after_s, change in sorted(course.changes, key=lambda each: each[0]):
            if after_s > 0:
                self.finish(start_s + after_s)
            self._arrivals.leave(change(self.outcome()), self._cluster.now_s)
        self.finish(last_s if course.horizon_s is None else start_s + course.horizon_s)

    def finish(self, end_s: float | None = None) -> None:
        """Decide, carry out, let all controllers react; then advance to the next timer, until there is none.

        With `end_s`, nothing that happens later does, and time moves on to then.
        """
        latest_s = self._cluster.now_s + LONGEST_S if end_s is None else end_s
        answers, self._untold = self._untold, []
        done, most = 0, _MOST_ROUNDS + _ROUNDS_PER_POD * self._arrivals.number
        while done < most:
            answers = self._round(answers)
            if not done:
                most += _ROUNDS_PER_POD * len(self._pods)
            done += 1
            if (answers and not self._watched) or (self._interrupted and not self._engine.state.devices.reservations):
                continue
            times = (self._engine.next_change_s(), self._cluster.next_s, self._arrivals.next_s)
            next_s = min((time for time in times if time is not None), default=None)
            if next_s is None or next_s > latest_s:
                if answers:
                    continue
                if end_s is not None:
                    self._advance(end_s)
                return
            self._advance(next_s)
        self._warnings.append(f"the plan still changed after {most} rounds; what it was then is shown")

    def _advance(self, to_s: float) -> None:
        """Let time pass; where nothing is due in the cluster, its controllers need not look."""
        cluster = self._cluster
        to_s = max(to_s, cluster.now_s)
        if self._watcher is not None:
            self._watcher.until(self._engine, to_s)
        due_s = cluster.next_s
        if cluster.store.resource_version == self._known and (due_s is None or due_s > to_s):
            cluster.clock.advance_to(to_s)
        else:
            cluster.advance(to_s)

    def _round(self, answers: list[Event]) -> list[Event]:
        """One round; what it returns belongs into the next one, empty when the cluster has come to rest.

        Answers that can change nothing by themselves are told with whatever happens next: a call of the engine for
        them alone would cost as much as carrying out the bind does. The watcher hears of them at once.
        """
        now_s, watcher = self._cluster.now_s, self._watcher
        events = [*answers, *self._seen(), *self._arrivals.due(now_s)]
        commands = self._decide(events)
        if watcher is not None:
            watcher.turn(self._engine, now_s, events[self._watched :], commands)
        answers = [answer for command in commands for answer in self._carry_out(command)]
        self._watched = len(answers) if answers and self._changes_nothing(commands) else 0
        if self._watched and watcher is not None:
            watcher.turn(self._engine, now_s, answers, ())
        return answers

    def _changes_nothing(self, commands: Sequence[Command]) -> bool:
        """Whether the answers to these commands lead to no decision: binds of pods that no other one waits for."""
        engine = self._engine
        if engine.planning is not None or engine.asking is not None or engine.queue.shared is not None:
            return False
        if engine.sides.on or engine.gangs.busy or engine.bindings.waiting or engine.state.devices.reservations:
            return False
        return all(isinstance(command, RecordEvent) or self._arrivals.is_single(command) for command in commands)

    def _seen(self) -> list[Event]:
        """What is new in the cluster, after its controllers have reacted."""
        cluster = self._cluster
        if cluster.store.resource_version == self._known and cluster.next_s != cluster.now_s:
            return []
        cluster.step()
        seen = self._feed.pull()
        self._known = cluster.store.resource_version
        self._refuse_unreadable()
        if self._used_before is None:
            self._used_before = nodes_in_use_at_first(seen)
        for event in seen:
            self._note(event)
        return seen

    def _decide(self, events: list[Event]) -> list[Command]:
        """While devices are on their way to claims, the next pod waits: it then sees what the claims got."""
        now = self._cluster.now_s
        self._interrupted = bool(self._engine.state.devices.reservations)
        if self._interrupted:
            return self._engine.handle(events, now, budget=0)[0]
        commands = self._engine.handle(events, now, stop=self._interrupts)[0]
        while self._engine.queue.unfinished and not self._interrupted:
            commands += self._engine.handle((), now, stop=self._interrupts)[0]
        return commands

    def _interrupts(self) -> bool:
        self._interrupted = bool(self._engine.state.devices.reservations)
        return self._interrupted

    def _carry_out(self, command: Command) -> Sequence[Event]:
        if isinstance(command, RecordEvent):
            if (command.type, command.action) == ("Warning", "Scheduling") and command.reason != "FailedScheduling":
                self._warnings.append(command.note)
            return ()
        events = self._arrivals.answered(command, self._cluster.now_s) if self._arrivals.number else None
        if events is not None:
            return events
        if isinstance(command, PatchPodStatus) and command.nominated_node is not None:
            story = self._stories.get(command.pod.uid)
            if story is not None:
                story.nominated_node = command.nominated_node or None
        if isinstance(command, DeletePod):
            self._note_victim(command)
        if isinstance(command, Bind) and command.pod.uid in self._pods:
            self._note_side(command.pod.uid)
        answer = self._runner.run(command)
        return () if answer is None else (answer,)

    def _note_side(self, uid: str) -> None:
        self._stories[uid].side = self._engine.sides.side_of(self._pods[uid])

    # --- keeping the stories ---

    def _note(self, event: Event) -> None:
        match event:
            case PodSeen(pod) if pod.uid in self._stories:
                self._pods[pod.uid] = pod
                if pod.node is not None:
                    self._stories[pod.uid].node = pod.node
                    self._stories[pod.uid].devices = pod.devices
            case PodSeen(pod) if pod.node is None and not pod.finished and pod.deleted_s is None:
                self._begin(pod)
            case PodGone(uid) if uid in self._stories:
                self._end(uid)

    def _begin(self, pod: Pod) -> None:
        body = self._cluster.store.find_uid(pod.uid) or {}
        self._stories.pop(self._ended.pop(pod.key, ""), None)
        self._pods[pod.uid] = pod
        self._stories[pod.uid] = PodStory(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            scheduler_name=pod.template.scheduler_name,
            place=self._cluster.place_of(body),
            owned=self._has_owner(body),
            nominated_node=pod.nominated_node,
        )

    def _has_owner(self, body: KubeObject) -> bool:
        """Whether a controller in the input will create another pod in its place."""
        owner = controller_of(body)
        return owner is not None and self._cluster.store.owner(body, owner) is not None

    def _end(self, uid: str) -> None:
        """A pod is gone: its owner makes another one, which has a story of its own; else it stays in the report."""
        del self._pods[uid]
        story = self._stories[uid]
        if story.owned:
            del self._stories[uid]
            return
        self._ended[story.key] = uid
        _, preemptor = self._evictions.get(uid, ("", ""))
        story.node, story.devices = None, ()
        story.message = f"evicted to make room for {preemptor}" if preemptor else "deleted"

    def _note_victim(self, command: DeletePod) -> None:
        victim = command.pod.key
        by = command.preemptor
        self._evictions[command.pod.uid] = (victim, by.key if by is not None else "")
        story = None if by is None else self._stories.get(by.uid)
        if story is not None:
            story.victims.append(victim)

    def _refuse_unreadable(self) -> None:
        """Objects that admission or a controller made unreadable: the file's object is to blame."""
        if not self._feed.unreadable:
            return
        problems: list[Problem | str] = []
        lineage = Lineage(self._cluster.store)
        for body, error in self._feed.unreadable:
            for key in map(key_of, (body, *lineage.ancestors(body))):
                if key in self._given.places:
                    problems.append(self._given.places[key].problem("", ABSENT, error.problem))
                    break
            else:
                problems.append(str(error))
        raise SimulationError([*dict.fromkeys(problems)])

    # --- the end ---

    def outcome(self) -> SimulationOutcome:
        """The plan as it is now."""
        for uid, pod in self._pods.items():
            if self._stories[uid].node is None:
                self._stories[uid].message = waiting_message(self._engine, pod)
                self._note_side(uid)
        return SimulationOutcome(
            pods=sorted(self._stories.values(), key=lambda story: story.place),
            evictions=[victim for victim, _ in self._evictions.values()],
            nodes=self._loads(),
            ignored=dict(sorted(self._given.ignored.items())),
            warnings=[*self._given.warnings, *self._cluster.warnings, *self._warnings],
            explanations=self._explanations,
            cost=self._prices.cost(
                self._engine.state, self._used_before or set(), nodes_in_use_now(self._engine.state)
            ),
            claims={_key(each): status_of(each) for each in self._cluster.store.list("ResourceClaim")},
            special_claims={
                _key(each): status_of(each)["extendedResourceClaimStatus"]
                for each in self._cluster.store.list("Pod")
                if status_of(each).get("extendedResourceClaimStatus")
            },
            queues=accounts_of(self._engine),
            plans=dict(self._engine.gangs.plans),
            trial=account_of(self._engine, self._cluster.now_s),
            world=FinalCluster(self._cluster, self._engine, self._prices.figures_from),
        )

    def _loads(self) -> dict[str, NodeLoad]:
        state = self._engine.state
        requested, names = state.resources.requested, state.resources.names
        loads: dict[str, NodeLoad] = {}
        for name in sorted(state.node_names()):
            row = state.row_of(name)
            if row is None:
                continue
            amounts = zip(names, map(int, requested[:, row]), strict=False)
            texts = {
                resource: format_amount(resource, amount)
                for resource, amount in amounts
                if resource != PODS and (amount or resource in (CPU, MEMORY))
            }
            loads[name] = NodeLoad(len(state.records_on(row)), texts)
        return loads


def by_node_name(objects: Sequence[KubeObject]) -> list[KubeObject]:
    """The nodes by name, then the rest as it stands: daemons are named in the order of their nodes."""
    nodes = sorted((obj for obj in objects if obj["kind"] == "Node"), key=lambda node: str(node["metadata"]["name"]))
    return [*nodes, *(obj for obj in objects if obj["kind"] != "Node")]


def start_time_s(objects: Sequence[KubeObject]) -> float:
    """A second after the newest creation time in the input: objects that have none are the youngest."""
    texts = {str((obj.get("metadata") or {}).get("creationTimestamp") or "") for obj in objects}
    return max([START_S, *(at_s + 1.0 for at_s in map(time_s, texts) if at_s is not None)])


def _key(obj: KubeObject) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
