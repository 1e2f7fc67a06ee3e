"""Spans on their way to a collector: what arrives, what is dropped, and what turns them on."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from moorage.adapters.tracing.export import SpanQueue, exporter_of
from moorage.adapters.tracing.settings import CONSOLE, OTLP, TracingError, TracingSettings, settings_of
from moorage.adapters.tracing.spans import Mark, Span, ids_of
from moorage.app.tracing import traces_of
from moorage.framework.configuration import Configuration
from moorage.framework.tracing import TracingConfiguration
from tests.adapters.tracing.receiver import attributes, receiving

S = 1_000_000_000
NO_FILE = TracingConfiguration()
FROM_FILE = TracingConfiguration(endpoint="http://file:4318/", sampling_rate_per_million=250_000)


def queue_to(endpoint: str, **settings: float) -> SpanQueue:
    made = TracingSettings(OTLP, f"{endpoint}/v1/traces", 1.0, "a test", **{"delay_s": 3600.0, **settings})  # type: ignore[arg-type]
    return SpanQueue(exporter_of(made), made, "1.2.3")


def span(number: int = 1) -> Span:
    return Span(7, number, 0, "schedule", 1 * S, 2 * S)


def unused_address() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_spans_arrive_as_the_published_messages_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids, times, attributes, status, moments, and who sent them; headers are OpenTelemetry's own variable."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=c1")
    ids = ids_of("uid")
    with receiving() as collector:
        queue = queue_to(collector.address)
        queue.start()
        about: dict[str, str | int | bool] = {"k8s.pod.name": "web", "moorage.attempt": 2}
        queue.put(Span(ids.trace, 9, ids.root, "attempt", 1 * S, 2 * S, about, "no room", (Mark(S, "active"),)))
        queue.put(Span(ids.trace, ids.root, 0, "schedule", 0, 3 * S))
        queue.close(20.0)
        attempt, root = collector.spans
        assert (collector.paths, collector.headers[0]["x-tenant"]) == (["/v1/traces"], "blue")
        assert collector.headers[0]["Content-Encoding"] == "gzip"
        assert collector.resource["service.name"] == "moorage-scheduler"
        assert (collector.resource["service.version"], collector.resource["k8s.cluster.name"]) == ("1.2.3", "c1")
    assert attempt.trace_id == root.trace_id == ids.trace.to_bytes(16, "big")
    assert attempt.parent_span_id == root.span_id == ids.root.to_bytes(8, "big")
    assert root.parent_span_id == b""
    assert (attempt.start_time_unix_nano, attempt.end_time_unix_nano) == (S, 2 * S)
    assert attributes(attempt.attributes) == about
    assert (attempt.status.code, attempt.status.message) == (Status.STATUS_CODE_ERROR, "no room")
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert [(each.name, each.time_unix_nano) for each in attempt.events] == [("active", S)]
    assert (queue.exported, queue.overflowed, queue.refused) == (2, 0, 0)


def test_the_service_may_have_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_SERVICE_NAME wins."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "placer")
    with receiving() as collector:
        queue = queue_to(collector.address)
        queue.start()
        queue.put(span())
        queue.close(20.0)
        assert collector.resource["service.name"] == "placer"


def test_a_full_batch_is_sent_at_once() -> None:
    """Nothing waits for the delay, or for the end."""
    with receiving() as collector:
        queue = queue_to(collector.address, batch_size=3)
        queue.start()
        for number in range(1, 4):
            queue.put(span(number))
        assert collector.arrived.wait(60)
        queue.close(20.0)
        assert len(collector.spans) == 3


def test_a_full_queue_drops_and_counts() -> None:
    """What comes when nothing can be sent is lost, and nobody waits."""
    queue = queue_to(unused_address(), queue_size=5)
    for number in range(1, 9):
        queue.put(span(number))
    assert queue.overflowed == 3


@pytest.mark.parametrize("status", [0, 400, 503])
def test_a_collector_that_does_not_take_spans_costs_only_spans(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is gone (0), refuses or is overloaded: spans are counted as lost, and the end is not held up."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with receiving() as collector:
        collector.status = status
        queue = queue_to(collector.address if status else unused_address())
        queue.start()
        for number in range(1, 4):
            queue.put(span(number))
        queue.close(60.0)
        assert (queue.exported, queue.refused) == (0, 3)


CASES = {
    "nothing": (NO_FILE, {}, None),
    "disabled": (FROM_FILE, {"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, None),
    "no exporter": (FROM_FILE, {"OTEL_TRACES_EXPORTER": "none"}, None),
    "other variables turn nothing on": (NO_FILE, {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, None),
    "base address": (
        NO_FILE,
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318/"},
        (OTLP, "http://a:4318/v1/traces", 1.0),
    ),
    "address for traces": (
        NO_FILE,
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://t/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"},
        (OTLP, "https://t/x", 1.0),
    ),
    "an exporter at its own address": (NO_FILE, {"OTEL_TRACES_EXPORTER": "otlp"}, (OTLP, "", 1.0)),
    "console": (NO_FILE, {"OTEL_TRACES_EXPORTER": "console"}, (CONSOLE, "", 1.0)),
    "file": (FROM_FILE, {}, (OTLP, "http://file:4318/v1/traces", 0.25)),
    "variables win": (
        FROM_FILE,
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1",
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.5",
        },
        (OTLP, "http://a:1/v1/traces", 0.5),
    ),
    "off by sampler": (FROM_FILE, {"OTEL_TRACES_SAMPLER": "always_off"}, (OTLP, "http://file:4318/v1/traces", 0.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_variables_and_file_say_whether_and_where(case: str) -> None:
    """The variables of OpenTelemetry win over the file; an empty one is not set."""
    configuration, variables, want = CASES[case]
    found = settings_of(configuration, {**variables, "OTEL_TRACES_SAMPLER": variables.get("OTEL_TRACES_SAMPLER", "")})
    assert (None if found is None else (found.exporter, found.endpoint, found.ratio)) == want


REFUSED = {
    "exporter": ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin: not known; write otlp"),
    "protocol": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: spans are sent as http/protobuf",
    ),
    "address": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "a:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT=a:4318: not an address"),
    "port": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:99999"}, "not an address; write http://HOST:4318"),
    "sampler": ({"OTEL_TRACES_SAMPLER": "some"}, "OTEL_TRACES_SAMPLER=some: not known; write always_on"),
    "share": ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, "between 0 and 1"),
    "share above 1": ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "between 0 and 1"),
    "queue": ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "OTEL_BSP_MAX_QUEUE_SIZE=0: not usable; write a whole number"),
    "endless digits": ({"OTEL_BSP_MAX_QUEUE_SIZE": "9" * 5000}, "not usable; write a whole number from 1"),
    "full-width digits": ({"OTEL_BSP_MAX_QUEUE_SIZE": "１２"}, "write a whole number from 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_one_line(case: str) -> None:
    """The variable, its value and the remedy."""
    variables, words = REFUSED[case]
    with pytest.raises(TracingError) as caught:
        settings_of(NO_FILE, {"OTEL_TRACES_EXPORTER": "otlp", **variables})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_off_nothing_is_made() -> None:
    """Neither without variables nor with a share of nothing."""
    assert traces_of(Configuration(), "1", {}) is None
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": unused_address(), "OTEL_TRACES_SAMPLER": "always_off"}
    assert traces_of(Configuration(), "1", variables) is None


def _moorage(prelude: str, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.argv[0] = 'moorage'; {prelude}; from moorage.cli.main import main; main()"
    command = [sys.executable, "-c", program, "scheduler", "--kubeconfig=/nowhere", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)


def test_a_missing_library_is_one_line_with_the_remedy() -> None:
    """Before anything is done, with the exit code of bad input."""
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    done = _moorage("sys.modules['opentelemetry'] = None", variables)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "traces are asked for (OTEL_EXPORTER_OTLP_ENDPOINT), but OpenTelemetry is not installed" in line
    assert "pip install 'moorage[otel]'" in line


def test_a_bad_variable_is_one_line() -> None:
    """As every bad input."""
    done = _moorage("pass", {"OTEL_TRACES_EXPORTER": "zipkin"})
    assert done.returncode == 2
    assert done.stderr.strip() == "error: OTEL_TRACES_EXPORTER=zipkin: not known; write otlp or console or none"


def test_a_scheduler_without_traces_does_not_load_opentelemetry() -> None:
    """The extra is for those that use it."""
    program = "import sys, moorage.app.scheduler; print([name for name in sys.modules if 'opentelemetry' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
