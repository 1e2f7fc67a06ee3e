"""Random histories: whatever happens in whatever order, no pod is lost and nothing is counted twice."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.engine.engine_machine import EngineMachine

EngineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestRandomHistories = EngineMachine.TestCase
