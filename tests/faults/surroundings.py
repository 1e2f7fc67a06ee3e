"""The machine and its operator: clocks that jump, disks that are full, configuration that is broken."""

from __future__ import annotations

import asyncio
import os
import time

import yaml

from tests.faults import workloads
from tests.faults.lab import Scenario
from tests.faults.world import World

CLOCK = '''
"""Started by Python itself: the wall clock of this process is off by as many seconds as a file says."""
import datetime
import os
import time

_real_s, _real_ns, _file = time.time, time.time_ns, os.environ["FAULTS_CLOCK"]


def _offset_s():
    try:
        with open(_file) as file:
            return float(file.read() or 0)
    except (OSError, ValueError):
        return 0.0


time.time = lambda: _real_s() + _offset_s()
time.time_ns = lambda: _real_ns() + int(_offset_s() * 1e9)
'''
HOUR_S = 3600.0
WAITS_S = 15.0
"""The longest backoff, and a little."""


async def clock(world: World) -> None:
    """The wall clock goes an hour forth, and an hour back: nobody waits longer, nothing expires."""
    site = world.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(CLOCK)
    offset = world.folder / "offset"
    offset.write_text("0")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    config = world.configuration(leaderElection=world.election())
    await world.scheduler(config=config, env={"PYTHONPATH": path, "FAULTS_CLOCK": str(offset)})
    await workloads.mixed(world)
    await world.settled()
    for number, shift_s in enumerate((HOUR_S, -HOUR_S, 0.0)):
        # One that has to wait before the clock jumps, and one that comes after.
        await world.add_pods(world.pod(f"waits-{number}", nodeSelector={"late": f"{world.name}-{number}"}))
        await asyncio.sleep(1.0)
        if world.faulty:
            offset.write_text(str(shift_s))
        await world.add_nodes(world.node(f"late-{number}", labels={"late": f"{world.name}-{number}"}))
        await world.add_pods(world.pod(f"after-{number}", nodeSelector={"late": f"{world.name}-{number}"}))
        world.limit(f"bound after s, jump {number + 1}", await world.settled(), WAITS_S)


async def disk_full(world: World) -> None:
    """No file of the process may grow beyond 64 KiB: the journal breaks off with a line, and nothing else does."""
    limited = ("sh", "-c", 'ulimit -f 128; exec "$@"', "sh")
    journal = world.folder / "journal"
    journal.mkdir()
    scheduler = await world.scheduler(
        f"--journal={journal}", "--journal-size=8Mi", "--v=0", wrapper=limited if world.faulty else ()
    )
    await workloads.burst(world, 400, 10)
    await world.settled(90)
    await world.add_pods(
        *(world.pod(f"more-{number:03}", cpu="1m", labels={"n": str(number)}) for number in range(200))
    )
    await world.settled(90)
    if world.faulty:
        told = scheduler.text.count("the journal broke off")
        world.claim(told, "nobody was told that the journal broke off")
        world.figures["lines"] = told


async def broken_configuration(world: World) -> None:
    """A configuration that cannot be read, then a good one: a line each, and decisions go on."""
    scheduler = await world.scheduler()
    path = world.folder / "config-0.yaml"
    await workloads.burst(world, 20, 4)
    await world.settled()
    good = path.read_text()
    for number, text in enumerate(
        ("profiles: [", "kind: Nothing\n", good.replace("profiles:", f"profiles:\n- schedulerName: {world.name}"))
        if world.faulty
        else ()
    ):
        path.write_text(text)
        told = await scheduler.says(rf"(?s)(configuration refused.*){{{number + 1}}}", 20)
        world.claim(told, f"nobody was told of broken configuration {number + 1}")
        await world.add_pods(world.pod(f"later-{number}"))
    if not world.faulty:
        await world.add_pods(*(world.pod(f"later-{number}") for number in range(3)))
    await world.settled()
    document = yaml.safe_load(good)
    document["profiles"].append({"schedulerName": f"{world.name}-2"})
    path.write_text(yaml.safe_dump(document))
    began_s = time.monotonic()
    await world.add_pods(world.pod("second", schedulerName=f"{world.name}-2"))
    await world.settled(30)
    world.figures["reloaded after s"] = round(time.monotonic() - began_s, 1)


SCENARIOS = (
    Scenario(name="clock", row="wall clock an hour forth and back", story=clock, calm="clock"),
    Scenario(name="disk-full", row="disk full under the journal", story=disk_full, calm="disk"),
    Scenario(name="reload", row="broken configuration on reload", story=broken_configuration, calm="reload"),
)
