"""Pods that a hostile or careless tenant makes, the same for the same seed, and what they must not do to others."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from tests.faults.history import node_of
from tests.faults.lab import Scenario
from tests.faults.processes import Subject
from tests.faults.rules import BIND, FOREVER, Delay, Rule
from tests.faults.stopwatch import Waits, writes
from tests.faults.world import Object, World

STRATEGY = "smart-scheduler.io/schedule-strategy"
LARGE = 200_000
"""Bytes of a large annotation; the API server takes 256 KiB in all."""
GOOD, EVIL = 2000, 2000
PER_S = 30.0
"""How many pods are made in a second, at most."""
SLACK, P50_S, P99_S = 1.5, 0.1, 0.5
"""How much longer good pods may wait among hostile ones than among others: so many times, and so many seconds more."""
CPU_MS, WRITES = 10.0, 4.0
"""What a hostile pod may cost: CPU of the scheduler, and requests of it, which cost the API server something."""
MEMORY_BYTES = 256 << 20
"""What docs/operate.md says a scheduler of a cluster with 10,000 pods needs."""
EVENTS_PER_S = 5.0

Maker = Callable[[random.Random, Object], None]


def _resources(rng: random.Random, pod: Object) -> None:
    names = {f"evil.example/r{rng.randrange(10**9)}": "1" for _ in range(300)}
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] |= names
    resources["limits"] = names


def _enormous(rng: random.Random, pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": rng.choice(("9E", "9P", "900M")), "memory": "7Ei"}


def _terms(rng: random.Random, pod: Object) -> None:
    def term(number: int) -> Object:
        selector = {"matchLabels": {"app": f"evil-{number}-{rng.randrange(10**6)}"}}
        return {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}

    kind = rng.choice(("required", "preferred"))
    terms: list[Any] = [term(number) for number in range(300)]
    if kind == "preferred":
        terms = [{"weight": 1, "podAffinityTerm": each} for each in terms]
    pod["spec"]["affinity"] = {"podAntiAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": terms}}


def _spread(rng: random.Random, pod: Object) -> None:
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": f"evil.example/{rng.randrange(10**9)}",
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": f"evil-{number}"}},
        }
        for number in range(200)
    ]


def _strategy(rng: random.Random, pod: Object) -> None:
    rule = f"weight={rng.randrange(9)},nodeSelector=a{rng.randrange(9)}:b;"
    pod["metadata"]["annotations"][STRATEGY] = rule * (rng.choice((200, 2000, LARGE)) // len(rule))


def _annotations(rng: random.Random, pod: Object) -> None:
    deep = "[" * rng.choice((100, 5000, LARGE))
    pod["metadata"]["annotations"] |= {"moorage.dev/priority": deep, "moorage.dev/fallback-from": deep[:1000]}


def _gang(rng: random.Random, pod: Object) -> None:
    size = rng.choice(("-1", "0", "3", "99999999999999999999", "many"))
    group = f"evil-{rng.randrange(40)}"
    pod["metadata"]["annotations"] |= {"moorage.dev/pod-group": group, "moorage.dev/pod-group-min-available": size}


def _tolerations(rng: random.Random, pod: Object) -> None:
    pod["spec"]["tolerations"] = [{"key": f"t{rng.randrange(10**9)}", "operator": "Exists"} for _ in range(1000)]


def _selectors(rng: random.Random, pod: Object) -> None:
    values = [f"v{rng.randrange(10**9)}" for _ in range(1000)]
    expressions = [{"key": f"evil.example/{n}", "operator": "NotIn", "values": values[:50]} for n in range(20)]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for _ in range(5)]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _ports(rng: random.Random, pod: Object) -> None:
    first = rng.randrange(1024, 60000)
    ports = [{"containerPort": first + number, "hostPort": first + number} for number in range(200)]
    pod["spec"]["containers"][0]["ports"] = ports


def _labels(rng: random.Random, pod: Object) -> None:
    pod["metadata"]["labels"] |= {f"evil.example/{rng.randrange(10**9)}": "x" * 63 for _ in range(200)}


MAKERS: dict[str, Maker] = {
    "resources": _resources,
    "enormous": _enormous,
    "terms": _terms,
    "spread": _spread,
    "strategy": _strategy,
    "annotations": _annotations,
    "gang": _gang,
    "tolerations": _tolerations,
    "selectors": _selectors,
    "ports": _ports,
    "labels": _labels,
}


def hostile_pods(world: World, namespace: str, count: int) -> list[Object]:
    """So many pods of all kinds, in a namespace of their own."""
    rng = random.Random(world.seed)
    found = []
    for number in range(count):
        kind = rng.choice(list(MAKERS))
        pod = world.pod(f"evil-{number:05}-{kind}", cpu="1m")
        pod["metadata"]["namespace"] = namespace
        MAKERS[kind](rng, pod)
        found.append(pod)
    return found


def _harmless(pod: Object) -> Object:
    """The same pod, but nobody's business: the API server has as much trouble to take it."""
    return {**pod, "spec": {**pod["spec"], "schedulerName": "nobody"}}


