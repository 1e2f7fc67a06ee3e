"""Random histories with extenders: whatever happens between question and answer, no pod is lost."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.engine.extender_machine import ExtenderMachine

ExtenderMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestRandomHistoriesWithExtenders = ExtenderMachine.TestCase
