"""What `make versions` makes of results; the suites themselves run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.versions.run import ROOT, SUITES, Outcome, outcome_of, table

RESULTS = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"/>
<testcase name="c"><failure message="no"/></testcase><testcase name="d"><error message="no"/></testcase>
<testcase name="e"><skipped message="since 1.30"/></testcase>
<testcase name="f"><skipped message="since 1.30"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(RESULTS, Outcome(2, 2, 2, ("since 1.30",)), id="every end"),
        pytest.param("<testsuite", Outcome(), id="broken off"),
        pytest.param(None, Outcome(), id="no results"),
    ],
)
def test_results_are_counted(tmp_path: Path, content: str | None, want: Outcome) -> None:
    """A reason is named once, and results that are not there are no success."""
    if content is not None:
        (tmp_path / "r.xml").write_text(content)
    assert outcome_of(tmp_path / "r.xml") == want
    assert not want.good


def test_the_table_has_a_column_for_each_release() -> None:
    """And below it what was left out, and why."""
    text = table({"1.28.15": {"chart": Outcome(3, 0, 1, ("new",))}, "1.37.1": {"chart": Outcome(4)}})
    assert text.splitlines() == [
        "| suite | 1.28.15 | 1.37.1 |",
        "|---|---|---|",
        "| chart | 3 passed, 1 left out | 4 passed |",
        "",
        "Left out on 1.28.15:",
        "",
        "- new",
    ]


def test_every_file_of_a_suite_exists() -> None:
    """One that was renamed would make pytest run nothing."""
    files = [ROOT / word for suite in SUITES.values() for word in suite if word.startswith("tests/")]
    assert files
    assert [file for file in files if not file.exists()] == []
