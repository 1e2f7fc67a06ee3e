"""The configuration of planned profiles, for tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from moorage.framework.configuration import Configuration
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import read_configuration

CONFIG = Path(__file__).parents[2] / "deploy/examples/custom-scheduler/config.yaml"


@cache
def configuration() -> Configuration:
    found = read_configuration(CONFIG.read_bytes(), CONFIG.name, Registry(BUILTIN)).configuration
    assert found is not None
    return found
