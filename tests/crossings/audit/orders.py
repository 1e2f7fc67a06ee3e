"""What the scheduler and the keeper wrote, in the auditor's own words."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verb(StrEnum):
    """What an order does."""

    BIND = "bind"
    EVICT = "evict"
    STATUS = "status"
    EVENT = "event"


class Order(NamedTuple):
    """Something that the scheduler writes about a pod."""

    verb: Verb
    uid: str
    key: str
    """`namespace/name`."""
    node: str = ""
    reason: str = ""
    message: str = ""
    claimant: str = ""
    """Uid of the pod that gets the room."""


class Move(NamedTuple):
    """The keeper evicts a pod, so that it starts elsewhere."""

    uid: str
    key: str
    cause: str
    place: str | None
