"""The crash drill: `moorage scheduler` is killed while it binds a gang of 20, at every bind, on a real API server.

    python -m tests.gangs.drill [--moments all|3:before,7:after] [--way native|annotations|crd] [--jobs N]

A run: 20 nodes with room for one member each, a gang of 20, and a scheduler behind a proxy that stops it before bind k
is forwarded or after it was answered. The scheduler is killed (SIGKILL); in half of the runs a stranger takes a node
that the gang would need. A new scheduler is started, with the rights of a scheduler only. 30 s later no gang may be
partial; no pod may ever change its node, and no node may ever hold more than it can. After that the stranger leaves,
and a gang that has all its members has to run. One line a run; exit code 1 on any breach.

Each run has its own namespace, nodes and schedulerName, so several share one API server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.controlplane import SCHEDULER, ControlPlane, ControlPlaneError, Options
from moorage.bench.kubelet import VirtualKubelet
from moorage.bench.processes import Child
from tests.faults.proxy import Proxy
from tests.faults.rules import BIND
from tests.gangs import declarations, subjects
from tests.gangs.cluster import Cluster, PodWatch, each, play_controller
from tests.gangs.declarations import WAYS, Gang
from tests.gangs.ledger import Ledger, cpu_milli
from tests.gangs.outcomes import SIZE, Case, Outcome, all_cases, summary
from tests.gangs.subjects import SUBJECTS, Subject

PATIENCE_S = 30.0
"""How long the next leader has to complete a gang or to release it, counted from its first request: how long a busy
machine takes to start a process is another matter."""
START_S = 60.0
PLANE = Options(feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1beta1": True})
JOBS = 4
POLL_S = 0.2


class Drill:
    """Runs cases on one control plane; `folder` takes logs and kubeconfigs.

    patient means to judge exactly when the patience is over; otherwise as soon as the gang is where it has to be.
    """

    def __init__(
        self, plane: ControlPlane, folder: Path, *, subject: Subject = "moorage", patient: bool = True
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._subject = subject
        self._patient = patient

    @contextlib.asynccontextmanager
    async def _stage(self) -> AsyncIterator[Cluster]:
        """The admin's connection and the kubelets of all nodes."""
        client = KubeClient(load_credentials(str(self._plane.admin_kubeconfig)), user_agent="virtual-kubelet")
        async with Cluster(self._plane) as cluster, client, VirtualKubelet(client, adopt_all=True):
            yield cluster

    async def run(self, cases: Sequence[Case], jobs: int, report: Callable[[Outcome], None]) -> list[Outcome]:
        """Run the cases, some at a time; each outcome is reported when it is there."""
        places = asyncio.Semaphore(jobs)
        outcomes: list[Outcome] = []

        async def one(cluster: Cluster, case: Case) -> None:
            async with places:
                outcome = await self._run_case(cluster, case)
            outcomes.append(outcome)
            report(outcome)

        async with self._stage() as cluster:
            if any(case.way == "crd" for case in cases):
                for collection, body in declarations.crd_objects(SCHEDULER.name):
                    await cluster.create(collection, body)
            await each(one(cluster, case) for case in cases)
        return outcomes

    async def _run_case(self, cluster: Cluster, case: Case) -> Outcome:
        gang = Gang(case.name, case.way, case.size, case.owned)
        room = dict.fromkeys(gang.node_names, cpu_milli(declarations.CPU))
        ledger, outcome = Ledger(room, case.size), Outcome(case)
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": gang.name}})
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_clear, cluster, gang, ledger)
            watch = await stack.enter_async_context(PodWatch(cluster, gang.name, ledger))
            act = _Act(cluster, gang, ledger, watch, outcome)
            await act.set_up(stack)
            if await self._crash(act):
                await self._recover(act)
            outcome.twice += ledger.twice
            outcome.overcommitted += sorted(set(ledger.overcommitted))
            outcome.other += watch.lost
        return outcome

    async def _crash(self, act: _Act) -> bool:
        """Start the scheduler and kill it at its moment; False if that never comes."""
        moment = act.outcome.case.moment
        async with Proxy(self._plane, [moment.rule]) as proxy, self._scheduler(act, proxy, "first") as scheduler:
            deadline_s = time.monotonic() + PATIENCE_S
            while scheduler.running and not proxy.reached.is_set() and time.monotonic() < deadline_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(proxy.reached.wait(), POLL_S)
            end = "" if scheduler.running else f"; it ended by itself: {scheduler.complaint()}"
        act.count(proxy)
        if not proxy.reached.is_set():
            act.outcome.other.append(f"bind {moment.k} never came, only {proxy.binds} did{end}")
            return False
        want_bound = moment.k - (moment.when == "before")
        if not await act.watch.until(lambda: act.ledger.bound == want_bound, PATIENCE_S):
            act.outcome.other.append(f"{act.ledger.bound} members were bound at the crash instead of {want_bound}")
        act.outcome.bound_at_crash = act.ledger.bound
        return True

    async def _recover(self, act: _Act) -> None:
        """Start the next scheduler and judge what it made of the gang."""
        if act.outcome.case.taken:
            await act.take_room()
        async with Proxy(self._plane) as proxy, self._scheduler(act, proxy, "second") as scheduler:
            restarted_s = time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(proxy.contacted.wait(), START_S)
            act.outcome.start_s = time.monotonic() - restarted_s
            await act.judge(patient=self._patient)
            if not act.outcome.partial:
                await act.see_it_run()
            if not scheduler.running:
                act.outcome.other.append(f"the second scheduler ended: {scheduler.complaint()}")
        act.count(proxy)

    @contextlib.asynccontextmanager
    async def _scheduler(self, act: _Act, proxy: Proxy, ordinal: str) -> AsyncIterator[Child]:
        """A scheduler behind the proxy, killed without warning at the end of the block."""
        stem = f"{act.gang.name}-{ordinal}"
        kubeconfig = proxy.kubeconfig(SCHEDULER.name, self._folder / f"{stem}.kubeconfig")
        child = subjects.start(self._subject, self._plane, kubeconfig, act.gang.name, self._folder / f"{stem}.log")
        try:
            yield child
        finally:
            await asyncio.to_thread(child.kill)
            (self._folder / f"{stem}.writes").write_text("".join(f"{line}\n" for line in proxy.journal))


