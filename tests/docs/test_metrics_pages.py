"""Every metric of Moorage's own is described."""

from __future__ import annotations

import re

from tests.docs.fences import ROOT

NAME = re.compile(r'"((?:moorage|smart_scheduler)_[a-z_]+)"')


def test_every_metric_is_on_a_page() -> None:
    """A new metric: describe it in docs/observability.md, or on the page of the component that has it."""
    code = "".join(path.read_text() for path in (ROOT / "src/moorage/adapters").rglob("*.py"))
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert sorted(name for name in set(NAME.findall(code)) if f"`{name}" not in pages) == []
