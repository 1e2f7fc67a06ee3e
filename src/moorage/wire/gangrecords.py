"""The record of a gang's start as a condition of a pod: `False` while the start is on its way, `True` afterwards.

The message of the first holds the term of leadership and the members with their nodes, as JSON.
"""

from __future__ import annotations

import msgspec

from moorage.core.commands import PatchPodStatus
from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import STARTED, GangRecord
from moorage.core.limits import GANG_RECORD_CHARS
from moorage.core.pods import Condition

GANG_RECORD = "moorage.dev/GangStart"
"""Type of the condition."""
_BRACES = 2
"""A record is an object that holds one object; no name in it has a brace."""


class _Message(msgspec.Struct, kw_only=True):
    term: str = ""
    members: dict[str, str]


_DECODER = msgspec.json.Decoder(_Message)


def gang_record(status: str, message: str) -> GangRecord | None:
    """The record that such a condition is; None if we cannot have written it.

    Anybody who may write a pod's status can write one. So its text is bounded before it is parsed, and says nothing
    unless it has our form.
    """
    if status == "True":
        return STARTED
    if len(message) > GANG_RECORD_CHARS or message.count("{") > _BRACES or "[" in message:
        return None
    try:
        said = _DECODER.decode(message)
    except (msgspec.MsgspecError, ValueError):  # ValueError: no text that UTF-8 can say
        return None
    return GangRecord(done=False, term=said.term, nodes=FrozenDict(said.members))


def condition_of(command: PatchPodStatus) -> Condition | None:
    """The condition that a command writes, if any."""
    record = command.gang_record
    if record is None:
        return command.condition
    if record.done:
        return Condition(GANG_RECORD, "True", "Started")
    text = msgspec.json.encode(_Message(term=record.term, members=dict(record.nodes))).decode()
    return Condition(GANG_RECORD, "False", "Binding", text)
