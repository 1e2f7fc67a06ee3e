"""A process whose wall clock is set while a pod waits: `python -m tests.app.clock_jump SCENARIO`; prints how it went.

`time.time` is replaced before anything else is imported, so that everything that asks the wall clock sees it jump.
"""

from __future__ import annotations

import time

_real_s = time.time
_shift_s = [0.0]
time.time = lambda: _real_s() + _shift_s[0]

import asyncio  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

from moorage.adapters.extender.handler import ExtenderHandler  # noqa: E402
from moorage.adapters.kube.binder import Binder  # noqa: E402
from moorage.adapters.kube.events import EventRecorder  # noqa: E402
from moorage.adapters.kube.prices import PriceFollower  # noqa: E402
from moorage.adapters.webhook.handler import WebhookHandler  # noqa: E402
from moorage.app.loop import DecisionLoop  # noqa: E402
from moorage.core.commands import Bind, Command, RecordEvent  # noqa: E402
from moorage.core.events import BindDone, BindOutcome, NodeSeen, PodSeen  # noqa: E402
from moorage.engine.backoff import Backoff  # noqa: E402
from moorage.engine.engine import Engine  # noqa: E402
from moorage.engine.settings import EngineSettings  # noqa: E402
from moorage.framework.status import Hold  # noqa: E402
from moorage.testing import make_node, make_pod  # noqa: E402
from tests.engine.actors import Permitter  # noqa: E402
from tests.engine.play import small_profile  # noqa: E402

CLOCKS = {
    "scheduler": DecisionLoop,
    "binder": Binder,
    "events": EventRecorder,
    "prices": PriceFollower,
    "webhook": WebhookHandler,
    "extender": ExtenderHandler,
}


async def backed_off() -> str:
    """A bind fails once; the clock goes an hour back while the pod backs off."""
    answers = [BindOutcome.FAILED, BindOutcome.BOUND]
    bound = asyncio.Event()

    def carry_out(command: Command) -> None:
        if isinstance(command, Bind):
            outcome = answers.pop(0)
            loop.put(BindDone(command.pod.uid, outcome, command.node))
            if outcome is BindOutcome.BOUND:
                bound.set()
        elif isinstance(command, RecordEvent):
            _shift_s[0] = -3600.0  # the failure is told of, and the pod backs off

    loop = DecisionLoop(Engine([small_profile()], EngineSettings(Backoff(0.2, 0.2))), carry_out)
    return await _ran(loop, bound)


async def held() -> str:
    """Permit holds a pod for ten minutes; the clock goes an hour forth, and something else happens."""
    ended = asyncio.Event()
    held_until_s: list[float] = []

    def hold(cycle: Any) -> Hold:
        held_until_s.append(cycle.now + 600.0)
        return Hold(deadline_s=held_until_s[0], reason="no signal came")

    def carry_out(command: Command) -> None:
        if isinstance(command, Bind):
            ended.set()  # of the other pod: by now the one that is held was looked at again
        elif not _shift_s[0]:
            _shift_s[0] = 3600.0
            loop.put(PodSeen(make_pod("other", cpu="1", scheduler_name="plain")))

    engine = Engine([small_profile(Permitter(hold)), small_profile(scheduler_name="plain")])
    loop = DecisionLoop(engine, carry_out)
    said = await _ran(loop, ended)
    return said if engine.bindings.waiting else "its deadline has fired"


async def _ran(loop: DecisionLoop, until: asyncio.Event) -> str:
    loop.put_all([NodeSeen(make_node("n1")), PodSeen(make_pod("p", cpu="1"))])
    loop.start_deciding()
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(10.0):
            await until.wait()
    except TimeoutError:
        return "nothing has happened for 10 s"
    finally:
        running.cancel()
    return "fine"


def clocks() -> dict[str, float]:
    """How far the clock of each part jumps with the wall clock."""
    found = {name: inspect.signature(part).parameters["now_s"].default for name, part in CLOCKS.items()}
    before_s = {name: now_s() for name, now_s in found.items()}
    _shift_s[0] = -3600.0
    return {name: round(now_s() - before_s[name], -2) for name, now_s in found.items()}


if __name__ == "__main__":
    SCENARIO = sys.argv[1]
    WAITING = {"back": backed_off, "forth": held}
    sys.stdout.write(json.dumps(clocks()) if SCENARIO == "clocks" else asyncio.run(WAITING[SCENARIO]()))
