"""Who decides in tests of what-ifs."""

from __future__ import annotations

from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.rules import rules_of
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import default_reading


def default_rules() -> SimulationRules:
    """The default profile, for pods of every scheduler name."""
    return rules_of(default_reading(Registry(BUILTIN)), 0, answers_to_all=True)
