"""The profiles that a command runs with: from `--config`, or the default one."""

from __future__ import annotations

from pathlib import Path

from moorage.adapters.neighbours import neighbours_of
from moorage.app.plugins import find_plugins
from moorage.cli.output import InputError, say
from moorage.framework.configuration import Configuration
from moorage.framework.registry import Registry
from moorage.wire.configuration import Reading, default_reading, read_configuration
from moorage.wire.problems import Problem


def find_registry() -> Registry:
    """All plugins of this machine; those that cannot be loaded are named on stderr and left out."""
    found = find_plugins()
    say("warning", found.problems)
    return found.registry


def load_reading(config_file: str | None, *, asks_extenders: bool = False, otherwise: str = "") -> Reading:
    """Read the configuration; any problem ends the command, notices are printed.

    Commands that do not call HTTP extenders say so if there are any, as their answer may differ from the scheduler's.
    `otherwise` is used if no file is given; empty: the default profile.
    """
    registry = find_registry()
    if config_file is None:
        return read_configuration(otherwise.encode(), "", registry) if otherwise else default_reading(registry)
    reading = read_configuration(read_file(config_file), config_file, registry, neighbours_of(config_file))
    say("note", reading.notices)
    say("warning", (f"{problem}; the trial does not run" for problem in reading.trial_problems))
    if reading.problems:
        raise InputError(reading.problems)
    if reading.configuration is not None and reading.configuration.extenders and not asks_extenders:
        urls = [extender.url_prefix for extender in reading.configuration.extenders]
        message = "are not called here: only `moorage scheduler` asks HTTP extenders"
        say("note", [Problem(config_file, "extenders", urls, message)])
    return reading


def configuration_of(reading: Reading) -> Configuration:
    """What was read without problems."""
    if reading.configuration is None:
        raise InputError(["the configuration could not be read"])
    return reading.configuration


def read_file(file: str) -> bytes:
    """The content of a file; a file that cannot be read ends the command."""
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError([f"{file}: no such file; check the path"]) from None
    except IsADirectoryError:
        raise InputError([f"{file}: is a directory; name a file in it"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError([f"{file}: cannot be read ({reason}); make it readable"]) from None
