"""`kubectl moorage gangs`: the gangs of the cluster, and the domains that they use."""

from __future__ import annotations

import sys

import click

from moorage.cli.options import common_options, kubeconfig_option, output_option
from moorage.cli.output import GOOD, InputError, say


@click.command("gangs", short_help="List the gangs: members that run and wait, and the domains that they use.")
@click.option("-n", "--namespace", metavar="NAMESPACE", default=None, help="Only gangs of this namespace.")
@kubeconfig_option
@output_option("table", "json")
@common_options
def command(namespace: str | None, kubeconfig: str | None, output_format: str) -> int:
    """List the gangs: how many members run, wait and are needed, and how many domains of each level they use.

    Why the members of a gang wait is what `kubectl moorage queue` shows. Nothing is written to the cluster.
    """
    from moorage.app.ganglist import look_at_gangs  # noqa: PLC0415 - not needed for --help
    from moorage.app.look import LookError  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415

    try:
        with answering_logs():
            seen = look_at_gangs(kubeconfig, namespace)
    except LookError as error:
        raise InputError([error]) from None
    say("warning", seen.warnings)
    if output_format == "json":
        import msgspec  # noqa: PLC0415

        sys.stdout.write(msgspec.json.encode({"gangs": [line.document() for line in seen.lines]}).decode() + "\n")
        return GOOD
    rows = [("NAMESPACE", "GANG", "RUNNING", "WAITING", "NEEDED", "DOMAINS")]
    for line in seen.lines:
        needed = "-" if line.needed is None else str(line.needed)
        rows.append((line.namespace, line.name, str(line.running), str(line.waiting), needed, line.used))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return GOOD
