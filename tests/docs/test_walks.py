"""What the page on architecture names where it walks through the code is there."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module

import pytest

from tests.docs.fences import ROOT

_STEP = re.compile(r"\]\(\.\./src/([\w/]+)\.py\)\s((?:`[\w.]+`,?\s?)+):")
STEPS = [
    (module.replace("/", "."), name)
    for module, names in _STEP.findall((ROOT / "docs/architecture.md").read_text())
    for name in re.findall(r"`([\w.]+)`", names)
]


@pytest.mark.parametrize(("module", "name"), STEPS)
def test_a_step_names_something_that_exists(module: str, name: str) -> None:
    """Functions that are renamed or moved are renamed on the page, too."""
    assert callable(reduce(getattr, name.split("."), import_module(module)))


def test_there_are_walks() -> None:
    """The page is still written so that its steps are found."""
    assert len(STEPS) >= 40
