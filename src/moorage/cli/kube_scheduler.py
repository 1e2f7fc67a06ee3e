"""`moorage kube-scheduler`: the scheduler with kube-scheduler's own flags, so that a Deployment of kube-scheduler needs
nothing but another image. In the image it is also an executable of its own, `kube-scheduler`.

Flags mean what they mean there, and failures end with exit code 1 as there. What differs: a lease that a configuration
file leaves out is `moorage`, and `clientConnection.kubeconfig` is not required where `--kubeconfig` is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.kube_flags import Decimal, DurationFlag, Gates, idle_notes, idle_options
from moorage.cli.main import print_version, run_group
from moorage.cli.options import (
    LOG_FORMATS,
    WholeNumber,
    boolean_option,
    common_options,
    config_option,
    kubeconfig_option,
    session_of,
)
from moorage.cli.scheduler import start
from moorage.cli.serving import OLDEST_TLS, TLS_VERSIONS, ServingFlags, serving_options

if TYPE_CHECKING:
    from moorage.framework.configuration import Configuration
    from moorage.framework.profiles import Profile

FAILED = 1
"""The exit code of every failure, as kube-scheduler exits."""
LEASE_NAME = "kube-scheduler"
_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration_s",
    "leader_elect_renew_deadline": "renew_deadline_s",
    "leader_elect_retry_period": "retry_period_s",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
"""Parameter -> field of LeaderElection."""
_CONNECTION = {"kube_api_qps": "qps", "kube_api_burst": "burst"}


class _AsKubeScheduler(click.Command):
    """A command whose failures have kube-scheduler's exit code."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; called by click."""
        with _exit_code():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; called by click."""
        with _exit_code():
            return super().invoke(ctx)


@contextmanager
def _exit_code() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        from moorage.cli.output import say_problems  # noqa: PLC0415

        say_problems(error)
        raise click.exceptions.Exit(FAILED) from None


def _with_dashes(name: str) -> str:
    """kube-scheduler takes --leader_elect for --leader-elect."""
    return name.replace("_", "-")


@click.command(
    "kube-scheduler",
    cls=_AsKubeScheduler,
    context_settings={"token_normalize_func": _with_dashes, "help_option_names": ["-h", "--help"]},
)
@config_option
@kubeconfig_option
@click.option("--master", metavar="URL", default="", help="Address of the API server, instead of the kubeconfig's.")
@click.option("--write-config-to", metavar="FILE", default=None, help="Write the configuration to this file, and end.")
@serving_options
@boolean_option("--authentication-skip-lookup", default=False, text="Do not look up the CAs of client certificates.")
@click.option(
    "--tls-min-version", type=click.Choice(list(TLS_VERSIONS)), default=OLDEST_TLS, help="Oldest version of TLS."
)
@boolean_option("--leader-elect", text="Take part in leader election; the default unless --config says otherwise.")
@click.option("--leader-elect-lease-duration", type=DurationFlag(), metavar="DURATION", help="15s by default.")
@click.option("--leader-elect-renew-deadline", type=DurationFlag(), metavar="DURATION", help="10s by default.")
@click.option("--leader-elect-retry-period", type=DurationFlag(), metavar="DURATION", help="2s by default.")
@click.option("--leader-elect-resource-lock", metavar="KIND", help="leases, and nothing else.")
@click.option("--leader-elect-resource-name", metavar="NAME", help=f"The lease; without --config, {LEASE_NAME}.")
@click.option("--leader-elect-resource-namespace", metavar="NAMESPACE", help="Of the lease; kube-system by default.")
@click.option("--kube-api-qps", type=Decimal(), metavar="N", help="Requests per second; not with --config.")
@click.option("--kube-api-burst", type=WholeNumber(0, 10**6), metavar="N", help="Requests at once; not with --config.")
@click.option("--feature-gates", type=Gates(), multiple=True, metavar="NAME=BOOL", help="Accepted; there are no gates.")
@click.option("--logging-format", type=click.Choice(LOG_FORMATS), default=None, help="How log lines are written.")
@idle_options
@click.option(
    "--version",
    is_flag=False,
    flag_value="true",
    metavar="",
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print the version.",
)
@common_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Place the pods of a live cluster, started with the flags of kube-scheduler.

    Without --config there is one profile, default-scheduler.
    """
    from moorage.cli.logs import configure_logs  # noqa: PLC0415 - slow to import
    from moorage.cli.output import say  # noqa: PLC0415

    session = session_of(context)
    session.log_format = given["logging_format"] or session.log_format
    configure_logs(session)
    configuration, profiles = _configured(given)
    say("note", [*_notes(given, configuration), *idle_notes(given)])
    say("warning", _warnings(configuration))
    if given["write_config_to"]:
        _write(given["write_config_to"], configuration, profiles)
        return
    start(
        context,
        configuration,
        profiles,
        ServingFlags(**{name: given[name] for name in ServingFlags.__slots__}),
        # As in kube-scheduler, the file comes first.
        kubeconfig=None if configuration.client_connection.kubeconfig else given["kubeconfig"],
        config_file=given["config_file"],
    )


