"""Where the pods of each workload stand, and should stand, whose profile places them on spot or on-demand nodes.

A workload with a placement strategy is left out: the strategy says where its pods belong. Pods of a workload that is
about to change (a rollout, pods that wait or are too many) are not misplaced, as they may be gone before they are
moved. How long the rule for a workload has been the same is known for all revisions together, and not from before this
keeper began to act.

Invariant: `off` has the owners with misplaced pods, as of the last review.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from moorage.core.capacity import Capacity, CapacityAim
from moorage.core.controllers import Controller, controller_of
from moorage.core.ownercounts import deployment_of, owner_key
from moorage.core.pods import Pod, PodTemplate
from moorage.engine.engine import Engine
from moorage.engine.keeping.members import Members
from moorage.engine.keeping.proofs import Proofs
from moorage.framework.contract import PlacesByCapacity


class Misplaced(NamedTuple):
    """Pods of an owner that stand on the wrong capacity."""

    uids: tuple[str, ...]
    target: Capacity
    """Where one of them should be instead."""
    since_s: float
    """Since when the rule for the workload has been the same."""


class Capacities:
    """The owners of the members, by the capacity that their pods should be on."""

    def __init__(self, world: Engine, proofs: Proofs, members: Members) -> None:
        self._world = world
        self._proofs = proofs
        self._members = members
        self._title_of: dict[str, Hashable] = {}
        self._owners_of: dict[Hashable, set[str]] = {}
        self._aims: dict[Hashable, tuple[CapacityAim, float]] = {}
        """Workload -> what its profile says, and since when."""
        self.off: dict[str, Misplaced] = {}

    def review(self, owner: str, now: float, *, has_strategy: bool) -> None:
        """Something happened to an owner."""
        members = [*self._members.of(owner)]
        aim = None if has_strategy or not members else self._aim(members[0].template)
        self.off.pop(owner, None)
        if aim is None:
            self._forget(owner)
            return
        title = self._file(owner, members[0].template)
        said, since_s = self._aims.get(title, (None, now))
        if said != aim:
            since_s = now
        self._aims[title] = aim, since_s
        found = self._misplaced(members, aim, since_s)
        if found is not None:
            self.off[owner] = found

    def aim(self, owner: str) -> CapacityAim | None:
        """Where the pods of an owner should be, as of the last review."""
        title = self._title_of.get(owner)
        return None if title is None else self._aims[title][0]

    def standing(self, pods: list[Pod]) -> Iterator[Capacity]:
        """The capacity of their nodes."""
        return (self._proofs.capacity(pod, pod.node or "") for pod in pods)

    def _aim(self, template: PodTemplate) -> CapacityAim | None:
        runner = self._world.runners.get(template.scheduler_name)
        plugin = None if runner is None else runner.plugins.first(PlacesByCapacity)
        return None if plugin is None else plugin.capacity_aim(template, self._world.state)

    def _file(self, owner: str, template: PodTemplate) -> Hashable:
        title = deployment_of(template) or owner_key(template)
        if self._title_of.get(owner) != title:
            self._forget(owner)
            self._title_of[owner] = title
            self._owners_of.setdefault(title, set()).add(owner)
        return title

    def _forget(self, owner: str) -> None:
        title = self._title_of.pop(owner, None)
        if title is None:
            return
        owners = self._owners_of[title]
        owners.discard(owner)
        if not owners:
            del self._owners_of[title], self._aims[title]

    def _misplaced(self, members: list[Pod], aim: CapacityAim, since_s: float) -> Misplaced | None:
        state = self._world.state
        controller = controller_of(state, members[0].template)
        if controller is None or not _is_settled(controller, len(members)):
            return None
        if any(pod.node is None or state.row_of(pod.node) is None for pod in members):
            return None
        on: dict[Capacity, list[str]] = {kind: [] for kind in Capacity}
        for pod, kind in zip(members, self.standing(members), strict=True):
            on[kind].append(pod.uid)
        spot, on_demand = on[Capacity.SPOT], on[Capacity.ON_DEMAND]
        if spot and (aim.on_demand is None or len(members) - len(spot) < aim.on_demand):
            return Misplaced((*spot,), Capacity.ON_DEMAND, since_s)
        if aim.on_demand is not None and len(on_demand) > aim.on_demand:
            return Misplaced((*on_demand,), Capacity.SPOT, since_s)
        return None


def _is_settled(controller: Controller, number: int) -> bool:
    """Whether an owner has as many pods as it wants, which is all of the workload."""
    return controller.desired == number == controller.size
