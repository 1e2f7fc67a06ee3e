"""Pods and nodes that change between the decision and its bind."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

from tests.faults.lab import Scenario
from tests.faults.rules import BIND, FOREVER, Delay, Hold, Rule
from tests.faults.world import World

FREE_S = 1.0
SLOW = Rule(verb=BIND, times=FOREVER, act=Delay(after_s=0.8))
"""Answers to binds are late, so that binds queue up in the scheduler."""
Change = Callable[[World], Awaitable[None]]


async def pod_deleted(world: World) -> None:
    """A pod is deleted while its bind is on the way: its room is another's within a second."""
    await world.add_nodes(world.node("n0", cpu="1"))
    scheduler = await world.scheduler(rules=[Rule(verb=BIND, path="/first/", act=Hold())])
    await world.add_pods(world.pod("first", cpu="1"))
    if world.faulty:
        await scheduler.proxy.held.wait()
    else:
        await world.until(lambda: "first" in world.bound(), 30, "the first pod is bound")
    await world.add_pods(world.pod("second", cpu="1"))
    await world.delete_pods("first")
    began_s = time.monotonic()
    scheduler.proxy.release()
    await world.settled()
    world.allow(events_may_be_lost=True)
    bound_s = next(
        each.seen_s for each in world.history().of("pods") if each.name == "second" and _has_node(each.object)
    )
    world.limit("room free after s", max(0.0, bound_s - began_s), FREE_S)


async def node_changes(world: World, *, change: Change) -> None:
    """A node is not to be used any more while binds to it wait in the queue."""
    # Five of them have room for all, 110 pods each.
    await world.add_nodes(*(world.node(f"n{number}", cpu="40") for number in range(6)))
    await world.scheduler(rules=[SLOW])
    want = world.rng.randrange(20, 120)
    pods = [world.pod(f"pod-{number:04}", cpu="100m") for number in range(400)]
    await world.add_pods(*pods[:300])
    await world.until(lambda: len(world.bound()) >= want, 60, f"{want} pods are bound")
    await change(world)
    await world.add_pods(*pods[300:])
    world.figures["all bound after s"] = round(await world.settled(90), 1)


async def _delete(world: World) -> None:
    await world.delete_node("n0")


async def _cordon(world: World) -> None:
    await world.patch_node("n0", {"spec": {"unschedulable": True}})


async def _taint(world: World) -> None:
    await world.patch_node("n0", {"spec": {"taints": [{"key": "faults", "effect": "NoSchedule"}]}})


def _has_node(pod: object) -> bool:
    return bool(pod["spec"].get("nodeName"))  # type: ignore[index]


CHANGES: dict[str, Change] = {"deleted": _delete, "cordoned": _cordon, "tainted": _taint}
SCENARIOS = (
    Scenario(
        name="between:pod-deleted", row="pod deleted between decision and bind", story=pod_deleted, calm="pod-deleted"
    ),
    *(
        Scenario(
            name=f"between:node-{name}",
            row=f"node {name} while binds to it wait",
            story=partial(node_changes, change=change),
            calm=f"node-{name}",
        )
        for name, change in CHANGES.items()
    ),
)
