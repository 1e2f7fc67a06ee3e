"""Gangs: all members that are needed get a node in one statement, or none does.

The life of a gang: its members wait as one unit of the queue until there are enough of them (`gate`); an attempt
places them together or not at all; each goes through Permit and PreBind and waits for the others (`ready`); the start
is put on record; then all are bound. `engine.recovery` handles starts that were interrupted.

A gang that does not fit holds nothing. After `reserveAfterSeconds`, members that fit are nominated to nodes for a
while, so that smaller work of equal priority does not take all the room that becomes free (`gangturns`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from moorage.core.commands import PatchPodStatus
from moorage.core.events import StatusDone, TermBegan
from moorage.core.gangneeds import ANYWHERE, Domain, GangNeeds, needs_of
from moorage.core.gangs import GROUP_KINDS, GangTerms, Place, deployment_of, lasting, own_priority
from moorage.core.membership import Declared, GangKey
from moorage.core.objects import DEPLOYMENT, OWNED_KIND, object_key
from moorage.core.pods import Pod
from moorage.core.times import earlier
from moorage.engine.arriving import Arriving, arriving_for_gang, arriving_for_pod
from moorage.engine.bindingcycles import BindingCycle, GangBinding
from moorage.engine.context import EngineContext
from moorage.engine.diagnosis import rejecting_plugins
from moorage.engine.evictor import ref_of
from moorage.engine.failing import HOPELESS, Failing
from moorage.engine.failures import NO_DOMAIN, Failure
from moorage.engine.gangplacement import GangPlacement
from moorage.engine.gangrecords import starting
from moorage.engine.gangroom import NOTHING_MADE, GangRoom, Made
from moorage.engine.gangturns import Gathering, TurnPatience
from moorage.engine.gate import may_enter
from moorage.engine.lifecycle import GATED, READY
from moorage.engine.notices import Notices
from moorage.engine.placing import Placing
from moorage.engine.provisioning import Provisioning
from moorage.engine.recovery import Recovery
from moorage.engine.sharing import Sharing
from moorage.engine.trial import Trial
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit, work_of
from moorage.framework.changes import Change, What
from moorage.framework.contract import GangPatience, GangPostFilter, PlansGangs
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import GangPlan
from moorage.framework.gangs import GANG_SCHEDULING
from moorage.framework.status import Code

_KEPT_TRIALS = 4096


class PlaceableGang(NamedTuple):
    """What is to be placed of a gang that may be tried."""

    needs: GangNeeds
    ready: list[QueuedPod]
    """The members to place."""


class Gangs:
    """Schedules gangs."""

    def __init__(self, context: EngineContext, placing: Placing, failing: Failing, notices: Notices) -> None:
        self._context = context
        self._state = context.state
        self._queue = context.queue
        self._placing = placing
        self._failing = failing
        self._notices = notices
        self.recovery = Recovery(context, self._forget)
        self.term = ""
        """The leader's term, for the record."""
        self._recording: dict[int, GangBinding] = {}
        """Token of a record that is being written -> the members that wait for it."""
        self.tried: deque[tuple[Code, str]] = deque(maxlen=_KEPT_TRIALS)
        """How the latest attempts ended, and of which profile; readers remove what they have read."""
        self.plans: dict[GangKey, GangPlan] = {}
        """How gangs were placed that a plugin planned; metrics read it, no decision does."""
        self._controlled: dict[tuple[str, str], dict[GangKey, None]] = {}
        """Kind and key of controllers -> gangs whose members they created."""
        self._controllers: dict[GangKey, set[tuple[str, str]]] = {}
        """The same, by gang."""
        self._found: dict[str, PlaceableGang] | None = None
        """What the gate found in the review of this call, by uid of the gang; None before the review."""
        self._room = GangRoom(context, failing, self.priority, self.needs)
        self.turns = self._room.turns
        self.provisioning = Provisioning(context, self.needs)

    def term_began(self, event: TermBegan, turn: Turn) -> None:
        """This process leads: starts are recorded under its term."""
        self.term = event.term
        self.turns.term_began(turn.now)

    # --- membership ---

    def unit_of(self, pod: Pod) -> GangKey | None:
        """The gang that a pod is placed with; None if it names none, or its profile does not place gangs."""
        key = pod.template.gang
        if key is None:
            return None
        runner = self._context.runner_of(pod)
        return key if runner is not None and runner.places_gangs else None

    def concern(self, key: GangKey) -> None:
        """Something happened to a gang: review it before the next decisions."""
        self.recovery.concern(key)
        self.provisioning.concern(key)
        self.turns.concern(key)

    def met(self, key: GangKey, pod: Pod) -> None:
        """Something happened to a member."""
        owner = pod.template.owner
        if pod.template.gang_size is None and owner is not None and key.by is Declared.ANNOTATION:
            place = (owner.kind, object_key(pod.namespace, owner.name))
            self._controlled.setdefault(place, {})[key] = None
            self._controllers.setdefault(key, set()).add(place)
        self.recovery.concern(key)
        self.turns.concern(key)

    def ruled_by(self, kind: str, key: str) -> list[Pod]:
        """One member of each gang whose size or priority this object determines."""
        gangs = list(self._controlled.get((kind, key), ()))
        if kind == DEPLOYMENT:
            gangs += [gang for place, known in self._controlled.items() if self._is_of(place, key) for gang in known]
        if kind in GROUP_KINDS or kind == OWNED_KIND:
            namespace, _, name = key.partition("/")
            gangs = [GangKey(namespace, name, by) for by in Declared]
        return [pod for gang in gangs if (pod := self._one_of(gang)) is not None]

    def _is_of(self, place: Place, deployment: str) -> bool:
        """Whether a controller is a ReplicaSet of this Deployment."""
        workload = self._state.object(*place)
        return workload is not None and deployment_of(workload) == (DEPLOYMENT, deployment)

    def _forget(self, key: GangKey) -> None:
        """A gang has no members any more."""
        self.turns.forget(key)
        self.provisioning.left(key, 0.0)
        self.plans.pop(key, None)
        for place in self._controllers.pop(key, ()):
            gangs = self._controlled[place]
            del gangs[key]
            if not gangs:
                del self._controlled[place]

    def _one_of(self, key: GangKey) -> Pod | None:
        gang = self._queue.gang(key)
        if gang is not None:
            return gang.pod
        return next((record.pod for record in self._state.gangs.standing(key).values()), None)

    def changed(self, change: Change, now: float) -> None:
        """Wake waiting gangs that a change is about: their object, or a member that came or went.

        Whether it makes room for others is for the plugins to say; the result of the gang's own attempt is ignored.
        """
        pod = change.pod
        if pod is None:
            keys = [each.template.gang for each in self.ruled_by(change.kind, change.key)] if change.kind else []
        else:
            keys = [] if change.what is What.POD_UPDATED else [pod.template.gang]
        for key in keys:
            gang = None if key is None else self._queue.gang(key)
            if gang is None or GANG_SCHEDULING not in gang.rejected_by or (pod is not None and pod.uid in gang.members):
                continue
            self._queue.wake(gang, now)

    @property
    def recording(self) -> bool:
        """Whether the start of a gang is being put on record; its binds follow."""
        return bool(self._recording)

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return self.recovery.busy or self._room.busy or self.provisioning.busy

    def next_s(self) -> float | None:
        """When `review` has something to do even if nothing happens, also if that changes no decision."""
        return earlier(self.next_review_s(), self.provisioning.next_s())

    def next_review_s(self) -> float | None:
        """When time alone could change what `review` decides."""
        return earlier(self.recovery.next_review_s(), self.turns.next_review_s())

    def call_began(self) -> None:
        """The engine is called: what was found before may not hold any more."""
        self._found = None

    def review(self, turn: Turn) -> None:
        """Review the gangs that something happened to, and those whose deadline is due."""
        self._found = {}
        self.recovery.review(turn)
        if self._room.busy:
            self._room.review(turn)
        if self.provisioning.busy:
            self.provisioning.review(turn)

    def priority(self, gang: Unit) -> int:
        """The priority of the group, else the lowest of the waiting members."""
        own = own_priority(self._state, gang.key)
        if own is not None:
            return own
        return min([entry.pod.template.priority for entry in gang.members.values()])

    def queue_key(self, gang: Unit, sort: Any) -> tuple[Any, ...]:
        """QueueSort of a gang, by its priority and age; the favoured one and one that lost members go first."""
        priority, pod = self.priority(gang), gang.pod
        if priority != pod.template.priority:
            pod = replace(pod, template=replace(pod.template, priority=priority))
        first = gang.key == self.turns.favoured or lasting(self._state, gang.key)
        since_s = 0.0 if first else gang.since_s
        key: tuple[Any, ...] = sort.queue_key(pod, since_s)
        return key

    def size(self, gang: Unit) -> int:
        """The number of members, waiting or not."""
        return len(gang.members) + len(lasting(self._state, gang.key))

    def needs(self, key: GangKey, waiting: Collection[Pod]) -> GangNeeds | None:
        """What a gang with these waiting members needs to start; None while its PodGroup is missing."""
        return needs_of(self._state, key, waiting, self.recovery.runs)

    def arriving(self, pod: Pod, now: float) -> Arriving:
        """The nodes on their way that a waiting pod would fit on, with its gang if it has one."""
        key = pod.template.gang
        gang = None if key is None else self._queue.gang(key)
        if gang is None:
            return arriving_for_pod(self._context, pod, now)
        ready = sorted(self._ready(gang), key=_by_importance)
        needs = self.needs(gang.key, [entry.pod for entry in ready])
        if needs is None or not needs.enough(len(ready)):
            return Arriving()
        return arriving_for_gang(self._context, ready, needs, now)

    # --- PreEnqueue ---

    def gate(self, gang: Unit, now: float) -> str | None:
        """The plugin that keeps the gang from being tried, None if it may be; `message` says what it waits for."""
        found = self._placeable(gang, now)
        if isinstance(found, str):
            return found
        if self._found is not None and not self._state.gangs.standing(found.needs.key):
            self._found[gang.uid] = found
        return None

    def _still_placeable(self, gang: Unit, now: float) -> PlaceableGang | str:
        """What the gate found in this call of the engine if it must be the same now, else asked again.

        Events are applied before the review. Afterwards the answer can change only where members are on nodes, where
        some come back from their binding cycles, or where room is made for queues.
        """
        found = self._found.pop(gang.uid, None) if self._found else None
        if found is None or len(found.ready) != len(gang.members) or self._queue.shared is not None:
            return self._placeable(gang, now)
        return self._placeable(gang, now) if self._state.gangs.standing(found.needs.key) else found

    def _placeable(self, gang: Unit, now: float) -> PlaceableGang | str:
        """What is to be placed; or the plugin that keeps the gang from being tried."""
        key = gang.key
        if self._state.evictions.holds(gang.uid):
            room = self._context.responsible(gang.pod).plugins.first(GangPostFilter)
            return GANG_SCHEDULING if room is None else room.name
        waiting = [entry.pod for entry in gang.members.values()]
        needs = self.needs(key, waiting)
        if needs is None:
            self._room.lies_idle(gang, now)
            return self._wait(gang, f"waiting for PodGroup {key.object_key}", now)
        settled_s = self._settled_s(gang, needs.terms)
        if now < settled_s:
            self._context.set_alarm(settled_s, gang)
            return self._wait(gang, f"waiting for more members of pod group {key.object_key}", now)
        if self._gathers(gang, needs.terms):
            return self._wait(gang, f"waiting for the others of pod group {key.object_key} to start", now)
        there, needed, ready = len(gang.members), needs.members, []
        if needs.enough(there):
            ready = self._ready(gang)
            there = len(ready)
        if needs.enough(there):
            self._room.is_of_use(key)
            return PlaceableGang(needs, ready)
        self._room.lies_idle(gang, now)
        self.provisioning.left(key, now)
        missing = f"{needed - there} more of its {needs.terms.min_count or needed} members"
        return self._wait(gang, f"waiting for pod group {key.object_key}: {missing} must exist", now)

    def _gathers(self, gang: Unit, terms: GangTerms) -> bool:
        """Whether waiting members have to wait until those that have a node are being bound.

        In a queue, pods above the minimum compete as soon as the start is being put on record: who comes after them
        would get their room meanwhile.
        """
        gathering, sharing = self.recovery.gathering(gang.key), self._context.sharing
        if not gathering or sharing is None or not sharing.governs(gang.pod):
            return bool(gathering)
        least = terms.min_count
        return gathering[0].recorder is None or least is None or len(lasting(self._state, gang.key)) < least

    def _settled_s(self, gang: Unit, terms: GangTerms) -> float:
        """When the number of members counts as known; a running gang waits only if the number is given nowhere."""
        if not terms.estimated or (terms.min_count is not None and lasting(self._state, gang.key)):
            return 0.0
        return gang.arrived_s + self._patience(gang).settle_seconds

    def _wait(self, gang: Unit, message: str, now: float) -> str:
        self._notices.later(gang, message, now)
        return GANG_SCHEDULING

    def _patience(self, gang: Unit) -> GangPatience:
        gangs = self._context.responsible(gang.pod).gangs
        if gangs is None:
            raise LookupError(f"the profile of {gang.pod.template.scheduler_name} places no gangs")
        return gangs.gang_patience

    def _ready(self, gang: Unit) -> list[QueuedPod]:
        """The waiting members that no PreEnqueue plugin refuses."""
        context, entries = self._context, gang.members.values()
        return [entry for entry in entries if may_enter(context.runner_of(entry.pod), entry.pod, context.faults)]

    # --- one attempt ---

    def attempt(self, gang: Unit, turn: Turn) -> int:
        """One scheduling cycle of a gang, in numbered steps; returns how many pods were decided on."""
        # 1. The members to place, and how many of them must find a node.
        found = self._to_place(gang, turn.now)
        if found is None:
            return 1
        needs, ready = found
        # 2. The nodes, in one domain if the group asks for that.
        domains = needs.domains(self._state)
        context = self._context
        trial = Trial(context, turn.now, observer=context.observer, work=work_of(gang))
        placement = trial.place_gang(ready, needs, domains)
        # 3. Too few: run PostFilter. If it needs no victims, the room was there, for members in another order.
        made = NOTHING_MADE
        if not placement.enough:
            made = self._await_nodes(gang, found, turn) or self._make_room(gang, found, placement, domains, turn)
            if made.nominated and not made.evicts:
                placement = trial.place_in(made.domain, ready, needs)
                made = Made(self._room.clear(ready))
        if placement.given_up:
            context.changes.extend(Change(What.POD_REMOVED, pod=pod) for pod in placement.given_up)
        self.tried.append((placement.code, context.responsible(gang.pod).profile.scheduler_name))
        # 4. Start the binding cycles; or report why not, and wait for a change that helps.
        if placement.enough:
            if placement.plan is not None and placement.plan.levels:
                self.plans[gang.key] = placement.plan
            self._start(gang, placement, turn)
        else:
            self._fail(gang, found, placement, made, turn)
        return len(ready)

    def _to_place(self, gang: Unit, now: float) -> PlaceableGang | None:
        """The members to place in this attempt; None if there is none, and the gang was given back."""
        found = self._still_placeable(gang, now)
        if isinstance(found, str):
            self._queue.hold(gang, found, now)
            return None
        needs, ready = found
        ready.sort(key=_by_importance)
        sharing, planning = self._context.sharing, self._context.planning
        if sharing is not None and sharing.governs(gang.pod):
            ready = sharing.next_members(gang.key, ready)
            found = PlaceableGang(needs._replace(members=len(ready)), ready)
            if self._fails_again(gang, found, sharing, now):
                return None
        if planning is not None:
            found = PlaceableGang(found.needs, planning.admitted(gang, found.ready))
            if not found.ready:
                self._queue.hold(gang, planning.name, now)
                return None
        return found

    def _fails_again(self, gang: Unit, found: PlaceableGang, sharing: Sharing, now: float) -> bool:
        """Give back a gang of a queue that would fail as before, and would get no turn."""
        if not sharing.fails_again(gang, [entry.pod for entry in found.ready], found.needs.members, now):
            return False
        if sharing.waits_s(gang, now) and not self.turns.stands_in_line(gang, now):
            return False
        sharing.wants(gang)
        why, cause = gang.rejected_by, gang.message
        self._queue.requeue(gang, now, rejected_by=why, error=False, pending=False, cause=cause)
        return True

    # --- binding ---

    def _start(self, gang: Unit, placement: GangPlacement, turn: Turn) -> None:
        """Start the binding cycles; members without a node stay in the queue."""
        key, placing, current = gang.key, self._placing, self._context.bindings.get
        gang_binding = GangBinding(key, placement.bindings)
        self.recovery.binding_began(gang_binding)
        self.provisioning.left(key, turn.now)
        self.turns.leave(key, turn.now)
        for binding in gang_binding.members:
            self._queue.detach(binding.entry, turn.now)
            binding.gang = gang_binding
            placing.begin(binding)
        if gang.members:  # more than are needed: tried again without the others, with evictions if that helps
            cause = "the gang starts without it"
            self._queue.requeue(gang, turn.now, rejected_by=frozenset(), error=False, pending=True, cause=cause)
        for binding in list(gang_binding.members):
            if current(binding.entry.pod.uid) is binding:
                placing.go_on(binding, turn)
        for binding in gang_binding.members:
            if current(binding.entry.pod.uid) is binding:
                placing.tell(binding)
        if gang_binding.recorder is not None and gang.state is GATED:
            self._queue.wake(gang, turn.now)

    def ready(self, binding: BindingCycle, turn: Turn) -> None:
        """A member is ready. If it was the last one, all are bound once their start is on record."""
        gang_binding = binding.gang
        if gang_binding is None or gang_binding.recorder is not None:
            return
        bindings = gang_binding.members
        if bindings[-1].entry.state is not READY or any(each.entry.state is not READY for each in bindings):
            return  # members usually get ready in this order, so the last one is checked first
        if next(iter(self.recovery.gathering(gang_binding.key)), gang_binding) is not gang_binding:
            return  # what it needs to run at all is bound first
        if not self.recovery.wants_record(gang_binding):
            self._begin(gang_binding, turn)
            return
        pod = gang_binding.members[0].entry.pod
        gang_binding.recorder = ref_of(pod)
        token = self._context.token()
        self._recording[token] = gang_binding
        self.recovery.recorded_on(gang_binding.key, pod.uid)
        record = starting(gang_binding, self.term)
        turn.commands.append(PatchPodStatus(gang_binding.recorder, gang_record=record, token=token))

    def recorded(self, event: StatusDone, turn: Turn) -> None:
        """The start is on record: bind. If it could not be written: try again later."""
        gang_binding = self._recording.pop(event.token, None)
        if gang_binding is None or gang_binding.begun or not gang_binding.members:
            return
        if event.ok:
            self._begin(gang_binding, turn)
        else:
            message = f"the start of pod group {gang_binding.key.object_key} could not be recorded: {event.message}"
            self.roll_back(gang_binding, Failure(message, frozenset(), Code.ERROR), turn)

    def _begin(self, gang_binding: GangBinding, turn: Turn) -> None:
        gang_binding.begun = True
        self.concern(gang_binding.key)
        for binding in list(gang_binding.members):
            self._placing.go_on(binding, turn)
        for later in self.recovery.gathering(gang_binding.key):
            self.ready(later.members[-1], turn)

    def lost(self, binding: BindingCycle, turn: Turn) -> None:
        """A member is gone during its binding cycle."""
        gang_binding = binding.gang
        if gang_binding is None or binding not in gang_binding.members:
            return
        gang_binding.members.remove(binding)
        if not gang_binding.begun:
            failure = Failure(f"member {binding.entry.pod.key} went away", frozenset({GANG_SCHEDULING}))
            self.roll_back(gang_binding, failure, turn)
        self.concern(gang_binding.key)

    def roll_back(self, gang_binding: GangBinding, failure: Failure, turn: Turn) -> None:
        """Undo a start of which nothing was bound yet; the members wait again, with those that wait for the start."""
        bindings: list[BindingCycle] = []
        for each in (gang_binding, *self.recovery.gathering(gang_binding.key, after=gang_binding)):
            bindings += each.members
            each.members = []
        back = [binding for binding in bindings if self._placing.undo(binding, turn)]
        gang: Unit | None = None
        for binding in back:
            gang = self._queue.rejoin(binding.entry, turn.now, failure.message)
        if gang is not None:
            cleared = {binding.entry.pod.uid: "" for binding in back if binding.announced}
            self._give_back(gang, failure, turn, cleared)
        self.concern(gang_binding.key)

    # --- failing ---

    def _await_nodes(self, gang: Unit, found: PlaceableGang, turn: Turn) -> Made | None:
        """Nodes are on their way on which the gang would fit: nobody has to be evicted, unless they do not come."""
        patience_s = self._patience(gang).arrival_seconds
        coming = arriving_for_gang(self._context, found.ready, found.needs, turn.now, patience_s)
        if not coming.nodes:
            return None
        self._context.set_alarm(coming.expires_s, gang)
        return Made(message=coming.told, awaits=True)

    def _make_room(
        self,
        gang: Unit,
        found: PlaceableGang,
        placement: GangPlacement,
        domains: Sequence[Domain | None],
        turn: Turn,
    ) -> Made:
        failed = placement.failure is not None and placement.failure.code is Code.ERROR
        if not self._state.node_count or failed or placement.hopeless:
            return NOTHING_MADE
        sharing = self._context.sharing
        if sharing is not None and sharing.governs(gang.pod):
            failure = sharing.wants_room(gang, placement.failure or Failure("no room", frozenset()))
            return Made(nominated=True, evicts=True, rejected_by=failure.rejected_by)
        domains = ANYWHERE if placement.planned else domains
        return self._room.make(gang, found.ready, found.needs, domains, turn)

    def _fail(self, gang: Unit, found: PlaceableGang, placement: GangPlacement, made: Made, turn: Turn) -> None:
        failure = placement.failure or Failure("no room", frozenset())
        others = self._others_wanted(placement, turn.now)
        rejected_by = {GANG_SCHEDULING, *failure.rejected_by, *placement.rejected_by, *made.rejected_by, *others}
        if found.needs.terms.topology_key is not None:
            rejected_by.add(NO_DOMAIN)
        queue = self._queue_reason(found, placement, failure)
        prefix = f"pod group {gang.key.object_key}: {len(placement.bindings)} of {found.needs.members} members fit; "
        patience = self._turn_patience(gang, made, turn.now)
        if patience is not None:
            self.turns.keep(gang, found.ready, found.needs, placement.bindings, patience, turn.now)
        said = (failure.message, self._said_of_turns(gang, found, placement, turn.now), made.message)
        message = f"{queue}{prefix}{' '.join(filter(None, said))}"
        failure = Failure(message, frozenset(rejected_by), failure.code)
        if not made.awaits and failure.code not in (Code.ERROR, Code.PENDING) and not any(made.nominate.values()):
            self.provisioning.misfit(gang, self._patience(gang), turn.now)
        self._give_back(gang, failure, turn, made.nominate)
        if placement.planned and not placement.hopeless and not made.nominated:
            self._start_anew(gang, found, turn)
        planning, nominations = self._context.planning, self._state.nominations
        promised = any(nominations.node_of(uid) is not None for uid in gang.members)
        if planning is not None and not promised and not made.awaits and failure.code in HOPELESS:
            planning.failed(gang)

    def _turn_patience(self, gang: Unit, made: Made, now: float) -> TurnPatience | None:
        """When a gang may have a turn, None if not at all: one of a queue while pods end all the time."""
        sharing, planning = self._context.sharing, self._context.planning
        if planning is not None and planning.plans(gang.pod):
            return None  # the plan says whose turn it is
        if sharing is None or not sharing.governs(gang.pod):
            return None if made.nominated else self._patience(gang)
        wait_s = sharing.waits_s(gang, now) if made.nominated else 0.0
        return Gathering(wait_s) if wait_s else None

    def _said_of_turns(self, gang: Unit, found: PlaceableGang, placement: GangPlacement, now: float) -> str:
        """That room is kept for the gang; or for another, where its first member without a node would fit."""
        if self.turns.favoured is None:
            return ""
        placed = {binding.entry.pod.uid for binding in placement.bindings}
        pod = next((entry.pod for entry in found.ready if entry.pod.uid not in placed), gang.pod)
        return self.turns.told_to(gang) or self.turns.keeps_out(pod, self._context.responsible(pod), now)

    def _queue_reason(self, found: PlaceableGang, placement: GangPlacement, failure: Failure) -> str:
        """What the queue of a gang has to do with it, which is said first; empty if that is nothing."""
        sharing = self._context.sharing
        pods = [entry.pod for entry in found.ready]
        if sharing is None or not pods or placement.hopeless or not sharing.governs(pods[0]):
            return ""
        return sharing.reason(pods, failure)

    def _start_anew(self, gang: Unit, found: PlaceableGang, turn: Turn) -> None:
        """A running gang has no room for lost members where the others are: after a while all of it may move."""
        there = lasting(self._state, gang.key)
        planner = self._context.responsible(gang.pod).plugins.first(PlansGangs)
        if not there or planner is None or not self.recovery.runs(gang.key, found.needs.terms):
            return
        due_s = gang.first_s + planner.replace_after_seconds
        if turn.now < due_s:
            self._context.set_alarm(due_s, gang)
        elif Trial(self._context, turn.now, reserves=False).fits_anew(found.ready, there, found.needs):
            message = f"pod group {gang.key.object_key} lost members that have no room beside the others"
            self.recovery.start_anew(gang.key, there, f"{message}; it fits elsewhere as a whole", turn)

    def _others_wanted(self, placement: GangPlacement, now: float) -> Iterator[str]:
        """Plugins that keep placed members from nodes where they would not be in the way of the others."""
        if placement.too_many:
            runners = self._context.all_runners().values()
            yield from (plugin.name for runner in runners for plugin in runner.plugins.filter)
            return
        for binding in placement.placed_only():
            yield from self._rejecting(binding, now)

    def _rejecting(self, binding: BindingCycle, now: float) -> Iterable[str]:
        try:
            judgement = binding.runner.judge(Cycle(binding.entry.pod, self._state, now), self._state.rows())
        except Exception:  # noqa: BLE001 - reported when the pod itself is tried
            return ()
        return rejecting_plugins(judgement)

    def _give_back(
        self,
        gang: Unit,
        failure: Failure,
        turn: Turn,
        nominate: Mapping[str, str] | None = None,
    ) -> None:
        """Put the gang back into the queue, and report the failure on every member."""
        gang.message = failure.message
        self._queue.requeue(
            gang,
            turn.now,
            rejected_by=failure.rejected_by,
            error=failure.code is Code.ERROR,
            pending=failure.code is Code.PENDING or gang.key == self.turns.favoured,
            cause=failure.message,
        )
        for entry in gang.members.values():
            runner = self._context.runner_of(entry.pod)
            node = (nominate or {}).get(entry.pod.uid)
            if runner is not None:
                nominated = None if node == entry.pod.nominated_node else node
                self._failing.tell(entry, runner, failure, turn, nominated)
        self.recovery.unschedulable(gang, failure.message, turn)


def _by_importance(entry: QueuedPod) -> tuple[int, float, str]:
    """Highest priority first, then the oldest; the name is unique, as a gang has one namespace."""
    return -entry.pod.template.priority, entry.pod.created_s, entry.pod.name
