"""What `moorage webhook` says before it serves."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from click.testing import CliRunner

from moorage.cli.webhook import command


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave the logging of this process as it was."""
    handlers = [*logging.getLogger().handlers]
    yield
    logging.getLogger().handlers = handlers
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("level", "want"),
    [("trace", True), ("warn", True), ("debug", False), ("Info", False), ("", False)],
    ids=["unknown", "one that is not read", "debug", "info", "none"],
)
def test_a_log_level_that_is_not_known_is_told(level: str, want: bool) -> None:
    """Otherwise one waits for lines that never come."""
    # It ends with a complaint about its options, before it asks for a cluster.
    arguments = ["--self-signed", "--tls-cert", "c", "--tls-key", "k"]
    result = CliRunner().invoke(command, arguments, env={"LOG_LEVEL": level})
    line = f"environment variable LOG_LEVEL is {level!r}, which is no level; write debug or info"
    assert (line in result.output) is want
