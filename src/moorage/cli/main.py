"""The command `moorage`: finds the command to run, and turns every outcome into an exit code.

Commands are loaded when they are used, so that `--help` and `--version` need nothing but click. To add one, write a
module in this folder whose `command` is a click command and add a row to `COMMANDS`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from moorage.cli.options import TRACEBACK_VERBOSITY, Session, completing
from moorage.cli.output import INTERNAL_ERROR, INTERRUPTED, READER_GONE, drop_output, flush, say_problems

COMMANDS: Mapping[str, str] = {
    "demo": "Watch pods being placed on virtual nodes; no cluster needed.",
    "scheduler": "Place the pods of a live cluster.",
    "kube-scheduler": "The same with the flags of kube-scheduler, to take its place.",
    "extender": "Add plugins to a stock kube-scheduler over HTTP.",
    "webhook": "Assign new pods a rule of their placement strategy, under any scheduler.",
    "keeper": "Move pods off nodes that are about to be terminated, and back to spot capacity.",
    "dashboard": "Look at a cluster in the browser.",
    "shadow": "Compare another scheduler's decisions with Moorage's; writes nothing.",
    "simulate": "Place the pods of a file, and show why; or show the effect of a change.",
    "experiment": "Run many simulations, and say which differences are real.",
    "tune": "Search weights and arguments of a profile, and say whether that is better.",
    "snapshot": "Save the objects of a live cluster that scheduling reads in a file.",
    "explain": "Show where a pod goes and why, node by node.",
    "devices": "Show which devices there are, and who has them.",
    "replay": "Repeat the decisions in a journal.",
    "bench": "Measure decisions per second, alone and against kube-scheduler.",
    "validate": "Check configuration files and manifests.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
}
"""Name of the command, and of its module in this folder (with underscores) -> the line that `moorage --help` prints."""

_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000

# numpy's OpenBLAS starts a thread per core when it is loaded; decisions are integer arithmetic and never use them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Commands(click.Group):
    """A group whose commands are imported when one of them is called."""

    listed: Mapping[str, str] = COMMANDS

    def load(self, name: str) -> click.Command:
        """Import a command of the list."""
        command: click.Command = import_module(f"moorage.cli.{name.replace('-', '_')}").command
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - part of click's interface
        """The names of the commands; called by click."""
        return list(self.listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name; called by click."""
        return completing(self.load(cmd_name)) if cmd_name in self.listed else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The part of the help that lists them; called by click."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.listed.items()))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; help and version are printed here."""
        with _own_exit_codes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _own_exit_codes():
            result = super().invoke(ctx)
            flush()
        return result


@contextmanager
def _own_exit_codes() -> Iterator[None]:
    """Exit as shells expect where click would choose an exit code that means something else here."""
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise click.exceptions.Exit(READER_GONE) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def print_version(context: click.Context, _: click.Parameter, asked: object) -> None:
    """Print the version and end, if that is asked for."""
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - costs more than the rest of the start

        click.echo(f"moorage {version('moorage')}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Print the version."
)
def moorage() -> None:
    """A Kubernetes scheduler that is programmed in Python."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code; nothing is ever raised."""
    return run_group(moorage, "moorage", arguments)


def run_group(group: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command line of a group, or of a command, that is called by this name."""
    session = Session()
    try:
        return _guarded(lambda: group.main(arguments, name, standalone_mode=False, obj=session), session)
    except BrokenPipeError:
        drop_output()
        return READER_GONE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _guarded(body: Callable[[], object], session: Session) -> int:
    try:
        result = body()
        flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.ClickException as error:
        say_problems(error)
        return error.exit_code
    except (BrokenPipeError, click.Abort):
        raise
    except Exception as error:  # noqa: BLE001 - the last guard: a fault of ours is one line, not a traceback
        return _internal_error(error, session)
    return result if isinstance(result, int) else 0


def _internal_error(error: Exception, session: Session) -> int:
    if session.verbosity >= TRACEBACK_VERBOSITY:
        import traceback  # noqa: PLC0415 - only if requested

        traceback.print_exc()
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(
        f"moorage: internal error: {reason}; run again with -v {TRACEBACK_VERBOSITY} for the traceback", err=True
    )
    return INTERNAL_ERROR


def run_process(run: Callable[[], int]) -> NoReturn:
    """Run a console script, with little garbage collection: a start makes many values and hardly any garbage."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    code = run()
    gc.freeze()  # at its end the interpreter would search everything for garbage twice, and free it all the same
    sys.exit(code)


def main() -> None:
    """The console script."""
    run_process(run)
