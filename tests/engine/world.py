"""The world around an engine: API server, controllers, kubelets and the clock, played in virtual time.

What the engine orders is carried out, at once or late, and sometimes fails; the watch shows what is true, in order;
controllers make new pods for those that go. Everything random is drawn from one seeded generator, so a seed tells the
whole story. Two things are the engine's promise at any time and checked here: `check_engine` after every call, and that
no pod is bound twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from moorage.core.commands import Bind, Command, DeletePod, PatchObject, PatchPodStatus
from moorage.core.echo import with_status
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
    StatusDone,
)
from moorage.core.nodes import Node
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.invariants import check_engine

_MOST_TURNS = 3000


@dataclass(frozen=True)
class Habits:
    """How the world behaves: shares of all cases."""

    bind_fails: float = 0.0
    delete_fails: float = 0.0
    status_fails: float = 0.0
    takes_leave: float = 0.0
    """Deletions after which a bound pod stands on its node for a while."""
    dawdles: float = 0.0
    """Orders, answers and controllers that are late; at 0 everything happens before the engine is called again."""
    checked: bool = True
    """Whether the engine's invariants are looked at after every call."""


@dataclass
class Unit:
    """Pods that belong together, with the controllers that keep up their number."""

    name: str
    owners: dict[str, int]
    """Controller -> how many pods it wants."""
    make: Callable[[str, str, float], Pod]
    """(pod, controller, time of creation)"""
    least: int | None = 1
    """How many of them must stand together, None where nobody says so far."""
    priority: int | None = None
    """Its own, where its object says one."""
    counted: bool = False
    """Whether `least` is how many pods its controllers want, and nobody says another number."""

    @property
    def size(self) -> int:
        return sum(self.owners.values())


