"""What is wrong with placement strategies in files: in annotations by column, in PlacementPolicies by field."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.core.objects import PLACEMENT_POLICY
from moorage.core.strategies import read_strategy
from moorage.core.strategy import StrategyError
from moorage.sim.specs import inside, sequence
from moorage.wire.manifests import Manifest
from moorage.wire.policy_rules import parse_rules
from moorage.wire.problems import ABSENT, Problem


def strategy_problems(manifest: Manifest, path: str, text: str) -> Iterator[Problem]:
    """Every mistake of a strategy that an annotation gives."""
    said = read_strategy(text)
    if isinstance(said, StrategyError):
        for mistake in said.mistakes:
            yield manifest.problem(path, ABSENT, str(mistake))


def policy_problems(manifest: Manifest) -> Iterator[Problem]:
    """Every mistake of a PlacementPolicy beyond what its schema says; nothing for other kinds."""
    if manifest.kind != PLACEMENT_POLICY:
        return
    spec = inside(manifest.body, "spec")
    if "selector" not in spec:
        remedy = "is missing, so that no pod is selected; write matchLabels, or {} for all pods of the namespace"
        yield manifest.problem("spec.selector", ABSENT, remedy)
    try:
        parse_rules(list(sequence(spec.get("rules"))))
    except StrategyError as error:
        for mistake in error.mistakes:
            yield manifest.problem(mistake.where, ABSENT, f"{mistake.what}; {mistake.remedy}")
