"""KeeperConfigurations as texts, for tests."""

from __future__ import annotations

from moorage.framework.keeping import KeeperConfiguration, keeper_configuration
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Reading, read_configuration

HEAD = "apiVersion: moorage.dev/v1alpha1\nkind: KeeperConfiguration\n"


def read(text: str) -> Reading:
    return read_configuration((HEAD + text).encode(), "c.yaml", Registry(BUILTIN))


def keeper_of(text: str) -> KeeperConfiguration:
    reading = read(text)
    assert reading.problems == ()
    assert reading.configuration is not None
    return keeper_configuration(reading.configuration)
