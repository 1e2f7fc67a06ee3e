"""`kubectl moorage queues`: the tree of queues, and what each may have, has and waits for."""

from __future__ import annotations

import sys

import click

from moorage.cli.options import common_options, config_option, kubeconfig_option, output_option
from moorage.cli.output import GOOD, InputError, say


@click.command("queues", short_help="Show the tree of queues: shares, what is allocated, what waits.")
@config_option
@kubeconfig_option
@output_option("table", "json")
@common_options
def command(config_file: str | None, kubeconfig: str | None, output_format: str) -> int:
    """Show the Queue objects as a tree: quota, weight, limit, fair share, what is allocated and what waits.

    DOMINANT is the largest part that a queue has of what it may have of a resource. Which pods wait, and why, is what
    `kubectl moorage queue` shows. Nothing is written to the cluster.
    """
    from moorage.app.look import LookError  # noqa: PLC0415 - not needed for --help
    from moorage.app.queues import look_at_queues  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415
    from moorage.cli.profiles import load_reading  # noqa: PLC0415
    from moorage.sim.report import write_queues  # noqa: PLC0415
    from moorage.views.queuetree import document  # noqa: PLC0415

    reading = load_reading(config_file)
    try:
        with answering_logs():
            seen = look_at_queues(
                kubeconfig, reading.configuration, reading.profiles, answers_to_all=config_file is None
            )
    except LookError as error:
        raise InputError([error]) from None
    say("warning", seen.warnings)
    if output_format == "json":
        import msgspec  # noqa: PLC0415

        sys.stdout.write(msgspec.json.encode({"queues": document(seen.accounts)}).decode() + "\n")
    else:
        write_queues(seen.accounts, sys.stdout)
    return GOOD
