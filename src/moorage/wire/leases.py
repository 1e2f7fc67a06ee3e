"""What is read of a Lease. Times are texts as the holder's clock wrote them."""

from __future__ import annotations

from typing import Any

import msgspec


class LeaseMetaWire(msgspec.Struct, gc=False, rename="camel"):
    """The metadata of a Lease."""

    name: str = ""
    namespace: str = ""
    creation_timestamp: str = ""
    annotations: dict[str, str] | None = None


class LeaseSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseWire(msgspec.Struct, gc=False):
    """A Lease."""

    metadata: LeaseMetaWire
    spec: LeaseSpecWire | None = None


decode_lease = msgspec.json.Decoder(LeaseWire).decode
_whole = msgspec.json.Decoder(dict[str, Any]).decode


def decode_whole_lease(raw: bytes | msgspec.Raw) -> tuple[dict[str, Any], LeaseSpecWire]:
    """The object with all its fields, which a renewal keeps, and its spec."""
    content = _whole(raw)
    return content, msgspec.convert(content.get("spec") or {}, LeaseSpecWire)