@dataclass
class World:
    """One engine and everything around it."""

    make_engine: Callable[[], Engine]
    rng: Random
    habits: Habits = field(default_factory=Habits)
    now: float = 1000.0
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    """What the API server knows, by uid."""
    objects: dict[tuple[str, str], Any] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    """Whose pods come back."""
    unit_of: dict[str, str] = field(default_factory=dict)
    """Pod -> its unit, also of pods that are gone."""
    history: list[str] = field(default_factory=list)
    """Binds and deletions, as they were ordered."""
    deletions: list[DeletePod] = field(default_factory=list)
    on_bound: Callable[[], None] | None = None
    """Told after every bind that succeeds."""
    on_orders: Callable[[list[Command]], None] | None = None
    """Told what the engine has just ordered, before any of it is carried out."""

    def __post_init__(self) -> None:
        self.engine = self.make_engine()
        self.wakeup: float | None = None
        self._owner_of: dict[str, str] = {}
        self._watch: list[Event] = []
        self._orders: list[Command] = []
        self._answers: list[Event] = []
        self._leaving: dict[str, float] = {}
        """Bound pods that are being deleted -> when the kubelet is done with them."""
        self._seen: dict[str, Pod] = {}
        """Pods as the engine saw them last."""
        self._told_nodes: set[str] = set()
        self._told_bound: dict[str, str] = {}
        """Pods that the engine was told to stand on a node and to stay, by watch or answer."""
        self._failed: dict[tuple[str, str], int] = {}
        self._serial = 0

    # --- what is there ---

    def pods_of(self, unit: str) -> list[Pod]:
        """The pods of a unit that are neither finished nor being deleted."""
        return [pod for uid, pod in self.pods.items() if self.unit_of.get(uid) == unit and stays(pod)]

    def standing(self, unit: str) -> list[Pod]:
        """Those of them that have a node."""
        return [pod for pod in self.pods_of(unit) if pod.node is not None]

    def told_standing(self, unit: str) -> int:
        """How many pods of a unit stood together as far as the engine was told, on nodes that were there."""
        bound = self._told_bound.items()
        return sum(self.unit_of.get(uid) == unit and node in self._told_nodes for uid, node in bound)

    # --- what happens ---

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._watch.append(NodeSeen(node))

    def drop_node(self, name: str) -> None:
        del self.nodes[name]
        self._watch.append(NodeGone(name))

    def put_object(self, kind: str, key: str, value: Any) -> None:
        self.objects[kind, key] = value
        self._watch.append(ObjectSeen(kind, key, value))

    def drop_object(self, kind: str, key: str) -> None:
        if self.objects.pop((kind, key), None) is not None:
            self._watch.append(ObjectGone(kind, key))

    def put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._watch.append(PodSeen(pod))

    def drop_pod(self, uid: str) -> None:
        self._leaving.pop(uid, None)
        if self.pods.pop(uid, None) is not None:
            self._watch.append(PodGone(uid))

    def delete_pod(self, uid: str, **why: Any) -> None:
        """A bound pod may take a while to end; others are gone at once."""
        pod = self.pods.get(uid)
        if pod is None or pod.deleted_s is not None:
            return
        if pod.node in self.nodes and not pod.finished and self.rng.random() < self.habits.takes_leave:
            self._leaving[uid] = self.now + self.rng.choice([0.5, 3.0, 20.0])
            self.put_pod(replace(pod, deleted_s=self.now, **why))
        else:
            self.drop_pod(uid)

    def finish_pod(self, uid: str) -> None:
        pod = self.pods[uid]
        if pod.node is not None:
            self._leaving.pop(uid, None)
            self.put_pod(replace(pod, phase="Succeeded"))

    def scale(self, unit: Unit, owner: str, wanted: int) -> None:
        """A controller wants more or fewer pods; the youngest go."""
        unit.owners[owner] = wanted
        there = [pod for pod in self.pods_of(unit.name) if self._owner_of[pod.uid] == owner]
        for pod in there[wanted:]:
            self.delete_pod(pod.uid)

    def leave_unit(self, pod: Pod) -> None:
        """Nobody will make a new one when the pod goes."""
        self.units[self.unit_of[pod.uid]].owners[self._owner_of[pod.uid]] -= 1

    def end_unit(self, name: str) -> list[Pod]:
        """Its controllers are gone; returns the pods that are left for the caller to end."""
        del self.units[name]
        return [pod for uid, pod in self.pods.items() if self.unit_of.get(uid) == name]

    # --- the controllers ---

    def reconcile(self) -> None:
        """Pods on nodes that are gone are deleted, and pods that are missing are made."""
        for pod in list(self.pods.values()):
            if pod.node is not None and pod.node not in self.nodes:
                self.drop_pod(pod.uid)
        for unit in self.units.values():
            there = [self._owner_of[pod.uid] for pod in self.pods_of(unit.name)]
            for owner, wanted in unit.owners.items():
                for _ in range(wanted - there.count(owner)):
                    self._make(unit, owner)

    def _make(self, unit: Unit, owner: str) -> None:
        self._serial += 1
        pod = unit.make(f"{owner}-{self._serial}", owner, math.floor(self.now))
        self.unit_of[pod.uid] = unit.name
        self._owner_of[pod.uid] = owner
        self.put_pod(pod)

    # --- time ---

    def turn(self) -> None:
        """Tell the engine what it may know by now, call it, and carry out what it orders."""
        late = self.habits.dawdles
        if self.rng.random() >= late:
            self.reconcile()
        for uid in [uid for uid, at_s in self._leaving.items() if at_s <= self.now]:
            self.drop_pod(uid)
        shown = len(self._watch) if not late else self.rng.randint(0, len(self._watch))
        watch, self._watch = self._watch[:shown], self._watch[shown:]
        answers, self._answers = self._part(self._answers)
        self.call([*watch, *answers] if self.rng.random() < 0.5 else [*answers, *watch])
        orders, self._orders = self._part(self._orders)
        for order in orders:
            self._carry_out(order)

    def _part(self, things: list[Any]) -> tuple[list[Any], list[Any]]:
        """What happens now, and what later. Orders and answers about one pod keep their order."""
        if not self.habits.dawdles:
            return things, []
        late: set[str] = set()
        first: list[Any] = []
        rest: list[Any] = []
        for thing in things:
            uid = _about(thing)
            if uid in late or self.rng.random() < self.habits.dawdles:
                late.add(uid)
                rest.append(thing)
            else:
                first.append(thing)
        return first, rest

    def call(self, events: Iterable[Event], budget: int = 1 << 62) -> None:
        """One call of the engine."""
        events = list(events)
        for event in events:
            self._note(event)
        commands, self.wakeup = self.engine.handle(events, self.now, budget)
        self._orders.extend(commands)
        for command in commands:
            if isinstance(command, Bind):
                self.history.append(f"bind {command.pod.name} {command.node}")
            elif isinstance(command, DeletePod):
                self.history.append(f"delete {command.pod.name} {command.reason}")
                self.deletions.append(command)
        if self.on_orders is not None and commands:
            self.on_orders(commands)
        if self.habits.checked:
            check_engine(self.engine, self._seen.values())

    def _note(self, event: Event) -> None:
        """What the engine knows from now on."""
        if isinstance(event, PodSeen):
            pod = self._seen[event.pod.uid] = event.pod
            if pod.node is None or not stays(pod):
                self._told_bound.pop(pod.uid, None)
            else:
                self._told_bound[pod.uid] = pod.node
        elif isinstance(event, BindDone) and event.outcome is BindOutcome.BOUND and event.node is not None:
            if event.uid in self._seen:
                self._told_bound[event.uid] = event.node
        elif isinstance(event, PodGone) or (isinstance(event, BindDone) and event.outcome is BindOutcome.GONE):
            self._seen.pop(event.uid, None)
            self._told_bound.pop(event.uid, None)
        elif isinstance(event, NodeSeen):
            self._told_nodes.add(event.node.name)
        elif isinstance(event, NodeGone):
            self._told_nodes.discard(event.name)

    @property
    def pending(self) -> bool:
        """Whether something is on its way that needs no time to pass."""
        return bool(self._watch or self._orders or self._answers)

    def settle(self, quiet_s: float, after_turn: Callable[[], None] = lambda: None) -> None:
        """Go on until nothing will happen for so long."""
        self.turn()
        after_turn()
        last_s = self.now
        for _ in range(_MOST_TURNS):
            self.reconcile()
            if not self.pending:
                next_s = math.inf if self.wakeup is None else self.wakeup
                if next_s > last_s + quiet_s and not self._leaving:
                    return
                self.now = max(self.now, min(next_s, *self._leaving.values(), math.inf))
            self.turn()
            after_turn()
            if self.pending:
                last_s = self.now
        raise AssertionError(f"never quiet: {self.history[-20:]}")

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """The engine is killed: some of its orders were carried out, its successor sees what is true by then."""
        for order in self._orders:
            if self.rng.random() < 0.5:
                self._carry_out(order)
        meanwhile()
        self._orders, self._answers, self._watch = [], [], []
        self._seen.clear()
        self._told_nodes.clear()
        self._told_bound.clear()
        self.engine = self.make_engine()
        objects = [ObjectSeen(kind, key, value) for (kind, key), value in self.objects.items()]
        pods = [PodSeen(pod) for pod in self.pods.values()]
        self.rng.shuffle(pods)
        self.call([*map(NodeSeen, self.nodes.values()), *objects, *pods], budget=0)

    # --- the API server ---

    def _carry_out(self, order: Command) -> None:
        if isinstance(order, Bind):
            outcome, node, message = self._bind(order)
            self._answers.append(BindDone(order.pod.uid, outcome, node, message))
        elif isinstance(order, DeletePod):
            ok = not self._fails("delete", order.pod.uid, self.habits.delete_fails)
            if ok:
                self.delete_pod(order.pod.uid, preempted=order.preemptor is not None)
            self._answers.append(DeleteDone(order.pod.uid, ok, "" if ok else "try again"))
        elif isinstance(order, PatchPodStatus):
            self._patch_status(order)
        elif isinstance(order, PatchObject):
            self._patch_group(order)
            self._answers.append(PatchDone(order, ok=True))

    def _fails(self, what: str, uid: str, share: float) -> bool:
        """No more than twice for the same pod."""
        if self.rng.random() >= share or self._failed.get((what, uid), 0) >= 2:
            return False
        self._failed[what, uid] = self._failed.get((what, uid), 0) + 1
        return True

    def _bind(self, order: Bind) -> tuple[BindOutcome, str | None, str]:
        pod = self.pods.get(order.pod.uid)
        if pod is None:
            return BindOutcome.GONE, None, ""
        if pod.node is not None:
            raise AssertionError(f"{pod.key} is on {pod.node} and is bound again, to {order.node}")
        if pod.deleted_s is not None or self._fails("bind", pod.uid, self.habits.bind_fails):
            return BindOutcome.FAILED, order.node, "try again"
        since_s = float(math.floor(self.now))
        self.put_pod(replace(pod, node=order.node, phase="Running", scheduled_s=since_s, started_s=self.now))
        if self.on_bound is not None:
            self.on_bound()
        return BindOutcome.BOUND, order.node, ""

    def _patch_status(self, order: PatchPodStatus) -> None:
        pod, uid = self.pods.get(order.pod.uid), order.pod.uid
        ok = pod is not None and not self._fails("status", uid, self.habits.status_fails if order.token else 0.0)
        if pod is not None and ok:
            self.put_pod(with_status(pod, order))
        if order.token:
            self._answers.append(StatusDone(uid, ok, "" if ok else "try again", order.token))

    def _patch_group(self, order: PatchObject) -> None:
        key = (order.kind, f"{order.namespace}/{order.name}")
        group = self.objects.get(key)
        if isinstance(group, PodGroup):
            [condition] = order.patch["status"]["conditions"]
            self.put_object(*key, replace(group, scheduled=group.scheduled or condition["status"] == "True"))


def stays(pod: Pod) -> bool:
    """Whether a pod is neither finished nor being deleted."""
    return not pod.finished and pod.deleted_s is None


def _about(thing: Any) -> str:
    """The pod that an order or an answer is about."""
    if isinstance(thing, PatchDone):
        return thing.command.pod.uid
    uid: str = thing.uid if hasattr(thing, "uid") else thing.pod.uid
    return uid
