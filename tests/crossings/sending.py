"""The scheduler's commands in the auditor's words."""

from __future__ import annotations

from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus, RecordEvent
from tests.crossings.audit.orders import Order, Verb


def order_of(command: Command) -> Order | None:
    """What the auditor should know of a command; None for what it can see."""
    if isinstance(command, Bind):
        return Order(Verb.BIND, command.pod.uid, command.pod.key, node=command.node)
    if isinstance(command, DeletePod):
        claimant = "" if command.preemptor is None else command.preemptor.uid
        about = {"reason": command.reason, "message": command.message, "claimant": claimant}
        return Order(Verb.EVICT, command.pod.uid, command.pod.key, **about)
    if isinstance(command, PatchPodStatus):
        return Order(Verb.STATUS, command.pod.uid, command.pod.key, node=command.nominated_node or "")
    if isinstance(command, RecordEvent):
        return Order(Verb.EVENT, command.pod.uid, command.pod.key, reason=command.reason, message=command.note)
    return None
