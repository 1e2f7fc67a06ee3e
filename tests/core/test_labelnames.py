"""Names as the API server accepts them."""

from __future__ import annotations

import pytest

from moorage.core.labelnames import is_label_value, is_qualified_name


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("app", True, id="plain"),
        pytest.param("App_1.x-y", True, id="all characters"),
        pytest.param("example.com/app", True, id="prefix"),
        pytest.param("a" * 253 + "/" + "b" * 63, True, id="longest"),
        pytest.param("", False, id="empty"),
        pytest.param("-a", False, id="starts with a dash"),
        pytest.param("a.", False, id="ends with a dot"),
        pytest.param("a b", False, id="space"),
        pytest.param("a\n", False, id="line break"),
        pytest.param("Example.com/app", False, id="upper case prefix"),
        pytest.param("/app", False, id="empty prefix"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("b" * 64, False, id="long name"),
        pytest.param("a" * 254 + "/b", False, id="long prefix"),
        pytest.param("１", False, id="full-width digit"),
    ],
)
def test_qualified_names(text: str, want: bool) -> None:
    """A name of 1 to 63 characters, optionally behind a DNS subdomain and a slash."""
    assert is_qualified_name(text) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", True, id="empty"),
        pytest.param("v1.2_3-x", True, id="all characters"),
        pytest.param("a/b", False, id="slash"),
        pytest.param("x" * 64, False, id="long"),
    ],
)
def test_label_values(text: str, want: bool) -> None:
    """Like the name part of a key, or empty."""
    assert is_label_value(text) is want
