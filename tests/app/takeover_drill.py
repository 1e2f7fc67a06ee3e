"""The takeover drill: leaders of two replicas are killed, told to stop and suspended while 2,000 pods arrive.

    python -m tests.app.takeover_drill [--fence] [--logs FOLDER]

The chart is installed on a real API server, and two replicas of `moorage scheduler` run with its account and its
configuration (the lease lives for 15 s). Nodes are packed one after the other and have room for 2,000 pods exactly, so
that a stale view or a late bind would show at once. In each of 20 rounds a burst arrives, and amid its binds the leader
gets SIGTERM or SIGKILL; more pods arrive while none leads. What ended is replaced. In the last round pods wait
until nodes come for all of them at once, and the leader is suspended for 20 s (SIGSTOP) with their binds in its queue.
Pods that matter more take the room that it had given away in its mind: if it sent only one of these binds when it wakes
up, a node would be overcommitted.

Judges are a watch of pods and Lease and the API server's audit log (takeover_ledger.py): no pod may be lost or bound
twice, no node may ever hold more than it can, no bind of an old term may be accepted. Takeovers are timed from the
signal to the next leader's first bind. `--fence` installs the chart's admission policy too, and a bind of the suspended
leader's term is posted by hand: it has to be refused. Exit code 1 on any breach.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane, ControlPlaneError, Options
from tests.app.takeover_ledger import AUDIT_POLICY, TERM, Ledger, Reign, Watch, read_attempts
from tests.app.takeover_replicas import DrillError, Replica, Replicas, meanwhile, until
from tests.app.takeover_report import HEAD, Report, Takeover, line_of, say
from tests.contract.manifests import a_node, a_pod, a_priority_class
from tests.deploy.chart import NAMESPACE, RELEASE, install
from tests.gangs.cluster import Cluster, each
from tests.gangs.ledger import cpu_milli

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
PLANE = Options(audit_policy=AUDIT_POLICY)
NODE_CPU, POD_CPU, PODS_PER_NODE = "4", "500m", 8
PATIENCE_S = 120.0
TRICKLE_S = 0.1
FIRST_PROFILE = "config.scheduler.profiles[0]"
PACKED = (
    f"{FIRST_PROFILE}.schedulerName=moorage",
    f"{FIRST_PROFILE}.pluginConfig[0].name=NodeResourcesFit",
    f"{FIRST_PROFILE}.pluginConfig[0].args.scoringStrategy.type=MostAllocated",
    f"{FIRST_PROFILE}.pluginConfig[0].args.scoringStrategy.resources[0].name=cpu",
    f"{FIRST_PROFILE}.pluginConfig[0].args.scoringStrategy.resources[0].weight=1",
)
"""A profile that fills a node before it takes the next: every decision is about the last room of one."""


@dataclass(frozen=True, slots=True)
class Course:
    """How large the drill is."""

    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGKILL) * 10
    burst: int = 60
    """Pods that arrive at once; the signal is sent amid their binds."""
    trickle: int = 28
    """Pods that arrive one by one from the signal on."""
    last_burst: int = 240
    """Pods of the last round, about which the leader decides much faster than the rate limit lets it bind."""
    urgent: int = 40
    """Pods that take the room of as many in its queue."""
    suspended_s: float = 20.0
    """Without a last round if it is 0."""
    values: tuple[str, ...] = ()
    """More values of the chart."""

    @property
    def room(self) -> int:
        """So many pods fit."""
        return len(self.signals) * (self.burst + self.trickle) + self.last_nodes * PODS_PER_NODE

    @property
    def last_nodes(self) -> int:
        """So many nodes come in the last round."""
        return self.last_burst // PODS_PER_NODE if self.suspended_s else 0

    @property
    def first_nodes(self) -> int:
        """So many are there before; they are full when the last round begins."""
        return self.room // PODS_PER_NODE - self.last_nodes


@dataclass(slots=True)
class Drill:
    """One drill on its way."""

    course: Course
    plane: ControlPlane
    cluster: Cluster
    replicas: Replicas
    ledger: Ledger
    report: Report
    made: list[str] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(8))

    async def set_up(self) -> None:
        """Make the nodes, and start two replicas of which one leads."""
        await self._add_nodes("node", self.course.first_nodes)
        urgent = a_priority_class("urgent", 1000)
        await self.cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        for _ in range(2):
            await self.replicas.ready(self.replicas.start(), PATIENCE_S)
        await until(lambda: self.ledger.leader, "somebody leads", PATIENCE_S)

    async def round(self, number: signal.Signals) -> Takeover:
        """Let a burst arrive, signal the leader amid its binds, and see the standby go on."""
        reign, leader = self._leader()
        arriving = await self._burst(self.course.burst, self.chance.randrange(1, self.course.burst))
        takeover = self._strike(reign, leader, number)
        await meanwhile(arriving, self._trickle(), self._succession(takeover, reign), self._replacement(leader))
        self._expect_code(leader, 0 if number is signal.SIGTERM else -number)
        await self._all_bound(len(self.made))
        takeover.binds = self.ledger.binds_of(reign)
        return takeover

    async def suspension(self) -> Takeover:
        """Suspend the leader with binds in its queue, give their room to others, and wake it up."""
        reign, leader = self._leader()
        await self._arrive(self.course.last_burst)
        await until(
            lambda: len(self.ledger.refused) >= self.course.last_burst, "pods without room are told so", PATIENCE_S
        )
        full = len(self.ledger.bound)
        await self._add_nodes("late-node", self.course.last_nodes)
        await until(lambda: len(self.ledger.bound) > full, "the leader binds them", PATIENCE_S)
        deep = self.course.last_burst // 2
        await until(lambda: len(leader.decided - self._bound_names()) >= deep, f"{deep} binds are queued", PATIENCE_S)
        takeover = self._strike(reign, leader, signal.SIGSTOP)
        wakes_s = time.monotonic() + self.course.suspended_s
        await self._arrive(self.course.urgent, priorityClassName="urgent")
        await self._succession(takeover, reign)
        await self._all_bound(self.course.room)
        await asyncio.sleep(max(0.0, wakes_s - time.monotonic()))
        self.report.held_back = len(leader.decided - self._bound_names())
        if not self.report.held_back:
            self.report.faults.append("the suspended leader had no bind left to send, so nothing was shown")
        await self.bind_by_hand(reign)
        takeover.binds = self.ledger.binds_of(reign)
        leader.process.send_signal(signal.SIGCONT)
        await self._replacement(leader)
        self._expect_code(leader, 1)
        if (now := self.ledger.binds_of(reign)) != takeover.binds:
            self.report.faults.append(f"the suspended leader bound {now - takeover.binds} pods when it woke up")
        return takeover

    async def bind_by_hand(self, reign: Reign) -> None:
        """Post a bind of a term that is over with the replicas' own credentials; in earnest only behind the fence."""
        token = yaml.safe_load(self.replicas.kubeconfig.read_text())["users"][0]["user"]["token"]
        await self.cluster.create(PODS, a_pod("by-hand", cpu=POD_CPU, scheduler="nobody"))
        metadata = {"name": "by-hand", "annotations": {TERM: reign.term}}
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-000"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = f"{PODS}/by-hand/binding" + ("" if self.report.fence else "?dryRun=All")
        headers = {"Authorization": f"Bearer {token}"}
        async with self.cluster.session.post(path, json=body, headers=headers) as answer:
            self.report.answered_by_hand(answer.status, (await answer.json()).get("message", ""))
        await self.cluster.delete(f"{PODS}/by-hand")

    async def finish(self) -> None:
        """Wait until all is said, stop the replicas, and judge."""
        left = len(self.made) - self.course.room
        await until(lambda: len(self.ledger.refused) >= left, "who does not fit is told so", PATIENCE_S)
        for code in await self.replicas.stop():
            if code != 0:
                self.report.faults.append(f"a replica that was told to stop ended with code {code}")
        await until(lambda: self.ledger.leader is None, "the lease is given back", PATIENCE_S)
        listed = await self.cluster.get(PODS)
        self.report.judge(self.ledger, read_attempts(self.plane.audit_log), listed["items"], self.course.room)
        self.report.faults += [
            f"{replica.name} has a traceback in its log" for replica in self.replicas.all if "Traceback" in replica.log
        ]

    # --- nodes and pods ---

    async def _add_nodes(self, stem: str, count: int) -> None:
        names = [f"{stem}-{number:03}" for number in range(count)]
        await each(self.cluster.create(NODES, a_node(name, cpu=NODE_CPU)) for name in names)

    async def _arrive(self, count: int, **spec: Any) -> None:
        names = [f"pod-{len(self.made) + number:04}" for number in range(count)]
        self.made += names
        await each(self.cluster.create(PODS, a_pod(name, cpu=POD_CPU, **spec)) for name in names)

    async def _burst(self, burst: int, bound: int) -> asyncio.Task[None]:
        """Let pods arrive, and return as soon as so many of them are bound, perhaps while the others still arrive."""
        want = len(self.ledger.bound) + bound
        arriving = asyncio.create_task(self._arrive(burst))
        await until(lambda: len(self.ledger.bound) >= want, f"{bound} of {burst} pods are bound", PATIENCE_S)
        return arriving

    async def _trickle(self) -> None:
        for _ in range(self.course.trickle):
            await self._arrive(1)
            await asyncio.sleep(TRICKLE_S)

    async def _all_bound(self, want: int) -> None:
        found = self.ledger.bound
        await until(lambda: len(found) >= want, f"{want} pods are bound", PATIENCE_S)

    def _bound_names(self) -> set[str]:
        return {home.pod for home in self.ledger.bound.values()}

    # --- leaders ---

    def _leader(self) -> tuple[Reign, Replica]:
        reign = self.ledger.leader
        if reign is None:
            raise DrillError("nobody leads")
        return reign, self.replicas.named(reign.holder)

    def _strike(self, reign: Reign, leader: Replica, number: signal.Signals) -> Takeover:
        takeover = Takeover(number.name, reign.term.partition("/")[0], time.monotonic())
        leader.process.send_signal(number)
        return takeover

    async def _succession(self, takeover: Takeover, reign: Reign) -> None:
        """Wait for the next leader and its first bind, and note when they came."""
        await until(lambda: self.ledger.successor(reign), "there is a new leader", PATIENCE_S)
        successor = self.ledger.successor(reign)
        assert successor is not None
        await until(lambda: self.ledger.first_bind(successor), "the new leader binds", PATIENCE_S)
        first = self.ledger.first_bind(successor)
        assert first is not None
        takeover.lease_s = successor.seen_s - takeover.struck_s
        takeover.bind_s = first.seen_s - takeover.struck_s

    async def _replacement(self, leader: Replica) -> None:
        """Start another replica when this one has ended, as a kubelet would, and wait until it stands by."""
        await until(lambda: not leader.running, f"{leader.name} has ended", PATIENCE_S)
        await self.replicas.ready(self.replicas.start(), PATIENCE_S)

    def _expect_code(self, replica: Replica, want: int) -> None:
        code = replica.process.returncode
        if code != want:
            self.report.faults.append(f"{replica.name} ended with code {code} instead of {want}")