@dataclass(slots=True)
class _Act:
    """One run while it lasts."""

    cluster: Cluster
    gang: Gang
    ledger: Ledger
    watch: PodWatch
    outcome: Outcome
    successes: Counter[str] = field(default_factory=Counter)

    async def set_up(self, stack: contextlib.AsyncExitStack) -> None:
        """Make the nodes and the gang, and the player of its controller."""
        gang, pods = self.gang, f"/api/v1/namespaces/{self.gang.name}/pods"
        await each(self.cluster.create("/api/v1/nodes", declarations.node(gang, name)) for name in gang.node_names)
        if (group := declarations.group_object(gang)) is not None:
            await self.cluster.create_until_served(*group)
        uid = None
        if gang.owned:
            owner = declarations.owner_object(gang)
            created = await self.cluster.create(f"/apis/apps/v1/namespaces/{gang.name}/replicasets", owner)
            uid = created["metadata"]["uid"]
        names = [f"m-{number:02}" for number in range(1, gang.size + 1)]
        await each(self.cluster.create(pods, declarations.member(gang, name, uid)) for name in names)
        await self.watch.until(lambda: len(self.ledger.members) == gang.size, PATIENCE_S)
        if uid is not None:
            player = asyncio.ensure_future(play_controller(self.cluster, gang, self.watch, self.ledger, uid))
            stack.callback(player.cancel)

    async def take_room(self) -> None:
        """Let a stranger take a node that a member without a node would need."""
        node = self.ledger.free_nodes[-1]
        await self.cluster.create(f"/api/v1/namespaces/{self.gang.name}/pods", declarations.intruder(self.gang, node))
        await self.watch.until(lambda: node not in self.ledger.free_nodes, PATIENCE_S)

    async def judge(self, *, patient: bool) -> None:
        """Wait, at most for the patience, and look whether the gang is partial."""
        outcome, started_s = self.outcome, time.monotonic()
        where_it_belongs = self._released if outcome.case.taken else lambda: self.ledger.whole or self._released()
        settled = await self.watch.until(where_it_belongs, PATIENCE_S)
        outcome.settled_s = time.monotonic() - started_s if settled else None
        if patient:
            await asyncio.sleep(max(0.0, PATIENCE_S - (time.monotonic() - started_s)))
        outcome.bound_at_judgement = self.ledger.bound
        if self.ledger.partial:
            outcome.partial.append(f"{self.ledger.bound} of {self.gang.size} members bound after {PATIENCE_S:.0f} s")
        elif not settled:
            outcome.other.append(f"neither completed nor released: {self.ledger.bound} bound")

    def _released(self) -> bool:
        """Whether no member has a node, and that was not so already at the crash."""
        return self.ledger.bound == 0 and (self.outcome.case.taken or self.outcome.bound_at_crash > 0)

    async def see_it_run(self) -> None:
        """Free the room that was taken: a gang that has all its members has to run then."""
        if self.outcome.case.taken:
            await self.cluster.delete(f"/api/v1/namespaces/{self.gang.name}/pods/intruder")
        if not self.gang.owned and len(self.ledger.members) < self.gang.size:
            # Nobody replaces the members that were released.
            return
        if not await self.watch.until(lambda: self.ledger.whole, PATIENCE_S):
            self.outcome.other.append(f"{self.ledger.bound} members run {PATIENCE_S:.0f} s after all had room")

    def count(self, proxy: Proxy) -> None:
        """Take over what a proxy counted."""
        self.outcome.refusals += proxy.refusals
        self.outcome.other += [
            f"wrote to a pod of another scheduler: {pod}" for pod in sorted(proxy.touched(self.gang.name))
        ]
        self.successes += proxy.accepted(BIND)
        self.outcome.twice += [f"{pod} was bound {n} times" for pod, n in self.successes.items() if n > 1]


