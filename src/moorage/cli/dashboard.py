"""`moorage dashboard`: look at a cluster, or at a journal, in the browser."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from moorage.cli.options import common_options, config_option, kubeconfig_option, session_of

if TYPE_CHECKING:  # at run time this costs a start-up of numpy and pydantic, and --help needs none of it
    from moorage.app.dashboard import WhatIf
    from moorage.wire.configuration import Reading

LISTEN = "127.0.0.1:8484"
TOKEN_VARIABLE = "MOORAGE_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,256}", re.ASCII)


@click.command("dashboard", short_help="Look at a cluster in the browser.")
@click.option(
    "--listen", metavar="HOST:PORT", default=LISTEN, show_default=True, help="Address to serve pages on; port 0: any."
)
@config_option
@kubeconfig_option
@click.option("--journal", metavar="DIR", default=None, help="Show a journal of `moorage scheduler --journal`.")
@click.option("--allow-writes", is_flag=True, help="Let users with the printed address apply strategies.")
@click.option(
    "--shadow", "shadows", multiple=True, metavar="NAME", help="Compare the decisions of this scheduler (page Shadow)."
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Accept this host name too.")
@common_options
@click.pass_context
def command(
    context: click.Context,
    listen: str,
    config_file: str | None,
    kubeconfig: str | None,
    journal: str | None,
    allow_writes: bool,
    shadows: tuple[str, ...],
    hosts: tuple[str, ...],
) -> None:
    """Show the cluster map, the queue, pods and their reasons, strategies, spot capacity, a timeline and what-ifs.

    By default it listens on localhost only and changes nothing. The printed address contains a token, which every
    request needs. Changes are made with the permissions of the kubeconfig.
    """
    from moorage.app.dashboard import DashboardOptions, run_dashboard  # noqa: PLC0415 - slow to import
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, find_registry, load_reading  # noqa: PLC0415
    from moorage.wire.configuration.extending import split_address  # noqa: PLC0415

    if journal is not None and (kubeconfig or allow_writes or shadows):
        other = "--kubeconfig" if kubeconfig else "--allow-writes" if allow_writes else "--shadow"
        raise click.UsageError(f"--journal and {other} exclude each other: a journal is a record")
    where = split_address(listen)
    if where is None:
        raise click.UsageError(f"--listen {listen}: not an address; write HOST:PORT, such as {LISTEN}")
    configure_logs(session_of(context))
    reading = load_reading(config_file)
    options = DashboardOptions(
        host=where[0],
        port=where[1],
        kubeconfig=kubeconfig,
        journal=journal,
        allow_writes=allow_writes,
        token=_token(),
        hosts=hosts,
        shadows=tuple(dict.fromkeys(shadows)),
        answers_to_all=config_file is None,
        what_if=_what_if(reading, answers_to_all=config_file is None),
        started=lambda url: click.echo(f"dashboard at {url}"),
    )
    with running(context):
        run_dashboard(configuration_of(reading), reading.profiles, find_registry(), options)


def _token() -> str:
    """The token from the environment, for deployments in which the printed address cannot be read."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token and not _TOKEN.fullmatch(token):
        raise click.UsageError(f"{TOKEN_VARIABLE}: write 16 or more letters, digits, - and _, or leave it out")
    return token


def _what_if(reading: Reading, *, answers_to_all: bool) -> WhatIf:
    """What-ifs with the profiles of the dashboard."""
    from moorage.sim.rules import rules_of  # noqa: PLC0415
    from moorage.sim.whatif_requests import answer  # noqa: PLC0415

    rules = rules_of(reading, 0, answers_to_all=answers_to_all)
    return lambda objects, asked: answer(objects, rules, asked, "the cluster")
