"""Looks after workloads with a rule: what is written on their pods and policies, and what is moved.

`Upkeep` keeps track of pods and splits (`members`, `splits`), reviews the owners to which something happened, once per
plan, and lets `deletion_costs`, `policies`, `lost_nodes` and `repairs` decide what to do.
"""

from __future__ import annotations

from typing import Any

from moorage.core.capacity import CapacityAim
from moorage.core.commands import KeeperCommand, PatchObject
from moorage.core.events import ObjectGone, ObjectSeen, PatchDone
from moorage.core.nodes import Node
from moorage.core.objects import PLACEMENT_POLICY, REPLICA_SET, STATEFUL_SET, Workload, object_key
from moorage.core.ownercounts import namespace_of, strategy_group, workload_key
from moorage.core.pods import Pod
from moorage.core.strategies import STRATEGY_KINDS
from moorage.engine.engine import Engine
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.capacities import Capacities
from moorage.engine.keeping.deletion_costs import DeletionCosts
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.lost_nodes import LostNodes
from moorage.engine.keeping.members import Members
from moorage.engine.keeping.moves import Move, Moves
from moorage.engine.keeping.placers import Placers
from moorage.engine.keeping.policies import PolicyStatuses
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.keeping.removal import capacity_levels
from moorage.engine.keeping.repairs import Repairs
from moorage.engine.keeping.splits import Splits, spread_out
from moorage.framework.contract import SpreadsHosts
from moorage.framework.keeping import KeeperConfiguration


class Upkeep:
    """Everything about workloads with a placement strategy, a required number of hosts, or a kind of capacity."""

    def __init__(
        self, settings: KeeperConfiguration, world: Engine, departures: Departures, proofs: Proofs, moves: Moves
    ) -> None:
        self._world = world
        self.members = Members()
        self.splits = Splits(world.state)
        self.costs = DeletionCosts(world.state)
        self.capacities = Capacities(world, proofs, self.members)
        self.placers = Placers(world)
        self.repairs = Repairs(settings, departures, proofs, moves, self.members, self.splits, self.placers)
        self.lost_nodes = LostNodes(world.state, self._has_rule)
        self._policies = PolicyStatuses(world.state, self.splits)
        self._said: list[KeeperCommand] = []
        self._unwritten: dict[str, None] = {}
        """Owners whose order of removal has to be reviewed."""

    @property
    def busy(self) -> bool:
        """Whether there is something to do even if nothing happens."""
        late = self.costs.unseen or self._unwritten or self._policies.late
        return bool(late or self.repairs.off or len(self.lost_nodes))

    # --- events in ---

    def pod_seen(self, pod: Pod) -> None:
        """A pod was added or changed."""
        self.members.see(pod)
        self.placers.pod_seen(pod)
        self.costs.seen(pod)
        if pod.deleted_s is not None or pod.finished:
            self._forget(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self.members.gone(uid)
        self.placers.pod_gone(uid)
        self._forget(uid)

    def arrived(self, move: Move, pod: Pod, now: float) -> None:
        """The successor of a move runs."""
        self._said += self.repairs.arrived(move, pod, now)

    def node_seen(self, before: Node | None, node: Node) -> None:
        """A node was added or changed."""
        self.lost_nodes.node_seen(node.name)
        if before is None or before.labels != node.labels:
            self.members.touch_all()

    def node_gone(self, name: str, now: float) -> None:
        """A node is gone."""
        self.lost_nodes.node_gone(name, now)
        self.members.touch_all()

    def object_changed(self, event: ObjectSeen | ObjectGone, before: Any) -> None:
        """An object was added, changed or deleted; `before` is what was known of it."""
        after = event.value if isinstance(event, ObjectSeen) else None
        if event.kind not in STRATEGY_KINDS or before == after:
            return
        workload = after if before is None else before
        if event.kind in (REPLICA_SET, STATEFUL_SET) and isinstance(workload, Workload):
            self.members.touch(workload_key(workload))
        else:
            self.members.touch_namespace(event.key.rpartition("/")[0])

    def patched(self, event: PatchDone, now: float) -> None:
        """A write was answered."""
        command = event.command
        if command.kind == "Pod":
            self.costs.answered(command, now)
        elif not event.ok and command.kind == PLACEMENT_POLICY:
            self._policies.failed(object_key(command.namespace, command.name), now)

    def _forget(self, uid: str) -> None:
        self.costs.gone(uid)
        self.repairs.pod_gone(uid)

    # --- planning ---

    def writes(self, now: float) -> list[KeeperCommand]:
        """What to write now, and which pods of lost nodes to delete; reviews every owner that was touched."""
        commands, self._said = self._said, []
        self.repairs.begin(now)
        for uid in self.costs.overdue(now):
            self.members.touch(self.members.owner_of(uid) or "")
        for owner in self.members.take_touched():
            self.splits.review(owner, self.members.of(owner))
            self.repairs.review(owner, now)
            self.capacities.review(owner, now, has_strategy=self.splits.get(owner) is not None)
            self._unwritten[owner] = None
        places = self.costs.places()
        for owner in [*self._unwritten]:
            namespace = namespace_of(owner)
            if places.has_room(namespace):
                del self._unwritten[owner]
                written = self._order_of_removal(owner)
                commands += written
                for _ in written:
                    places.take_if_any(namespace)
        return [*commands, *self.lost_nodes.plan(now), *self._policies.plan(now)]

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""
        return self.repairs.plan(now, allowances)

    def _order_of_removal(self, owner: str) -> list[PatchObject]:
        split = self.splits.get(owner)
        if split is not None:
            return self.costs.for_order([pod for pod, _ in split.pods])
        members = [*self.members.of(owner)]
        hosts = self._hosts(members[0]) if members else 0
        aim = self.capacities.aim(owner)
        if not hosts and aim is None:
            return []
        state = self._world.state
        standing = spread_out(pod for pod in members if pod.node is not None and state.row_of(pod.node) is not None)
        return self.costs.for_hosts(standing, hosts, () if aim is None else self._levels(standing, aim))

    def _levels(self, standing: list[Pod], aim: CapacityAim) -> list[int]:
        marked = map(self.costs.stays_longest, standing)
        return capacity_levels([*zip(self.capacities.standing(standing), marked, strict=True)], aim.kept_on_demand)

    def _hosts(self, pod: Pod) -> int:
        """On how many hosts the profile requires the pods of this one's owner to be; 0 without such a rule."""
        runner = self._world.runners.get(pod.template.scheduler_name)
        plugin = None if runner is None else runner.plugins.first(SpreadsHosts)
        return 0 if plugin is None else plugin.hosts(pod.template, self._world.state)

    def _has_rule(self, pod: Pod) -> bool:
        return self.splits.get(strategy_group(pod.template)) is not None or self._hosts(pod) > 0
