"""The command line itself: what is there, how it ends, what it says."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from moorage.cli.main import COMMANDS, moorage, run
from moorage.cli.options import boolean_option, common_options, session_of

HEAVY = ("numpy", "pydantic", "aiohttp", "rich", "yaml", "msgspec", "structlog", "importlib.metadata")


class Stdin(io.TextIOWrapper):
    """A standard input whose reading does whatever a test wants."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        raw = io.BytesIO()
        raw.read = lambda *_: read()  # type: ignore[method-assign]
        super().__init__(raw)


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the version of the installed package and nothing else."""
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"moorage {version('moorage')}\n"


def test_help_lists_only_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command in the list can be loaded and shows help with the options that all commands share."""
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in COMMANDS:
        assert name in listed
        assert run([name, "--help"]) == 0
        shown = capsys.readouterr().out
        if "Commands:" not in shown:
            assert "--log-format" in shown
            assert "-v, --v" in shown


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_starts_without_heavy_imports(arguments: list[str]) -> None:
    """Help must come at once, so nothing is imported that it does not need."""
    code = (
        f"import sys\nfrom moorage.cli.main import run\nrun({arguments!r})\n"
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["frobnicate"], "No such command 'frobnicate'", id="unknown command"),
        pytest.param(["simulate"], "Missing option '-f'", id="no files"),
        pytest.param(["simulate", "-f", "x", "--nope"], "--nope", id="unknown option"),
        pytest.param(["simulate", "-f", "x", "-o", "xml"], "'xml' is not one of", id="unknown output"),
        pytest.param(["simulate", "-f", "x", "--seed", "one"], "'one'", id="seed is no number"),
        pytest.param(["simulate", "-f", "x", "-v", "１"], "whole number", id="full-width verbosity"),
        pytest.param(["simulate", "-f", "x", "--log-format", "xml"], "'xml' is not one of", id="unknown log format"),
        pytest.param(["validate", "-f", "x", "y"], "unexpected extra argument", id="stray argument"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage ends with 2 and one line on stderr that names the value and where to look."""
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert "--help" in captured.err


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`moorage` alone is wrong usage, answered with the help."""
    assert run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


def test_interrupt_is_clean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends with 130 and says nothing."""

    def interrupt() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Stdin(interrupt))
    assert run(["validate", "-f", "-"]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(("verbosity", "traceback"), [("0", False), ("5", True)], ids=["quiet", "verbose"])
def test_internal_error(
    verbosity: str, traceback: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of Moorage is one line and 70; the traceback is there for who asks."""

    def fail() -> bytes:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(sys, "stdin", Stdin(fail))
    assert run(["validate", "-f", "-", "-v", verbosity]) == 70
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("moorage: internal error: RuntimeError: two lines; ")
    assert "-v 5" in said
    assert ("Traceback" in said) is traceback


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_reader_that_goes_away(output: str, tmp_path: Path) -> None:
    """A closed pipe ends the command without a word, as if by SIGPIPE."""
    pods = "".join(f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}}}, spec: {{}}}}\n" for i in range(3000))
    file = tmp_path / "many.yaml"
    file.write_text(pods)
    code = "from moorage.cli.main import main; main()"
    command = [sys.executable, "-c", code, "simulate", "-f", str(file), "-o", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        pytest.param([], None, id="not given"),
        pytest.param(["--leader-elect"], True, id="alone"),
        pytest.param(["--leader-elect=false"], False, id="equals false"),
        pytest.param(["--leader-elect", "false"], False, id="space false"),
        pytest.param(["--leader-elect=true"], True, id="equals true"),
        pytest.param(["--leader-elect", "-v", "2"], True, id="alone before an option"),
    ],
)
def test_boolean_flags(arguments: list[str], value: bool | None) -> None:
    """Flags of booleans take a value with a space, with an equals sign, or none."""
    seen: list[bool | None] = []

    @click.command()
    @boolean_option("--leader-elect")
    @common_options
    def command(leader_elect: bool | None) -> None:
        seen.append(leader_elect)

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert (result.exit_code, seen) == (0, [value])


@pytest.mark.parametrize("arguments", [["-v", "4"], ["-v4"], ["-v=4"], ["--v=4"], ["--v", "4"]], ids=" ".join)
def test_verbosity(arguments: list[str]) -> None:
    """The verbosity may be written in all the ways that Kubernetes' commands take."""
    seen: list[int] = []

    @click.command()
    @common_options
    @click.pass_context
    def command(context: click.Context) -> None:
        seen.append(session_of(context).verbosity)

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert seen == [4]


def test_commands_are_found_by_name() -> None:
    """Exactly the commands of the table can be called."""
    context: Any = click.Context(moorage)
    assert moorage.list_commands(context) == list(COMMANDS)
    assert moorage.get_command(context, "frobnicate") is None


def test_help_is_not_cut_short_by_a_closed_stdout() -> None:
    """Even the help ends cleanly when nobody reads it."""
    code = "from moorage.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 141
