"""Devices under fault: schedulers die between the writes of a pod's way, drivers fail, devices go away.

Whatever happens, no device is held by two claims, every pod gets its devices in the end, and when the pods are gone all
devices are free again.
"""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial

from moorage.adapters.kube.objects import ATTEMPTS
from tests.faults.driver import Driver
from tests.faults.lab import Scenario
from tests.faults.processes import Subject, until
from tests.faults.rules import LIST, PATCH, WRITES, Drop, Rule, Stop
from tests.faults.world import Object, World

WRITE = "|".join(sorted(WRITES))
CLAIM_WRITE = r"/resourceclaims"
NO_EVENT = r"^(?!.*/events)"
CRASHES = 34
"""More than there are writes, events aside: the last one must not happen, or some would be left out."""
BINDING_TIMEOUT_S = 3
GIVEN_BACK_S = 60.0


def _config(world: World, **fields: object) -> Object:
    """Drivers that are silent are not waited for long."""
    config = world.configuration(**fields)
    arguments = {"bindingTimeout": f"{BINDING_TIMEOUT_S}s"}
    config["profiles"][0]["pluginConfig"] = [{"name": "DynamicResources", "args": arguments}]
    return config


async def _handful(world: World, driver: Driver) -> None:
    """Pods of every kind: from a template, two that share a claim, extended resources, a driver that fails."""
    await driver.add_template("one")
    await driver.add_template("fails", awaiting=True)
    await driver.add_claim("shared")
    pods = [
        driver.pod("template", template="one"),
        driver.pod("shares-a", claim="shared"),
        driver.pod("shares-b", claim="shared"),
        driver.pod("extended", extended=2),
        driver.pod("fails", template="fails"),
    ]
    world.rng.shuffle(pods)
    await world.add_pods(*pods)


async def _over(world: World, driver: Driver, within_s: float) -> None:
    """All are bound and have their devices; then all go, and so does what they held."""
    world.figures["settled after s"] = round(await world.settled(within_s), 1)
    world.figures["conditions"] = driver.set_conditions
    await world.delete_pods(*world.pods())
    await world.until(lambda: not driver.holders, GIVEN_BACK_S, "all devices are given back")
    for claim in driver.holders:
        status = claim["status"]
        world.breaches.append(f"{claim['metadata']['name']} still holds devices for {status.get('reservedFor')}")


async def crash_at(world: World, k: int) -> None:
    """The scheduler is killed after its k-th write, and another one finishes."""
    world.allow(events_may_be_lost=True)
    async with Driver(world, nodes=2, devices=4, awaited=1) as driver:
        await _handful(world, driver)
        first = await world.scheduler(config=_config(world), rules=[Rule(verb=WRITE, path=NO_EVENT, nth=k, act=Stop())])
        await until(lambda: first.proxy.reached.is_set() or world.is_settled(), 30)
        world.claim(k < CRASHES or not first.proxy.reached.is_set(), f"there are {k} writes or more")
        await first.kill()
        await world.scheduler(config=_config(world))
        await _over(world, driver, 60)


