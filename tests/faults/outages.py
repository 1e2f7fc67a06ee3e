"""The API server goes away, or takes no token: what runs goes on by itself when it is back."""

from __future__ import annotations

import asyncio
import time

from tests.faults import workloads
from tests.faults.lab import Scenario
from tests.faults.processes import until
from tests.faults.world import World

AWAY_S = 30.0
AGAIN_S = 10.0
"""How long after the server is ready the first bind comes."""
EXPIRED_S = 30.0


async def killed(world: World) -> None:
    """The API server is killed amid a burst of 500 and comes back after 30 s."""
    await _killed(world, compacted=False)


async def compacted(world: World) -> None:
    """The same, and etcd has forgotten every revision meanwhile: all versions are too old."""
    await _killed(world, compacted=True, away_s=3.0, count=200)


async def _killed(world: World, *, compacted: bool, away_s: float = AWAY_S, count: int = 500) -> None:
    world.allow(gaps=True, events_may_be_lost=True)
    scheduler = await world.scheduler()
    nodes = [world.node(f"n{number}", cpu="16") for number in range(10)]
    await world.add_nodes(*nodes)
    pods = [world.pod(f"pod-{number:04}", cpu="100m") for number in range(count)]
    # Half of them are there when the server goes, and none can come while it is away.
    await world.add_pods(*pods[: count // 2])
    want = world.rng.randrange(count // 8, count // 3)
    await world.until(lambda: len(world.bound()) >= want, 60, f"{want} pods are bound")
    await asyncio.to_thread(world.plane.kill_server)
    if compacted:
        await asyncio.to_thread(world.plane.compact)
    await asyncio.sleep(away_s)
    await asyncio.to_thread(world.plane.start_server)
    ready_s, before = time.monotonic(), scheduler.proxy.binds
    await world.add_pods(*pods[count // 2 :])
    await until(lambda: scheduler.proxy.binds > before, 90)
    world.limit("binding again after s", time.monotonic() - ready_s, AGAIN_S)
    await world.settled(120)
    world.figures["all bound after s"] = round(time.monotonic() - ready_s, 1)
    await world.same_cache(scheduler, 20.0)


async def at_start(world: World) -> None:
    """A process that is started while the API server is away waits for it."""
    world.allow(gaps=True)
    await workloads.burst(world, 10, 2)
    await asyncio.to_thread(world.plane.kill_server)
    scheduler = await world.scheduler(ready=False)
    await asyncio.sleep(8.0)
    world.claim(scheduler.child.running, f"it ended: {scheduler.child.complaint()}")
    await asyncio.to_thread(world.plane.start_server)
    world.limit("bound after s", await world.settled(90), 2 * AGAIN_S)


async def token(world: World) -> None:
    """The token expires, and another one is on the disk 30 s later."""
    file = world.folder / "token"
    file.write_text("first")
    scheduler = await world.scheduler(token_file=file, ready=False)
    scheduler.proxy.accepts = "first"
    world.claim(await scheduler.ready(), "it never became ready")
    await workloads.burst(world, 20, 4)
    await world.settled()
    await world.add_nodes(world.node("late"))
    scheduler.proxy.accepts = "second"
    scheduler.proxy.cut("")
    await world.add_pods(*(world.pod(f"later-{number}", cpu="100m") for number in range(10)))
    await asyncio.sleep(EXPIRED_S)
    file.write_text("second")
    world.figures["bound after s"] = round(await world.settled(90), 1)


SCENARIOS = (
    Scenario(name="outage:killed", row="API server killed for 30 s amid 500 pods", story=killed, place="fresh"),
    Scenario(name="outage:compaction", row="API server killed and etcd compacted", story=compacted, place="fresh"),
    Scenario(name="outage:at-start", row="started while the API server is away", story=at_start, place="fresh"),
    Scenario(name="outage:token", row="token expired for 30 s, then renewed on disk", story=token),
)