def _configured(given: Mapping[str, Any]) -> tuple[Configuration, tuple[Profile, ...]]:
    """The configuration as file and flags say, and its profiles."""
    from moorage.cli.election import check  # noqa: PLC0415 - slow to import
    from moorage.cli.profiles import configuration_of, find_registry, load_reading  # noqa: PLC0415
    from moorage.framework.configuration import Configuration, LeaderElection, ProfileConfiguration  # noqa: PLC0415
    from moorage.framework.profiles import build_profiles  # noqa: PLC0415
    from moorage.wire.configuration.profiles import DEFAULT_SCHEDULER  # noqa: PLC0415

    file = given["config_file"]
    election = {field: given[name] for name, field in _ELECTION.items() if given[name] is not None}
    connection: dict[str, Any] = {"server": _address(given["master"])}
    if file is not None:
        reading = load_reading(file, asks_extenders=True)
        configuration, profiles = configuration_of(reading), reading.profiles
    else:
        configuration = Configuration(
            profiles=(ProfileConfiguration(DEFAULT_SCHEDULER),),
            leader_election=LeaderElection(resource_name=LEASE_NAME),
        )
        profiles = build_profiles(configuration, find_registry())
        connection |= {field: given[name] for name, field in _CONNECTION.items() if given[name] is not None}
    wanted = replace(configuration.leader_election, **election)
    if election and wanted.leader_elect:
        check(wanted, "--leader-elect")
    return replace(
        configuration,
        leader_election=wanted,
        client_connection=replace(configuration.client_connection, **connection),
    ), profiles


def _address(master: str) -> str:
    from moorage.adapters.kube.kubeconfig import is_address  # noqa: PLC0415 - slow to import
    from moorage.cli.output import InputError  # noqa: PLC0415

    if master and not is_address(master):
        raise InputError([f"--master: {master!r} is not an address; write one such as https://10.0.0.1:6443"])
    return master.rstrip("/")


def _notes(given: Mapping[str, Any], configuration: Configuration) -> list[str]:
    """What was given and does not count, though another value of it or in another place would."""
    gates = ", ".join(gate for gates in given["feature_gates"] for gate in gates)
    notes = [f"--feature-gates {gates} has no effect: what Moorage does is not behind gates"] if gates else []
    if given["config_file"] is None:
        return notes
    for name in (name for name in _CONNECTION if given[name] is not None):
        flag = f"--{name.replace('_', '-')}"
        notes.append(f"{flag} has no effect: with --config, clientConnection.{_CONNECTION[name]} counts")
    file = configuration.client_connection.kubeconfig
    if file and given["kubeconfig"] not in (None, file):
        notes.append(f"--kubeconfig {given['kubeconfig']} has no effect: clientConnection.kubeconfig is {file}")
    return notes


def _warnings(configuration: Configuration) -> list[str]:
    """What goes wrong where a stock kube-scheduler runs in the same cluster."""
    from moorage.wire.configuration.connections import is_stock_lease  # noqa: PLC0415 - slow to import
    from moorage.wire.configuration.profiles import DEFAULT_SCHEDULER  # noqa: PLC0415

    election = configuration.leader_election
    if election.leader_elect and is_stock_lease(election):
        lease = f"{election.resource_namespace}/{election.resource_name}"
        stock = f"the lease {lease} is that of a stock kube-scheduler: while one holds it, this process only stands by"
        return [f"{stock}; stop it, or give --leader-elect-resource-name another name"]
    if DEFAULT_SCHEDULER in [profile.scheduler_name for profile in configuration.profiles]:
        return [f"a stock kube-scheduler that runs beside this process places the pods of {DEFAULT_SCHEDULER}, too"]
    return []


def _write(file: str, configuration: Configuration, profiles: tuple[Profile, ...]) -> None:
    import yaml  # noqa: PLC0415 - slow to import

    from moorage.adapters.serving.configz import documents  # noqa: PLC0415
    from moorage.cli.output import InputError, say  # noqa: PLC0415

    text = yaml.safe_dump_all(documents(configuration, profiles), sort_keys=False)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError([f"--write-config-to {file}: cannot be written ({error.strerror})"]) from None
    say("note", [f"the configuration was written to {file}"])


def run(arguments: list[str] | None = None) -> int:
    """Run a command line of the executable `kube-scheduler`; returns the exit code."""
    return run_group(command, "kube-scheduler", arguments)


def main() -> None:
    """The executable."""
    sys.exit(run())
