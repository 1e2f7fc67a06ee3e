"""Format and verbosity of the log: `-v` and `--log-format`, for the commands that log.

Lines go to stderr, as stdout is for results. Messages of libraries that use the standard library's logging look the
same: one line each, without tracebacks.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
import structlog

from moorage.cli.options import TRACEBACK_VERBOSITY, Session, session_of
from moorage.views.loglines import KUBERNETES_MARK

_TRACEBACK = "exception"
"""The one value that has lines of its own; they are indented, so that none looks like a line of the log."""
_MESSAGE = "\0message"
"""Where the message of a line is while the line is rendered, as kube-scheduler has a field `event`."""
_OUR_KEYS = (_MESSAGE, "level", "timestamp", _TRACEBACK)
DEBUG_VERBOSITY = 4
"""From here on debug lines are written, as with Kubernetes' own commands."""


def configure_logs(session: Session) -> None:
    """Set up structlog for this process."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *_rendering(session),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if session.verbosity >= DEBUG_VERBOSITY else logging.INFO
        ),
        logger_factory=_Stderr,
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    ours = _OneLine(tracebacks=session.verbosity >= TRACEBACK_VERBOSITY)
    root.handlers = [*(handler for handler in root.handlers if not isinstance(handler, _OneLine)), ours]


def _rendering(session: Session) -> list[structlog.typing.Processor]:
    """How a line becomes text; text from tenants can neither start a line nor send control sequences to the
    terminal.
    """
    if session.log_format == "json":
        return [_unmarked, structlog.processors.JSONRenderer()]
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), event_key=_MESSAGE)
    return [_made_printable, _as_klog, renderer]


def _unmarked(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    line.pop(KUBERNETES_MARK, None)
    return line


class _Shown:
    """A value as it is to be shown: the renderer writes texts with spaces in a way of its own."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _as_klog(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Show the fields of kube-scheduler's lines as it does: texts in quotes, and what moved a pod as `event`."""
    line[_MESSAGE] = line.pop("event")
    if line.pop(KUBERNETES_MARK, False):
        for key, value in line.items():
            if isinstance(value, str) and key not in _OUR_KEYS:
                line[key] = _Shown('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"')
        if "cause" in line:
            line["event"] = line.pop("cause")
    return line


def _made_printable(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape what is not printable, in texts: other values are shown as Python writes them, which does that."""
    for key, value in line.items():
        if isinstance(value, str) and not value.isprintable():
            lines = value.splitlines() if key == _TRACEBACK else [value]
            line[key] = "\n    ".join("".join(map(_escaped, text)) for text in lines)
    return line


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()


@contextmanager
def answering_logs(context: click.Context | None = None) -> Iterator[None]:
    """For commands that answer and end: what is logged inside goes to stderr, and only warnings unless `-v` asks."""
    session = session_of(context or click.get_current_context())
    kept = structlog.get_config()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            *_rendering(session),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO if session.verbosity else logging.WARNING),
        logger_factory=_Stderr,
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**kept)


class _Stderr:
    """Writes to the current stderr. If stderr is closed, the line is lost, without an error."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, message: str) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = exception = log = msg


class _OneLine(logging.Handler):
    """Passes on lines of libraries, from warnings on."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self._tracebacks = tracebacks
        self._log = structlog.get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        """One line, which ends with the error where there is one."""
        error = record.exc_info[1] if record.exc_info else None
        details: dict[str, object] = {}
        if error is not None:
            details["error"] = " ".join(f"{type(error).__name__}: {error}".split())
            if self._tracebacks:
                details["exc_info"] = error
        self._log.log(record.levelno, " ".join(record.getMessage().split()), source=record.name, **details)
