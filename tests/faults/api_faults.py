"""What the API server's answers and watches may do: data, and a story that plays them on a small world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from tests.faults import workloads
from tests.faults.lab import Scenario
from tests.faults.rules import BIND, FOREVER, PATCH, WATCH, Answer, Delay, Drop, Expire, Rule, Truncate
from tests.faults.world import World

PODS, NODES = r"/api/v1/pods$", r"/api/v1/nodes$"
SAME_S = 10.0
"""How long until the cache is what a fresh list says."""
Rules = Callable[[random.Random], list[Rule]]


async def answers(world: World, *, rules: Rules) -> None:
    """A small world behind a proxy with these rules."""
    await workloads.mixed(world)
    scheduler = await world.scheduler(rules=rules(random.Random(world.seed)))
    world.figures["bound after s"] = round(await world.settled(), 1)
    binds = scheduler.proxy.count(BIND)
    decided = scheduler.text.count("Attempting to bind pod to node")
    world.claim(binds <= decided, f"{binds} binds were posted for {decided} decisions")
    world.figures["binds"] = binds


async def told_to_wait(world: World) -> None:
    """429 with Retry-After: the same request does not come again before it may."""
    wait_s = world.rng.choice((1, 2))
    rule = Rule(verb=BIND, nth=world.rng.randrange(1, 4), times=3, act=Answer(429, retry_after_s=wait_s))
    await workloads.mixed(world)
    scheduler = await world.scheduler(rules=[rule])
    world.figures["bound after s"] = round(await world.settled(), 1)
    told = {each.path: each.came_s for each in scheduler.proxy.exchanges if each.status == 429}
    again = [(each.path, each.came_s) for each in scheduler.proxy.exchanges if each.verb == BIND and each.forwarded]
    early = [path for path, came_s in again if path in told and 0 < came_s - told[path] < wait_s - 0.1]
    world.claim(not early, f"came again before the {wait_s} s were over: {early}")


async def events_under_way(world: World) -> None:
    """Events are slow, and the scheduler is told to stop while they are on their way: none is written twice."""
    delay = Rule(verb="create", path="/events", times=FOREVER, act=Delay(after_s=world.rng.uniform(1.0, 5.0)))
    world.allow(events_may_be_lost=True)
    await workloads.mixed(world)
    scheduler = await world.scheduler(rules=[delay])
    await world.until(world.is_settled, 60, "all are bound")
    await scheduler.stop()
    await asyncio.sleep(1.0)


async def swept(world: World) -> None:
    """Events take longer than the 30 s after which the scheduler looks for those that were not written."""
    rule = Rule(verb="create", path="/events", times=FOREVER, act=Delay(after_s=35.0))
    await workloads.mixed(world)
    await world.scheduler(rules=[rule])
    await world.settled()
    await asyncio.sleep(38.0 if world.faulty else 0.0)


async def watches(world: World, *, act: Callable[[random.Random], Expire | Truncate | Answer], kind: str) -> None:
    """Watches end in a bad way amid a burst, over and over; then the cache is compared with what is there."""
    rule = Rule(verb=WATCH, path=kind, nth=2, times=6, act=act(world.rng))
    scheduler = await world.scheduler(rules=[rule])
    await workloads.burst(world, 40)
    for _ in range(6):
        await asyncio.sleep(0.3)
        scheduler.proxy.cut(kind)
    await world.settled()
    scheduler.proxy.remove(rule)
    await world.delete_pods(*sorted(world.wanted)[::4])
    world.limit("same cache after s", await world.same_cache(scheduler, 3 * SAME_S), SAME_S)


async def frozen(world: World) -> None:
    """The watches of pods and nodes stand still for three seconds, while both come and go."""
    await workloads.burst(world, 20)
    scheduler = await world.scheduler()
    await world.settled()
    if world.faulty:
        scheduler.proxy.freeze(r"/(pods|nodes)$")
    await world.delete_pods(*sorted(world.wanted)[::3])
    await world.add_nodes(world.node("late"))
    await asyncio.sleep(3.0 if world.faulty else 0.0)
    scheduler.proxy.thaw()
    await world.add_pods(*(world.pod(f"later-{number}", cpu="100m") for number in range(10)))
    await world.settled()
    world.limit("same cache after s", await world.same_cache(scheduler, 3 * SAME_S), SAME_S)


async def silent(world: World) -> None:
    """A connection that is dead and says nothing: no byte of either watch comes any more."""
    await workloads.burst(world, 10)
    scheduler = await world.scheduler()
    await world.settled()
    if world.faulty:
        # Watches that are opened from now on are well; the silent ones have to be given up by the scheduler itself.
        scheduler.proxy.silence(r"/(pods|nodes)$")
    await world.delete_pods(*sorted(world.wanted)[::3])
    await world.add_nodes(world.node("late"))
    world.limit("same cache after s", await world.same_cache(scheduler, 120.0), 90.0 + SAME_S)
    await world.add_pods(*(world.pod(f"later-{number}", cpu="100m") for number in range(4)))
    await world.settled()


async def html_404(world: World) -> None:
    """A load balancer answers 404 in HTML to the watches of pods and nodes: nothing that is known is forgotten."""
    await workloads.burst(world, 20, 4)
    scheduler = await world.scheduler()
    await world.settled()
    rule = Rule(verb="watch|list", path=r"/(pods|nodes)$", times=FOREVER, act=Answer(404, html=True))
    if world.faulty:
        scheduler.proxy.add(rule)
        scheduler.proxy.cut(r"/(pods|nodes)$")
        await asyncio.sleep(1.0)
        world.limit("same cache after s", await world.same_cache(scheduler, SAME_S), 1.0)
    scheduler.proxy.remove(rule)
    # The nodes are full but for a little: who forgot the pods would overcommit now.
    await world.add_pods(*(world.pod(f"later-{number}", cpu="200m") for number in range(8)))
    world.limit("bound again after s", await world.settled(), SAME_S)


def _nth(rng: random.Random, act: Answer | Drop | Delay, verb: str, times: int = 3) -> list[Rule]:
    return [Rule(verb=verb, nth=rng.randrange(1, 6), times=times, act=act)]


ANSWERS: dict[str, tuple[str, Rules]] = {
    "bind-500": ("binds get 500 before effect", lambda rng: _nth(rng, Answer(500), BIND)),
    "bind-503": ("binds get 503 before effect", lambda rng: _nth(rng, Answer(503), BIND, 5)),
    "bind-500-after": ("binds get 500 after effect", lambda rng: _nth(rng, Answer(500, after=True), BIND)),
    "bind-lost": ("answers to binds are lost", lambda rng: _nth(rng, Drop(), BIND, 4)),
    "bind-409": ("binds get 409", lambda rng: _nth(rng, Answer(409), BIND, 2)),
    "bind-404": ("binds get 404 although the pod is there", lambda rng: _nth(rng, Answer(404), BIND, 2)),
    "bind-slow": ("binds take 2 s", lambda rng: _nth(rng, Delay(after_s=2.0), BIND, 6)),
    "patch-500": ("status patches get 500", lambda rng: _nth(rng, Answer(500), PATCH)),
    "patch-lost": ("answers to status patches are lost", lambda rng: _nth(rng, Drop(), PATCH)),
    "delete-lost": (
        "answers to evictions are lost",
        lambda _rng: [Rule(verb="delete", path="/pods/", times=2, act=Drop())],
    ),
    "delete-500": ("evictions get 500", lambda _rng: [Rule(verb="delete", path="/pods/", times=2, act=Answer(500))]),
    "events-slow": (
        "events take 3 s",
        lambda _rng: [Rule(verb="create", path="/events", times=FOREVER, act=Delay(after_s=3.0))],
    ),
    "events-lost": (
        "answers to events are lost",
        lambda rng: [Rule(verb="create", path="/events", nth=rng.randrange(1, 4), times=3, act=Drop())],
    ),
    "reads-503": (
        "reads of single pods get 503",
        lambda rng: [*_nth(rng, Drop(), BIND, 2), Rule(verb="get", path="/pods/", times=2, act=Answer(503))],
    ),
}
WATCHES: dict[str, tuple[str, Callable[[random.Random], Expire | Truncate | Answer]]] = {
    "410": ("410 in the stream", lambda rng: Expire(rng.randrange(4))),
    "410-answer": ("410 as the answer to a watch", lambda _rng: Answer(410)),
    "truncated": ("watches are cut amid an event", lambda rng: Truncate(rng.randrange(1, 4000))),
    "500": ("watches get 500", lambda _rng: Answer(500)),
}

SCENARIOS = (
    *(
        Scenario(name=f"answer:{name}", row=row, story=partial(answers, rules=rules), calm="mixed")
        for name, (row, rules) in ANSWERS.items()
    ),
    Scenario(name="answer:events-stop", row="told to stop while events are slow", story=events_under_way, calm="mixed"),
    Scenario(name="answer:events-swept", row="events that take 35 s", story=swept, calm="mixed"),
    Scenario(name="answer:429", row="429 with Retry-After", story=told_to_wait, calm="mixed"),
    *(
        Scenario(
            name=f"watch:{name}:{what}",
            row=f"{row}, of {what}",
            story=partial(watches, act=act, kind=kind),
            calm="watch",
        )
        for name, (row, act) in WATCHES.items()
        for what, kind in (("pods", PODS), ("nodes", NODES))
    ),
    Scenario(name="watch:frozen", row="watches frozen for 3 s", story=frozen, calm="frozen"),
    Scenario(name="watch:silent", row="watches silent", story=silent, calm="silent"),
    Scenario(name="watch:html-404", row="404 in HTML", story=html_404, calm="html-404"),
)
