"""Tables for people."""

from __future__ import annotations

from io import StringIO

import pytest

from moorage.sim.tables import shown, write_table


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("web-1 to n1", "web-1 to n1", id="plain"),
        pytest.param("zażółć 東京", "zażółć 東京", id="other scripts"),
        pytest.param("a\x1b[31mb", "a?[31mb", id="a colour"),
        pytest.param("a\nb\tc", "a b c", id="a line break"),
        pytest.param("a\u202eb\x9b2Jc", "a?b?2Jc", id="turned around"),
    ],
)
def test_what_a_terminal_would_obey_is_not_printed(text: str, want: str) -> None:
    """Anyone may write names and messages."""
    assert shown(text) == want


def test_a_table_has_a_line_for_each_row() -> None:
    """Also where a cell holds line breaks; numbers stand at the right."""
    out = StringIO()
    write_table(
        ("NODE", "TOTAL", "WHY"), [("n1\x1b[2J", "7", "first\nsecond"), ("n2", "12", "")], out, numbers=("TOTAL",)
    )
    assert out.getvalue().splitlines() == ["NODE    TOTAL  WHY", "n1?[2J      7  first second", "n2         12"]
