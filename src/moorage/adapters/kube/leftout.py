"""Objects of one kind that cannot be read: counted every time, told of once."""

from __future__ import annotations

import msgspec
import structlog

from moorage.adapters.kube.resources import Resource
from moorage.adapters.kube.watchstream import Garbage, ObjectMeta, metadata_of
from moorage.core.limits import OBJECTS_TOLD

_LONGEST_REASON = 300

log = structlog.get_logger()


class LeftOut:
    """What a reflector could not read. Of what was told, the last `OBJECTS_TOLD` objects are remembered."""

    def __init__(self, resource: Resource) -> None:
        self.count = 0
        """How often an object was left out."""
        self.kind = resource.kind or resource.plural
        self._told: dict[str, None] = {}

    @property
    def remembered(self) -> int:
        """How many objects are remembered as told of."""
        return len(self._told)

    def add(self, raw: msgspec.Raw, failure: Exception) -> None:
        """This object is left out, as reading it ended so."""
        self.count += 1
        try:
            key = metadata_of(raw).key
        except Garbage:
            key = ""
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > OBJECTS_TOLD:
            del self._told[next(iter(self._told))]
        reason = " ".join(f"{failure or type(failure).__name__}".split())[:_LONGEST_REASON]
        log.warning("object left out, it cannot be read", kind=self.kind, object=key, error=reason)

    def forget(self, meta: ObjectMeta) -> None:
        """This object is gone; another one of its name is told of anew."""
        if self._told:
            self._told.pop(meta.key, None)
