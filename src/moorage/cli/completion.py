"""`moorage completion`: prints the script with which a shell completes commands, options and files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from moorage.cli.options import common_options
from moorage.cli.output import GOOD

SHELLS: Mapping[str, str] = {
    "bash": 'source <(moorage completion bash)   # in ~/.bashrc, or once: eval "$(moorage completion bash)"',
    "zsh": "source <(moorage completion zsh)    # in ~/.zshrc, after compinit",
    "fish": "moorage completion fish | source    # in ~/.config/fish/config.fish",
}
"""Name of the shell -> the line that turns completion on there."""
_VARIABLE = "_MOORAGE_COMPLETE"
"""By this the script asks `moorage` for what may come next; click reads it."""


@click.command(
    "completion",
    short_help="Print the script that completes commands in bash, zsh or fish.",
    epilog="\b\n" + "\n".join(SHELLS.values()),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@common_options
def command(shell: str) -> int:
    """Print the script that completes commands, options, their values and files.

    The script asks `moorage` itself, so it is right for every version.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only here and for a shell that asks

    script = get_completion_class(shell)
    group: click.Group = import_module("moorage.cli.main").moorage
    if script is None:
        raise click.UsageError(f"no completion for {shell}; write one of {', '.join(SHELLS)}")
    click.echo(script(group, {}, "moorage", _VARIABLE).source())
    return GOOD
