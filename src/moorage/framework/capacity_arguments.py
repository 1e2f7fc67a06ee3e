"""The argument `capacityLabels` of plugins whose rules tell spot nodes from others."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from moorage.core.capacity import CapacityLabel
from moorage.core.labelnames import is_qualified_name
from moorage.framework.arguments import PluginArgs


def label_key(key: str) -> str:
    """The key, if it can be that of a label."""
    if not is_qualified_name(key):
        raise ValueError(f"{key!r} is no label key; write one such as example.com/pool")
    return key


class CapacityLabelArgs(PluginArgs):
    """A node label with the capacity type, and its values for spot and on-demand, case-insensitive."""

    key: str
    spot: Annotated[tuple[str, ...], Field(strict=False)] = ("spot",)
    on_demand: Annotated[tuple[str, ...], Field(strict=False)] = ("on-demand",)

    _checked = field_validator("key")(label_key)

    def label(self) -> CapacityLabel:
        """What the state reads."""
        words = (frozenset(map(str.lower, values)) for values in (self.spot, self.on_demand))
        return CapacityLabel(self.key, *words)
