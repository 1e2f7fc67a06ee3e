"""`moorage demo`: an embedded cluster of virtual nodes in which something always happens."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import Session, common_options, config_option, session_of
from moorage.cli.output import GOOD, InputError
from moorage.core.phrases import counted

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.sim.demo.broadcast import Broadcast
    from moorage.sim.demo.picture import DemoPicture
    from moorage.sim.demo.scenario import Scenario
    from moorage.sim.demo.stage import DemoStage
    from moorage.sim.simulation import SimulationRules

SCENARIO_NAMES = ("default", "rollout", "busy", "spot", "devices", "queues")
DASHBOARD_PORT = 8484
"""Tried first; if the port is taken, any free one is used."""
_TOKEN_BYTES = 12
"""The address must fit into a line of a terminal."""
_SECONDS = re.compile(r"(?=.*[1-9])[0-9]{1,9}(\.[0-9]{1,9})?s?", re.ASCII)


class _Seconds(click.ParamType[float]):
    """A number of seconds above zero."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, str) and not _SECONDS.fullmatch(value):
            self.fail(f"{value!r} is not a number of seconds above zero; write for example 30", param, ctx)
        return float(str(value).removesuffix("s"))


@click.command("demo", short_help="Watch pods being placed on virtual nodes; no cluster needed.")
@click.option(
    "--scenario",
    "scenario_name",
    default=SCENARIO_NAMES[0],
    show_default=True,
    metavar="NAME",
    shell_complete=lambda _, __, begun: [name for name in SCENARIO_NAMES if name.startswith(begun)],
    help=f"What happens: {', '.join(SCENARIO_NAMES)}.",
)
@config_option
@click.option("--duration", "duration_s", type=_Seconds(), metavar="S", help="Exit after this many seconds.")
@click.option("--no-browser", is_flag=True, help="Never open a browser; the address of the dashboard is printed.")
@common_options
@click.pass_context
def command(
    context: click.Context, scenario_name: str, config_file: str | None, duration_s: float | None, no_browser: bool
) -> int:
    """Run an embedded cluster of virtual nodes and watch pods being placed, in this terminal and in the browser.

    It needs no cluster and changes nothing outside this process. Without a terminal it prints one line per event.
    Ctrl-C ends it.
    """
    from moorage.cli.profiles import load_reading  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.sim.demo.stage import DemoStage  # noqa: PLC0415
    from moorage.sim.rules import rules_of  # noqa: PLC0415

    session = session_of(context)
    with _stop_signals() as stopped:
        scenario = _scenario(scenario_name)
        reading = load_reading(config_file, otherwise=scenario.configuration)
        rules = rules_of(reading, seed=0, answers_to_all=True)
        stage = DemoStage(scenario, rules)
        with _broadcast(stage, rules, scenario_name, scenario) as broadcast:
            if broadcast.url and not no_browser and duration_s is None:
                _open_browser(broadcast.url)
            _play(broadcast, scenario_name, scenario, session, duration_s, stopped)
        _say_goodbye(stage, session)
    return GOOD


def _scenario(name: str) -> Scenario:
    from moorage.sim.demo.scenarios import SCENARIOS  # noqa: PLC0415

    if name not in SCENARIOS:
        raise InputError([f"--scenario: {name!r} is not a scenario; write one of {', '.join(SCENARIOS)}"])
    return SCENARIOS[name]


def _broadcast(stage: DemoStage, rules: SimulationRules, name: str, scenario: Scenario) -> Broadcast:
    """The dashboard of the demo, on localhost only; users with the printed address may change the virtual cluster."""
    import secrets  # noqa: PLC0415

    from moorage.sim.demo.broadcast import Broadcast  # noqa: PLC0415

    title = f"scenario {name}: {scenario.about}"
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    return Broadcast(stage, rules, scenario, port=DASHBOARD_PORT, token=token, title=title)


def _open_browser(url: str) -> None:
    """Open the dashboard if there is a graphical display; never a browser inside the terminal."""
    graphical = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.stdout.isatty() and graphical:
        import webbrowser  # noqa: PLC0415

        webbrowser.open(url)


def _play(
    broadcast: Broadcast, name: str, scenario: Scenario, session: Session, duration_s: float | None, stopped: list[int]
) -> None:
    """Show it as a live view on a terminal, else as a log."""
    from moorage.sim.demo.loop import DemoClock, play  # noqa: PLC0415

    clock, stage = DemoClock(time.monotonic, time.sleep), broadcast.stage
    if sys.stdout.isatty():
        from importlib.metadata import version  # noqa: PLC0415

        from rich.console import Console  # noqa: PLC0415 - only where something is drawn

        from moorage.cli.demo_frame import Title  # noqa: PLC0415
        from moorage.cli.demo_screen import ScreenView  # noqa: PLC0415

        console = Console(highlight=False)
        if not console.is_dumb_terminal and session.log_format == "text":
            title = Title(version("moorage"), name, scenario.about, broadcast.url)
            with ScreenView(console, title) as screen:
                broadcast.view = screen
                play(stage, broadcast, clock, duration_s=duration_s, stopped=lambda: bool(stopped))
            return
    from moorage.cli.demo_log import LogView  # noqa: PLC0415

    broadcast.view = log = LogView(sys.stdout, log_format=session.log_format, verbosity=session.verbosity)
    if broadcast.url:
        log.begin(broadcast.url)
    play(stage, broadcast, clock, duration_s=duration_s, stopped=lambda: bool(stopped))


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """The termination signals received so far; a second one does not wait for the end of the current step."""
    caught: list[int] = []

    def note(number: int, _: object) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _say_goodbye(stage: DemoStage, session: Session) -> None:
    """A summary of the demo, and what to try next."""
    from moorage.sim.demo.picture import take_picture  # noqa: PLC0415

    picture = take_picture(stage)
    if session.log_format == "json":
        click.echo(json.dumps(_summary(picture)))
        return
    speed = f" ({picture.decisions} decisions of {picture.decision_ms:.2f} ms)" if picture.decisions else ""
    click.echo(
        f"\nIn {picture.elapsed_s:.0f} s Moorage placed {counted(picture.placed, 'pod')}{speed}; "
        f"{picture.evicted} evicted, {picture.finished} finished, {picture.waiting_pods} waiting.\n"
        "\n"
        "Next, your own cluster, without touching it:\n"
        "  kubectl get nodes,pods -A -o yaml > cluster.yaml\n"
        f"  {_program()} simulate -f cluster.yaml --explain\n"
        "README.md tells the rest."
    )


def _program() -> str:
    """How to call Moorage from here: `make demo` runs it from a virtual environment that is not on the PATH."""
    called = sys.argv[0]
    return called if Path(called).name == "moorage" and shutil.which("moorage") is None else "moorage"


def _summary(picture: DemoPicture) -> dict[str, Any]:
    return {
        "at_s": round(picture.elapsed_s, 3),
        "what": "summary",
        "placed": picture.placed,
        "evicted": picture.evicted,
        "finished": picture.finished,
        "waiting": picture.waiting_pods,
        "decisions": picture.decisions,
    }
