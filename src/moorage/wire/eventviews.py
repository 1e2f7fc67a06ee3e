"""What is read of Events: of `events.k8s.io/v1` for lists of waiting pods, of the core group for the timeline."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from moorage.core.times import time_s
from moorage.wire.errors import REFUSALS


class _Series(msgspec.Struct, rename="camel"):
    count: int = 1
    last_observed_time: str | None = None


class _Regarding(msgspec.Struct):
    uid: str | None = None


class EventView(msgspec.Struct, rename="camel"):
    """What is read of an event of `events.k8s.io/v1`."""

    regarding: _Regarding | None = None
    reason: str | None = None
    note: str | None = None
    series: _Series | None = None
    event_time: str | None = None
    deprecated_count: int | None = None
    deprecated_last_timestamp: str | None = None

    @property
    def last_s(self) -> float:
        """When it last happened, 0 if unknown."""
        texts = (
            self.series.last_observed_time if self.series else None,
            self.deprecated_last_timestamp,
            self.event_time,
        )
        return next((at_s for at_s in map(time_s, texts) if at_s is not None), 0.0)

    @property
    def count(self) -> int:
        """How often it happened."""
        return max(self.series.count if self.series else 1, self.deprecated_count or 1)


class _Involved(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class CoreEventView(msgspec.Struct, rename="camel"):
    """What is read of an event of the core group."""

    metadata: _Meta
    involved_object: _Involved
    reason: str = ""
    message: str = ""
    event_time: str | None = None

    @property
    def time_text(self) -> str:
        """When it happened; empty if unknown."""
        return self.event_time or self.metadata.creation_timestamp or ""


_event = msgspec.json.Decoder(EventView).decode
decode_core_event = msgspec.json.Decoder(CoreEventView).decode


def read_events(events: Iterable[bytes | msgspec.Raw]) -> list[EventView]:
    """Events of `events.k8s.io/v1`; those that cannot be read are left out."""
    views: list[EventView] = []
    for raw in events:
        try:
            views.append(_event(raw))
        except REFUSALS:
            continue
    return views
