"""Spans as plain values, and the ids that belong to a pod.

The ids of a pod's trace and of its root span are made of its uid. So attempts of several replicas belong to the same
trace, nothing has to be remembered while a pod waits, and every replica samples the same pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple, TypeAlias

Attributes: TypeAlias = Mapping[str, str | int | bool]

_LOW_64 = (1 << 64) - 1
NO_ATTRIBUTES: Attributes = {}


class TraceIds(NamedTuple):
    """Which trace a pod has, and which span of it is the root."""

    trace: int
    root: int


class Mark(NamedTuple):
    """A moment in a span; OpenTelemetry calls it a span event."""

    at_ns: int
    name: str
    attributes: Attributes = NO_ATTRIBUTES


class Span(NamedTuple):
    """A span that has ended. Times are nanoseconds since 1970."""

    trace_id: int
    span_id: int
    parent_id: int
    """0 for the root."""
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes = NO_ATTRIBUTES
    failure: str = ""
    """Why it failed; empty if it did not."""
    marks: tuple[Mark, ...] = ()


Emit: TypeAlias = Callable[[Span], None]
"""Takes a span; neither waits nor raises."""


def ids_of(uid: str) -> TraceIds:
    """Trace and root of a pod: the first 16 and the next 8 bytes of the SHA-256 of its uid; neither may be 0."""
    digest = sha256(uid.encode()).digest()
    return TraceIds(int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1)


class Sampler:
    """Picks a share of all traces by their ids, as OpenTelemetry's `traceidratio` does."""

    def __init__(self, ratio: float) -> None:
        self._below = round(ratio * (_LOW_64 + 1))

    def takes(self, trace_id: int) -> bool:
        """Whether a trace is one of them."""
        return trace_id & _LOW_64 < self._below
