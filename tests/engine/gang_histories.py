"""Random histories of gangs, and what must hold in each: no gang is left started in part.

The engine has the default profile. Gangs of every declaration and single pods of several priorities compete for nodes
with few places; binds and status writes fail, pods and nodes go while members are on their way, PodGroup objects come
late, and the engine is killed at any moment. In between the world goes on until it has been quiet for a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from moorage.core.commands import Command, DeletePod
from moorage.core.frozen import FrozenDict
from moorage.core.gangs import COSCHEDULING_KIND, NATIVE_KIND, lasting
from moorage.core.membership import GROUP_LABEL
from moorage.core.objects import COSCHEDULING_GROUPS, NATIVE_GROUPS, REPLICA_SET, PodGroup, Workload
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.recovery import RELEASED
from moorage.engine.settings import EngineSettings
from moorage.testing.builders import make_node, make_pod
from tests.engine.telling import outcome_of
from tests.engine.world import Habits, Unit, World
from tests.framework.readers import default_profile

MIN = "moorage.dev/pod-group-min-available"
QUIET_S = 60.0
EVENTS = 14
DECLARATIONS = ("native", "native", "coscheduling", "label", "annotation", "annotation", "replicas", "unknown")
NATIVE = ("native", "label")
"""Declarations whose object is a PodGroup of Kubernetes' own."""


def make_engine() -> Engine:
    return Engine([default_profile()], EngineSettings(seed=5), answers_to_all=True)


class GangUnit(Unit):
    """A gang, with what its object says about evictions."""

    declared = ""
    evict_whole = False


