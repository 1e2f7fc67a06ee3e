"""Random histories of planned units, and a plain planner that says who should run in each.

The engine has the profile of the example `custom-scheduler`. Nodes and units come and go; after every event the world
goes on until it is quiet. Then the running units are those of a planner that is written only here: it sorts everything
anew, takes what fits into the number of nodes, and keeps what runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from moorage.core.commands import Bind, Command
from moorage.core.gangs import NATIVE_KIND
from moorage.core.membership import GROUP_LABEL
from moorage.core.objects import REPLICA_SET, PodGroup, Workload
from moorage.core.pods import Pod
from moorage.core.victims import VictimTable
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing.builders import make_node, make_pod
from tests.engine.planned import configuration
from tests.engine.telling import outcome_of
from tests.engine.world import Habits, Unit, World

SCHEDULER = "custom-scheduler"
MIN = "moorage.dev/pod-group-min-available"
QUIET_S = 12.0
"""Longer than any backoff, and than the time that a gang which was started in part is given."""
EVENTS = 12


def make_engine() -> Engine:
    return Engine(build_profiles(configuration(), Registry(BUILTIN)), EngineSettings(seed=3))


# --- the plain planner ---


class Part(NamedTuple):
    """Pods that get nodes together: a unit, or a member of a running gang beyond those that it cannot do without."""

    key: tuple[int, bool, int, float, str]
    unit: str
    standing: list[Pod]
    waiting: list[Pod]
    least: int = 0
    """How many of those that stand have to stay."""
    beyond: bool = False


def planned(world: World, whole: dict[str, int]) -> dict[str, int]:
    """Sort everything: priority, running before waiting, fewer pods, age, name. Take what fits.

    `whole` says how many pods made gangs complete that run. What runs may lose pods that it can do without, and stays
    without pods that wait unless something that comes first has their nodes. Returns how many pods of each unit stand.
    """
    nodes = sum(not node.unschedulable for node in world.nodes.values())
    taken: dict[str, int] = {}
    used = 0
    for part in sorted(part for unit in candidates(world) for part in parts(world, unit, whole)):
        closed = sum(on_closed_node(world, pod) for pod in part.standing)
        left = nodes - used
        count = share(part, len(part.standing) - closed, (nodes, left), part.least - closed)
        if count is not None and not (part.beyond and part.unit not in taken):
            used += count
            taken[part.unit] = taken.get(part.unit, 0) + closed + count
    return {unit: count for unit, count in sorted(taken.items()) if count}


def share(part: Part, standing: int, room: tuple[int, int], least: int) -> int | None:
    """How many nodes a part gets; `room` without others, and beside those that come first."""
    nodes, left = room
    waiting = len(part.waiting)
    if standing + waiting <= left:
        return standing + waiting
    if part.standing and not waiting and part.least:
        return left if least <= left else None
    if part.standing and standing <= left and min(waiting, nodes - standing) <= left - standing:
        return left
    return None


def candidates(world: World) -> list[str]:
    """Units of which enough pods exist, as far as anybody says how many that are; and units that run."""
    return [
        unit.name
        for unit in world.units.values()
        if world.standing(unit.name) or (unit.least is not None and len(world.pods_of(unit.name)) >= unit.least)
    ]


def parts(world: World, unit: str, whole: dict[str, int]) -> list[Part]:
    """What a unit asks for."""
    about = world.units[unit]
    pods = world.pods_of(unit)
    standing = [pod for pod in pods if pod.node is not None]
    waiting = sorted(
        (pod for pod in pods if pod.node is None), key=lambda pod: (-said_priority(pod), pod.created_s, pod.key)
    )
    wanted, least = len(waiting), about.least or 0
    if unit in whole and standing:
        wanted = min(len(waiting), max(min(whole[unit], least) - len(standing), 0))
    elif about.counted:
        wanted = min(len(waiting), max(least - len(standing), 0))
    core = [*standing, *waiting[:wanted]]
    said = [said_priority(pod) for pod in (core if standing else pods)]
    priority = min(said) if about.priority is None else about.priority
    name = f"default/{unit}" if unit.startswith("gang") else pods[0].key
    key = (-priority, not standing, len(core), min(pod.created_s for pod in core), name)
    found = [Part(key, unit, standing, waiting[:wanted], min(least, len(standing)))]
    for pod in waiting[wanted:] if standing and about.least is not None else ():
        lower = min(priority, said_priority(pod))
        found.append(Part((-lower, True, 1, pod.created_s, pod.key), unit, [], [pod], beyond=True))
    return found


def age(pod: Pod) -> tuple[int, float, str]:
    return -said_priority(pod), pod.created_s, pod.key


def said_priority(pod: Pod) -> int:
    return int(pod.template.annotations.get("priority", pod.template.priority))


def on_closed_node(world: World, pod: Pod) -> bool:
    """Such a pod needs none of the nodes that are shared out."""
    return pod.node is not None and pod.node in world.nodes and world.nodes[pod.node].unschedulable


def running(world: World) -> dict[str, int]:
    """How many pods of each unit stand."""
    return {unit: len(world.standing(unit)) for unit in sorted(world.units) if world.standing(unit)}


# --- histories ---


class History:
    """One random history; `world.history` is what the engine did in it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.hasty = rng.random() < 0.3
        """Whether events come faster than the engine is done with them."""
        habits = Habits(
            bind_fails=rng.choice([0.0, 0.0, 0.1]),
            delete_fails=rng.choice([0.0, 0.0, 0.1]),
            status_fails=rng.choice([0.0, 0.0, 0.1]),
            takes_leave=rng.choice([0.0, 0.5, 1.0]),
            dawdles=0.4 if self.hasty else 0.0,
            checked=seed % 4 == 0,
        )
        self.world = World(make_engine, rng, habits)
        self.world.on_orders = self._check_orders
        self.victims: VictimTable | None = None
        """Kept up to date with what the plan says of ranks."""
        self.world.on_bound = self._note_whole
        self.whole: dict[str, int] = {}
        """Gang that has been complete -> how many pods it had to have then."""
        self.closes = rng.random() < 0.3
        """Whether nodes are cordoned in this history."""
        self.story: list[str] = []
        self.serial = 0

    def tell(self) -> None:
        for _ in range(self.rng.randint(0, 5)):
            self._node_comes()
        for _ in range(EVENTS):
            self._event()
            if self.hasty and self.rng.random() < 0.5:
                self.world.turn()
            elif self.hasty:
                self.world.settle(QUIET_S)
                self._check_quiet()
            else:
                self._compare()
        self.world.settle(QUIET_S)
        self._check_quiet()

    def _event(self) -> None:
        self.world.now += self.rng.choice([0.0, 0.0, 0.7, 5.0, 100.0])
        happenings: list[Callable[[], None]] = [
            *[self._node_comes] * 3,
            *[self._node_goes] * 2,
            *[self._unit_comes] * 8,
            *[self._unit_ends] * 3,
            self._pod_lost,
            self._member_finishes,
            self._gang_is_scaled,
            *[self._group_comes] * 2,
            self._restart,
            *[self._cordon] * (2 if self.closes else 0),
        ]
        self.rng.choice(happenings)()

    # --- events ---

    def _node_comes(self) -> None:
        self.serial += 1
        self.story.append(f"+n{self.serial}")
        self.world.put_node(make_node(f"n{self.serial}"))
        if self.rng.random() < 0.2:
            self.world.put_pod(make_pod(f"stranger-{self.serial}", node=f"n{self.serial}"))

    def _node_goes(self) -> None:
        if self.world.nodes:
            name = self.rng.choice(list(self.world.nodes))
            self.story.append(f"-{name}")
            self.world.drop_node(name)

    def _cordon(self) -> None:
        if self.world.nodes:
            name = self.rng.choice(list(self.world.nodes))
            closed = not self.world.nodes[name].unschedulable
            self.story.append(f"{'close' if closed else 'open'} {name}")
            self.world.put_node(make_node(name, unschedulable=closed))

    def _unit_comes(self) -> None:
        self.serial += 1
        unit = self._single() if self.rng.random() < 0.5 else self._gang()
        self.story.append(f"+{unit.name}({unit.size})")
        self.world.units[unit.name] = unit

    def _single(self) -> Unit:
        name, priority = f"app{self.serial}", self.rng.choice([0, 5, 10])
        said = {"annotations": {"priority": str(priority)}} if self.rng.random() < 0.8 else {"priority": priority}

        def make(pod: str, owner: str, created_s: float) -> Pod:
            return make_pod(pod, owner=owner, created_s=created_s, scheduler_name=SCHEDULER, **said)

        return Unit(name, {name: 1}, make)

    def _gang(self) -> Unit:
        name, priority, size = f"gang{self.serial}", self.rng.choice([0, 5, 10]), self.rng.randint(2, 4)
        owners = {name: size}
        if self.rng.random() < 0.4:
            owners = {f"{name}-{letter}": 1 for letter in "abcd"[:size]}
        annotations, labels, least = {"priority": str(priority)}, {}, None
        by = self.rng.choice(["annotation", "annotation", "replicas", "replicas", "group"])
        if by == "group":
            labels = {GROUP_LABEL: name}
        else:
            annotations[self.rng.choice(["pod-group", "moorage.dev/pod-group"])] = name
            least = size
        if by == "annotation":
            least = self.rng.choice([size, size, max(2, size - 1)])
            annotations[MIN] = str(least)
        elif by == "replicas":
            for owner, replicas in owners.items():
                self._put_controller(owner, replicas)

        def make(pod: str, owner: str, created_s: float) -> Pod:
            about = {"annotations": annotations, "labels": labels}
            return make_pod(pod, owner=owner, created_s=created_s, scheduler_name=SCHEDULER, **about)  # type: ignore[arg-type]

        unit = Unit(name, owners, make, least, counted=by == "replicas")
        if by == "group" and self.rng.random() < 0.5:
            self._put_group(unit)
        return unit

    def _put_controller(self, owner: str, replicas: int) -> None:
        workload = Workload(REPLICA_SET, "default", owner, replicas=replicas)
        self.world.put_object(REPLICA_SET, f"default/{owner}", workload)

    def _put_group(self, unit: Unit) -> None:
        unit.least, unit.priority = unit.size, self.rng.choice([None, 0, 10])
        group = PodGroup("default", unit.name, min_count=unit.size, priority=unit.priority)
        self.world.put_object(NATIVE_KIND, f"default/{unit.name}", group)

    def _group_comes(self) -> None:
        """The object that members have been waiting for."""
        for unit in [unit for unit in self.world.units.values() if unit.least is None][:1]:
            self.story.append(f"group {unit.name}")
            self._put_group(unit)

    def _member_finishes(self) -> None:
        """One pod has done its work, and the others go on."""
        pods = [pod for unit in self.world.units for pod in self.world.standing(unit)]
        pods = [pod for pod in pods if MIN in pod.template.annotations]
        if pods:
            pod = self.rng.choice(pods)
            self.story.append(f"done {pod.name}")
            self.world.leave_unit(pod)
            self.world.finish_pod(pod.uid)

    def _gang_is_scaled(self) -> None:
        """A controller that gives the size of a gang wants more or fewer pods."""
        owners = [key.partition("/")[2] for kind, key in self.world.objects if kind == REPLICA_SET]
        for unit in [unit for unit in self.world.units.values() if owners and owners[-1] in unit.owners]:
            wanted = unit.owners[owners[-1]] + self.rng.choice([1, 1, -1])
            if wanted > 0:
                self.story.append(f"{owners[-1]}={wanted}")
                self._put_controller(owners[-1], wanted)
                self.world.scale(unit, owners[-1], wanted)
                unit.least = unit.size

    def _unit_ends(self) -> None:
        """It is deleted, or has done its work."""
        if not self.world.units:
            return
        name = self.rng.choice(list(self.world.units))
        unit = self.world.units[name]
        finishes = len(self.world.standing(name)) == unit.size and self.rng.random() < 0.5
        self.story.append(f"{'done' if finishes else '-'} {name}")
        for pod in self.world.end_unit(name):
            (self.world.finish_pod if finishes else self.world.delete_pod)(pod.uid)
        self.world.drop_object(NATIVE_KIND, f"default/{name}")
        for owner in unit.owners:
            self.world.drop_object(REPLICA_SET, f"default/{owner}")

    def _pod_lost(self) -> None:
        """Somebody deletes one pod; its controller makes a new one."""
        uids = [uid for uid in self.world.pods if self.world.unit_of.get(uid) in self.world.units]
        if uids:
            uid = self.rng.choice(uids)
            self.story.append(f"lost {uid}")
            self.world.delete_pod(uid)

    def _restart(self) -> None:
        """Whoever comes next cannot tell lost members from those that a gang is to grow by."""
        self.story.append("restart")
        self.world.restart()
        for unit in self.whole:
            self.whole[unit] = min(self.whole[unit], len(self.world.standing(unit)) if unit in self.world.units else 0)

    def _note_whole(self) -> None:
        """Which gangs are complete now: a pod whose node is gone, and that is not deleted yet, does not count."""
        for name, unit in self.world.units.items():
            standing = self.world.standing(name)
            if not standing:
                self.whole.pop(name, None)
            elif unit.least is not None and sum(pod.node in self.world.nodes for pod in standing) >= unit.least:
                self.whole[name] = unit.least

    # --- what must hold ---

    def _compare(self) -> None:
        """One event, and what the engine makes of it."""
        world = self.world
        world.reconcile()
        self._note_whole()
        want = planned(world, self.whole)
        before = {
            pod.uid: pod.node
            for unit in want
            for pod in world.standing(unit)
            if want[unit] >= len(world.standing(unit))
        }
        world.deletions.clear()
        world.settle(QUIET_S)
        assert running(world) == want, f"{running(world)} run, and {want} should"
        assert {uid: world.pods[uid].node for uid in before if uid in world.pods} == before, "moved or restarted"
        evicted = {order.pod.uid for order in world.deletions}
        assert not evicted & set(before), f"evicted although in the plan: {evicted}"
        self._check_quiet()

    def _check_quiet(self) -> None:
        """A unit that runs is in the plan, and what is in the plan runs."""
        self._note_whole()
        want = planned(self.world, self.whole)
        assert running(self.world) == want, f"in the end {running(self.world)} run, and {want} should"

    def _check_orders(self, commands: list[Command]) -> None:
        """No node gets a second pod; and who may be evicted is known though only some rows are looked at."""
        self._check_ranks()
        for command in commands:
            if isinstance(command, Bind):
                others = [pod.key for pod in self.world.pods.values() if taken_by(pod, command.node)]
                assert not others, f"{command.pod.name} goes to {command.node} beside {others}"

    def _check_ranks(self) -> None:
        state, planning = self.world.engine.state, self.world.engine.planning
        if self.victims is None or self.victims.ranks is not planning:
            self.victims = VictimTable(state, planning)
        anew = VictimTable(state, planning)
        for table in (self.victims, anew):
            table.refresh({})
        rows, depth = state.rows(), min(self.victims.depth, anew.depth)
        assert (self.victims.rank[:depth, rows] == anew.rank[:depth, rows]).all(), "ranks are not those of the plan"


def taken_by(pod: Pod, node: str) -> bool:
    return pod.node == node and not pod.finished and pod.template.scheduler_name == SCHEDULER


def told(seed: int) -> list[str]:
    """What the engine does in a history; an AssertionError tells the history."""
    return outcome_of(History(seed), seed)


def digest(seeds: range) -> str:
    return hashlib.sha256(repr([told(seed) for seed in seeds]).encode()).hexdigest()
