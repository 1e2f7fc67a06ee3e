"""How log lines look and how many there are: `-v` and `--log-format`, for the commands that log.

Lines go to stderr, as stdout belongs to results.
"""

from __future__ import annotations

import logging
import sys

import structlog

from moorage.cli.options import Session

DEBUG_VERBOSITY = 4
"""From here on debug lines are written, as with Kubernetes' own commands."""


def configure_logs(session: Session) -> None:
    """Set up structlog for this process."""
    renderer: structlog.typing.Processor
    if session.log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if session.verbosity >= DEBUG_VERBOSITY else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
