"""Repacking is carried out: one plan at a time, one move after the other, and only for as long as it pays.

1. A plan is searched for while nothing else is going on: room for what waits comes first, and nodes are emptied only
   while nothing waits.
2. The nodes of a plan are closed: cordoned, with a mark that says why. So no successor comes back. Nodes that are
   empty and shall stay so are closed, too, if successors would go there.
3. Its pods are evicted. Before each eviction the profile finds a place for the successor on the state of that moment,
   and the next one waits until it runs, as `moves_at_once` says; budgets, one move at a time of each workload and the
   number per hour hold throughout. Pods younger than `move_again_after_s` are left alone, and successors are young.
4. The nodes are opened again. If the gain does not come, or does not last, nothing is planned for `rest_s`.

The plan itself is kept in memory only. A keeper that takes over finds marked nodes and opens them; nothing else was
changed, and every pod that was evicted has a successor.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import field, replace

from moorage.core.commands import EvictPod, KeeperCommand, PatchNode, PatchPodStatus
from moorage.core.events import NodePatched
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.evictor import ref_of
from moorage.engine.keeping import marks
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.concerns import MovingConcern
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.notes import PLACING, KeeperReason, note
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.census import Census, Mover, mover_of, take_census
from moorage.engine.repacking.choice import choice
from moorage.engine.repacking.emptying import Emptying, EmptyingAims
from moorage.engine.repacking.plans import EmptyingPlan
from moorage.engine.repacking.room import RoomMaking, WaitingUnit, waiting_units
from moorage.framework.keeping import KeeperConfiguration, RepackAim, Repacking

LOOK_S = 10.0
"""How often a plan is searched for."""
AGAIN_S = 60.0
"""How long after a search in vain for a unit, or for nodes to empty, it is repeated."""
REPEAT_S = 5.0
"""How long after a write on a node was answered it is written again, if that is not seen."""
CLOSE_S = 30.0
"""How long an answer to a write on a node is waited for; a plan whose nodes are not closed then is given up."""
REFUSED_S = 5.0
"""How long after a refusal the eviction of a pod is tried again; twice as long after each further one."""
_LONGEST_REFUSED_S = 120.0
CHECK_S = 60.0
"""How long after its end a plan's gain must have come, and still be there."""
STUCK_S = 600.0
"""A plan that makes no move for so long is given up."""
_ROOM_STEPS = 4_000
_HOUR_S = 3600.0
_MOST_UNITS = 8
_WINDOW = 2
"""So many times `moves_at_once` are the next pods of a plan, of which those are moved that may be."""


@dataclass(slots=True)
class Carrying:
    """A plan under way."""

    aim: RepackAim
    words: str
    """What it is for; written on its nodes."""
    nodes: list[str]
    order: dict[str, int]
    """Uid of each pod that has to move -> its place in the plan."""
    began_s: float
    moved_s: float
    unit: WaitingUnit | None = None
    places: dict[str, str] = field(default_factory=dict)
    closings: dict[str, PatchNode] = field(default_factory=dict)
    """Node -> the write that closes it, as it was sent last."""
    spared: list[str] = field(default_factory=list)
    """Nodes that are empty and stay so."""
    filled: int = 0
    """How many nodes that were empty get pods."""
    closed: set[str] = field(default_factory=set)
    """Nodes of which the API server said that they are closed."""
    moves: int = 0

    @property
    def held(self) -> list[str]:
        """The nodes that take no pods."""
        return [*self.nodes, *self.spared]


@dataclass(frozen=True, slots=True)
class _Promise:
    """What a plan that was carried out should have brought."""

    due_s: float
    nodes: tuple[str, ...]
    gained: int
    """How many nodes fewer are in use."""
    pod: Pod | None
    """One of the unit that has room now; None if nodes were emptied."""
    moved: Pod | None
    """The last one that was moved."""


