"""Declared plugin arguments: a model per plugin, unknown fields are errors, all problems are reported at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

from moorage.core.durations import parse_duration


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("must be a duration in quotes or with a unit, such as 15s or 1m30s")  # noqa: TRY004 - pydantic's
    return parse_duration(value)


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "description": "A duration such as 90s, 5m or 1h30m."}),
]
"""A duration as Kubernetes writes it."""


class PluginArgs(BaseModel):
    """Derive the arguments of a plugin from this. Fields are written in snake_case and read in camelCase."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,  # most models are imported and never used
    )


class NoArgs(PluginArgs):
    """For plugins that take no arguments."""
