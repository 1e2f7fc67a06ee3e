"""The drill of gangs in slices: kills at every bind, nodes taken and nodes lost, on a real API server.

    python -m tests.gangs.rackdrill [--moments all|3:before,7:after] [--jobs N] [--logs FOLDER]

A run: two blocks of five racks of five nodes, each with room for one member; a gang of 16 that must be in one block, in
slices of 4 that must be in one rack each. The scheduler is killed before bind k is forwarded or after it was answered;
in half of the runs strangers then take the room that the slice under way would need. A new scheduler is started: 30 s
later the gang has to run, in one block, no slice broken. Then three nodes are lost at once, and in most runs the
scheduler is killed again while it replaces their members. Where each rack has one spare node, 30 s later the lost ranks
are in the racks of their slices, and the other members are where they were. In every third run the three are of one
rack, which then is too small: the gang waits, and after an argument's time it has to run as a whole elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.controlplane import SCHEDULER, ControlPlane, ControlPlaneError
from moorage.bench.kubelet import VirtualKubelet
from moorage.bench.processes import Child
from tests.faults.proxy import Proxy
from tests.faults.rules import BIND, Rule, Stop
from tests.gangs import declarations, racks, subjects
from tests.gangs.cluster import Cluster, PodWatch, each
from tests.gangs.drill import PLANE
from tests.gangs.ledger import Ledger, cpu_milli
from tests.gangs.outcomes import Moment, When
from tests.gangs.racks import SIZE, SLICE, RackGang, faults_of, homes_of, rack_of, rank_of

PATIENCE_S = 30.0
START_S = 60.0
JOBS = 4
REPLACE_AFTER_S = 5.0
LOST = 3


@dataclass(frozen=True, slots=True)
class RackCase:
    """One run."""

    moment: Moment
    taken: bool
    """Whether strangers take room after the first crash."""
    crowded: bool
    """Whether the lost nodes are of one rack."""
    second: int
    """The bind of a replacement at which the scheduler is killed again; 0 for none."""

    @property
    def name(self) -> str:
        """Name of its namespace and scheduler, and the prefix of its nodes."""
        return f"racks-{self.moment.when}-{self.moment.k:02}"

    def __str__(self) -> str:
        room, lost = "taken" if self.taken else "free", "of one rack" if self.crowded else "of three racks"
        again = f"killed again at bind {self.second}" if self.second else "not killed again"
        return f"k={self.moment.k:02} {self.moment.when:6} room {room:5}, 3 nodes {lost} lost, {again}"


def all_cases() -> list[RackCase]:
    """Every bind, both moments."""
    found = []
    for k in range(1, SIZE + 1):
        for when in get_args(When):
            after = when == "after"
            found.append(RackCase(Moment(k, when), (k + after) % 2 == 0, (k + 2 * after) % 3 == 0, (k + after) % 4))
    return found


@dataclass(slots=True)
class RackOutcome:
    """What one run showed."""

    case: RackCase
    bound_at_crash: int = 0
    whole_s: float | None = None
    """Seconds from the first request of the next scheduler until the gang ran as a whole."""
    replaced_s: float | None = None
    """Seconds from the loss until it ran again; the start of a process after a kill included."""
    moved: int = 0
    """Members that were released and placed anew."""
    breaches: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        times = [f"{name} {'never' if at is None else f'after {at:.1f} s'}" for name, at in self._times()]
        told = f"bound at crash {self.bound_at_crash:2}, {', '.join(times)}, {self.moved} members placed anew"
        return f"{self.case}: {told}: {'; '.join(self.breaches) or 'ok'}"

    def _times(self) -> Iterator[tuple[str, float | None]]:
        yield "whole", self.whole_s
        yield "replaced", self.replaced_s


def summary(outcomes: Sequence[RackOutcome]) -> str:
    """The figures of all runs."""
    kinds = Counter(word for one in outcomes for text in one.breaches for word in [text.partition(":")[0]])
    known = ("outside", "broken", "partial", "moved", "twice", "overcommitted")
    figures = ", ".join(f"{kinds.pop(kind, 0)} {kind}" for kind in known)
    kills = sum(1 + bool(one.case.second) for one in outcomes)
    calm = [one.replaced_s or 0.0 for one in outcomes if not one.case.crowded]
    return (
        f"{len(outcomes)} runs, {kills} kills, {LOST * len(outcomes)} nodes lost: {figures}, "
        f"{sum(kinds.values())} other breaches; whole again at most "
        f"{max((one.whole_s or 0.0 for one in outcomes), default=0.0):.1f} s after the restart, members replaced in "
        f"their racks at most {max(calm, default=0.0):.1f} s after the loss"
    )


class RackDrill:
    """Runs cases on one control plane; `patient` means to judge when the patience is over, not as soon as can be."""

    def __init__(self, plane: ControlPlane, folder: Path, *, patient: bool = True) -> None:
        self._plane, self._folder, self._patient = plane, folder, patient

    async def run(
        self, cases: Sequence[RackCase], jobs: int, report: Callable[[RackOutcome], None]
    ) -> list[RackOutcome]:
        """Run the cases, some at a time; each outcome is reported when it is there."""
        places, outcomes = asyncio.Semaphore(jobs), list[RackOutcome]()

        async def one(cluster: Cluster, case: RackCase) -> None:
            async with places:
                outcome = await self._run_case(cluster, case)
            outcomes.append(outcome)
            report(outcome)

        client = KubeClient(load_credentials(str(self._plane.admin_kubeconfig)), user_agent="virtual-kubelet")
        async with Cluster(self._plane) as cluster, client, VirtualKubelet(client, adopt_all=True):
            for collection, body in racks.shared_objects():
                await cluster.create(collection, body)
            await cluster.create_until_served(*racks.topology())
            await each(one(cluster, case) for case in cases)
        return outcomes

    async def _run_case(self, cluster: Cluster, case: RackCase) -> RackOutcome:
        gang = RackGang(case.name, "crd", SIZE, owned=True)
        ledger = Ledger(dict.fromkeys(gang.node_names, cpu_milli(declarations.CPU)), SIZE)
        outcome = RackOutcome(case)
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": gang.name}})
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_clear, cluster, gang, ledger)
            watch = await stack.enter_async_context(PodWatch(cluster, gang.name, ledger))
            act = _Act(cluster, gang, ledger, watch, outcome)
            player = asyncio.ensure_future(act.play(await act.set_up()))
            stack.callback(player.cancel)
            if await self._killed(act):
                if case.taken:
                    await act.take_room()
                await self._recovered(act)
            if player.done():
                outcome.breaches.append(f"other: the player ended: {player.exception()!r}")
            outcome.breaches += [f"twice: {text}" for text in ledger.twice]
            outcome.breaches += [f"overcommitted: {text}" for text in sorted(set(ledger.overcommitted))]
            outcome.breaches += [f"other: {text}" for text in watch.lost]
        return outcome

    async def _killed(self, act: _Act) -> bool:
        """The first scheduler is killed at its moment; False if that never comes."""
        moment = act.outcome.case.moment
        async with Proxy(self._plane, [moment.rule]) as proxy, self._scheduler(act, proxy, "first") as scheduler:
            reached = await _reached(proxy, scheduler, START_S + PATIENCE_S)
        want = moment.k - (moment.when == "before")
        await act.watch.until(lambda: act.ledger.bound == want, PATIENCE_S)
        act.outcome.bound_at_crash = act.ledger.bound
        if not reached or act.ledger.bound != want:
            act.outcome.breaches.append(f"other: {act.ledger.bound} bound at the crash, {want} expected")
        return reached

    async def _recovered(self, act: _Act) -> None:
        """The next scheduler completes the gang, or releases it and starts it anew; then nodes are lost."""
        case, outcome = act.outcome.case, act.outcome
        async with Proxy(self._plane) as proxy, self._scheduler(act, proxy, "second") as scheduler:
            await act.contacted(proxy, scheduler)
            outcome.whole_s = await act.until_whole(PATIENCE_S, patient=self._patient)
            outcome.breaches += act.faults()
            if outcome.breaches:
                return
            if case.second:
                proxy.add(Rule(verb=BIND, nth=case.second, act=Stop(before=case.moment.when == "before")))
            lost = await act.lose_nodes(crowded=case.crowded)
            lost_s = time.monotonic()
            if not case.second:
                await self._replaced(act, lost, lost_s)
                return
            if not await _reached(proxy, scheduler, PATIENCE_S + REPLACE_AFTER_S):
                outcome.breaches.append(f"other: bind {case.second} of a replacement never came")
                return
        async with Proxy(self._plane) as proxy, self._scheduler(act, proxy, "third") as scheduler:
            await act.contacted(proxy, scheduler)
            await self._replaced(act, lost, lost_s)

    async def _replaced(self, act: _Act, lost: _Lost, lost_s: float) -> None:
        outcome, crowded = act.outcome, act.outcome.case.crowded
        await act.until_whole(PATIENCE_S, patient=self._patient)
        whole_s = act.whole_since_s
        outcome.replaced_s = None if whole_s is None else whole_s - lost_s
        outcome.breaches += act.faults()
        after = {pod.name: pod.node for pod in act.ledger.members}
        outcome.moved = sum(name not in after for name in lost.others)
        if not crowded:
            moved = [name for name, node in lost.others.items() if after.get(name) != node]
            outcome.breaches += [f"moved: {name} did not stay on {lost.others[name]}" for name in moved]
            homes = homes_of(act.ledger.members)
            strayed = [rank for rank, node in lost.homes.items() if rack_of(homes.get(rank, node)) != rack_of(node)]
            outcome.breaches += [f"broken: rank {rank} did not come back to its rack" for rank in strayed]

    @contextlib.asynccontextmanager
    async def _scheduler(self, act: _Act, proxy: Proxy, ordinal: str) -> AsyncIterator[Child]:
        """A scheduler behind the proxy, killed without warning at the end of the block."""
        stem = f"{act.gang.name}-{ordinal}"
        kubeconfig = proxy.kubeconfig(SCHEDULER.name, self._folder / f"{stem}.kubeconfig")
        patience = {"name": "TopologyPlacement", "args": {"replaceAfterSeconds": REPLACE_AFTER_S}}
        log = self._folder / f"{stem}.log"
        child = subjects.start("moorage", self._plane, kubeconfig, act.gang.name, log, patience)
        try:
            yield child
        finally:
            await asyncio.to_thread(child.kill)
            (self._folder / f"{stem}.writes").write_text("".join(f"{line}\n" for line in proxy.journal))


@dataclass(frozen=True, slots=True)
class _Lost:
    """What was there before nodes were lost."""

    homes: dict[int, str]
    """The nodes of the ranks that were on them."""
    others: dict[str, str | None]
    """The other members and their nodes."""


@dataclass(slots=True)
class _Act:
    """One run while it lasts."""

    cluster: Cluster
    gang: RackGang
    ledger: Ledger
    watch: PodWatch
    outcome: RackOutcome
    whole_since_s: float | None = None
    _again: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.gang.name}/pods"

    async def set_up(self) -> str:
        """Make the nodes, the gang and its owner, whose uid is returned."""
        gang = self.gang
        await each(self.cluster.create("/api/v1/nodes", racks.node(gang, name)) for name in gang.node_names)
        await self.cluster.create_until_served(*racks.group_object(gang))
        path = f"/apis/apps/v1/namespaces/{gang.name}/replicasets"
        uid: str = (await self.cluster.create(path, declarations.owner_object(gang)))["metadata"]["uid"]
        await each(self.cluster.create(self._pods, racks.member(gang, rank, 0, uid)) for rank in range(SIZE))
        await self.watch.until(lambda: len(self.ledger.members) == SIZE, PATIENCE_S)
        return uid

    async def play(self, owner_uid: str) -> None:
        """Be the controller: a rank without a member gets a new one at once."""
        while True:
            there = {rank_of(pod.name) for pod in self.ledger.members}
            for rank in sorted(set(range(SIZE)) - there):
                pod = racks.member(self.gang, rank, next(self._again), owner_uid)
                self.ledger.foresee(await self.cluster.create(self._pods, pod))
            await self.watch.next_change()

    async def contacted(self, proxy: Proxy, scheduler: Child) -> None:
        """Wait for the first request: how long a busy machine takes to start a process is another matter."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(proxy.contacted.wait(), START_S)
        if not proxy.contacted.is_set():
            self.outcome.breaches.append(f"other: no request in {START_S:.0f} s: {scheduler.complaint()}")

    async def take_room(self) -> None:
        """Strangers take so many nodes of a rack that the slice under way there, or another one, has no room."""
        homes = homes_of(self.ledger.members)
        used = Counter(rack_of(node) for node in homes.values())
        free = self.ledger.free_nodes
        rack = next((rack for rack, count in used.items() if count % SLICE), rack_of(free[0]))
        chosen = [node for node in free if rack_of(node) == rack][: racks.NODES - SLICE + 1]
        for number, node in enumerate(chosen):
            pod = declarations.intruder(self.gang, node)
            pod["metadata"]["name"] = f"intruder-{number}"
            await self.cluster.create(self._pods, pod)
        await self.watch.until(lambda: not set(chosen) & set(self.ledger.free_nodes), PATIENCE_S)

    async def lose_nodes(self, *, crowded: bool) -> _Lost:
        """Three nodes with members go at once, with what is on them: of one rack, or of three."""
        homes = homes_of(self.ledger.members)
        by_rack: dict[tuple[str, str], list[int]] = {}
        for rank, node in sorted(homes.items()):
            by_rack.setdefault(rack_of(node), []).append(rank)
        spare = {rack_of(node) for node in self.ledger.free_nodes}
        calm = [ranks for rack, ranks in by_rack.items() if crowded or rack in spare]
        ranks = calm[0][:LOST] if crowded else [group[0] for group in calm][:LOST]
        gone = {rank: homes[rank] for rank in ranks}
        there = self.ledger.members
        await each(self.cluster.delete(f"/api/v1/nodes/{node}") for node in gone.values())
        await each(self.cluster.delete(f"{self._pods}/{pod.name}") for pod in there if rank_of(pod.name) in gone)
        await self.watch.until(lambda: not self.ledger.whole, PATIENCE_S)
        self.whole_since_s = None
        return _Lost(gone, {pod.name: pod.node for pod in there if rank_of(pod.name) not in gone})

    async def until_whole(self, within_s: float, *, patient: bool) -> float | None:
        """Wait until the gang runs; seconds that took. A patient judge looks when all of the time is over."""
        started_s = time.monotonic()
        whole = await self.watch.until(lambda: self.ledger.whole, within_s)
        self.whole_since_s = time.monotonic() if whole else None
        if patient:
            await asyncio.sleep(max(0.0, within_s - (time.monotonic() - started_s)))
        return None if self.whole_since_s is None else self.whole_since_s - started_s

    def faults(self) -> list[str]:
        """What is wrong with the gang."""
        bound = self.ledger.bound
        partial = [] if self.ledger.whole else [f"partial: {bound} of {SIZE} members run after {PATIENCE_S:.0f} s"]
        return [*partial, *faults_of(homes_of(self.ledger.members))]


async def _reached(proxy: Proxy, scheduler: Child, within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while scheduler.running and not proxy.reached.is_set() and time.monotonic() < deadline_s:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(proxy.reached.wait(), 0.2)
    return proxy.reached.is_set()


async def _clear(cluster: Cluster, gang: RackGang, ledger: Ledger) -> None:
    """Remove what only costs time in later runs: the pods and nodes."""
    await each(cluster.delete(f"/api/v1/namespaces/{gang.name}/pods/{name}") for name in ledger.names)
    await each(cluster.delete(f"/api/v1/nodes/{name}") for name in gang.node_names)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", default="all", metavar="K:WHEN,...", help="all, or some such as 3:before,7:after")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"runs at a time ({JOBS})")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the schedulers' logs, kept")
    options = parser.parse_args()
    wanted = options.moments.split(",")
    cases = [case for case in all_cases() if {"all", f"{case.moment.k}:{case.moment.when}"} & set(wanted)]
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-drill-") as scratch, ControlPlane.start(PLANE) as plane:
            folder = options.logs or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            outcomes = asyncio.run(RackDrill(plane, folder).run(cases, options.jobs, _say))
    except ControlPlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    _say(summary(outcomes))
    return int(any(outcome.breaches for outcome in outcomes))


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
