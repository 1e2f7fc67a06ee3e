"""Writes to objects and how they are seen, for tests."""

from __future__ import annotations

from moorage.core.events import ObjectSeen
from moorage.core.volumes import PersistentVolumeClaim


def seen(claim: PersistentVolumeClaim) -> ObjectSeen:
    return ObjectSeen("PersistentVolumeClaim", claim.key, claim)
