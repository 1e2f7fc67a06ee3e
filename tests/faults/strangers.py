"""Others that have a say: a stock kube-scheduler on the same nodes, extenders and plugins that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Literal

from aiohttp import web

from tests.faults import checks
from tests.faults.history import node_of
from tests.faults.lab import Scenario
from tests.faults.processes import Subject
from tests.faults.world import Object, World

P99_S = 1.0
ASKED = "faults.example/asked"
Mode = Literal["well", "hangs", "garbage", "large", "fails"]
LARGE = b'{"Error":"' + b"x" * (64 << 20) + b'"}'


async def stock(world: World) -> None:
    """kube-scheduler binds pods of its own to the same nodes at the same time."""
    stranger = f"{world.name}-stock"
    world.allow(ours=frozenset({world.name}))
    await world.add_nodes(*(world.node(f"n{number}", cpu="4") for number in range(8)))
    scheduler = await world.scheduler()
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": stranger}],
    }
    child = await asyncio.to_thread(world.plane.start_scheduler, config=config, name=stranger)
    try:
        cpus = [world.rng.choice(("300m", "500m", "700m")) for _ in range(80)]
        ours = [world.pod(f"ours-{number:03}", cpu=cpu) for number, cpu in enumerate(cpus[:40])]
        theirs = [
            world.pod(f"theirs-{number:03}", cpu=cpu, schedulerName=stranger) for number, cpu in enumerate(cpus[40:])
        ]
        pods = [*ours, *theirs]
        world.rng.shuffle(pods)
        await world.add_pods(*pods, wanted=False)
        await asyncio.sleep(6.0)
    finally:
        await asyncio.to_thread(child.kill)
    overfull = len(checks.overfull(world.history()))
    told = [event for event in world.auditor.now("events", world.name) if event.get("reason") == "Overcommitted"]
    counted = await scheduler.metric("moorage_overcommitted_nodes")
    world.claim(counted == overfull, f"{overfull} nodes are overcommitted, and the metric says {counted:g}")
    world.claim(told or not overfull, "nobody was told that two schedulers bound to a node at once")
    world.figures |= {"races": len(checks.races(world.history(), world.terms)), "nodes": overfull, "told": len(told)}
    world.allow(events_may_be_lost=True)


# --- extenders ---


@contextlib.asynccontextmanager
async def _extender(modes: list[Mode]) -> AsyncIterator[str]:
    """An extender that is what the last of `modes` says."""

    async def answer(request: web.Request) -> web.StreamResponse:
        question = await request.json()
        mode = modes[-1]
        if mode == "hangs":
            await asyncio.sleep(60)
        if mode == "fails":
            return web.Response(status=500, text="out of order")
        if mode == "garbage":
            return web.Response(body=b"[" * 100_000, content_type="application/json")
        if mode == "large":
            return web.Response(body=LARGE, content_type="application/json")
        names = question.get("NodeNames") or question.get("nodenames") or []
        return web.Response(body=json.dumps({"NodeNames": names}).encode(), content_type="application/json")

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def extender(world: World, *, mode: Mode, ignorable: bool) -> None:
    """Pods that an extender is asked about and pods that it is not, while it misbehaves; then it is well again."""
    world.allow(events_may_be_lost=True, kept_elsewhere=frozenset({ASKED}))
    modes: list[Mode] = [mode if world.faulty else "well"]
    resource = {"name": ASKED, "ignoredByScheduler": True}
    async with _extender(modes) as url:
        asked = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "ignorable": ignorable}
        asked |= {"httpTimeout": "2s", "managedResources": [resource]}
        await world.add_nodes(*(world.node(f"n{number}") for number in range(4)))
        scheduler = await world.scheduler(config=world.configuration(extenders=[asked]))
        told = [_asking(world, f"asked-{number:02}") for number in range(10)]
        await world.add_pods(*told)
        for number in range(40):
            await world.add_pods(world.pod(f"other-{number:02}", cpu="10m"))
            await asyncio.sleep(0.1)
        others = {name for name in world.wanted if name.startswith("other")}
        await world.until(lambda: others <= world.bound(), 60, "others are bound")
        if world.faulty:
            world.limit("others' p99 s", world.p99_s("other"), P99_S)
            opened = await _circuit(scheduler, 1.0, 10.0)
            world.claim(opened, "the circuit did not open")
            modes.append("well")
            began_s = time.monotonic()
            await world.settled(90)
            await world.add_pods(_asking(world, "again"))
            closed = await _circuit(scheduler, 0.0, 60.0)
            world.claim(closed, "the circuit did not close again")
            world.figures["closed after s"] = round(time.monotonic() - began_s, 1)
        else:
            await world.add_pods(_asking(world, "again"))
        await world.settled(90)


async def _circuit(scheduler: Subject, want: float, within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while (await scheduler.metric("moorage_circuit_open") > 0) != (want > 0):
        if time.monotonic() > deadline_s:
            return False
        await asyncio.sleep(0.2)
    return True


def _asking(world: World, name: str) -> Object:
    pod = world.pod(name, cpu="10m")
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"][ASKED] = "1"
    resources["limits"] = {ASKED: "1"}
    return pod


# --- plugins ---

PLUGIN = '''
import time
from moorage.framework.plugin import Plugin, Reads

class Odd(Plugin):
    """Raises or hangs for pods of which it is told so."""

    name = "Odd"
    reads = Reads.NODE

    def sign(self, template):
        return dict(template.labels).get("odd", ""), dict(template.labels).get("number", "")

    def filter(self, cycle, rows):
        odd = dict(cycle.template.labels).get("odd", "")
        if odd == "raises":
            raise ZeroDivisionError("odd")
        if odd == "hangs":
            time.sleep(0.6)
        return None
'''


async def plugin(world: World, *, odd: str) -> None:
    """A plugin raises, or takes long, for some pods: the scheduler stays, and others are bound."""
    world.allow(events_may_be_lost=True)
    folder = _packaged(world.folder / "site")
    profile = {"schedulerName": world.name, "plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}
    config = world.configuration(profiles=[profile], leaderElection=world.election())
    await world.add_nodes(*(world.node(f"n{number}") for number in range(4)))
    scheduler = await world.scheduler(config=config, env={"PYTHONPATH": _path_with(folder)})
    evil = await world.add_namespace("odd")
    strange = [
        world.pod(f"odd-{number}", cpu="10m", labels={"odd": odd, "number": str(number)}) for number in range(24)
    ]
    for pod in strange:
        pod["metadata"]["namespace"] = evil
    await world.add_pods(*strange, wanted=False)
    if odd == "raises":
        world.allow(pending=frozenset(pod["metadata"]["name"] for pod in strange))
    for number in range(30):
        await world.add_pods(world.pod(f"other-{number:02}", cpu="10m"))
        await asyncio.sleep(0.1)
    await world.settled(120)
    # Nobody can go on while the plugin has the thread: others wait for one call of it, not for two.
    world.limit("others' p99 s", world.p99_s("other"), P99_S)
    if odd == "raises":
        return
    world.claim(await scheduler.says("a plugin is repeatedly slow", 30), "nobody was told which plugin is slow")
    world.figures["all bound after s"] = round(
        await world.until(lambda: all(map(node_of, world.auditor.now("pods", evil))), 90, "the slow ones are bound"), 1
    )


def _packaged(folder: Path) -> Path:
    info = folder / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "odd_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[moorage.plugins]\nOdd = odd_plugin:Odd\n")
    return folder


def _path_with(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


MODES: tuple[Mode, ...] = ("hangs", "garbage", "large", "fails")
SCENARIOS = (
    Scenario(name="stranger:stock", row="stock kube-scheduler on the same nodes", story=stock),
    *(
        Scenario(
            name=f"extender:{mode}:{'ignorable' if ignorable else 'needed'}",
            row=f"extender that {mode}" if mode in {"hangs", "fails"} else f"extender that answers {mode}",
            story=partial(extender, mode=mode, ignorable=ignorable),
            calm="extender",
        )
        for mode in MODES
        for ignorable in (True, False)
    ),
    Scenario(name="plugin:raises", row="plugin that raises", story=partial(plugin, odd="raises")),
    Scenario(name="plugin:hangs", row="plugin that takes 0.6 s", story=partial(plugin, odd="hangs")),
)
