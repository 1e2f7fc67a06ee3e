"""The page of limits and the module of limits say the same."""

from __future__ import annotations

import re
from pathlib import Path

from moorage.core import limits

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_every_limit_is_on_the_page_with_its_value() -> None:
    """Nobody has to read the source to know what is cut off; a limit that is gone is gone from the page, too."""
    told: dict[str, int] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`([A-Z_]+)`", cells[0])
        if names:
            values = [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\d|\d", cells[1])]
            told.update(zip(names, values, strict=True))
    assert told == {name: value for name, value in vars(limits).items() if name.isupper() and isinstance(value, int)}
