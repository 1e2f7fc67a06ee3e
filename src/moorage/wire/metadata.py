"""What all kinds have in common: names, labels, annotations, owners and times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.pods import Owner

TimeWire: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time; one without an offset would depend on where it is read, so it is refused."""
Int32Wire: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64Wire: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the manifest: as large as the object, and of no use to placement."""


class OwnerWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of ownerReferences."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str | None = None
    controller: bool | None = None


class MetadataWire(msgspec.Struct, gc=False, rename="camel"):
    """The metadata of any object."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None
    creation_timestamp: TimeWire | None = None
    deletion_timestamp: TimeWire | None = None
    resource_version: str | None = None
    generation: Int64Wire | None = None


def frozen_map(values: Mapping[str, str] | None) -> FrozenDict[str, str]:
    """Labels, or any other map of texts, as a value."""
    return FrozenDict(values) if values else EMPTY


def frozen_annotations(values: Mapping[str, str] | None) -> FrozenDict[str, str]:
    """Annotations as a value, without kubectl's copy of the manifest."""
    if values and LAST_APPLIED in values:
        values = {key: value for key, value in values.items() if key != LAST_APPLIED}
    return frozen_map(values)


def controller_of(references: list[OwnerWire] | None) -> Owner | None:
    """The owner with `controller: true`."""
    for owner in references or ():
        if owner.controller:
            return Owner(owner.kind, owner.name, owner.uid, owner.api_version or "")
    return None


def epoch_s(time: datetime | None) -> float | None:
    """Seconds since 1970; None stays None."""
    return None if time is None else time.timestamp()
