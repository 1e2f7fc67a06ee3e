"""What the pages on architecture and on typical changes name in the code is there."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module

import pytest

from tests.docs.fences import ROOT

_NAMES = r"((?:`[\w.]+`(?:,\s+|\s+and\s+)?)+)"
_STEP = re.compile(rf"\]\(\.\./((?:src|tests)/[\w/]+)\.py\)\s+{_NAMES}")
_PLACE = re.compile(rf"{_NAMES}\s+(?:in|of)\s+\[[^]]*\]\(\.\./((?:src|tests)/[\w/]+)\.py\)")
WALKS, CHANGES = ((ROOT / "docs" / name).read_text() for name in ("architecture.md", "where-to-change-what.md"))


def named(page: str) -> list[tuple[str, str]]:
    """Modules and what the page says is in them: `name` after the link, or before it with "in" or "of"."""
    found = [*_STEP.findall(page), *((path, names) for names, path in _PLACE.findall(page))]
    modules = [(path.removeprefix("src/").replace("/", "."), names) for path, names in found]
    return [(module, name) for module, names in modules for name in re.findall(r"`([\w.]+)`", names)]


@pytest.mark.parametrize(("module", "name"), dict.fromkeys([*named(WALKS), *named(CHANGES)]))
def test_what_a_page_names_exists(module: str, name: str) -> None:
    """Functions that are renamed or moved are renamed on the page, too."""
    reduce(getattr, name.split("."), import_module(module))


def test_the_tests_that_would_fail_exist() -> None:
    """Files and functions that the page on changes names."""
    files = re.findall(r"`(tests/[\w/]+\.py)`", CHANGES)
    assert [file for file in files if "NAME" not in file and not (ROOT / file).is_file()] == []
    text = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", CHANGES) if f"def {name}(" not in text] == []


def test_the_pages_name_things() -> None:
    """They are still written so that what they name is found."""
    assert len(named(WALKS)) >= 40
    assert len(named(CHANGES)) >= 40
