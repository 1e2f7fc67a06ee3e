"""The three patterns of Sieve (OSDI '22) for the scheduler; those of keeper and webhook are in modules of their own.

A crash after every single write; a view that stands still while objects of the same name are replaced; an event that is
missed because a later one cancels it.
"""

from __future__ import annotations

import asyncio
from functools import partial

from tests.faults import workloads
from tests.faults.lab import Scenario
from tests.faults.processes import until
from tests.faults.rules import BIND, FOREVER, WRITES, Answer, Hold, Rule, Stop
from tests.faults.world import World

WRITE = "|".join(sorted(WRITES))
CRASHES = 18
"""More than there are writes: the last one must not happen, or some would be left out."""


async def crash_at(world: World, k: int) -> None:
    """The scheduler is killed after its k-th write, and another one finishes."""
    world.allow(events_may_be_lost=True)
    await workloads.tiny(world)
    first = await world.scheduler(rules=[Rule(verb=WRITE, nth=k, act=Stop())])
    if world.faulty:
        await until(lambda: first.proxy.reached.is_set() or world.is_settled(), 30)
        # The last writes are events, which may come a little later.
        await until(first.proxy.reached.is_set, 3)
        world.claim(k < CRASHES or not first.proxy.reached.is_set(), f"there are {k} writes or more")
        await first.kill()
        await world.scheduler()
    world.figures["settled after s"] = round(await world.settled(45), 1)


async def replaced_pod(world: World) -> None:
    """While the bind of a pod is on its way, it is replaced by one of the same name with other needs."""
    big = {"role": "big"}
    await world.add_nodes(world.node("small", cpu="1"), world.node("big", cpu="8", labels=big))
    scheduler = await world.scheduler(rules=[Rule(verb=BIND, path="/same/", act=Hold())])
    await world.add_pods(world.pod("same", cpu="500m"))
    if world.faulty:
        await scheduler.proxy.held.wait()
        scheduler.proxy.freeze("/pods$")
    await world.cluster.delete(f"{world.pods_path}/same")
    world.allow(removed=frozenset({"same"}))
    await world.add_pods(world.pod("same", cpu="4"))
    scheduler.proxy.release()
    await asyncio.sleep(1.0 if world.faulty else 0.0)
    scheduler.proxy.thaw()
    await world.settled()


async def replaced_node(world: World) -> None:
    """Nodes are replaced by smaller ones of the same name while nobody hears of it; then all is heard at once."""
    await world.add_nodes(world.node("n0", cpu="4"), world.node("n1", cpu="1"))
    scheduler = await world.scheduler()
    await world.add_pods(world.pod("first", cpu="500m"))
    await world.settled()
    if world.faulty:
        scheduler.proxy.freeze(r"/nodes$")
    await world.delete_pods("first")
    await world.delete_node("n0")
    await world.add_nodes(world.node("n0", cpu="500m"))
    await asyncio.sleep(1.0 if world.faulty else 0.0)
    scheduler.proxy.thaw()
    await world.same_cache(scheduler, 10.0)
    await world.add_pods(world.pod("large", cpu="800m"))
    await world.settled()  # else the little one may take the only node that has room for it
    await world.add_pods(world.pod("little", cpu="400m"))
    await world.settled()


async def missed_events(world: World) -> None:
    """While watches are down a node is cordoned and opened, a pod bound and gone, another one replaced."""
    await world.add_nodes(world.node("n0", cpu="1"), world.node("n1", cpu="1"))
    scheduler = await world.scheduler()
    await world.add_pods(world.pod("same", cpu="1"))
    await world.settled()
    down = Rule(verb="watch|list", path=r"/(pods|nodes)$", times=FOREVER, act=Answer(503))
    if world.faulty:
        scheduler.proxy.add(down)
        scheduler.proxy.cut(r"/(pods|nodes)$")
        await asyncio.sleep(0.3)
    home = world.pods()["same"]["spec"]["nodeName"].removeprefix(f"{world.name}-")
    await world.patch_node(home, {"spec": {"unschedulable": True}})
    await world.patch_node(home, {"spec": {"unschedulable": None}})
    await world.add_pods(world.pod("passing", cpu="1", nodeName=f"{world.name}-n{1 - int(home[1])}"), wanted=False)
    await world.delete_pods("passing")
    await world.cluster.delete(f"{world.pods_path}/same")
    world.allow(removed=world.terms.removed | {"same"})
    await world.add_pods(world.pod("same", cpu="1"), world.pod("other", cpu="1"))
    scheduler.proxy.remove(down)
    world.figures["settled after s"] = round(await world.settled(), 1)
    await world.same_cache(scheduler, 10.0)


SCENARIOS = (
    *(
        Scenario(
            name=f"sieve:scheduler:crash:{k:02}",
            row=f"scheduler killed after write {k}",
            story=partial(crash_at, k=k),
            calm="tiny",
        )
        for k in range(1, CRASHES + 1)
    ),
    Scenario(
        name="sieve:scheduler:replaced-pod",
        row="pod replaced behind a frozen view",
        story=replaced_pod,
        calm="replaced-pod",
    ),
    Scenario(
        name="sieve:scheduler:replaced-node",
        row="node replaced behind a frozen view",
        story=replaced_node,
        calm="replaced-node",
    ),
    Scenario(
        name="sieve:scheduler:missed", row="events missed that later ones cancel", story=missed_events, calm="missed"
    ),
)