@contextlib.asynccontextmanager
async def on_stage(
    plane: ControlPlane, course: Course, folder: Path, *, fence: bool, in_time: bool
) -> AsyncIterator[Drill]:
    """The chart installed, the judges in their places, and no replica yet."""
    values = (*PACKED, *course.values, f"fence.enabled={str(fence).lower()}")
    await asyncio.to_thread(install, plane, *values)
    ledger = Ledger(cpu_milli(NODE_CPU))
    async with Cluster(plane) as cluster:
        pods = Watch(cluster, PODS, ledger.see_pod)
        lease = Watch(cluster, LEASES, ledger.see_lease, f"metadata.name={RELEASE}")
        async with pods, lease:
            with Replicas(plane, folder) as replicas:
                report = Report(fence, in_time)
                yield Drill(course, plane, cluster, replicas, ledger, report)
                report.faults += [watch.lost for watch in (pods, lease) if watch.lost]


async def drill(plane: ControlPlane, course: Course, folder: Path, *, fence: bool, in_time: bool = True) -> Report:
    """Play it; DrillError where something does not happen at all."""
    async with on_stage(plane, course, folder, fence=fence, in_time=in_time) as play:
        await play.set_up()
        say(HEAD)
        for number in course.signals:
            play.report.add(await play.round(number))
            say(line_of(len(play.report.takeovers), play.report.takeovers[-1]))
        if course.suspended_s:
            play.report.add(await play.suspension())
            say(line_of(len(play.report.takeovers), play.report.takeovers[-1]))
        else:
            await play.bind_by_hand(play.ledger.reigns[0])
        await play.finish()
        return play.report


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fence", action="store_true", help="install the admission policy that refuses old terms")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the replicas' logs, kept")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-takeover-") as scratch, ControlPlane.start(PLANE) as plane:
            folder = options.logs or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            report = asyncio.run(drill(plane, Course(), folder, fence=options.fence))
    except (ControlPlaneError, DrillError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(report.summary())
    return int(bool(report.faults))


if __name__ == "__main__":
    sys.exit(main())
