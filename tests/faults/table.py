"""Every scenario of the laboratory, in the order in which they are run."""

from __future__ import annotations

from tests.faults import (
    admission,
    api_faults,
    between,
    devices,
    hostile,
    leaders,
    outages,
    sieve,
    spot,
    strangers,
    surroundings,
)
from tests.faults.lab import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *leaders.SCENARIOS,
    *outages.SCENARIOS,
    *strangers.SCENARIOS,
    *surroundings.SCENARIOS,
    *hostile.SCENARIOS,
    *between.SCENARIOS,
    *api_faults.SCENARIOS,
    *sieve.SCENARIOS,
    *spot.SCENARIOS,
    *admission.SCENARIOS,
    *devices.SCENARIOS,
)
