"""How log lines look, whichever logger writes them."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from moorage.cli.logs import configure_logs
from moorage.cli.options import Session
from moorage.views.loglines import AS_IN_KUBERNETES, KUBERNETES_MARK


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave the logging of this process as it was."""
    handlers = [*logging.getLogger().handlers]
    yield
    logging.getLogger().handlers = handlers
    structlog.reset_defaults()


@pytest.mark.parametrize(("verbosity", "want"), [(0, False), (5, True)], ids=["as usual", "-v 5"])
def test_a_librarys_traceback_is_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], verbosity: int, want: bool
) -> None:
    """Otherwise it is one line, with the error at its end; what is less than a warning is not told."""
    configure_logs(Session(verbosity=verbosity))
    configure_logs(Session(verbosity=verbosity))
    library = logging.getLogger("library")
    library.info("nothing")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        library.exception("Unhandled\nexception")
    text = capsys.readouterr().err
    assert text.count("Unhandled exception") == 1
    assert "ValueError: two lines" in text
    assert ("Traceback" in text) is want
    assert want or len(text.splitlines()) == 1


def test_a_line_that_nobody_can_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that started us is gone, and stderr with it: pods are scheduled all the same."""
    configure_logs(Session())
    log = structlog.get_logger()
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    log.warning("nobody hears this")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nerror forged", "a\\nerror forged"),
        ("a\r\x07\x9b1m", "a\\r\\x07\\x9b1m"),
        ("a\u202eb\u2028c", "a\\u202eb\\u2028c"),
        ("grün 夜", "grün 夜"),
    ],
    ids=["clears the screen", "a line of its own", "bells and colours", "turns the direction", "other letters stay"],
)
def test_tenants_text_stays_on_its_line(capsys: pytest.CaptureFixture[str], text: str, want: str) -> None:
    """In messages, values and what libraries say; nothing reaches the terminal but what can be printed."""
    configure_logs(Session())
    log = structlog.get_logger()
    log.warning(text)
    log.warning("pod", name=text, names=[text])
    logging.getLogger("library").warning("said %s", text)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert want in lines[0]
    assert want in lines[1]


def test_a_traceback_cannot_look_like_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines are indented, those of the error's text too."""
    configure_logs(Session(verbosity=5))
    try:
        raise ValueError("a\n2026-01-01T00:00:00Z [info] forged\x1b[2J")
    except ValueError:
        structlog.get_logger().exception("failed")
    first, *others = capsys.readouterr().err.splitlines()
    assert "failed" in first
    assert all(line.startswith(("    ", "Traceback")) for line in others), others
    assert all(line.isprintable() for line in others)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_lines_of_kube_scheduler_have_its_fields(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    """Texts in quotes, numbers without, and what moved a pod is called `event`; programs read JSON as ever."""
    configure_logs(Session(verbosity=5, log_format=log_format))
    log = structlog.get_logger()
    fields = {"pod": "default/sample", "queue": "Active", "cause": "UnscheduledPodAdd", "nodes": 4, "err": 'a "b"\n'}
    log.info("Pod moved to an internal scheduling queue", **fields, **AS_IN_KUBERNETES)
    log.info("another line", pod="default/sample")
    first, second = capsys.readouterr().err.splitlines()
    assert KUBERNETES_MARK not in first
    if log_format == "json":
        told = json.loads(first)
        assert (told["event"], told["cause"]) == ("Pod moved to an internal scheduling queue", "UnscheduledPodAdd")
        return
    assert "Pod moved to an internal scheduling queue" in first
    shown = 'err="a \\"b\\"\\\\n" event="UnscheduledPodAdd" nodes=4 pod="default/sample" queue="Active"'
    assert first.endswith(shown)
    assert second.endswith("pod=default/sample")
