"""Where a pod stands that cannot be read as a whole."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from moorage.core.pods import FINISHED
from moorage.wire.errors import REFUSALS


class UnreadablePod(NamedTuple):
    """What is known of a pod that cannot be read: it stands on this node."""

    uid: str
    node: str


class _Meta(msgspec.Struct):
    uid: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Status(msgspec.Struct):
    phase: str | None = None


class _PodView(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status | None = None


_pod = msgspec.json.Decoder(_PodView).decode


def standing_pod(raw: bytes | msgspec.Raw) -> UnreadablePod | None:
    """The pod, if it holds room on a node; None if it does not, or if that cannot be read either."""
    try:
        view = _pod(raw)
    except REFUSALS:
        return None
    phase = None if view.status is None else view.status.phase
    if not view.spec.node_name or phase in FINISHED:
        return None
    return UnreadablePod(view.metadata.uid or "", view.spec.node_name)
