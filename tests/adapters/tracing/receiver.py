"""A collector for tests: an HTTP server that takes OTLP as OpenTelemetry publishes it, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent; answers with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()

    @property
    def address(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        return [
            span
            for request in list(self.requests)
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, object]:
        """Who sent the latest spans."""
        return attributes(self.requests[-1].resource_spans[-1].resource.attributes)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        self.server.headers.append(dict(self.headers))
        if self.server.status == 200:
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        self.server.arrived.set()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def attributes(pairs: Iterator[KeyValue]) -> dict[str, object]:
    """Attributes as a dictionary."""
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs."""
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()