async def among_hostile(world: World) -> None:
    """2,000 good pods among as many that are nobody's business, and then among hostile ones: they are bound as fast.

    Both times the very same objects are made, in one order and at one pace. Delays are by the API server's own clock,
    and the scheduler talks to it directly: this process has much to do with large objects, and would be late with them.

    Writes of large objects keep the API server busy (twice the CPU as if nobody scheduled them), and while it is,
    everybody's requests wait in it, whichever scheduler runs. So its share of the delays, by what it took to create the
    good pods in the same minutes, is left out; and what the scheduler adds to its work, and to its own, is bounded.
    """
    world.allow(events_may_be_lost=True, ours=frozenset({world.name}))
    evil = await world.add_namespace("evil")
    await world.add_nodes(*(world.node(f"n{number:02}", cpu="32") for number in range(40)))
    scheduler = await world.scheduler(direct=True)
    hostile = hostile_pods(world, evil, EVIL)
    # Whatever becomes of them: much of it is beyond a limit, or fits nowhere.
    world.allow(pending=frozenset(pod["metadata"]["name"] for pod in hostile))
    calm = await _good_ones(world, "calm", [_harmless(pod) for pod in hostile], scheduler)
    await world.each(world.cluster.delete(f"/api/v1/namespaces/{evil}/pods/{_name(pod)}") for pod in hostile)
    among = await _good_ones(world, "among", hostile, scheduler)
    world.figures["peak MiB"] = scheduler.peak_bytes >> 20
    world.limit("own p50 s", among.own_s(0.5), calm.own_s(0.5) * SLACK + P50_S)
    world.limit("own p99 s", among.own_s(0.99), calm.own_s(0.99) * SLACK + P99_S)
    cpu_s = world.figures["among CPU s"] - world.figures["calm CPU s"]
    world.limit("CPU ms a hostile pod", 1000 * cpu_s / EVIL, CPU_MS)
    world.limit("writes a hostile pod", writes(world.plane.audit_log, evil, "moorage") / EVIL, WRITES)


async def _good_ones(world: World, stem: str, others: list[Object], scheduler: Subject) -> Waits:
    """Good pods and others come in a mixed order; how long the good ones waited for their nodes."""
    began_cpu_s = scheduler.cpu_s
    good = [world.pod(f"{stem}-{number:04}", cpu="10m") for number in range(GOOD)]
    world.wanted |= set(map(_name, good))
    mixed = [*good, *others]
    random.Random(world.seed).shuffle(mixed)
    await world.add_pods_steadily(*mixed, per_s=PER_S)
    await world.settled(400)
    found = world.waits(stem)
    world.claim(len(found.seconds) == GOOD, f"{len(found.seconds)} binds of {GOOD} were written down")
    figures = {f"p{part} s": found.part_s(part / 100) for part in (50, 99)}
    figures["CPU s"] = scheduler.cpu_s - began_cpu_s
    world.figures |= {f"{stem} {name}": round(value, 2) for name, value in figures.items()}
    await world.delete_pods(*map(_name, good))
    return found


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


async def slow_binds(world: World) -> None:
    """Binds of one namespace take 10 s, as behind a slow admission webhook: those of others do not."""
    world.allow(events_may_be_lost=True)
    slow = await world.add_namespace("slow")
    await world.add_nodes(*(world.node(f"n{number}", cpu="16") for number in range(4)))
    rule = Rule(verb=BIND, path=f"/namespaces/{slow}/", times=FOREVER, act=Delay(before_s=10.0))
    await world.scheduler(rules=[rule])
    pods = [world.pod(f"slow-{number:03}", cpu="10m") for number in range(300)]
    for pod in pods:
        pod["metadata"]["namespace"] = slow
    await world.add_pods(*pods, wanted=False)
    for number in range(40):
        await world.add_pods(world.pod(f"other-{number:02}", cpu="10m"))
        await asyncio.sleep(0.1)
    await world.settled(120)
    world.limit("others' p99 s", world.p99_s("other"), 1.0)
    await world.until(lambda: all(map(node_of, world.auditor.now("pods", slow))), 120, "the slow ones are bound")


async def ten_thousand(world: World) -> None:
    """10,000 pods at once: all are bound, within the documented memory."""
    world.allow(events_may_be_lost=True)
    await world.add_nodes(*(world.node(f"n{number:03}", cpu="32") for number in range(100)))
    scheduler = await world.scheduler()
    began_s = time.monotonic()
    await world.add_pods(*(world.pod(f"pod-{number:05}", cpu="10m") for number in range(10_000)))
    await world.settled(300)
    world.figures["all bound after s"] = round(time.monotonic() - began_s, 1)
    world.limit("peak MiB", scheduler.peak_bytes >> 20, MEMORY_BYTES >> 20)


async def misfits(world: World) -> None:
    """1,000 pods that fit nowhere: few events are written about them, and others are bound."""
    names = [f"misfit-{number:04}" for number in range(1000)]
    world.allow(events_may_be_lost=True, pending=frozenset(names))
    await world.add_nodes(*(world.node(f"n{number}") for number in range(4)))
    scheduler = await world.scheduler()
    await world.add_pods(*(world.pod(name, cpu="100") for name in names), wanted=False)
    await asyncio.sleep(10)
    began_s = time.monotonic()
    for number in range(20):
        # Each one is a change that might help somebody.
        await world.add_pods(world.pod(f"good-{number:02}", cpu="10m"))
        await asyncio.sleep(1.0)
    await world.settled()
    lasted_s = time.monotonic() - began_s
    writes = [each for each in scheduler.proxy.exchanges if "/events" in each.path and each.came_s > began_s]
    about = [each for each in writes if b"misfit" in each.body]
    world.limit("events per s", len(about) / lasted_s, EVENTS_PER_S)
    world.limit("peak MiB", scheduler.peak_bytes >> 20, MEMORY_BYTES >> 20)


SCENARIOS = (
    Scenario(name="crowd:hostile", row="2,000 hostile pods among 2,000 good ones", story=among_hostile, place="fresh"),
    Scenario(name="crowd:slow-binds", row="binds of one namespace take 10 s", story=slow_binds),
    Scenario(name="crowd:ten-thousand", row="10,000 pods at once", story=ten_thousand, place="fresh"),
    Scenario(name="crowd:misfits", row="1,000 pods that fit nowhere", story=misfits, place="fresh"),
)
