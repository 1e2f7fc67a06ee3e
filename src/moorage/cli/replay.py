"""`moorage replay`: repeat the decisions in a journal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import common_options, output_option
from moorage.cli.output import GOOD, NO, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.adapters.journal.replaying import Replayed
    from moorage.sim.replay import Rerun

_MOST_LINES = 50


@click.command("replay", short_help="Repeat the decisions in a journal.")
@click.argument("folder", metavar="DIR")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default=None,
    help="Use this configuration instead, and list the pods that it would have placed elsewhere.",
)
@click.option("--pod", metavar="NAMESPACE/NAME", default="", help="Tell what happened to this pod, step by step.")
@output_option("table", "json")
@common_options
def command(folder: str, config_file: str | None, pod: str, output_format: str) -> int:
    """Repeat all decisions that `moorage scheduler --journal DIR` recorded.

    Without --config every decision must come out as recorded; the exit code is 1 if one does not.
    """
    if pod and config_file is not None:
        raise click.UsageError("--pod and --config exclude each other: what happened, or what would have happened")
    if pod and "/" not in pod:
        pod = f"default/{pod}"
    from moorage.adapters.journal.reader import ReadError  # noqa: PLC0415 - numpy and pydantic, not needed for --help

    try:
        if config_file is None:
            return _replay(folder, pod, output_format)
        return _rerun(folder, config_file, output_format)
    except ReadError as error:
        raise InputError([error]) from None


def _replay(folder: str, pod: str, output_format: str) -> int:
    from importlib.metadata import version  # noqa: PLC0415 - slow to import

    from moorage.adapters.journal.replaying import replay  # noqa: PLC0415
    from moorage.cli.profiles import find_registry  # noqa: PLC0415

    result = replay(Path(folder), find_registry(), pod)
    if pod and not result.story:
        raise InputError([f"{folder}: no pod {pod} was ever queued; check the name and the namespace"])
    others = [each for each in result.versions if each != version("moorage")]
    if result.differing and others:
        result.warnings.append(f"this is Moorage {version('moorage')}, and {', '.join(others)} wrote the journal")
    say("warning", result.warnings if output_format == "table" else ())
    if output_format == "json":
        story = {"story": _story(result)} if pod else {}
        click.echo(json.dumps({**_document(result), **story}, indent=2))
    else:
        _print(result)
        _print_story(pod, result)
    return NO if result.differing else GOOD


def _rerun(folder: str, config_file: str, output_format: str) -> int:
    from moorage.cli.profiles import configuration_of, find_registry, load_reading  # noqa: PLC0415
    from moorage.sim.replay import rerun  # noqa: PLC0415

    reading = load_reading(config_file)
    result = rerun(Path(folder), find_registry(), configuration_of(reading), reading.profiles)
    say("warning", result.warnings if output_format == "table" else ())
    if output_format == "json":
        click.echo(json.dumps(_rerun_document(result), indent=2))
    else:
        _print_rerun(result)
    return GOOD


def _print(result: Replayed) -> None:
    click.echo(f"{'recorded':<12}{_time(result.began_s)} to {_time(result.ended_s)}")
    click.echo(f"{'turns':<12}{result.turns}")
    click.echo(f"{'events':<12}{result.events}")
    click.echo(f"{'binds':<12}{result.binds}")
    click.echo(f"{'evictions':<12}{result.evictions}")
    for each in result.differences[:_MOST_LINES]:
        recorded, replayed = ("; ".join(told) or "nothing" for told in (each.recorded, each.replayed))
        click.echo(f"{_time(each.time_s)}  {each.pod}: recorded: {recorded}; replayed: {replayed}")
    click.echo(f"{result.differing} turns differ" if result.differing else "every decision is the recorded one")


def _story(result: Replayed) -> list[dict[str, Any]]:
    return [{"time": at_s, "state": state.value, "cause": cause} for at_s, state, cause in result.story]


def _print_story(pod: str, result: Replayed) -> None:
    from moorage.sim.tables import shown  # noqa: PLC0415
    from moorage.views.words import step_note  # noqa: PLC0415

    if result.story:
        click.echo(f"\n{shown(pod)}:")
    for at_s, state, cause in result.story:
        click.echo(f"{_time(at_s)}  {shown(step_note(state, cause))}")


def _print_rerun(result: Rerun) -> None:
    differences = result.differences
    width = max((len(each.pod) for each in differences[:_MOST_LINES]), default=0) + 2
    if differences:
        click.echo(f"{'POD':<{max(width, 5)}}{'RECORDED':<24}WITH THIS CONFIGURATION")
    for each in differences[:_MOST_LINES]:
        click.echo(f"{each.pod:<{max(width, 5)}}{each.recorded or '-':<24}{each.decided or '-'}")
    if len(differences) > _MOST_LINES:
        click.echo(f"... and {len(differences) - _MOST_LINES} more; -o json lists all")
    click.echo(f"{len(differences)} of {len(result.placements)} pods would be placed otherwise")
    click.echo(f"evictions: {len(result.recorded_evictions)} recorded, {len(result.evictions)} with this configuration")


def _document(result: Replayed) -> dict[str, Any]:
    return {
        "from": result.began_s,
        "to": result.ended_s,
        "segments": result.segments,
        "runs": result.runs,
        "versions": result.versions,
        "turns": result.turns,
        "events": result.events,
        "binds": result.binds,
        "evictions": result.evictions,
        "differing": result.differing,
        "differences": [
            {"time": each.time_s, "pod": each.pod, "recorded": each.recorded, "replayed": each.replayed}
            for each in result.differences
        ],
        "warnings": result.warnings,
    }


def _rerun_document(result: Rerun) -> dict[str, Any]:
    return {
        "from": result.began_s,
        "to": result.ended_s,
        "turns": result.turns,
        "events": result.events,
        "pods": len(result.placements),
        "differing": len(result.differences),
        "differences": [
            {"pod": each.pod, "recorded": each.recorded, "decided": each.decided} for each in result.differences
        ],
        "evictions": {"recorded": result.recorded_evictions, "decided": result.evictions},
        "warnings": result.warnings,
    }


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
