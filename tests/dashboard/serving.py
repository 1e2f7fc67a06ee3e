"""Dashboards for tests: each runs in a thread of its own, as the browser is driven from the test's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.adapters.dashboard.backend import DashboardBackend, Surroundings
from moorage.adapters.dashboard.security import Guard
from moorage.adapters.dashboard.server import BOUNDS, application
from moorage.adapters.listening import listening
from moorage.app.dashboard import DashboardOptions, serve
from moorage.app.plugins import find_plugins
from moorage.framework.profiles import Profile
from moorage.sim.demo.broadcast import Broadcast
from moorage.sim.demo.loop import DemoClock, play
from moorage.sim.demo.scenario import Scenario
from moorage.sim.demo.scenarios import SCENARIOS
from moorage.sim.demo.stage import DemoStage
from moorage.sim.rules import rules_of
from moorage.sim.whatif_requests import answer
from moorage.views.shadowview import WorldShadow
from moorage.views.world import Settled, Told, World
from moorage.wire.configuration import Reading, default_reading, read_configuration

TOKEN = "a-token-for-tests-only"
_START_S = 120.0


@contextmanager
def in_thread(work: Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]) -> Iterator[str]:
    """Run `work(started)` in an event loop of its own; gives the address that it starts with."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    def started(url: str) -> None:
        found["url"] = url
        ready.set()

    async def body() -> None:
        found["loop"], found["task"] = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await work(started)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            found["error"] = error
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(body()), daemon=True)
    thread.start()
    assert ready.wait(_START_S), "the dashboard did not start"
    if "url" not in found:
        raise found.get("error", AssertionError("the dashboard ended by itself"))
    try:
        yield found["url"]
    finally:
        found["loop"].call_soon_threadsafe(found["task"].cancel)
        thread.join(_START_S)


def reading_of(text: str = "") -> Reading:
    """A configuration, or the default one."""
    registry = find_plugins().registry
    reading = read_configuration(text.encode(), "test", registry) if text else default_reading(registry)
    assert not reading.problems
    return reading


@contextmanager
def served_command(options: Callable[[Callable[[str], None]], DashboardOptions], text: str = "") -> Iterator[str]:
    """`moorage dashboard` with these options."""
    reading = reading_of(text)
    assert reading.configuration is not None
    configuration = reading.configuration

    async def work(started: Callable[[str], None]) -> None:
        await serve(configuration, reading.profiles, find_plugins().registry, options(started))

    with in_thread(work) as url:
        yield url


@contextmanager
def served_cluster(kubeconfig: Path, text: str = "", *, allow_writes: bool = True) -> Iterator[str]:
    """`moorage dashboard --kubeconfig FILE --allow-writes`."""
    rules = rules_of(reading_of(text), 0, answers_to_all=not text)

    def options(started: Callable[[str], None]) -> DashboardOptions:
        return DashboardOptions(
            "127.0.0.1",
            0,
            str(kubeconfig),
            allow_writes=allow_writes,
            answers_to_all=not text,
            what_if=lambda objects, asked: answer(objects, rules, asked, "the cluster"),
            started=started,
        )

    with served_command(options, text) as url:
        yield url


@contextmanager
def served_journal(folder: Path) -> Iterator[str]:
    """`moorage dashboard --journal DIR`."""
    with served_command(lambda started: DashboardOptions("127.0.0.1", 0, journal=str(folder), started=started)) as url:
        yield url


@contextmanager
def served_world(
    told: list[Told],
    profiles: list[Profile] | None = None,
    *,
    token: str = "",
    later: Callable[[DashboardBackend], Coroutine[Any, Any, None]] | None = None,
    shadow: WorldShadow | None = None,
) -> Iterator[str]:
    """A world that was told this; `later` goes on telling."""

    async def work(started: Callable[[str], None]) -> None:
        world = World(profiles or reading_of().profiles, answers_to_all=True, shadow=shadow)
        backend = DashboardBackend(world, Surroundings("live", "a test", time.time, writes=bool(token)))
        backend.put(*told, Settled())
        await backend.take_over()
        async with listening(application(backend, Guard("127.0.0.1", token)), "127.0.0.1", 0, bounds=BOUNDS) as url:
            started(f"{url}/#token={token}" if token else f"{url}/")
            telling = None if later is None else asyncio.create_task(later(backend))
            try:
                await backend.run()
            finally:
                backend.close()
                if telling is not None:
                    telling.cancel()

    with in_thread(work) as url:
        yield url


@contextmanager
def served_demo(name: str | Scenario = "default", *, from_s: float = 0.0, speed: float = 1.0) -> Iterator[str]:
    """`moorage demo`, which begins at a moment of its play and goes on at this pace; 0 stands still."""
    scenario = SCENARIOS[name] if isinstance(name, str) else name
    rules = rules_of(reading_of(scenario.configuration), 0, answers_to_all=True)
    stage = DemoStage(scenario, rules)
    stopped = threading.Event()

    def pause(_: float) -> None:
        stopped.wait(0.1)

    pace = DemoClock(lambda: time.monotonic() * speed, pause)
    with Broadcast(stage, rules, scenario, token=TOKEN, title=f"scenario {name}: {scenario.about}") as broadcast:
        broadcast.show(stage, stage.advance(from_s))
        thread = threading.Thread(target=lambda: play(stage, broadcast, pace, stopped=stopped.is_set), daemon=True)
        thread.start()
        try:
            yield broadcast.url
        finally:
            stopped.set()
            thread.join(_START_S)