async def _clear(cluster: Cluster, gang: Gang, ledger: Ledger) -> None:
    """Remove what only costs time in later runs: the pods and nodes."""
    pods = f"/api/v1/namespaces/{gang.name}/pods"
    await each(cluster.delete(f"{pods}/{name}") for name in ledger.names)
    await each(cluster.delete(f"/api/v1/nodes/{name}") for name in gang.node_names)


def _chosen(cases: Sequence[Case], wish: str) -> list[Case]:
    if wish == "all":
        return list(cases)
    wanted = set(wish.split(","))
    known = {f"{case.moment.k}:{case.moment.when}": case for case in cases}
    if unknown := sorted(wanted - set(known)):
        raise ValueError(
            f"--moments: no moment {unknown[0]!r}; write all, or for example 3:before,7:after (1 to {SIZE})"
        )
    return [case for key, case in known.items() if key in wanted]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", default="all", metavar="K:WHEN,...", help="all, or some such as 3:before,7:after")
    parser.add_argument("--way", choices=WAYS, default=None, help="declare all gangs in this way")
    parser.add_argument("--subject", choices=SUBJECTS, default="moorage", help="the scheduler that is killed")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"runs at a time ({JOBS})")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the schedulers' logs, kept")
    options = parser.parse_args()
    # Stock knows one way only.
    ways = (options.way,) if options.way else WAYS if options.subject == "moorage" else ("native",)
    try:
        cases = _chosen(all_cases(ways), options.moments)
        with tempfile.TemporaryDirectory(prefix="moorage-drill-") as scratch, ControlPlane.start(PLANE) as plane:
            folder = options.logs or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            drill = Drill(plane, folder, subject=options.subject)
            outcomes = asyncio.run(drill.run(cases, options.jobs, lambda outcome: _say(str(outcome))))
    except (ControlPlaneError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    _say(summary(outcomes))
    return int(any(outcome.breaches for outcome in outcomes))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
