"""Declared plugin arguments: a model per plugin, unknown fields are errors, all problems are reported at once."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


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
