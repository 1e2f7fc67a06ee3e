"""Sends spans to a collector with OpenTelemetry's exporter, in a thread of its own.

The scheduler's thread only appends to a queue, which has a limit: a collector that is slow or gone costs spans, which
are counted, and never time. This is the only module that loads OpenTelemetry.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from moorage.adapters.tracing.settings import CONSOLE, TracingError, TracingSettings
from moorage.adapters.tracing.spans import Span

SERVICE = "moorage-scheduler"
QUIET_S = 60.0
"""How long a complaint is not repeated."""
_UNNAMED = "unknown_service"
_LOGGER = "opentelemetry"
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

log = structlog.get_logger()


def exporter_of(settings: TracingSettings) -> SpanExporter:
    """OpenTelemetry's exporter; it reads headers, certificates, compression and timeout from its variables."""
    try:
        return ConsoleSpanExporter() if settings.exporter == CONSOLE else OTLPSpanExporter(settings.endpoint or None)
    except Exception as error:  # noqa: BLE001 - whatever it dislikes about its variables
        raise TracingError(f"traces cannot be exported: {error}") from None


class SpanQueue:
    """Spans on their way to an exporter. `put` is for one thread, everything else for any."""

    def __init__(self, exporter: SpanExporter, settings: TracingSettings, version: str) -> None:
        self.exported = 0
        """Spans that the collector has accepted."""
        self.overflowed = 0
        """Spans that were dropped because the queue was full."""
        self.refused = 0
        """Spans that could not be exported."""
        self._exporter = exporter
        self._settings = settings
        self._resource = _resource(version)
        self._scope = InstrumentationScope("moorage", version)
        self._spans: deque[Span] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._complained_s = float("-inf")
        self._complaints = _Complaints()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Start to export."""
        self._complaints.take_over()
        self._thread.start()

    def put(self, span: Span) -> None:
        """Hand over a span; never waits."""
        spans = self._spans
        if len(spans) >= self._settings.queue_size:
            self.overflowed += 1
            return
        spans.append(span)
        if len(spans) == self._settings.batch_size:
            self._wake.set()

    def close(self, timeout_s: float) -> None:
        """Export what is left, for at most so long; what is still there then is lost, and counted."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        self._exporter.shutdown()
        self.refused += len(self._spans)
        self._complaints.give_back()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            self._wake.wait(self._settings.delay_s)
            self._wake.clear()
            stopping = self._stopping
            while self._spans:
                self._export()

    def _export(self) -> None:
        spans = self._spans
        batch = [self._readable(spans.popleft()) for _ in range(min(len(spans), self._settings.batch_size))]
        if self._sent(batch):
            self.exported += len(batch)
            return
        self.refused += len(batch)
        now_s = time.monotonic()
        if now_s - self._complained_s >= QUIET_S:
            self._complained_s = now_s
            lost = self.overflowed + self.refused
            log.warning("spans are not exported; scheduling goes on", lost=lost, error=self._complaints.latest)

    def _sent(self, batch: Sequence[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - a fault of the exporter must not end the thread
            self._complaints.latest = f"{type(error).__name__}: {error}"
            return False

    def _readable(self, span: Span) -> ReadableSpan:
        def context(span_id: int) -> SpanContext:
            return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)

        return ReadableSpan(
            span.name,
            context(span.span_id),
            context(span.parent_id) if span.parent_id else None,
            self._resource,
            span.attributes,
            [Event(mark.name, mark.attributes, mark.at_ns) for mark in span.marks],
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


class _Complaints(logging.Handler):
    """What OpenTelemetry logs: it writes a line per try, of which the latest is kept for a line of ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.latest = ""

    def take_over(self) -> None:
        """Keep its lines from the log."""
        logger = logging.getLogger(_LOGGER)
        logger.addHandler(self)
        logger.propagate = False

    def give_back(self) -> None:
        """Let others have its lines again."""
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self)
        logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; the one that says that it gave up says nothing of the cause."""
        text = " ".join(record.getMessage().split())
        if not self.latest or "max retries" not in text:
            self.latest = text


def _resource(version: str) -> Resource:
    """Who exports: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win."""
    given = Resource.create()
    named = {key: value for key, value in given.attributes.items() if not str(value).startswith(_UNNAMED)}
    own = {SERVICE_NAME: SERVICE, SERVICE_VERSION: version, SERVICE_INSTANCE_ID: socket.gethostname()}
    return given.merge(Resource({key: value for key, value in own.items() if key not in named}))