async def many(world: World, pods: int = 200) -> None:
    """Pods of every kind; drivers fail or are silent, devices go away, and the scheduler is killed three times."""
    world.allow(events_may_be_lost=True)
    async with Driver(world, nodes=10, devices=pods // 5, awaited=pods // 20) as driver:
        await driver.add_template("one")
        for name in ("ready", "fails", "silent"):
            await driver.add_template(name, awaiting=True)
        for number in range(pods // 20):
            await driver.add_claim(f"shared-{number}")
        made = [_one_of_many(driver, number, pods) for number in range(pods)]
        world.rng.shuffle(made)
        arriving = asyncio.ensure_future(world.add_pods(*made))
        for number in range(3):
            rule = Rule(verb=WRITE, path=CLAIM_WRITE, nth=world.rng.randrange(5, pods // 4), act=Stop())
            scheduler = await world.scheduler(config=_config(world), rules=[rule])
            await until(lambda: scheduler.proxy.reached.is_set() or world.is_settled(), 60)  # noqa: B023 - at once
            await scheduler.kill()
            await driver.take_away(f"n{number}", number)
        await arriving
        await world.scheduler(config=_config(world))
        await _over(world, driver, 180)


def _one_of_many(driver: Driver, number: int, pods: int) -> Object:
    kind = number % 10
    if kind < 4:
        return driver.pod(f"template-{number}", template="one")
    if kind < 6:
        return driver.pod(f"shares-{number}", claim=f"shared-{number % (pods // 20)}")
    if kind < 8:
        return driver.pod(f"extended-{number}", extended=1 + number % 3)
    name = ("ready", "ready", "fails", "silent")[number % 4]
    return driver.pod(f"{name}-{number}", template=name)


async def _replicas(world: World, rules: tuple[Rule, ...] = ()) -> tuple[Subject, Subject]:
    config = _config(world, leaderElection=world.election())
    leader = await world.scheduler(config=config, rules=rules)
    await leader.says("became leader|acquired the lease")
    return leader, await world.scheduler(config=config)


async def takeover(world: World) -> None:
    """Of two replicas the leader is killed after a write to a claim: the other goes on, and no device is held twice."""
    world.allow(events_may_be_lost=True)
    async with Driver(world, nodes=4, devices=10, awaited=2) as driver:
        stop = Rule(verb=WRITE, path=CLAIM_WRITE, nth=world.rng.randrange(1, 40), act=Stop())
        leader, _ = await _replicas(world, (stop,))
        await _burst(world, driver, 24)
        await until(leader.proxy.reached.is_set, 30)
        await leader.kill()
        await _over(world, driver, 90)


async def suspended(world: World) -> None:
    """The leader is suspended amid its writes to claims until the other leads: when it wakes up, it writes nothing."""
    world.allow(events_may_be_lost=True)
    async with Driver(world, nodes=4, devices=10, awaited=2) as driver:
        leader, standby = await _replicas(world)
        await driver.add_template("one")
        want = world.rng.randrange(1, 12)
        arriving = asyncio.ensure_future(_burst(world, driver, 24))
        await world.until(lambda: len(driver.claims) >= want, 30, f"{want} claims are there")
        leader.may_end = True
        leader.signal(signal.SIGSTOP)
        await arriving
        began_s = time.monotonic()
        await until(lambda: standby.proxy.binds > 0 or world.is_settled(), 40)
        world.figures["takeover s"] = round(time.monotonic() - began_s, 1)
        leader.signal(signal.SIGCONT)
        await _over(world, driver, 90)


async def answers_cut(world: World) -> None:
    """All answers to a write are cut off, and the watch is behind: no other claim gets the device that it has given."""
    world.allow(events_may_be_lost=True)
    async with Driver(world, nodes=1, devices=2) as driver:
        for name in ("first", "second"):
            await driver.add_claim(name, protected=True)
        written = r"/resourceclaims/first/status"
        scheduler = await world.scheduler(
            config=_config(world), rules=[Rule(verb=PATCH, path=written, times=ATTEMPTS, act=Drop())]
        )
        scheduler.proxy.freeze("/resourceclaims$")
        await world.add_pods(driver.pod("a", claim="first"))
        await world.until(
            lambda: scheduler.proxy.count(LIST, f"/{world.name}/resourceclaims$") > 0, 30, "the claim is read"
        )
        world.claim(scheduler.proxy.count(PATCH, written) == ATTEMPTS, f"written {ATTEMPTS} times before")
        await world.add_pods(driver.pod("b", claim="second"))
        await world.until(lambda: scheduler.proxy.count(PATCH, "/second/status") > 0, 30, "the other one is served")
        scheduler.proxy.thaw()
        await _over(world, driver, 60)


async def _burst(world: World, driver: Driver, pods: int) -> None:
    await driver.add_claim("shared")
    await driver.add_template("each")
    await driver.add_template("ready", awaiting=True)
    made = [driver.pod(f"each-{number}", template="each") for number in range(pods // 2)]
    made += [driver.pod(f"ready-{number}", template="ready") for number in range(pods // 6)]
    made += [driver.pod(f"extended-{number}", extended=1) for number in range(pods // 6)]
    made += [driver.pod(f"shares-{number}", claim="shared") for number in range(pods // 6)]
    await world.add_pods(*made)


SCENARIOS = (
    *(
        Scenario(
            name=f"devices:crash:{k:02}",
            row=f"scheduler killed after write {k} for pods with devices",
            story=partial(crash_at, k=k),
            place="controllers",
        )
        for k in range(1, CRASHES + 1)
    ),
    Scenario(name="devices:many", row="200 pods, drivers fail, three crashes", story=many, place="controllers"),
    Scenario(name="devices:cut", row="answers to claims cut, watch behind", story=answers_cut, place="controllers"),
    Scenario(name="devices:takeover", row="leader killed between claims", story=takeover, place="controllers"),
    Scenario(name="devices:suspended", row="leader suspended between claims", story=suspended, place="controllers"),
)
