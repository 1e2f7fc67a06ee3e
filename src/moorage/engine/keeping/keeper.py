"""The keeper: events in, commands out. `handle` is the only way to change its state.

It has a world of its own, an engine that gets all events and never decides, so that places are verified with the
plugins and columns that a scheduler would use. A plan is made at most every `PLAN_S`, in steps: write on nodes and
pods, give up moves that lead nowhere, drain nodes that go away, let pods return, move pods to where their rules want
them, repack the cluster, nominate successors. A new concern (another reason to move pods) shares the moves and the
allowances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from moorage.core.capacity import Capacity
from moorage.core.commands import KeeperCommand, PatchObject
from moorage.core.events import (
    DeleteDone,
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodeGone,
    NodePatched,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
    WebhookAsked,
)
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.evictor import ref_of
from moorage.engine.keeping import marks
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.assistance import Assistance
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.fallback import AGAIN_S, Fallback
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.keeping.repack import Repack
from moorage.engine.keeping.resumption import Resumption
from moorage.engine.keeping.signals import Signals
from moorage.engine.keeping.spot_return import SpotReturn
from moorage.engine.keeping.unplaced import Unplaced
from moorage.engine.keeping.upkeep import Upkeep
from moorage.engine.settings import EngineSettings
from moorage.framework.keeping import KeeperConfiguration
from moorage.framework.profiles import Profile

PLAN_S = 0.2
"""The least time between two plans."""
LOOK_S = 0.5
"""While there is something to do, a plan is made this often even if nothing happens."""
FAILURE_S = 5.0
"""How long after a failure that is not due to a budget an eviction is tried again."""


class Concern(Protocol):
    """A reason to move pods."""

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""

    def put_off(self, uid: str, until_s: float) -> None:
        """The move of a pod did not take place: do not consider it before then."""


class Keeper:
    """Looks after the pods of one cluster."""

    def __init__(self, profiles: Sequence[Profile], settings: KeeperConfiguration, *, seed: int = 0) -> None:
        ordered = sorted(profiles, key=lambda profile: profile.scheduler_name != settings.profile)
        self.world = Engine(ordered, EngineSettings(seed=seed), answers_to_all=True)
        self.departures = Departures(Signals(settings.signals, settings.notice_s))
        self.moves = Moves()
        self.proofs = Proofs(self.world)
        self.fallback = Fallback(settings, self.departures, self.proofs, self.moves)
        self.upkeep = Upkeep(settings, self.world, self.departures, self.proofs, self.moves)
        self.spot_return = SpotReturn(settings, self.departures, self.proofs, self.moves, self.upkeep.capacities)
        self.unplaced = Unplaced(settings, self.world.state, self.moves)
        self.repack = Repack(settings, self.world, self.departures, self.proofs, self.moves)
        self.evictions: Counter[tuple[str, str]] = Counter()
        """(cause, outcome) -> number of evictions."""
        self._concerns: dict[Cause, Concern] = {
            Cause.FALLBACK: self.fallback,
            Cause.RETURN: self.spot_return,
            Cause.REPAIR: self.upkeep.repairs,
            Cause.REPACK: self.repack,
        }
        self._assistance = Assistance(self.world, self.departures, self.proofs, self.moves)
        self._unbound: set[str] = set()
        """Uids of known pods that have no node."""
        self._resumption = Resumption(self.departures, self.proofs, self.moves)
        self._unmarked: dict[str, tuple[Pod, str]] = {}
        """Uid of a successor -> itself, and the node to be named in its mark."""
        self._said: list[KeeperCommand] = []
        """What happened, to be reported with the next plan."""
        self._planned_s = float("-inf")
        self._dirty = True
        self._observers: dict[type, Callable[[Any, float], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            EvictDone: self._evict_done,
            DeleteDone: self._delete_done,
            ObjectSeen: self._object_changed,
            ObjectGone: self._object_changed,
            NodePatched: self._node_patched,
            PatchDone: self._patch_done,
            WebhookAsked: self._webhook_asked,
        }

    def handle(
        self, events: Iterable[KeeperEvent], now: float, *, acting: bool = True
    ) -> tuple[list[KeeperCommand], float | None]:
        """Apply events and, if `acting`, decide what to do.

        Returns the commands and the time at which to call again if nothing happens before, None if never.
        """
        for event in events:
            self._observers.get(type(event), self._world_only)(event, now)
            self._dirty = True
        if not acting:
            return [], None
        commands: list[KeeperCommand] = []
        if now >= self._planned_s + PLAN_S:
            commands = self._plan(now)
        return commands, self._next_wakeup(now)

    def _next_wakeup(self, now: float) -> float | None:
        if self._dirty:
            return max(now, self._planned_s + PLAN_S)
        busy = self._moving or self.departures.unwritten or self.upkeep.busy
        if busy:
            return self._planned_s + LOOK_S
        times = (due_s for due_s in (self.unplaced.next_s(), self.repack.next_s()) if due_s is not None)
        due_s = min(times, default=None)
        return None if due_s is None else max(due_s, self._planned_s + LOOK_S)

    def wants_webhook(self, now: float) -> bool:
        """Whether a repair depends on the webhook, so that it has to be asked."""
        return self.upkeep.placers.wants_webhook(now)

    @property
    def _moving(self) -> bool:
        """Whether pods are being moved, or should be."""
        wanted = self.spot_return.wanting or self.upkeep.repairs.off or self.repack.busy
        return bool(len(self.departures) or len(self.moves) or wanted)

    # --- events in ---

    def _pod_seen(self, event: PodSeen, now: float) -> None:
        pod = event.pod
        new = pod.uid not in self._unbound and self.world.state.record(pod.uid) is None
        self.world.handle((event,), now, budget=0)
        if pod.node is None and not pod.finished:
            self._unbound.add(pod.uid)
        else:
            self._unbound.discard(pod.uid)
        if new and pod.deleted_s is None and not pod.finished:
            self.moves.newcomer(pod, now)
        ended = self.moves.see(pod, now)
        if ended is not None:
            self._arrived(ended, pod)
            self._said += self.spot_return.arrived(ended, pod, now)
            self.upkeep.arrived(ended, pod, now)
        self.spot_return.see_pod(pod)
        self.upkeep.pod_seen(pod)
        self.unplaced.pod_seen(pod)

    def _arrived(self, move: Move, pod: Pod) -> None:
        """A successor runs; one that should return to spot capacity later is marked."""
        was_away = marks.FALLBACK in move.pod.template.annotations
        stands_on_spot = pod.node is not None and self.proofs.capacity(pod, pod.node) is Capacity.SPOT
        if move.cause is Cause.FALLBACK and (move.from_spot or was_away) and not stands_on_spot:
            self._unmarked[pod.uid] = (pod, move.origin)

    def _pod_gone(self, event: PodGone, now: float) -> None:
        self.world.handle((event,), now, budget=0)
        self._unbound.discard(event.uid)
        self._unmarked.pop(event.uid, None)
        self.moves.gone(event.uid)
        self.repack.pod_gone(event.uid)
        self.spot_return.pod_gone(event.uid)
        self.upkeep.pod_gone(event.uid)
        self.unplaced.pod_gone(event.uid)

    def _node_seen(self, event: NodeSeen, now: float) -> None:
        row = self.world.state.row_of(event.node.name)
        self.upkeep.node_seen(None if row is None else self.world.state.node(row), event.node)
        self.world.handle((event,), now, budget=0)
        self.departures.see(event.node, now)
        self.repack.see_node(event.node)
        self.spot_return.see_node(event.node, now)

    def _node_gone(self, event: NodeGone, now: float) -> None:
        self.world.handle((event,), now, budget=0)
        self.departures.gone(event.name)
        self.repack.node_gone(event.name)
        self.spot_return.node_gone(event.name)
        self.upkeep.node_gone(event.name, now)

    def _object_changed(self, event: ObjectSeen | ObjectGone, now: float) -> None:
        before = self.world.state.object(event.kind, event.key)
        self.world.handle((event,), now, budget=0)
        self.upkeep.object_changed(event, before)

    def _evict_done(self, event: EvictDone, now: float) -> None:
        move = self.moves.answered(event.uid)
        if move is None:
            return
        self.evictions[move.cause.value, event.outcome.value] += 1
        if event.outcome is EvictOutcome.EVICTED or (
            event.outcome is EvictOutcome.FAILED and self._is_going(event.uid)
        ):
            move.answered = True
            return
        self.world.state.disruptions.failed(event.uid)
        self.moves.cancel(event.uid)
        if event.outcome is not EvictOutcome.GONE:
            pause_s = AGAIN_S if event.outcome is EvictOutcome.REFUSED else FAILURE_S
            self._concerns[move.cause].put_off(event.uid, now + pause_s)

    def _is_going(self, uid: str) -> bool:
        """Whether a pod is on its way after all: the answer to its eviction was lost."""
        record = self.world.state.record(uid)
        return record is None or record.pod.deleted_s is not None

    def _delete_done(self, event: DeleteDone, now: float) -> None:
        outcome = EvictOutcome.EVICTED if event.ok else EvictOutcome.FAILED
        self._evict_done(EvictDone(event.uid, outcome, event.message), now)

    def _patch_done(self, event: PatchDone, now: float) -> None:
        self.upkeep.patched(event, now)

    def _node_patched(self, event: NodePatched, now: float) -> None:
        self.repack.patched(event, now)

    def _webhook_asked(self, event: WebhookAsked, now: float) -> None:
        self.upkeep.placers.heard(event, now)

    def _world_only(self, event: Any, now: float) -> None:
        self.world.handle((event,), now, budget=0)

    # --- planning ---

    def _plan(self, now: float) -> list[KeeperCommand]:
        """One plan, in numbered steps."""
        self._planned_s, self._dirty = now, False
        # 1. Nodes are cordoned and marked, or freed again.
        commands: list[KeeperCommand] = [*self.departures.write(now)]
        # 2. Moves that lead nowhere are given up; successors are marked.
        self.moves.expire(now)
        self._unmarked |= {pod.uid: (pod, origin) for pod, origin in self._resumption.overdue_marks(now)}
        commands += [*self._written_marks(), *self._said]
        self._said = []
        # 3. The order of removal, statuses, and pods of lost nodes.
        commands += self.upkeep.writes(now)
        # 4. Pods that wait for nodes which do not exist.
        commands += self.unplaced.plan(now)
        # 5. to 9. With the places of all moves taken: pods that leave, return, deviate from their rule, would be better
        # elsewhere, or need help.
        due_s = self.repack.next_s()
        if self._moving or (due_s is not None and now >= due_s):
            allowances = Allowances(self.world.state, self.moves, now)
            with self.proofs.session(self.moves.all()):
                commands += self.fallback.plan(now, allowances)
                commands += self.spot_return.plan(now, allowances)
                commands += self.upkeep.plan(now, allowances)
                commands += self.repack.plan(now, allowances)
            commands += self._assistance.plan(now)
        return commands

    def _written_marks(self) -> list[PatchObject]:
        made = []
        for pod, origin in self._unmarked.values():
            patch = FrozenDict({"metadata": FrozenDict({"annotations": FrozenDict({marks.FALLBACK: origin})})})
            made.append(PatchObject(ref_of(pod), "Pod", pod.namespace, pod.name, patch, pod.uid))
        self._unmarked.clear()
        return made
