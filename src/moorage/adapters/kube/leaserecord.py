"""A Lease as an election reads and writes it: the holder, the duration, and the term.

Fields that this module does not know are kept as they were read, so that labels and what other components add to the
Lease survive a renewal.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import msgspec

from moorage.adapters.kube.errors import ServerError
from moorage.adapters.kube.resources import LEASES
from moorage.core.frozen import EMPTY
from moorage.core.values import dataclass
from moorage.wire.errors import REFUSALS
from moorage.wire.leases import decode_whole_lease

MOST_ANNOTATED = 256 * 1024
"""Bytes of all names and values of annotations of an object that the API server takes."""


@dataclass(frozen=True, slots=True)
class Term:
    """One period of leadership. Terms of one lease are never equal, because every takeover counts a transition."""

    transitions: int
    """`spec.leaseTransitions` of the Lease after the takeover."""
    holder: str

    def __str__(self) -> str:
        """`3/host_uuid`: leaseTransitions, a slash, holderIdentity."""
        return f"{self.transitions}/{self.holder}"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the spec of a Lease says. Times are texts as the holder's clock wrote them, and never compared."""

    holder: str = ""
    """Empty: there is no leader."""
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0

    @property
    def term(self) -> Term:
        """The term of the holder."""
        return Term(self.transitions, self.holder)


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the server has it."""

    record: LeaseRecord
    content: dict[str, Any] = field(repr=False)
    """The whole object; its resourceVersion is the precondition of the next write."""

    def note(self, key: str) -> str | None:
        """The value of an annotation."""
        metadata = self.content.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        found = annotations.get(key) if isinstance(annotations, dict) else None
        return found if isinstance(found, str) else None


def parse_lease(raw: bytes | msgspec.Raw) -> Lease:
    """Read an object of the API server."""
    try:
        content, spec = decode_whole_lease(raw)
    except REFUSALS as failure:
        raise ServerError(f"the lease cannot be read: {failure}") from failure
    record = LeaseRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )
    return Lease(record, content)


def new_lease(namespace: str, name: str, record: LeaseRecord, notes: Mapping[str, str] = EMPTY) -> dict[str, Any]:
    """The body that creates the Lease, with these annotations."""
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if notes:
        metadata["annotations"] = dict(notes)
    return {
        "apiVersion": f"{LEASES.group}/{LEASES.version}",
        "kind": "Lease",
        "metadata": metadata,
        "spec": _spec(record),
    }


def changed_lease(lease: Lease, record: LeaseRecord, notes: Mapping[str, str] = EMPTY) -> dict[str, Any]:
    """The body that replaces the Lease, on the condition that it has not changed in the meantime.

    Annotations that `notes` does not name stay. If all of them together are more than the API server takes, `notes` is
    left out: a leader must be able to renew whatever others have written.
    """
    content = copy.copy(lease.content)
    if notes:
        metadata = content.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), **notes}
        if sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items()) <= MOST_ANNOTATED:
            content["metadata"] = {**metadata, "annotations": annotations}
    content["spec"] = {**(content.get("spec") or {}), **_spec(record)}
    return content


def _spec(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_s,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }
