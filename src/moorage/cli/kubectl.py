"""The kubectl plugin: `kubectl moorage explain|queue|queues|gangs|devices|what-if`, always on the live cluster.

kubectl runs an executable `kubectl-moorage` that it finds on the PATH, with everything behind `moorage` as arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from moorage.cli.main import Commands, run_group, run_process
from moorage.cli.options import common_options
from moorage.cli.simulate import SimulateOptions, answer, change_options

PLUGIN_COMMANDS: Mapping[str, str] = {
    "explain": "Show where a pod goes and why, node by node.",
    "queue": "List the pending pods, and why they are pending.",
    "queues": "Show the tree of queues: shares, what is allocated, what waits.",
    "gangs": "List the gangs: members that run and wait, and the domains that they use.",
    "devices": "Show which devices there are, and who has them.",
    "what-if": "Show the effect of a drain, a scaling, more nodes or another configuration.",
}
"""Name of the command -> the line that `kubectl moorage --help` prints."""
_NAMES_ONLY, _FILES = ":4", ":0"
"""What kubectl does beside showing the candidates: nothing, or completing names of files."""


class _PluginCommands(Commands):
    """The commands of the plugin."""

    listed = PLUGIN_COMMANDS

    def load(self, name: str) -> click.Command:
        """Import a command."""
        if name == "what-if":
            return what_if
        module = f"kubectl_{name}" if name in ("queue", "queues", "gangs") else name
        command: click.Command = import_module(f"moorage.cli.{module}").command
        return command


@click.group(cls=_PluginCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def plugin() -> None:
    """Ask Moorage about the live cluster of your kubeconfig. Nothing is written to it."""


@click.command("what-if", short_help=PLUGIN_COMMANDS["what-if"])
@change_options
@common_options
def what_if(**asked: Any) -> int:
    """Show the effect of changes on the live cluster, with objects from files on top if there are any.

    It is `moorage simulate` with the live cluster of your kubeconfig: which pods move, wait or are evicted, utilisation
    and cost, before and after.
    """
    return answer(SimulateOptions(live=True, compare=True, **asked))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code; nothing is ever raised."""
    return run_group(plugin, "kubectl moorage", arguments)


def main() -> None:
    """The console script."""
    run_process(run)


def complete() -> None:
    """The console script that kubectl asks for what may come next: the words so far in, a candidate per line out."""
    from click.shell_completion import ShellComplete  # noqa: PLC0415 - only here

    *words, last = sys.argv[1:] or [""]
    found = ShellComplete(plugin, {}, "kubectl moorage", "").get_completions(words, last)
    names = [item for item in found if item.type == "plain"]
    for item in names:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NAMES_ONLY if names or not found else _FILES)
