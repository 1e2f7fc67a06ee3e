"""Fixtures of the tests that do what the documents tell their readers to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.environments import Installer, build_wheel, new_shell
from tests.docs.fences import ROOT
from tests.docs.sessions import Shell


@pytest.fixture(scope="session")
def moorage_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build Moorage's wheel, without a network."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("moorage-wheel"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, moorage_wheel: Path) -> Installer:
    """Make environments by name: each holds Moorage and a copy of examples/, and is made once."""
    made: dict[str, Shell] = {}

    def install(name: str) -> Shell:
        if name not in made:
            made[name] = new_shell(tmp_path_factory.mktemp("reader"), moorage_wheel)
        return made[name]

    return install
