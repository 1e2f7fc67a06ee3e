"""The auditor asks at every moment whether a waiting Job fits within its limits, and who keeps it out, since when.

It counts for itself: what pods on nodes have by the API server, and what the scheduler has assumed beyond that; what is
left is free. It only reads the scheduler, to name what keeps a Job out: a nomination of somebody else, or the state in
which it waits, with the scheduler's own words. Of Jobs that are alike only the first is looked at.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from moorage.core.commands import Bind, Command, PatchPodStatus
from moorage.core.sharewriting import taken_devices
from tests.contention.lab import Laboratory, WatchedEngine
from tests.contention.room import Room
from tests.contention.shapes import Body, JobPlan

LOOK_S = 0.25
"""Between two looks after turns of the engine."""
AT_LEAST_S = 0.5
"""A look is taken even if the engine does nothing."""
_SAID = 110


@dataclass(frozen=True)
class Idle:
    """A span in which a Job fitted and nothing started."""

    since_s: float = 0.0
    until_s: float = 0.0
    job: str = ""
    keeper: str = ""

    @property
    def length_s(self) -> float:
        return self.until_s - self.since_s

    def __str__(self) -> str:
        return f"{self.length_s:.1f} s ({self.since_s:.1f} to {self.until_s:.1f}): {self.job} fitted; {self.keeper}"


@dataclass
class Findings:
    """What the auditor saw."""

    idle: list[Idle] = field(default_factory=list)
    """The spans, in order."""
    kept_s: Counter[str] = field(default_factory=Counter)
    """What kept Jobs out that fitted -> for how long, summed up over different Jobs."""
    unbound_s: dict[str, float] = field(default_factory=dict)
    """Pod -> how long it was assumed on a node before the server had it there."""

    @property
    def longest(self) -> Idle:
        return max(self.idle, key=lambda each: each.length_s, default=Idle())

    @property
    def unbound_longest_s(self) -> float:
        return max(self.unbound_s.values(), default=0.0)

    def lines(self) -> list[str]:
        """As rows of a table."""
        spans = sorted(self.idle, key=lambda each: -each.length_s)[:3]
        kept = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in self.kept_s.most_common(6))
        rows = [("idle while it fits", str(each)) for each in spans]
        rows += [("kept out by", kept or "nobody"), ("assumed, not bound", f"longest {self.unbound_longest_s:.2f} s")]
        return [f"{name:20} {value}" for name, value in rows]


class Auditor:
    """Watches one laboratory; make it before the run."""

    def __init__(self, lab: Laboratory) -> None:
        self.findings = Findings()
        self._lab, self._engine = lab, lab.engine
        self._room = Room(lab.shape)
        self._limits = {queue.name: queue.limit for queue in lab.shape.queues if queue.limit is not None}
        self._plans = lab.story.plans
        self._standing: dict[str, tuple[int, list[int], float]] = {}
        """Pod on a node -> what it has."""
        self._used: Counter[str] = Counter()
        """Queue -> what its pods on nodes have, in thousandths."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Job -> its pods without a node."""
        self._assumed_s: dict[str, float] = {}
        self._idle: Idle | None = None
        self._looked_s = 0.0
        lab.server.listeners.append(self._saw)
        lab.engine.after_turn = self._turn
        self._task = asyncio.get_running_loop().create_task(self._look_often())

    # --- what is true ---

    def _saw(self, what: str, pod: Body) -> None:
        uid, plan = pod["metadata"]["uid"], self._plans[pod["metadata"]["labels"]["job-name"]]
        if what == "created":
            self._waiting.setdefault(plan.name, {})[uid] = None
        elif what == "bound":
            self._forget_waiting(plan, uid)
            devices = list(taken_devices(pod["metadata"]["annotations"])) or [0]
            self._stand(plan, uid, pod["spec"]["nodeName"], devices)
            if uid in self._assumed_s:
                self.findings.unbound_s[uid] = self._now() - self._assumed_s.pop(uid)
        elif what == "gone" or pod["status"].get("phase") == "Succeeded":
            self._forget_waiting(plan, uid)
            self._assumed_s.pop(uid, None)
            had = self._standing.pop(uid, None)
            if had is not None:
                self._room.use(had[0], had[1], -had[2])
                self._used[plan.queue] -= round(1000 * plan.weight)

    def _stand(self, plan: JobPlan, uid: str, node: str, devices: list[int]) -> None:
        row, share = self._room.rows[node], plan.weight / len(devices)
        self._standing[uid] = (row, devices, share)
        self._room.use(row, devices, share)
        self._used[plan.queue] += round(1000 * plan.weight)

    def _forget_waiting(self, plan: JobPlan, uid: str) -> None:
        waiting = self._waiting.get(plan.name, {})
        waiting.pop(uid, None)
        if not waiting:
            self._waiting.pop(plan.name, None)

    def _now(self) -> float:
        return self._lab.clock.time()

    # --- looks ---

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(AT_LEAST_S)
            self._look()

    def _turn(self, _: WatchedEngine, __: float, commands: Sequence[Command]) -> None:
        if any(isinstance(each, Bind) or (isinstance(each, PatchPodStatus) and each.token) for each in commands):
            self._end_idle()
        for binding in self._engine.bindings.all():
            self._assumed_s.setdefault(binding.entry.pod.uid, self._now())
        if self._now() - self._looked_s >= LOOK_S:
            self._look()

    def _end_idle(self) -> None:
        if self._idle is not None:
            self.findings.idle.append(self._idle)
            self._idle = None

    def _look(self) -> None:
        now_s, before = self._now(), self._room.free.copy()
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        assumed = self._assume()
        kept = [(plan, self._keeper(plan, uids)) for plan, uids in self._fitting(assumed)]
        self._room.free[:] = before
        for plan, keeper in kept:
            self.findings.kept_s[keeper.partition(":")[0]] += passed_s  # type: ignore[assignment]
            if self._idle is None:
                self._idle = Idle(now_s, now_s, plan.name, keeper)
        if not kept:
            self._end_idle()
        elif self._idle is not None:
            plan, keeper = kept[0]
            self._idle = Idle(self._idle.since_s, now_s, plan.name, keeper)

    def _assume(self) -> Counter[str]:
        """Take what the scheduler has decided and the server does not show; by queue, and per Job."""
        found: Counter[str] = Counter()
        for binding in self._engine.bindings.all():
            pod, row = binding.entry.pod, self._room.rows[binding.node]
            if pod.uid in self._standing:
                continue
            plan = self._plans[pod.template.labels["job-name"]]
            record = self._engine.state.record(pod.uid)
            devices = list(record.pod.devices) if record is not None and record.pod.devices else [0]
            self._room.use(row, devices, plan.weight / len(devices))
            found[plan.name] += 1
            found[f"queue {plan.queue}"] += round(1000 * plan.weight)
        return found

    def _fitting(self, assumed: Counter[str]) -> Iterator[tuple[JobPlan, list[str]]]:
        """The first of each kind of waiting Jobs that could start now, with its pods that the scheduler knows of."""
        seen: set[tuple[object, ...]] = set()
        known, on_its_way = self._engine.queue.get, self._engine.bindings.get
        for name, waiting in self._waiting.items():
            plan = self._plans[name]
            left = self._lab.jobs.left[name] - self._lab.story.bound[name] - assumed[name]
            kind = (plan.queue, plan.weight, plan.level, left, plan.priority)
            if left <= 0 or kind in seen or len(waiting) < left:
                continue
            uids = [uid for uid in waiting if known(uid) is not None and on_its_way(uid) is None]
            if len(uids) < left:
                continue
            seen.add(kind)
            limit, used = self._limits.get(plan.queue), self._used[plan.queue] + assumed[f"queue {plan.queue}"]
            within = limit is None or used + 1000 * left * plan.weight <= 1000 * limit
            if within and self._room.places(plan, left) is not None:
                yield plan, uids

    def _keeper(self, plan: JobPlan, uids: list[str]) -> str:
        """What keeps a Job out that fits."""
        before = self._room.free.copy()
        holders = self._nominate(plan)
        fits = self._room.places(plan, len(uids)) is not None
        self._room.free[:] = before
        if not fits:
            names = ", ".join(f"{name} ({count})" for name, count in holders.most_common(3))
            return f"nominated: {names}"
        entry = self._engine.queue.get(uids[0])
        if entry is None:
            return "unknown: to the scheduler"
        unit = self._engine.queue.unit_of(entry)
        return f"{unit.state.value}: {unit.message[:_SAID]}"

    def _nominate(self, plan: JobPlan) -> Counter[str]:
        """Take what is kept for nominated pods of others, as far as it is free; whose it is."""
        holders: Counter[str] = Counter()
        for pod in list(self._engine.state.nominations.pods()):
            other = self._plans[pod.template.labels["job-name"]]
            node = self._engine.state.nominations.node_of(pod.uid)
            row = None if node is None else self._room.rows[node]
            if other.name == plan.name or row is None or not self._room.slots(other)[row]:
                continue
            self._room.take_on(other, row)
            holders[other.name] += 1
        return holders
