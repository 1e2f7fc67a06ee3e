"""What `/metrics` answers: the metrics of one process as text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

from moorage.adapters.exposition import encoder_of


class MetricsPage:
    """The given collectors, and what can be said of any Python process: CPU, memory, files, garbage collection."""

    def __init__(self, *collectors: Collector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, in the format that the request's Accept header asks for."""
        encode, content_type = encoder_of(accept)
        return encode(self._registry), content_type
