"""Leaders that die, are suspended, or get no CPU; a standby that has not heard anything for a while."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.faults import workloads
from tests.faults.lab import Scenario
from tests.faults.processes import Subject, until
from tests.faults.rules import BIND, Rule, Stop
from tests.faults.world import World

TAKEOVER_S = 20.0
"""From the signal to the next leader's first bind, as in the takeover drill: the lease lives for 15 s."""
STARVED_S = 20.0


async def _pair(world: World, rules: tuple[Rule, ...] = ()) -> tuple[Subject, Subject]:
    """A leader, behind these rules, and a standby; leadership is settled."""
    config = world.configuration(leaderElection=world.election())
    leader = await world.scheduler(config=config, rules=rules)
    await _leads(world, leader)
    return leader, await world.scheduler(config=config)


async def _leads(world: World, subject: Subject) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.name}/leases/scheduler"
    for _ in range(600):
        try:
            holder = (await world.cluster.get(path))["spec"].get("holderIdentity") or ""
        except FileNotFoundError:
            holder = ""
        if holder and holder in subject.text:
            return
        await asyncio.sleep(0.1)
    world.breaches.append(f"{subject.name} never led")


async def _succeeded(world: World, began_s: float, standby: Subject) -> None:
    """Wait for the standby's first bind, and note how long it took."""
    await until(lambda: standby.proxy.binds > 0, 2 * TAKEOVER_S)
    world.limit("takeover s", time.monotonic() - began_s, TAKEOVER_S)


async def killed(world: World) -> None:
    """The leader is killed amid the binds of a gang."""
    world.allow(events_may_be_lost=True)
    leader, standby = await _pair(world, (Rule(verb=BIND, nth=world.rng.randrange(1, 12), act=Stop()),))
    await workloads.mixed(world)
    await world.add_pods(*(world.pod(f"more-{number}", cpu="50m") for number in range(12)))
    if world.faulty:
        await until(leader.proxy.reached.is_set, 30)
        began_s = time.monotonic()
        await leader.kill()
        await _succeeded(world, began_s, standby)
    await world.settled()


async def suspended(world: World) -> None:
    """The leader is suspended for 20 s amid a burst; when it wakes up, it binds nothing and ends."""
    world.allow(events_may_be_lost=True)
    leader, standby = await _pair(world)
    want = world.rng.randrange(5, 40)
    arriving = asyncio.ensure_future(workloads.burst(world, 120))
    await world.until(lambda: len(world.bound()) >= want, 60, f"{want} pods are bound")
    began_s = time.monotonic()
    if world.faulty:
        leader.may_end = True
        leader.signal(signal.SIGSTOP)
        await arriving
        await world.add_pods(*(world.pod(f"more-{number}", cpu="10m") for number in range(10)))
        await _succeeded(world, began_s, standby)
        await asyncio.sleep(max(0.0, began_s + STARVED_S - time.monotonic()))
        leader.signal(signal.SIGCONT)
        await until(lambda: not leader.child.running, 20)
        world.claim(leader.child.exit_code == 1, f"the old leader ended with {leader.child.exit_code} instead of 1")
    else:
        await arriving
        await world.add_pods(*(world.pod(f"more-{number}", cpu="10m") for number in range(10)))
    await world.settled()


async def starved(world: World) -> None:
    """The leader gets a tenth of a CPU for 20 s: whichever replica leads, every pod is bound once."""
    world.allow(events_may_be_lost=True)
    leader, _ = await _pair(world)
    arriving = asyncio.ensure_future(workloads.burst(world, 120))
    if world.faulty:
        leader.may_end = True
        ends_s = time.monotonic() + STARVED_S
        while time.monotonic() < ends_s and leader.child.running:
            leader.signal(signal.SIGSTOP)
            await asyncio.sleep(0.45)
            leader.signal(signal.SIGCONT)
            await asyncio.sleep(0.05)
    await arriving
    world.figures["all bound after s"] = round(await world.settled(), 1)


async def stale_standby(world: World) -> None:
    """A standby whose watches stand still takes over: what the leader did meanwhile is known to it all the same."""
    world.allow(events_may_be_lost=True)
    leader, standby = await _pair(world)
    if world.faulty:
        standby.proxy.silence(r"/(pods|nodes)$")
    # Every node is full but for one pod's room: a leader that missed the first ones would overcommit.
    await workloads.burst(world, 40, 4)
    await world.settled()
    began_s = time.monotonic()
    await leader.stop() if not world.seed % 2 else await leader.kill()
    await world.add_pods(*(world.pod(f"later-{number}", cpu="100m") for number in range(16)))
    if world.faulty:
        await _succeeded(world, began_s, standby)
    await world.settled()


SCENARIOS = (
    Scenario(name="leader:killed", row="leader killed amid a gang", story=killed, calm="leader"),
    Scenario(name="leader:suspended", row="leader suspended for 20 s", story=suspended, calm="suspended"),
    Scenario(name="leader:starved", row="leader starved of CPU for 20 s", story=starved, calm="starved"),
    Scenario(
        name="leader:stale-standby", row="standby with frozen watches takes over", story=stale_standby, calm="stale"
    ),
)
