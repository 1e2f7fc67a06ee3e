"""`moorage dashboard`: usage, and what stands in its way, in one line each."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from moorage.cli.main import run
from tests.dashboard.recorded import record


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--listen", "nowhere"], "--listen nowhere: not an address; write HOST:PORT", id="no port"),
        pytest.param(["--journal", "x", "--kubeconfig", "y"], "--journal and --kubeconfig exclude", id="two sources"),
        pytest.param(["--journal", "x", "--allow-writes"], "--journal and --allow-writes exclude", id="a record"),
        pytest.param(["--journal", "x", "--shadow", "y"], "--journal and --shadow exclude", id="a shadow of a record"),
        pytest.param(["--journal", "no-such-folder"], "no-such-folder", id="no journal"),
        pytest.param(["--kubeconfig", "no-such-file"], "no-such-file", id="no kubeconfig"),
        pytest.param(["--config", "no-such-file"], "no-such-file: no such file", id="no configuration"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and a line that names the remedy."""
    assert run(["dashboard", *arguments]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert said in errors[0]


def test_a_short_token_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One that could be guessed is not taken."""
    monkeypatch.setenv("MOORAGE_DASHBOARD_TOKEN", "short")
    assert run(["dashboard", "--journal", "x"]) == 2
    assert "16 or more letters" in capsys.readouterr().err


def test_a_port_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the address."""
    record(tmp_path / "journal")
    monkeypatch.delenv("MOORAGE_DASHBOARD_TOKEN", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(["dashboard", "--journal", str(tmp_path / "journal"), "--listen", address]) == 2
    assert f"--listen {address}: cannot listen there: the port is taken" in capsys.readouterr().err


def test_the_demo_prints_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    """First of all, with the token; in JSON as a document like all others."""
    assert run(["demo", "--duration", "0.2", "--no-browser"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(r"dashboard at http://127\.0\.0\.1:\d+/#token=[\w-]{16}", line)
    assert run(["demo", "--duration", "0.2", "--no-browser", "--log-format", "json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["what"] == "dashboard"
    assert first["url"].startswith("http://127.0.0.1:")
