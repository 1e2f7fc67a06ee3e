"""How log lines look, whoever writes them."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from moorage.cli.logs import configure_logs
from moorage.cli.options import Session


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
    """Whoever started us is gone, and stderr with him: pods are scheduled all the same."""
    configure_logs(Session())
    log = structlog.get_logger()
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    log.warning("nobody hears this")
