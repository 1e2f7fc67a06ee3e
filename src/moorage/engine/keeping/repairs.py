"""Pods are moved, one at a time, until a workload is placed as its rule says.

Two rules are enforced: the placement strategy of a workload, and ControllerSpread's number of hosts. A pod is evicted
only if its successor is known to be placed by the rule (by the plugin in the profile of the pod's own scheduler, or by
the webhook if that answers, see `placers`), if the successor would get a rule that lacks a pod, and if the whole
profile finds a place for it there. Budgets count as for every move.

Pods that are about to change anyway are not moved: those of a rollout, of a workload with pending pods, or of a leaving
node.

Loop guards: the successor of a move is not moved again for `move_again_after_s`; a pod that is older than this keeper's
term may be a successor, too, and has to be that old. A workload whose successor was placed elsewhere is left alone for
as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from moorage.core.commands import EvictPod, KeeperCommand
from moorage.core.ownercounts import namespace_of
from moorage.core.pods import Pod, PodTemplate
from moorage.core.strategies import rules_at
from moorage.core.strategy import Strategy, next_rule, restamped, rule_of, stamp_of
from moorage.engine.evictor import ref_of
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.concerns import MovingConcern
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.members import Members
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.notes import PLACING, KeeperReason, note
from moorage.engine.keeping.placers import Placers
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.keeping.splits import Split, Splits, spread_out
from moorage.engine.repacking.census import may_be_moved
from moorage.framework.contract import FollowsStrategies, SpreadsHosts
from moorage.framework.keeping import KeeperConfiguration

SETTLE_S = 5.0
"""How long a workload must have deviated from its rule: most deviations are transient."""
AGAIN_S = 10.0
"""How long after no place was found a workload is considered again."""
HELD_S = 1.0
"""The same if a budget allowed nothing, as its status may not count the latest move yet; or if the webhook is asked."""
TRIES = 5
"""How many pods of a workload are tried at a time."""


class _Aim(NamedTuple):
    """What a move is for."""

    place: str
    """Where there is room."""
    note: str
    strategy: Strategy | None = None
    rules: frozenset[int] = frozenset()
    """The rules that lack pods."""


class Repairs(MovingConcern):
    """The concern of workloads that deviate from their rule."""

    def __init__(
        self,
        settings: KeeperConfiguration,
        departures: Departures,
        proofs: Proofs,
        moves: Moves,
        members: Members,
        splits: Splits,
        placers: Placers,
    ) -> None:
        super().__init__(settings, departures, proofs, moves)
        self._placers = placers
        self._members = members
        self._splits = splits
        self._off_since_s: dict[str, float] = {}
        self._aims: dict[str, _Aim] = {}
        """Pod that is being moved -> the purpose."""
        self._successors_s: dict[str, float] = {}
        """Successors of moves -> when they started to run."""
        self._began_s: float | None = None

    @property
    def off(self) -> int:
        """How many workloads deviate from their rule."""
        return len(self._off_since_s)

    # --- what happens ---

    def begin(self, now: float) -> None:
        """This keeper begins to act; earlier moves are unknown to it."""
        if self._began_s is None:
            self._began_s = now

    def review(self, owner: str, now: float) -> None:
        """Something happened to an owner."""
        if self._is_off(owner):
            self._off_since_s.setdefault(owner, now)
        else:
            self._off_since_s.pop(owner, None)
            if not self._members.of(owner):
                self._not_before_s.pop(owner, None)

    def put_off(self, uid: str, until_s: float) -> None:
        """A move did not take place: do not consider its workload before then."""
        self._aims.pop(uid, None)
        owner = self._members.owner_of(uid)
        if owner is not None:
            self._not_before_s[owner] = until_s

    def arrived(self, move: Move, pod: Pod, now: float) -> list[KeeperCommand]:
        """The successor of a move, whatever its cause, runs."""
        self._successors_s[pod.uid] = now
        aim = self._aims.pop(move.pod.uid, None)
        if aim is None or aim.strategy is None or pod.node is None:
            return []
        row = self._proofs.state.row_of(pod.node)
        labels = {} if row is None else self._proofs.state.node(row).labels
        if rule_of(aim.strategy, stamp_of(pod.template), labels) in aim.rules:
            return []
        self._not_before_s[move.owner] = now + self._settings.move_again_after_s
        text = f"The pod was expected on node {aim.place} or another one of its rule, but is on node {pod.node}"
        return [note(pod, KeeperReason.REPAIR_MISSED, text, PLACING, warning=True)]

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._successors_s.pop(uid, None)

    # --- planning ---

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""
        if not self._off_since_s:
            return []
        places = self._moves.places(Cause.REPAIR, self._settings.repairs_at_once)
        self._aims = {uid: aim for uid, aim in self._aims.items() if uid in self._moves}
        commands: list[KeeperCommand] = []
        for owner, since_s in [*self._off_since_s.items()]:
            due_s = max(since_s + SETTLE_S, self._not_before_s.get(owner, 0.0))
            namespace = namespace_of(owner)
            if now < due_s or self._moves.of_owner(owner) or not places.has_room(namespace):
                continue
            ordered = self._consider(owner, allowances, now)
            commands += ordered
            if ordered:
                places.take(namespace)
        return commands

    def _consider(self, owner: str, allowances: Allowances, now: float) -> list[KeeperCommand]:
        """Move one pod of a workload if possible; otherwise consider it again later."""
        tried, pause_s = 0, AGAIN_S
        for pod in self._candidates(owner):
            if not self._may_move(pod, now):
                continue
            if not allowances.permit(pod, hurry=False):
                pause_s = HELD_S
                continue
            aim = self._aim(owner, pod, now)
            if aim is not None:
                return self._order(pod, aim, allowances, now)
            tried += 1
            if tried >= TRIES:
                break
        if self._placers.awaited(now):
            pause_s = HELD_S
        self._not_before_s[owner] = now + pause_s
        return []

    def _order(self, pod: Pod, aim: _Aim, allowances: Allowances, now: float) -> list[KeeperCommand]:
        node = pod.node or ""
        allowances.take(pod)
        self._aims[pod.uid] = aim
        self._moves.order(Move(pod, Cause.REPAIR, node, aim.place, now))
        event = note(pod, KeeperReason.PLACEMENT_REPAIR, f"{aim.note}; there is room on node {aim.place}")
        return [EvictPod(ref_of(pod), node, Cause.REPAIR.value, aim.place), event]

    def _may_move(self, pod: Pod, now: float) -> bool:
        if not may_be_moved(pod):
            return False
        if pod.node is None or pod.node in self._departures or pod.uid in self._moves:
            return False
        if now - pod.created_s >= self._settings.move_again_after_s:
            return True
        began_s = now if self._began_s is None else self._began_s
        return pod.created_s > began_s and pod.uid not in self._successors_s

    # --- the two rules ---

    def _is_off(self, owner: str) -> bool:
        return self._off_split(owner) is not None or self._lacks_hosts(owner)

    def _off_split(self, owner: str) -> Split | None:
        """The split of a workload, if it deviates from its strategy."""
        split = self._splits.get(owner)
        return split if split is not None and split.off else None

    def _candidates(self, owner: str) -> Iterable[Pod]:
        """The pods whose move would help, those that should be removed first before the others."""
        split = self._off_split(owner)
        if split is None:
            return () if self._is_underway(owner) else self._doubled(owner)
        if not split.settled or self._splits.is_rolling_out(split):
            return ()
        over = {rule for rule, number in enumerate(split.actual) if number > split.target[rule]}
        return [pod for pod, rule in reversed(split.pods) if rule is None or rule in over]

    def _aim(self, owner: str, pod: Pod, now: float) -> _Aim | None:
        split = self._off_split(owner)
        return self._spread_aim(pod, now) if split is None else self._strategy_aim(split, pod, now)

    def _strategy_aim(self, split: Split, pod: Pod, now: float) -> _Aim | None:
        """Where the pod's successor would go, if its rule lacks a pod."""
        rule = next((rule for each, rule in split.pods if each.uid == pod.uid), None)
        lacking = frozenset(i for i, number in enumerate(split.actual) if number < split.target[i])
        template: PodTemplate | None = None
        if split.stamped or self._placers.plugin(pod, FollowsStrategies) is None:
            if not self._placers.webhook(pod, split.stamped, now):
                return None
            left = [number - (index == rule) for index, number in enumerate(split.actual)]
            due = next_rule(split.strategy, left)
            lacking &= {due}
            template = restamped(pod.template, split.strategy, due)
        state = self._proofs.state
        wanted = self._departures.staying(state)
        rows = state.rows()
        wanted[rows] &= np.isin(rules_at(state, split.strategy, rows), [*lacking])
        place = self._proofs.home(pod, now, wanted, template) if wanted.any() else None
        if place is None:
            return None
        words = "/".join
        counts = f"{words(map(str, split.actual))} pods, and should have {words(map(str, split.target))}"
        return _Aim(place, f"The rules of its placement strategy have {counts}", split.strategy, lacking)

    def _lacks_hosts(self, owner: str) -> bool:
        """Whether a workload is on fewer hosts than its profile requires, and could be on more."""
        pod = next(iter(self._members.of(owner)), None)
        plugin = None if pod is None else self._placers.plugin(pod, SpreadsHosts)
        if pod is None or plugin is None:
            return False
        state = self._proofs.state
        if state.owner_rows(pod.template).places >= plugin.hosts(pod.template, state):
            return False
        return any(True for _ in self._doubled(owner))

    def _is_underway(self, owner: str) -> bool:
        """Whether pods of a workload are pending, or pods of another revision stand beside them."""
        members = [*self._members.of(owner)]
        state, template = self._proofs.state, members[0].template
        others = state.workload_rows(template).total > state.owner_rows(template).total
        return others or any(pod.node is None for pod in members)

    def _doubled(self, owner: str) -> Iterator[Pod]:
        """Pods on a node with an older pod of the same owner, the youngest first."""
        pods = spread_out(pod for pod in self._members.of(owner) if pod.node is not None)
        hosts = {pod.node for pod in pods}
        return reversed(pods[len(hosts) :])

    def _spread_aim(self, pod: Pod, now: float) -> _Aim | None:
        if self._placers.plugin(pod, SpreadsHosts) is None or not self._lacks_hosts(
            self._members.owner_of(pod.uid) or ""
        ):
            return None
        state = self._proofs.state
        wanted = self._departures.staying(state)
        wanted &= state.owner_rows(pod.template).dense(state.capacity) == 0
        place = self._proofs.home(pod, now, wanted)
        return None if place is None else _Aim(place, "The pods of its controller are on too few hosts")
