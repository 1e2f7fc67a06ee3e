"""Traces of a scheduler: whether there are any, and the parts that belong together. Off, nothing of it is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client.registry import Collector

from moorage.adapters.metrics.traces import SpanCounts, TraceMetrics
from moorage.adapters.tracing.pods import PodTraces
from moorage.adapters.tracing.settings import TracingError, TracingSettings, settings_of
from moorage.adapters.tracing.spans import Sampler
from moorage.framework.configuration import Configuration
from moorage.framework.tracing import TracingConfiguration

FLUSH_S = 2.0
"""How long a process that ends waits for the collector; it has given up its lease by then."""
_REMEDY = "pip install 'moorage[otel]', or set OTEL_SDK_DISABLED=true to go without traces"


class Traces:
    """The spans of one process's pods, from the engine to the collector."""

    def __init__(self, settings: TracingSettings, version: str) -> None:
        """Raises TracingError, if OpenTelemetry is missing or does not like its variables."""
        try:
            from moorage.adapters.tracing.export import SpanQueue, exporter_of  # noqa: PLC0415 - an extra, and slow
        except ImportError as error:
            text = f"traces are asked for ({settings.asked_by}), but OpenTelemetry is not installed"
            raise TracingError(f"{text} ({error.name} is missing); {_REMEDY}") from None
        self._queue = SpanQueue(exporter_of(settings), settings, version)
        self.pods = PodTraces(self._queue.put, Sampler(settings.ratio))
        self.metrics: Collector = TraceMetrics(self._counts)

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """Export within; what is left at the end of the block gets `FLUSH_S`."""
        self._queue.start()
        try:
            yield
        finally:
            self._queue.close(FLUSH_S)

    def _counts(self) -> SpanCounts:
        queue = self._queue
        return SpanCounts(queue.exported, {"queue_full": queue.overflowed, "export_failed": queue.refused})


def traces_of(configuration: Configuration, version: str, variables: Mapping[str, str] = os.environ) -> Traces | None:
    """What variables and configuration ask for; None if traces are off. Raises TracingError."""
    settings = settings_of(configuration.component(TracingConfiguration()), variables)
    return None if settings is None or not settings.ratio else Traces(settings, version)
