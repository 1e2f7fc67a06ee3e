"""The devices that a pod was given as a condition of the pod, written before it is bound.

Who may edit a pod may edit its annotations, but not its status. So annotations tell agents on the node which devices a
pod has, and this condition tells the next leader.
"""

from __future__ import annotations

import msgspec

from moorage.core.assignments import Assignment
from moorage.core.limits import ASSIGNMENT_CHARS, SHARED_DEVICES
from moorage.core.pods import Condition
from moorage.core.shareasks import WHOLE, Convention, ShareAsk

ASSIGNED = "moorage.dev/Devices"
"""Type of the condition."""


class _Message(msgspec.Struct, kw_only=True):
    node: str
    devices: list[int]
    milli: int
    memory_milli: int = msgspec.field(default=0, name="memoryMilli")
    memory_mib: int = msgspec.field(default=0, name="memoryMiB")


_DECODER = msgspec.json.Decoder(_Message)


def assignment(message: str, node: str | None) -> Assignment | None:
    """What such a condition of a pod on this node says; None if it is about another node, or cannot be ours.

    A pod without a node was given nothing: a start that came to nothing may have left the condition.
    """
    if not node or len(message) > ASSIGNMENT_CHARS:
        return None
    try:
        said = _DECODER.decode(message)
    except (msgspec.MsgspecError, ValueError):  # ValueError: no text that UTF-8 can say
        return None
    devices = tuple(sorted(set(said.devices)))
    amounts = said.milli, said.memory_milli, said.memory_mib
    if said.node != node or not devices or devices[0] < 0 or devices[-1] >= SHARED_DEVICES or min(amounts) < 0:
        return None
    if max(amounts[:2]) > WHOLE:
        return None
    return Assignment(node, devices, ShareAsk(Convention.WHOLE, len(devices), *amounts))


def condition_of_assignment(given: Assignment) -> Condition:
    """The condition that says it."""
    ask = given.ask
    said = _Message(
        node=given.node, devices=list(given.devices), milli=ask.milli, memory_milli=ask.memory_milli,
        memory_mib=ask.memory_mib,
    )  # fmt: skip
    return Condition(ASSIGNED, "True", "Assigned", msgspec.json.encode(said).decode())
