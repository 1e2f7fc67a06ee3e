"""The profiles of a simulation, taken from a configuration."""

from __future__ import annotations

from dataclasses import replace

from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import Reading


def rules_of(reading: Reading, seed: int, *, answers_to_all: bool) -> SimulationRules:
    """The profiles and queue settings of a configuration without problems."""
    configuration = reading.configuration or Configuration()
    settings = replace(EngineSettings.of(configuration, seed), extenders=())  # nothing here could call them
    return SimulationRules(reading.profiles, settings, answers_to_all)
