"""`moorage shadow` as users call it: what is refused, and what is printed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from moorage.cli.main import run
from moorage.cli.output import InputError
from moorage.cli.shadow_report import print_report, report_writer
from moorage.views.shadownames import Names
from tests.views.shadows import THERE, decision, report


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(["--duration", "soon"], "'soon' is not a number of seconds; write digits, such as 600", id="text"),
        pytest.param(["--duration", "0"], "'0' is out of range", id="no time"),
        pytest.param(["--duration", "1e9"], "is not a number of seconds", id="exponent"),
        pytest.param(["--duration", "nan"], "is not a number of seconds", id="nan"),
        pytest.param(["--duration", "-5"], "is not a number of seconds", id="negative"),
        pytest.param(["--mode", "both"], "'both' is not one of", id="mode"),
        pytest.param(["-o", "yaml"], "'yaml' is not one of", id="format"),
        pytest.param(["--scheduler-name", ""], "the name is empty", id="no name"),
        pytest.param(["--metrics-listen", "nowhere"], "--metrics-listen: 'nowhere' is not an address", id="address"),
        pytest.param(
            ["--report", "/nowhere/at/all.html"], "--report /nowhere/at/all.html: cannot be written", id="report"
        ),
        pytest.param(["--report", "/"], "--report /: cannot be written", id="report at the root"),
        pytest.param(["--report", "/dev"], "--report /dev: cannot be written (Is a directory)", id="folder"),
        pytest.param(["--report", "/dev/null/a.html"], "(Not a directory)", id="below a file"),
        pytest.param(["--config", "/nowhere.yaml"], "/nowhere.yaml: no such file", id="config"),
        pytest.param(["--kubeconfig", "/nowhere"], "/nowhere", id="kubeconfig"),
    ],
)
def test_refusals_are_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on stdout, and no traceback."""
    assert run(["shadow", *flags]) == 2
    said = capsys.readouterr()
    (line,) = said.err.strip().splitlines()
    assert words in line
    assert said.out == ""


def test_a_report_whose_draft_has_no_room_is_refused_at_once(tmp_path: Path) -> None:
    """Not after hours of comparing."""
    with pytest.raises(InputError, match="cannot be written"):
        report_writer(str(tmp_path / ("a" * 254)), Names())  # a name may have 255, and the draft has a few more
    assert not [*tmp_path.iterdir()]


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is on stdout."""
    print_report(report(decision()), Names(), "json")
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["decisions"]["different"] == 1
    assert found["worlds"]["here"] is None


def test_the_table_tells_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts, the conclusion, both worlds, the plugins and the newest differences; no control sequences."""
    print_report(report(decision("evil\x1b[31m\npod"), here=THERE), Names(), "table")
    text = capsys.readouterr().out
    for words in ("different node", "Agreement: 0.00%", "Fit prefers the nodes", "nodes in use", "Fit +80", "n2"):
        assert words in text, words
    assert "\x1b" not in text
    assert "evil?[31m pod" in text


def test_an_empty_report_is_a_table_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first decision."""
    print_report(report(), Names(), "table")
    assert "all" in capsys.readouterr().out


def test_the_page_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader finds the old page or the new one, and no drafts stay."""
    file = tmp_path / "report.html"
    write = report_writer(str(file), Names())
    write(report())
    write(report(decision()))
    assert "shop/web-1" in file.read_text()
    assert [*tmp_path.iterdir()] == [file]
