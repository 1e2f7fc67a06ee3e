"""Why an attempt ended without a node, and what that means for the pod."""

from __future__ import annotations

from moorage.core.values import dataclass
from moorage.engine.diagnosis import rejecting_plugins, unschedulable_message
from moorage.framework.runner import Judgement
from moorage.framework.status import Code, Status

NO_NODES = "no nodes"
"""Used in place of a plugin if there was no node to reject: any new node may help."""
NO_DOMAIN = "no domain"
"""Used in place of a plugin if a gang must stay in one topology domain: new nodes and new labels may help."""
EXTENDER = "Extender"
"""Used in place of a plugin if extenders rejected nodes: any change may lead to another answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended without a node."""

    message: str
    rejected_by: frozenset[str]
    code: Code = Code.UNSCHEDULABLE
    room_helps: bool = True
    """Whether it could help that other pods leave."""


def failure_of(status: Status) -> Failure:
    """The failure when a plugin refuses after a node was chosen."""
    if status.code is Code.ERROR:
        return Failure(f"running plugin {status.plugin}: {status.message}", frozenset(), Code.ERROR)
    code = Code.PENDING if status.code is Code.PENDING else Code.UNSCHEDULABLE
    return Failure(status.message, frozenset({status.plugin}), code, room_helps=status.resolvable)


def failure_of_judgement(judgement: Judgement, node_count: int) -> Failure:
    """The failure when no node was found."""
    if judgement.refusal is not None and judgement.refusal.code is Code.ERROR:
        return failure_of(judgement.refusal)
    if judgement.failure:
        return Failure(judgement.failure, frozenset(), Code.ERROR)
    if len(judgement.passed):
        message = f"{len(judgement.passed)} nodes fit when asked again; a plugin's answers do not agree"
        return Failure(message, frozenset(), Code.ERROR)
    pending = judgement.refusal is not None and judgement.refusal.code is Code.PENDING
    return Failure(
        unschedulable_message(judgement, node_count),
        rejecting_plugins(judgement) or frozenset({NO_NODES}),
        Code.PENDING if pending else Code.UNSCHEDULABLE,
        room_helps=judgement.resolvable,
    )
