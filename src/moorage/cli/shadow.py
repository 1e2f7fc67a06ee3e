"""`moorage shadow`: compare another scheduler's decisions with what Moorage would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import (
    common_options,
    config_option,
    kubeconfig_option,
    output_option,
    probe_options,
    session_of,
)

if TYPE_CHECKING:
    from moorage.views.shadow import ShadowReport
    from moorage.views.shadownames import Names

DEFAULT_SCHEDULER = "default-scheduler"
_LONGEST_S = 10 * 365 * 86400


class _Seconds(click.ParamType[float]):
    """A time in seconds, in ASCII digits and perhaps a point."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        whole, _, part = text.partition(".")
        if not (text.isascii() and len(text) <= 12 and whole.isdigit() and (part.isdigit() or "." not in text)):
            self.fail(f"{text!r} is not a number of seconds; write digits, such as 600", param, ctx)
        if not 0 < float(text) <= _LONGEST_S:
            self.fail(f"{text!r} is out of range; write more than 0 and at most {_LONGEST_S}", param, ctx)
        return float(text)


@click.command("shadow", short_help="Compare another scheduler's decisions with Moorage's; writes nothing.")
@config_option
@kubeconfig_option
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    metavar="NAME",
    help=f"The scheduler whose decisions are compared; may be given several times. Default: {DEFAULT_SCHEDULER}.",
)
@click.option(
    "--mode",
    type=click.Choice(("follow", "own")),
    default="follow",
    show_default=True,
    help="follow: take over each placement after judging it. own: go on with Moorage's own placements.",
)
@click.option(
    "--duration",
    type=_Seconds(),
    metavar="S",
    default=None,
    help="Compare for S seconds, from when all there is has been read; else until a signal.",
)
@output_option("table", "json")
@click.option("--report", "report_file", metavar="FILE", default=None, help="Write an HTML report, anew every minute.")
@click.option("--anonymous", is_flag=True, help="Tokens instead of names of pods, namespaces and nodes.")
@probe_options
@common_options
@click.pass_context
def command(
    context: click.Context,
    config_file: str | None,
    kubeconfig: str | None,
    schedulers: tuple[str, ...],
    mode: str,
    duration: float | None,
    output_format: str,
    report_file: str | None,
    anonymous: bool,
    metrics_listen: str,
    health_listen: str,
) -> None:
    """Watch another scheduler, and compare each of its decisions with what Moorage would have done.

    It needs the rights to list and watch, and writes nothing to the cluster. The report is printed at the end.
    """
    from moorage.app.shadow import ShadowOptions, run_shadow  # noqa: PLC0415 - slow to import
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.probes import probe_address  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415
    from moorage.cli.shadow_report import print_report, report_writer, writable  # noqa: PLC0415

    configure_logs(session_of(context))
    reading = load_reading(config_file)
    names = _names(anonymous=anonymous)
    write = None if report_file is None else report_writer(report_file, names)
    options = ShadowOptions(
        schedulers=_named(schedulers),
        mode=mode,
        kubeconfig=kubeconfig,
        duration_s=duration,
        metrics_at=probe_address("--metrics-listen", metrics_listen),
        health_at=probe_address("--health-listen", health_listen),
        publish=write,
    )
    with running(context):
        report: ShadowReport = run_shadow(configuration_of(reading), reading.profiles, options)
    print_report(report, names, output_format)
    if write is not None and report_file is not None:
        with writable(report_file):
            write(report)


def _named(schedulers: tuple[str, ...]) -> tuple[str, ...]:
    """The names, each once."""
    if not all(schedulers):
        raise click.UsageError("--scheduler-name: the name is empty; write that of a scheduler, as pods name it")
    return tuple(dict.fromkeys(schedulers)) or (DEFAULT_SCHEDULER,)


def _names(*, anonymous: bool) -> Names:
    import secrets  # noqa: PLC0415

    from moorage.views.shadownames import Names, Tokens  # noqa: PLC0415

    return Tokens(secrets.token_bytes(32)) if anonymous else Names()