class History:
    """One random history; `world.history` is what the engine did in it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        habits = Habits(
            bind_fails=rng.choice([0.0, 0.1, 0.3]),
            delete_fails=rng.choice([0.0, 0.0, 0.1]),
            status_fails=rng.choice([0.0, 0.0, 0.2]),
            takes_leave=rng.choice([0.0, 0.5, 1.0]),
            dawdles=rng.choice([0.0, 0.3, 0.6]),
            checked=True,
        )
        self.world = World(make_engine, rng, habits)
        self.world.on_orders = self._check_orders
        self.world.on_bound = self._take_stock
        self.crashes = rng.random() < 0.7
        self.story: list[str] = []
        self.complete: set[str] = set()
        """Gangs of which enough members stood together once, as far as the engine can know, and some still do."""
        self.grown_up: set[str] = set()
        """Those of them that were complete when the world was quiet."""
        self.serial = 0

    def tell(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self._node_comes()
        for _ in range(EVENTS):
            self._event()
            if self.rng.random() < 0.3:
                self._quiet()
            else:
                for _ in range(self.rng.randint(0, 4)):
                    self._turn()
        self._quiet()
        self._one_is_left()

    def _turn(self) -> None:
        self.world.turn()
        self._take_stock()

    def _quiet(self) -> None:
        self.world.settle(QUIET_S, self._take_stock)
        self._check_quiet()

    def _take_stock(self) -> None:
        for unit in self.world.units.values():
            count = len(self.world.standing(unit.name))
            if unit.least is not None and max(count, self.world.told_standing(unit.name)) >= unit.least:
                self.complete.add(unit.name)
            elif not count:
                self.complete.discard(unit.name)
                self.grown_up.discard(unit.name)

    # --- events ---

    def _event(self) -> None:
        self._take_stock()
        self.world.now += self.rng.choice([0.0, 0.0, 0.7, 5.0, 20.0])
        happenings: list[Callable[[], None]] = [
            *[self._node_comes] * 2,
            self._node_goes,
            *[self._single_comes] * 3,
            *[self._gang_comes] * 5,
            *[self._unit_ends] * 2,
            *[self._pod_lost] * 2,
            *[self._group_comes] * 2,
            *([self._crash, self._crash_in_the_middle, self._crash_in_the_middle] if self.crashes else []),
        ]
        self.rng.choice(happenings)()
        self._take_stock()

    def _node_comes(self) -> None:
        self.serial += 1
        places = self.rng.randint(1, 4)
        self.story.append(f"+n{self.serial}({places})")
        self.world.put_node(make_node(f"n{self.serial}", cpu=places))

    def _node_goes(self) -> None:
        if self.world.nodes:
            name = self.rng.choice(list(self.world.nodes))
            self.story.append(f"-{name}")
            self.world.drop_node(name)

    def _single_comes(self) -> None:
        self.serial += 1
        name, priority, cpu = f"app{self.serial}", self.rng.choice([0, 5, 10]), self.rng.choice([1, 1, 2])
        self.story.append(f"+{name}({priority})")

        def make(pod: str, owner: str, created_s: float) -> Pod:
            return make_pod(pod, owner=owner, created_s=created_s, cpu=cpu, priority=priority)

        self.world.units[name] = Unit(name, {name: 1}, make)

    def _gang_comes(self) -> None:
        self.serial += 1
        name, priority = f"gang{self.serial}", self.rng.choice([0, 5, 10])
        declared, size = self.rng.choice(DECLARATIONS), self.rng.randint(2, 5)
        owners = {name: size} if self.rng.random() < 0.6 else {f"{name}-{i}": 1 for i in range(size)}
        least = self.rng.choice([size, size, size - 1])
        fields: dict[str, Any] = {"annotations": {"pod-group": name}, "cpu": 1, "priority": priority}
        if declared in ("native", "coscheduling", "label"):
            fields["annotations"] = {}
            fields |= {"group": name} if declared == "native" else {"labels": {GROUP_LABEL: name}}
        elif declared == "annotation":
            fields["annotations"][MIN] = str(least)

        def make(pod: str, owner: str, created_s: float) -> Pod:
            return make_pod(pod, owner=owner, created_s=created_s, **fields)

        unit = GangUnit(name, owners, make, {"annotation": least, "replicas": size}.get(declared))
        unit.declared = declared
        self.world.units[name] = unit
        self.story.append(f"+{name}({declared} {least} of {size}, {priority})")
        if declared == "replicas":
            for owner, replicas in owners.items():
                named = FrozenDict({"pod-group": name})
                workload = Workload(REPLICA_SET, "default", owner, replicas=replicas, template_annotations=named)
                self.world.put_object(REPLICA_SET, f"default/{owner}", workload)
        elif self.rng.random() < 0.6:
            self._put_group(unit, least)

    def _put_group(self, unit: GangUnit, least: int) -> None:
        if unit.declared in ("annotation", "replicas", "unknown"):
            return
        native = unit.declared in NATIVE
        unit.least, unit.evict_whole = least, native and self.rng.random() < 0.5
        group = PodGroup(
            "default",
            unit.name,
            uid=unit.name,
            api_group=NATIVE_GROUPS if native else COSCHEDULING_GROUPS,
            min_count=least,
            evict_whole=unit.evict_whole,
        )
        self.world.put_object(NATIVE_KIND if native else COSCHEDULING_KIND, f"default/{unit.name}", group)

    def _group_comes(self) -> None:
        """The object that members have been waiting for."""
        for unit in self.world.units.values():
            if isinstance(unit, GangUnit) and unit.least is None and unit.declared != "unknown":
                self.story.append(f"group {unit.name}")
                self._put_group(unit, unit.size)
                return

    def _unit_ends(self) -> None:
        if self.world.units:
            self._end(self.rng.choice(list(self.world.units)))

    def _end(self, name: str) -> None:
        self.story.append(f"-{name}")
        unit = self.world.units[name]
        for pod in self.world.end_unit(name):
            (self.world.delete_pod if self.rng.random() < 0.7 or pod.node is None else self.world.finish_pod)(pod.uid)
        for kind in (NATIVE_KIND, COSCHEDULING_KIND):
            self.world.drop_object(kind, f"default/{name}")
        for owner in unit.owners:
            self.world.drop_object(REPLICA_SET, f"default/{owner}")

    def _pod_lost(self) -> None:
        """Somebody deletes one pod; its controller makes a new one."""
        uids = [uid for uid in self.world.pods if self.world.unit_of.get(uid) in self.world.units]
        if uids:
            uid = self.rng.choice(uids)
            self.story.append(f"lost {uid}")
            self.world.delete_pod(uid)

    def _crash(self) -> None:
        self.story.append("crash")
        self.world.restart()

    def _crash_in_the_middle(self) -> None:
        """Some members of a gang are bound, others not; perhaps somebody takes the room of one."""
        self._gang_comes()
        for _ in range(12):
            self._turn()
            if any(self._is_partial(unit) for unit in self.world.units.values()):
                break
        self.story.append("crash")
        self.world.restart(self._thief_comes if self.rng.random() < 0.5 else lambda: None)

    def _is_partial(self, unit: Unit) -> bool:
        return 0 < len(self.world.standing(unit.name)) < (unit.least or 0) and unit.name not in self.complete

    def _thief_comes(self) -> None:
        rooms = [node for node, free in self._free().items() if free > 0]
        if rooms:
            self.serial += 1
            node = self.rng.choice(rooms)
            self.story.append(f"thief on {node}")
            self.world.put_pod(make_pod(f"thief-{self.serial}", node=node, cpu=1, priority=100))

    # --- what must hold ---

    def _check_quiet(self) -> None:
        """No gang stands in part that was never complete, and what fits is placed."""
        for unit in self.world.units.values():
            count = len(self.world.standing(unit.name))
            if unit.least is not None and unit.name not in self.complete:
                assert count == 0, f"{unit.name}: {count} of {unit.least} members stand"
            if unit.least is not None and count >= unit.least:
                self.grown_up.add(unit.name)
        self._check_nobody_starves()

    def _check_nobody_starves(self) -> None:
        """A unit that fits is placed, unless room is kept for one gang that has waited for long."""
        promised = self.world.engine.state.nominations
        nodes = [node for node in promised.nodes() if node in self.world.nodes]
        kept_for = {self.world.unit_of[pod.uid] for node in nodes for pod in promised.on(node)}
        assert len(kept_for) <= 1, f"room is kept for {kept_for}"
        waiting = [unit for unit in self.world.units if self._waits(unit)]
        for unit in waiting:
            if not kept_for or unit in kept_for or len(waiting) == 1:
                assert not self._fits(unit), f"{unit} waits although there is room"

    def _waits(self, unit: str) -> bool:
        return any(pod.node is None for pod in self.world.pods_of(unit))

    def _fits(self, name: str) -> bool:
        """Whether as many of the waiting pods as needed, or the next one of a unit that runs, fit into free room."""
        unit = self.world.units[name]
        pods = [pod for pod in self.world.pods_of(name) if pod.node is None]
        standing = self.world.standing(name)
        needed = len(pods) if unit.least is None else unit.least - len(standing)
        if isinstance(unit, GangUnit) and unit.least is None and unit.declared != "unknown":
            return False  # its object is missing
        needed = 1 if name in self.complete else max(needed, 1)
        cpu_milli = int(pods[0].requests.get("cpu"))
        places = sum(free // cpu_milli for free in self._free().values())
        return len(pods) >= needed and places >= needed

    def _free(self) -> Counter[str]:
        free: Counter[str] = Counter()
        for node in self.world.nodes.values():
            free[node.name] = node.allocatable["cpu"]
        for pod in self.world.pods.values():
            if pod.node is not None and pod.node in free and not pod.finished:
                free[pod.node] -= int(pod.requests.get("cpu"))
        return free

    def _check_orders(self, commands: list[Command]) -> None:
        over = [name for name, free in self._free().items() if free < 0]
        assert not over, f"more on {over} than they have"
        for command in commands:
            if not isinstance(command, DeletePod):
                continue
            unit = self.world.units.get(self.world.unit_of[command.pod.uid])
            if command.reason == RELEASED:
                assert unit is None or unit.name not in self.grown_up or unit.size != unit.least, (
                    f"{unit.name} ran, and is released"
                )
            elif isinstance(unit, GangUnit):
                self.grown_up.discard(unit.name)
                self._check_victims(unit, command)

    def _check_victims(self, unit: GangUnit, order: DeletePod) -> None:
        """All of a gang goes or as much stays as it needs, unless its object says that members go one by one."""
        pod = self.world.pods.get(order.pod.uid)
        if pod is None or pod.template.gang is None or unit.least is None or order.preemptor is None:
            return
        left = len(lasting(self.world.engine.state, pod.template.gang))
        if unit.declared in NATIVE:
            assert not left or not unit.evict_whole, f"{unit.name} goes whole, and {left} members stay"
        else:
            assert not left or left >= unit.least, f"{left} of {unit.least} members of {unit.name} stay"
        preemptor = self.world.pods.get(order.preemptor.uid)
        if preemptor is not None:
            assert pod.template.priority < preemptor.template.priority, f"{pod.key} is as important as {preemptor.key}"

    def _one_is_left(self) -> None:
        """Of all that wait one unit is left, and gets room: it is placed."""
        waiting = [unit for unit in self.world.units if self._waits(unit)]
        for unit in waiting[1:]:
            self._end(unit)
        self._quiet()
        for _ in range(5):
            self._node_comes()
        self._quiet()


def told(seed: int) -> list[str]:
    """What the engine does in a history; an AssertionError tells the history."""
    return outcome_of(History(seed), seed)