class Repack(MovingConcern):
    """The concern of clusters that are used badly."""

    def __init__(
        self,
        settings: KeeperConfiguration,
        world: Engine,
        departures: Departures,
        proofs: Proofs,
        moves: Moves,
    ) -> None:
        super().__init__(settings, departures, proofs, moves)
        self._world = world
        self._marked: dict[str, Node] = {}
        """Nodes that carry the mark."""
        self._written_s: dict[str, float] = {}
        self._unanswered: set[str] = set()
        """Nodes that were written without an answer so far."""
        self._plan: Carrying | None = None
        self._search: tuple[Emptying, Iterator[None]] | None = None
        self._promise: _Promise | None = None
        self._last: Pod | None = None
        self._times: deque[float] = deque()
        """When pods were moved within the last hour."""
        self._refusals: Counter[str] = Counter()
        """How often the eviction of a pod was refused."""
        self._look_s = 0.0
        self._rest_until_s = 0.0
        self.emptied = 0
        """How many nodes have been emptied."""
        self.missed = 0
        """How many plans did not bring what they promised."""

    # --- what happens ---

    @property
    def plan_now(self) -> Carrying | None:
        """The plan under way."""
        return self._plan

    @property
    def busy(self) -> bool:
        """Whether there is something to do even if nothing happens."""
        return self._plan is not None or self._search is not None or bool(self._marked)

    def next_s(self) -> float | None:
        """When to look again; None if never."""
        if self._settings.repack is None:
            return None
        due_s = max(self._look_s, self._rest_until_s)
        return due_s if self._promise is None else min(due_s, self._promise.due_s)

    def see_node(self, node: Node) -> None:
        """A node was added or changed."""
        if marks.REPACK in node.annotations:
            self._marked[node.name] = node
        elif self._marked.pop(node.name, None) is not None:
            self._forget_write(node.name)

    def node_gone(self, name: str) -> None:
        """A node is gone."""
        self._marked.pop(name, None)
        self._forget_write(name)

    def patched(self, event: NodePatched, now: float) -> None:
        """A write on a node was answered, which may be an older one, or that of another concern."""
        name, plan = event.command.node, self._plan
        if name in self._unanswered:
            self._unanswered.discard(name)
            self._written_s[name] = now
        if plan is not None and event.ok and name in plan.held and plan.closings.get(name) == event.command:
            plan.closed.add(name)
            plan.moved_s = now

    def put_off(self, uid: str, until_s: float) -> None:
        """The move of a pod did not take place: do not consider it before then, and later after every time."""
        pause_s = min(REFUSED_S * 2.0 ** self._refusals[uid], _LONGEST_REFUSED_S)
        self._refusals[uid] += 1
        super().put_off(uid, until_s + pause_s)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._refusals.pop(uid, None)
        self._not_before_s.pop(uid, None)

    def _forget_write(self, name: str) -> None:
        self._written_s.pop(name, None)
        self._unanswered.discard(name)

    # --- planning ---

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to do now."""
        if self._settings.repack is None:
            return [*self._opened(now)]
        commands = [*self._checked(now), *self._opened(now)]
        if self._plan is None and not self._marked:
            self._look(now)
        if self._plan is not None:
            commands += self._carry_on(self._plan, now, allowances)
        return commands

    def _opened(self, now: float) -> Iterator[KeeperCommand]:
        """Open nodes that no plan needs."""
        kept = () if self._plan is None else {*self._plan.held}
        for node in [*self._marked.values()]:
            if node.name not in kept and self._may_write(node.name, now):
                yield self._opening(node)

    def _opening(self, node: Node) -> PatchNode:
        if node.name in self._departures:  # it stays closed, on behalf of the notice
            return PatchNode(node.name, node.uid, None, FrozenDict({marks.REPACK: None, marks.CORDONED: "true"}))
        return PatchNode(node.name, node.uid, False if node.unschedulable else None, FrozenDict({marks.REPACK: None}))

    def _may_write(self, name: str, now: float) -> bool:
        pause_s = CLOSE_S if name in self._unanswered else REPEAT_S
        if now < self._written_s.get(name, -pause_s) + pause_s:
            return False
        self._written_s[name] = now
        self._unanswered.add(name)
        return True

    # --- 1. a search, in parts ---

    def _look(self, now: float) -> None:
        if self._search is not None:
            self._search_on(now)
            return
        if now < max(self._look_s, self._rest_until_s) or self._promise is not None:
            return
        self._look_s = now + LOOK_S
        if len(self._moves) or len(self._departures):
            return
        settings = self._repacking
        self._not_before_s = {key: at for key, at in self._not_before_s.items() if at > now}
        waiting = [unit for unit, _ in zip(waiting_units(self._world), range(_MOST_UNITS), strict=False)]
        if RepackAim.ROOM in settings.aims:
            for unit in waiting:
                if self._is_due(unit, now):
                    self._plan_room(unit, now)
                    return
        if waiting or RepackAim.EMPTY not in settings.aims or now < self._not_before_s.get("", 0.0):
            return
        aims = EmptyingAims(settings.least_gain, settings.nodes_at_once)
        search = Emptying(self._proofs, self._census(now), now, aims)
        self._search = (search, search.work())

    @property
    def _repacking(self) -> Repacking:
        return self._settings.repack or Repacking()

    def _is_due(self, unit: WaitingUnit, now: float) -> bool:
        waited = all(now - pod.created_s >= self._repacking.settle_s for pod in unit.pods)
        return waited and now >= self._not_before_s.get(unit.key, 0.0)

    def _census(self, now: float, planned: Container[str] = ()) -> Census:
        def spared(pod: Pod) -> bool:
            return now - pod.created_s < self._settings.move_again_after_s

        state = self._world.state
        budgets = state.disruptions.budgets
        return take_census(state, budgets, self._departures.rows(state), spared=spared, planned=planned)

    def _search_on(self, now: float) -> None:
        """One part of the search for nodes to empty; what it found is proven on the state as it is now."""
        if self._search is None:
            return
        search, work = self._search
        if len(self._departures) or len(self._moves):
            self._search = None
        elif next(work, self) is self:
            self._search = None
            plan = search.result
            if plan.moves:
                search = Emptying(self._proofs, self._census(now), now)
                plan = search.proven(plan.nodes)
                if plan.spared and not search.fills_empty(plan.nodes):
                    plan = replace(plan, spared=())
            self._not_before_s[""] = now + AGAIN_S
            if plan.moves:
                self._begin_emptying(plan, now)

    def _begin_emptying(self, plan: EmptyingPlan, now: float) -> None:
        words = f"{len(plan.nodes)} of {plan.in_use} nodes in use become empty with {len(plan.moves)} moves"
        order = {move.pod.uid: place for place, move in enumerate(plan.moves)}
        self._plan = Carrying(
            RepackAim.EMPTY,
            words,
            [*plan.nodes],
            order,
            began_s=now,
            moved_s=now,
            spared=[*plan.spared],
            filled=len(plan.filled),
        )

    def _plan_room(self, unit: WaitingUnit, now: float) -> None:
        most = self._repacking.most_moves
        making = RoomMaking(self._world, self._proofs, self._census(now), now, most_moves=most, most_steps=_ROOM_STEPS)
        plan = making.plan(unit)
        self._not_before_s[unit.key] = now + AGAIN_S
        if plan is None or not plan.moves:
            return
        words = f"room for {unit.key}, which waits, with {len(plan.moves)} moves"
        order = {move.pod.uid: place for place, move in enumerate(plan.moves)}
        self._plan = Carrying(RepackAim.ROOM, words, [*plan.nodes], order, now, now, unit, dict(plan.places))

    # --- 2. and 3. a plan is carried out ---

    def _carry_on(self, plan: Carrying, now: float, allowances: Allowances) -> list[KeeperCommand]:
        self._drop_lost_nodes(plan)
        if not plan.nodes or self._is_pointless(plan, now):
            return self._give_up(now)
        closing = [*self._closings(plan, now)]
        if any(name not in plan.closed for name in plan.held):
            return closing if now - plan.moved_s < CLOSE_S else [*closing, *self._give_up(now)]
        left = self._left(plan)
        if left:
            return [*closing, *self._move(plan, left, now, allowances)]
        if self._moves.count(Cause.REPACK):
            return closing
        return [*closing, *self._finish(plan, now)]

    def _drop_lost_nodes(self, plan: Carrying) -> None:
        """Nodes that go away, or that somebody opened, are none of the plan's any more."""
        state = self._world.state
        for name in plan.held:
            row, node = state.row_of(name), self._marked.get(name)
            opened = name in plan.closed and node is not None and not node.unschedulable
            if row is None or name in self._departures or opened:
                (plan.nodes if name in plan.nodes else plan.spared).remove(name)
                self._forget_write(name)
                if plan.aim is RepackAim.ROOM:
                    plan.nodes.clear()
                    return

    def _is_pointless(self, plan: Carrying, now: float) -> bool:
        """Whether the plan leads nowhere, or is in somebody's way."""
        if now - plan.moved_s > STUCK_S:
            return True
        waiting = [unit for unit, _ in zip(waiting_units(self._world), range(_MOST_UNITS), strict=False)]
        if plan.aim is RepackAim.ROOM:
            return plan.unit is not None and all(unit.key != plan.unit.key for unit in waiting)
        return any(
            now - unit.pods[0].created_s > LOOK_S
            and not any(self._moves.follows(pod.uid) for pod in unit.pods)
            and not self._has_place(unit, now)
            for unit in waiting
        )

    def _has_place(self, unit: WaitingUnit, now: float) -> bool:
        """Whether a pod has a place as things are: then it waits for its scheduler, not for closed nodes."""
        if unit.gang is not None:
            return False
        with self._world.state.statement():
            place = self._proofs.grant(unit.pods[0], now, lambda runner, cycle: runner.decide(cycle))
        return place is not None

    def _closings(self, plan: Carrying, now: float) -> Iterator[KeeperCommand]:
        state = self._world.state
        for name in plan.held:
            row = state.row_of(name)
            if row is not None and name not in plan.closed and self._may_write(name, now):
                node = state.node(row)
                plan.closings[name] = PatchNode(name, node.uid, True, FrozenDict({marks.REPACK: plan.words}))
                yield plan.closings[name]

    def _left(self, plan: Carrying) -> list[Mover]:
        """The pods that still have to move, in the order of the plan."""
        state = self._world.state
        found = []
        for uid in plan.order:
            record = state.record(uid)
            if record is None or uid in self._moves or record.pod.deleted_s is not None:
                continue
            if record.node in plan.nodes:
                found.append(mover_of(record))
        return found

    def _move(self, plan: Carrying, left: list[Mover], now: float, allowances: Allowances) -> list[KeeperCommand]:
        """Evict as many as may be on their way at once, nearly in the order of the plan, as large pods come first.

        Where a pod has no place, pods were placed elsewhere than expected, and the rest of the plan is proven anew.
        """
        commands: list[KeeperCommand] = []
        stuck = False
        with self._world.state.statement():
            _close(self._world.state, plan.held)
            for mover in left[: _WINDOW * self._repacking.moves_at_once]:
                if stuck or not self._has_budget(now):
                    break
                if not self._is_free(mover.pod, allowances, now):
                    continue
                place = self._proofs.grant(mover.pod, now, choice(self._world.state, mover.pod.template, mover.row))
                stuck = place is None
                if place is not None:
                    commands += self._order(plan, mover, place, allowances, now)
        if stuck:
            self._prove_anew(plan, now)
        return commands

    def _prove_anew(self, plan: Carrying, now: float) -> None:
        """Nodes that cannot be emptied after all are left out; of room for a unit nothing can be left out."""
        if plan.aim is RepackAim.ROOM:
            plan.nodes.clear()
            return
        state = self._world.state
        with state.statement():
            for name in plan.held:
                row = state.row_of(name)
                if row is not None:
                    state.upsert_node(replace(state.node(row), unschedulable=False))
            census = self._census(now, plan.order)
            empty = {state.node(row).name for row in census.empty}
            search = Emptying(self._proofs, census, now)
            found = search.proven(plan.nodes)
            closes_empty = bool(plan.spared) or (bool(found.moves) and search.fills_empty(found.nodes))
        good = {*found.nodes, *(empty - {*found.filled})}
        plan.filled += sum(name not in good for name in plan.spared)
        plan.nodes = [name for name in plan.nodes if name in good]
        spared = plan.spared or ({*found.spared} - {*plan.nodes} if closes_empty else ())
        plan.spared = sorted(name for name in spared if name in good)
        plan.order = {move.pod.uid: place for place, move in enumerate(found.moves)}

    def _has_budget(self, now: float) -> bool:
        while self._times and now - self._times[0] >= _HOUR_S:
            self._times.popleft()
        settings = self._repacking
        under_way = self._moves.count(Cause.REPACK)
        return under_way < settings.moves_at_once and len(self._times) < settings.moves_per_hour

    def _is_free(self, pod: Pod, allowances: Allowances, now: float) -> bool:
        if self._moves.of_owner(owner_key(pod.template)) or now < self._not_before_s.get(pod.uid, 0.0):
            return False
        return allowances.permit(pod, hurry=False)

    def _order(
        self, plan: Carrying, mover: Mover, place: str, allowances: Allowances, now: float
    ) -> list[KeeperCommand]:
        pod = mover.pod
        allowances.take(pod)
        self._times.append(now)
        self._last = pod
        plan.moves += 1
        plan.moved_s = now
        self._moves.order(Move(pod, Cause.REPACK, mover.node, place, now))
        event = note(pod, KeeperReason.REPACK, f"Repacking: {plan.words}; there is room on node {place}")
        return [EvictPod(ref_of(pod), mover.node, Cause.REPACK.value, place), event]

    # --- 4. the end ---

    def _give_up(self, now: float) -> list[KeeperCommand]:
        self._plan = None
        self._rest_until_s = now + AGAIN_S
        return [*self._opened(now)]

    def _finish(self, plan: Carrying, now: float) -> list[KeeperCommand]:
        """All moves are done: open the nodes; a pod that waits for them is nominated where its scheduler is known."""
        self._plan = None
        commands: list[KeeperCommand] = []
        pod: Pod | None = None
        if plan.unit is None:
            self.emptied += len(plan.nodes)
        else:
            pod = plan.unit.pods[0]
            known = [each for each in plan.unit.pods if each.template.scheduler_name in self._world.runners]
            commands += [
                PatchPodStatus(ref_of(each), nominated_node=plan.places[each.key])
                for each in known
                if each.key in plan.places
            ]
        gained = len(plan.nodes) - plan.filled
        self._promise = _Promise(now + CHECK_S, tuple(plan.nodes), gained, pod, self._last)
        return [*commands, *self._opened(now)]

    def _checked(self, now: float) -> list[KeeperCommand]:
        """Whether the last plan brought what it promised; if not, there is a rest."""
        promise = self._promise
        if promise is None or now < promise.due_s:
            return []
        self._promise = None
        if self._kept(promise):
            return []
        self.missed += 1
        self._rest_until_s = now + self._repacking.rest_s
        about = promise.pod or promise.moved
        if about is None:
            return []
        what = "the nodes that were emptied are in use again" if promise.pod is None else "the room was taken by others"
        text = f"Repacking did not bring what it promised: {what}; it rests for {self._repacking.rest_s:g} s"
        return [note(about, KeeperReason.REPACK_MISSED, text, PLACING, warning=True)]

    def _kept(self, promise: _Promise) -> bool:
        state = self._world.state
        if promise.pod is not None:
            return self._world.queue.get(promise.pod.uid) is None
        empty = self._census(promise.due_s).empty
        still = {state.node(row).name for row in empty}
        kept = sum(name in still or state.row_of(name) is None for name in promise.nodes)
        return promise.gained > 0 and 2 * kept >= len(promise.nodes)


def _close(state: ClusterState, names: Iterable[str]) -> None:
    """Close nodes in a what-if, whether the watch has shown it already or not."""
    for name in names:
        row = state.row_of(name)
        if row is not None and not state.unschedulable[row]:
            state.upsert_node(replace(state.node(row), unschedulable=True))
