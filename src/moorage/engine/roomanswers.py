"""What a waiting pod or gang needs and the nodes do not have: as they are, or even if they were empty; in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.gangneeds import ANYWHERE, Domain, GangNeeds
from moorage.core.pods import Pod
from moorage.core.quantity import format_amount
from moorage.core.queuereasons import may_take_back
from moorage.core.resources import PODS
from moorage.core.state import ClusterState
from moorage.engine.engine import Engine
from moorage.framework.cycle import Cycle
from moorage.framework.gang_capacity import holdable, kind_of, rows_of
from moorage.framework.runner import Runner


class RoomWanted:
    """A pod that waits, or the members of its gang that do, on the nodes as they are."""

    def __init__(self, engine: Engine, pods: Sequence[Pod], needs: GangNeeds | None, now_s: float) -> None:
        self._engine = engine
        self._state: ClusterState = engine.state
        self._needs = needs
        self._cycles = [Cycle(pod, engine.state, now_s) for pod in pods if engine.runner_of(pod) is not None]
        self._kinds = list({kind_of(cycle.pod): cycle for cycle in self._cycles}.values())
        self.count = 1 if needs is None else needs.members
        """How many of them have to find a node together."""

    def obstacle(self) -> str:
        """Why too few of them would fit even if all nodes were empty; empty if enough might."""
        if len(self._cycles) < self.count or not any(len(self._usable(cycle, None)) for cycle in self._kinds):
            return ""  # something else is in the way
        domains = ANYWHERE if self._needs is None else self._needs.domains(self._state)
        most = max((self._held(domain) for domain in domains), default=0)
        small = next(self._too_large(), "") if most < self.count else ""
        return small or next(self._short(domains), "") or self._too_few(most)

    def _held(self, domain: Domain | None) -> int:
        for cycle in self._cycles:
            cycle.domain = domain
        held = holdable(self._cycles, self._runner)
        for cycle in self._cycles:
            cycle.domain = None
        return min(len(held), self._most(self._of_any(domain)))

    def _most(self, rows: Rows) -> int:
        """How many of the smallest of them such nodes could hold, whatever tells them apart besides."""
        fits = np.full(len(rows), len(self._cycles), dtype=np.int64)
        names = {name for name, _ in self._kinds[0].pod.requests.amounts} - {PODS}
        least = {name: min(cycle.pod.requests.get(name) for cycle in self._kinds) for name in names}
        for name, amount in (*least.items(), (PODS, 1)):
            column = self._state.resources.known(name)
            if column is not None and amount:
                np.minimum(fits, self._state.resources.allocatable[column, rows] // amount, out=fits)
        return sum(fits.tolist())

    def _usable(self, cycle: Cycle, domain: Domain | None) -> Rows:
        """The nodes on which a pod may be, whatever else is there."""
        rows = rows_of(self._state, domain)
        return rows[self._runner(cycle).node_mask(cycle, rows)]

    def _runner(self, cycle: Cycle) -> Runner:
        runner = self._engine.runner_of(cycle.pod)
        if runner is None:
            raise LookupError(f"no profile has the scheduler name {cycle.template.scheduler_name}")
        return runner

    def _too_large(self) -> Iterator[str]:
        for cycle in self._kinds:
            rows = self._usable(cycle, None)
            for name, amount in cycle.pod.requests.amounts:
                most = self._largest(name, rows)
                if len(rows) and amount > most:
                    wanted, least = format_amount(name, amount), format_amount(name, most)
                    yield f"no node{self._of(rows)} has {wanted} {name}, the largest has {least}"

    def _largest(self, name: str, rows: Rows) -> int:
        column = self._state.resources.known(name)
        return 0 if column is None or not len(rows) else int(self._state.resources.allocatable[column, rows].max())

    def _short(self, domains: Sequence[Domain | None]) -> Iterator[str]:
        """Resources of which all nodes together, or those of any domain, have less than is asked for."""
        for name, amount in self._asked().items():
            totals = [(self._total(name, rows), len(rows)) for rows in map(self._of_any, domains)]
            most, nodes = max(totals, default=(0, 0))
            if amount > most:
                where = f"all nodes{self._of(range(nodes))}"
                if domains != ANYWHERE and self._needs is not None:
                    where = f"the nodes of one {self._needs.terms.topology_key}"
                wanted, has = format_amount(name, amount), format_amount(name, most)
                yield f"it asks for {wanted} {name}; {where} together have {has}"

    def _asked(self) -> dict[str, int]:
        """What as many of the smallest of them as are needed request together, or the minResources."""
        names = sorted({name for cycle in self._kinds for name, _ in cycle.pod.requests.amounts} - {PODS})
        asked = {
            name: sum(sorted(cycle.pod.requests.get(name) for cycle in self._cycles)[: self.count]) for name in names
        }
        for name, amount in () if self._needs is None else self._needs.resources.items():
            asked[name] = max(amount, asked.get(name, 0))
        return asked

    def _of_any(self, domain: Domain | None) -> Rows:
        """The nodes on which any of them may be."""
        found: Rows = np.unique(np.concatenate([self._usable(cycle, domain) for cycle in self._kinds]))
        return found

    def _total(self, name: str, rows: Rows) -> int:
        column = self._state.resources.known(name)
        return 0 if column is None else sum(self._state.resources.allocatable[column, rows].tolist())

    def _of(self, rows: Sequence[int] | Rows) -> str:
        return "" if len(rows) == self._state.node_count else " that it may use"

    def _too_few(self, most: int) -> str:
        if most >= self.count:
            return ""
        label = None if self._needs is None else self._needs.terms.topology_key
        where = "" if label is None else f" in one {label}"
        return f"even if all nodes were empty, {most} of the {self.count} members that it needs would fit{where}"

    def shortage(self) -> str:
        """What no node has free for one of them; empty if some node has enough."""
        resources = self._state.resources
        for cycle in self._kinds:
            rows = self._usable(cycle, None)
            for name, amount in cycle.pod.requests.amounts:
                column = resources.known(name)
                free = 0
                if column is not None and len(rows):
                    free = max(0, int((resources.allocatable[column, rows] - resources.requested[column, rows]).max()))
                if amount > free:
                    wanted, most = format_amount(name, amount), format_amount(name, free)
                    return f"needs {wanted} {name} on one node, and no node has more than {most} free"
        return ""


def wanted(engine: Engine, pod: Pod, now_s: float) -> RoomWanted:
    """What a waiting pod needs, with its gang if it has one."""
    key = engine.gangs.unit_of(pod)
    if key is None:
        return RoomWanted(engine, (pod,), None, now_s)
    gang = engine.queue.gang(key)
    others = () if gang is None else (entry.pod for entry in gang.members.values())
    pods = list({each.uid: each for each in (*others, pod) if engine.state.record(each.uid) is None}.values())
    return RoomWanted(engine, pods, engine.gangs.needs(key, pods), now_s)


def never_line(engine: Engine, pod: Pod, now_s: float) -> str:
    """That a gang, or a pod of a queue, can never fit the nodes as they are, and why; empty if it might.

    Of other pods what the nodes and preemption say is enough.
    """
    key, queues = engine.gangs.unit_of(pod), engine.state.queues
    if engine.runner_of(pod) is None or (key is None and not (queues.active and queues.governs(pod.template))):
        return ""
    why = wanted(engine, pod, now_s).obstacle()
    who = f"pod {pod.key}" if key is None else f"pod group {key.object_key}"
    return f"{who} can never fit the cluster as it is: {why}" if why else ""


def in_vain_lines(engine: Engine, pod: Pod, now_s: float) -> tuple[str, ...]:
    """That a queue may take something back for a pod that waits, or for its gang, and this makes no room for it.

    Nothing where that is because others may not be evicted, which `queue_reasons` says.
    """
    if not may_take_back(engine.state, pod, now_s) or engine.room_for(pod, now_s) is not None:
        return ()
    one = "it" if engine.gangs.unit_of(pod) is None else "each member"
    short = wanted(engine, pod, now_s).shortage()
    start = "taking back what others have beyond their shares makes no room for it"
    return (f"{start}: {one} {short}" if short else start,)
