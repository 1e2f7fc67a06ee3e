"""The profiles of a simulation, taken from a configuration."""

from __future__ import annotations

from moorage.engine.engine import EngineSettings
from moorage.engine.queue import Backoff
from moorage.framework.configuration import Configuration
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import Reading


def rules_of(reading: Reading, seed: int, *, answers_to_all: bool) -> SimulationRules:
    """The profiles and queue settings of a configuration without problems."""
    configuration = reading.configuration or Configuration()
    backoff = Backoff(configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s)
    return SimulationRules(reading.profiles, EngineSettings(backoff, seed), answers_to_all)
