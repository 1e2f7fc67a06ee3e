"""The profiles that judge: one for each name of another scheduler, and none for any other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from moorage.framework.profiles import Profile


def judge_of(profiles: Sequence[Profile], name: str) -> Profile:
    """The profile of this name, else the first."""
    return next((profile for profile in profiles if profile.scheduler_name == name), profiles[0])


def answering(profiles: Sequence[Profile], names: Collection[str]) -> list[Profile]:
    """The profiles as if they had these names."""
    return [replace(judge_of(profiles, name), scheduler_name=name) for name in names]
