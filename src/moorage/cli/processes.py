"""How commands end that run until they are stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def running(context: click.Context) -> Iterator[None]:
    """Run a process within: one that cannot start says why in one line, and so does one that has lost its lease."""
    from moorage.app.leadership import LOST_EXIT_CODE, LeadershipLost  # noqa: PLC0415 - slow to import
    from moorage.app.lifetime import StartError  # noqa: PLC0415
    from moorage.cli.output import InputError, say  # noqa: PLC0415

    try:
        yield
    except StartError as error:
        raise InputError([error]) from None
    except LeadershipLost as error:
        say("error", [error])
        context.exit(LOST_EXIT_CODE)
