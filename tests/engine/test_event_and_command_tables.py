"""No event or command can be added without everybody who has to know it."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from moorage.adapters.journal.records import COMMANDS
from moorage.core.commands import Command, KeeperCommand
from moorage.core.events import Event, KeeperEvent
from moorage.engine.engine import Engine
from tests.framework.readers import default_profile

ANSWERED = re.compile(r"Answered by `(\w+)`")


def test_the_engine_takes_every_event() -> None:
    """A new event: add its handler to the engine."""
    assert set(Engine([default_profile()])._handlers) == set(get_args(Event))


def test_the_journal_numbers_every_command() -> None:
    """A new command: add it to the end of `COMMANDS`, so that older journals can be read."""
    assert set(COMMANDS) == set(get_args(Command))


@pytest.mark.parametrize("command", dict.fromkeys((*get_args(Command), *get_args(KeeperCommand))))
def test_answers_are_events(command: type) -> None:
    """What a command says it is answered by exists, and reaches the part that ordered it."""
    events = {kind.__name__ for kind in get_args(Event if command in get_args(Command) else KeeperEvent)}
    assert set(ANSWERED.findall(command.__doc__ or "")) <= events
