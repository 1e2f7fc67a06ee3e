"""Options that several commands share, and the types of their values.

Every command carries `@common_options`: `-v` and `--log-format` are kept in the `Session`, so that the commands need
not pass them on. Nothing here imports more than click: `moorage --help` must start at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moorage.core.values import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_VERBOSE = 10
TRACEBACK_VERBOSITY = 5
"""From here on an internal error shows its traceback."""
LOG_FORMATS = ("text", "json")
_MOST_WORKERS = 1024
_FILE_NAMES = {"FILE": "file", "DIR": "dir"}
"""How a parameter is shown in the help -> what shells complete it to."""


@dataclass(slots=True)
class Session:
    """The options that every command has."""

    verbosity: int = 0
    log_format: str = "text"


def session_of(context: click.Context) -> Session:
    """The session that a command runs in."""
    return context.find_root().ensure_object(Session)


def flags_of(context: click.Context) -> dict[str, str]:
    """Every flag of the running command and its value, given or not, as `/flagz` shows them."""
    session = session_of(context)
    values = {**context.params, "v": session.verbosity, "log_format": session.log_format}
    flags: dict[str, str] = {}
    for parameter in context.command.params:
        name = max(parameter.opts, key=len).lstrip("-")
        value = values.get(parameter.name or "")
        if isinstance(value, tuple):
            flags[name] = f"[{','.join(map(str, value))}]"
        elif isinstance(value, bool):
            flags[name] = str(value).lower()
        else:
            flags[name] = "" if value is None else str(value)
    return flags


class WholeNumber(click.IntRange):
    """A number in ASCII digits within bounds; the refusal says which."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; called by click."""
        text = str(value)
        if not (text.isascii() and text.isdigit()):
            self.fail(f"{text!r} is not a whole number; write {self.min} to {self.max}", param, ctx)
        return super().convert(value, param, ctx)


class _Verbosity(WholeNumber):
    """A number that may be glued to its short flag as `-v=4`, as Kubernetes' commands allow."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(str(value).removeprefix("="), param, ctx)


def _keep_verbosity(context: click.Context, _: click.Parameter, value: int) -> None:
    session_of(context).verbosity = value


def _keep_log_format(context: click.Context, _: click.Parameter, value: str) -> None:
    session_of(context).log_format = value


def common_options(command: Function) -> Function:
    """Add what every command takes."""
    command = click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_keep_log_format,
        help="How log lines are written.",
    )(command)
    return click.option(
        "-v",
        "--v",
        type=_Verbosity(0, MOST_VERBOSE, clamp=True),
        metavar="N",
        default=0,
        expose_value=False,
        is_eager=True,
        callback=_keep_verbosity,
        help=f"How much is logged, 0 to {MOST_VERBOSE}; from {TRACEBACK_VERBOSITY} on, tracebacks too.",
    )(command)


class _FileName(click.types.StringParamType):
    """A text that shells complete to the name of a file or folder."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Leave it to the shell; called by click."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for a shell that asks

        return [CompletionItem(incomplete, type=self._kind)]


def completing(command: click.Command) -> click.Command:
    """The command, whose parameters that are shown as FILE or DIR complete to names of files and folders."""
    for parameter in command.params:
        if parameter.type is click.STRING and parameter.metavar in _FILE_NAMES:
            parameter.type = _FileName(_FILE_NAMES[parameter.metavar])
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        completing(each)
    return command


class _Boolean(click.types.BoolParamType):
    """A boolean whose refusal names the two words that matter."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a boolean; write true or false", param, ctx)


def boolean_option(
    name: str, *, default: bool | None = None, text: str = "", hidden: bool = False
) -> Callable[[Function], Function]:
    """A flag that also takes a value: `--flag`, `--flag false` and `--flag=false`; None if it was not given."""
    return click.option(
        name, type=_Boolean(), is_flag=False, flag_value=True, default=default, metavar="BOOL", help=text, hidden=hidden
    )


def files_option(command: Function) -> Function:
    """`-f FILE`, at least once; whether the files can be read is found out when they are."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="YAML or JSON to read; - is standard input. May be given several times.",
    )(command)


def cluster_option(command: Function) -> Function:
    """`-f FILE`, of commands that read the live cluster without it."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        help="YAML or JSON of a cluster; - is standard input. Without it the live cluster is read.",
    )(command)


def computing_options(suffix: str, what: str) -> Callable[[Function], Function]:
    """`--results DIR`, `--workers N` and `--dask ADDRESS`; results are in NAME-suffix unless the user says where."""
    kept = (
        f"Where results are kept; otherwise a folder NAME-{suffix} beside the file. {what} goes on where one stopped."
    )

    def add(command: Function) -> Function:
        cluster = "Run on the Dask cluster of this scheduler."
        command = click.option("--dask", "address", metavar="ADDRESS", default=None, help=cluster)(command)
        command = click.option(
            "--workers",
            type=WholeNumber(1, _MOST_WORKERS),
            metavar="N",
            default=None,
            help="Processes on this machine; otherwise one for each core.",
        )(command)
        return click.option("--results", "folder", metavar="DIR", default=None, help=kept)(command)

    return add


def config_option(command: Function) -> Function:
    """`--config FILE`."""
    return click.option(
        "--config",
        "config_file",
        metavar="FILE",
        default=None,
        help="KubeSchedulerConfiguration and the documents beside it; without it one default profile runs.",
    )(command)


def kubeconfig_option(command: Function) -> Function:
    """`--kubeconfig FILE`."""
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        default=None,
        help="Credentials; otherwise clientConnection.kubeconfig of --config, $KUBECONFIG, in-cluster, ~/.kube/config.",
    )(command)


def endpoint_options(document: str, address: str, certificate: str) -> Callable[[Function], Function]:
    """`--listen`, `--tls-cert` and `--tls-key`; `certificate` says what is special about the certificate."""

    def add(command: Function) -> Function:
        key = click.option("--tls-key", metavar="FILE", default=None, help="The certificate's private key.")
        cert = click.option("--tls-cert", metavar="FILE", default=None, help=f"TLS certificate; {certificate}")
        text = f"Address to listen on; otherwise listen of the {document}, else {address}."
        return click.option("--listen", metavar="HOST:PORT", default=None, help=text)(cert(key(command)))

    return add


def client_certificate_options(command: Function) -> Function:
    """`--client-ca-file FILE` and `--client-name NAME`: the clients whose requests a server answers."""
    command = click.option(
        "--client-name",
        "client_names",
        multiple=True,
        metavar="NAME",
        help="Accepted common name of client certificates; may be given several times. Without it, any.",
    )(command)
    return click.option(
        "--client-ca-file",
        metavar="FILE",
        default=None,
        help="CAs of the client certificates that callers must present; read again when it changes.",
    )(command)


def probe_options(command: Function) -> Function:
    """`--metrics-listen` and `--health-listen`: where a process without an HTTPS port of its own is observed."""
    command = click.option(
        "--health-listen",
        metavar="HOST:PORT",
        default=":8081",
        show_default=True,
        help="Address of /healthz and /readyz; empty: not served.",
    )(command)
    return click.option(
        "--metrics-listen",
        metavar="HOST:PORT",
        default=":8080",
        show_default=True,
        help="Address of /metrics; empty: not served.",
    )(command)


def output_option(*formats: str) -> Callable[[Function], Function]:
    """`-o FORMAT`; the first one is the default."""
    return click.option(
        "-o",
        "--output",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="What to print.",
    )
