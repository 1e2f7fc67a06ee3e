"""Other weights and arguments for a profile: a configuration in, the text of another one out."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml

from moorage.core.values import dataclass
from moorage.framework.registry import Registry
from moorage.wire.configuration import SCHEDULER_API, SCHEDULER_KIND, default_reading, read_configuration
from moorage.wire.configuration.shapes import without_nulls
from moorage.wire.documents import read_documents

DEFAULT_NAME = "default-scheduler"
"""What the profile is called that takes the place of no configuration at all."""
_SCORE = "score"


class CandidateError(ValueError):
    """A configuration that cannot be tuned; the text is one line."""


@dataclass(frozen=True, slots=True)
class Base:
    """The configuration that is tuned."""

    documents: tuple[dict[str, Any], ...]
    """All documents of its file."""
    document: int
    """Which of them has the profiles."""
    profile: int
    """Which of the profiles is tuned."""
    weights: Mapping[str, int]
    """Plugin -> its weight at Score today."""

    @property
    def profile_body(self) -> dict[str, Any]:
        """The profile as written."""
        found: dict[str, Any] = self.documents[self.document]["profiles"][self.profile]
        return found

    def argument(self, plugin: str, path: str) -> Any:
        """What the profile says about an argument; None if nothing."""
        for entry in self.profile_body.get("pluginConfig") or ():
            if entry.get("name") == plugin and path:
                value: Any = entry.get("args") or {}
                for part in path.split("."):
                    value = value.get(part) if isinstance(value, dict) else None
                return value
        return None


def base_of(text: str, profile: str, registry: Registry) -> Base:
    """A configuration without problems, and one of its profiles, the first unless it is named."""
    if text:
        documents = [without_nulls(each.value) for each in read_documents(text.encode())[0]]
        reading = read_configuration(text.encode(), "configuration", registry)
    else:
        documents, reading = [], default_reading(registry)
    at = next((index for index, each in enumerate(documents) if each.get("kind") == SCHEDULER_KIND), None)
    if at is None:
        at = len(documents)
        documents.append({"apiVersion": SCHEDULER_API, "kind": SCHEDULER_KIND})
    body = documents[at]
    body["profiles"] = body.get("profiles") or [{"schedulerName": DEFAULT_NAME}]
    names = [each.scheduler_name for each in reading.profiles] if body.get("profiles") and text else [DEFAULT_NAME]
    if profile and profile not in names:
        raise CandidateError(f"no profile has this name; write one of {', '.join(names)}")
    index = names.index(profile) if profile else 0
    return Base(tuple(documents), at, index, dict(reading.profiles[index].weights))


def candidate(base: Base, values: Mapping[tuple[str, str], Any]) -> str:
    """The text of the configuration with these weights and arguments: (plugin, path or nothing) -> value."""
    documents = [deepcopy(each) for each in base.documents]
    profile = documents[base.document]["profiles"][base.profile]
    for (plugin, path), value in values.items():
        if path:
            _set_argument(profile, plugin, path, value)
        else:
            _set_weight(profile, plugin, value)
    text: str = yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=False, width=120)
    return text


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    """At `score`, which wins over multiPoint; a weight of 0 would mean 1 there, so the plugin is disabled instead."""
    score = profile.setdefault("plugins", {}).setdefault(_SCORE, {})
    for state in ("enabled", "disabled"):
        kept = [entry for entry in score.get(state) or () if entry.get("name") != plugin]
        score.pop(state, None)
        if kept:
            score[state] = kept
    if weight:
        score.setdefault("enabled", []).append({"name": plugin, "weight": weight})
    else:
        score.setdefault("disabled", []).append({"name": plugin})


def _set_argument(profile: dict[str, Any], plugin: str, path: str, value: Any) -> None:
    entries = profile.setdefault("pluginConfig", [])
    entry = next((each for each in entries if each.get("name") == plugin), None)
    if entry is None:
        entry = {"name": plugin}
        entries.append(entry)
    place = entry.setdefault("args", {})
    *parents, last = path.split(".")
    for part in parents:
        if not isinstance(place.get(part), dict):
            place[part] = {}
        place = place[part]
    place[last] = deepcopy(value)
