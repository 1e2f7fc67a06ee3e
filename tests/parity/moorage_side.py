"""Questions put to Moorage, in this process: what `moorage simulate --explain -o json` would print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from moorage.app.plugins import find_plugins
from moorage.sim.inputs import read_cluster
from moorage.sim.report import claim_document, pod_document
from moorage.sim.rules import rules_of
from moorage.sim.simulation import simulate
from moorage.wire.configuration import Reading, read_configuration
from moorage.wire.manifests import parse_manifests

CONFIG = Path(__file__).parent / "golden" / "config.yaml"
"""The profiles that both sides run with."""


@cache
def reading() -> Reading:
    """The profiles of `CONFIG`, read once."""
    found = read_configuration(CONFIG.read_bytes(), CONFIG.name, find_plugins().registry)
    assert not found.problems, [str(problem) for problem in found.problems]
    return found


def ask(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entry of the last object, a pending pod."""
    pending = objects[-1]["metadata"]
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    given = read_cluster(parse_manifests("question", content))
    outcome = simulate(given, rules_of(reading(), seed=0, answers_to_all=False), explain=True)
    for story in outcome.pods:
        if (story.namespace, story.name) == (pending.get("namespace", "default"), pending["name"]):
            claims = {name: claim_document(status) for name, status in outcome.claims.items()}
            return {**pod_document(story, outcome), "claims": claims}
    raise LookupError(f"no entry for the pending pod {pending['name']}")
