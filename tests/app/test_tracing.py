"""Traces of a scheduler on the real API server, as a receiver of OTLP and a real collector get them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from moorage.adapters.tracing.spans import ids_of
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.adapters.tracing.receiver import attributes, receiving
from tests.app.scheduling import make_node, make_pod, pods_of, scheduler
from tests.app.serving import OPEN, ask
from tests.app.serving import eventually as eventually_by
from tests.controlplane import others
from tests.patience import eventually

QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


@contextmanager
def variables(monkeypatch: pytest.MonkeyPatch, given: Mapping[str, str]) -> Iterator[None]:
    """For the processes that are started within."""
    with monkeypatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        yield


def uids(plane: ControlPlane) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods_of(plane)}


def test_the_way_of_a_pod_reaches_a_collector(
    empty_control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From creation to the published event for one that fits; the attempt and its reason for one that does not."""
    plane, log = empty_control_plane, tmp_path / "log"
    make_node(plane, "n1")
    config = tmp_path / "config.yaml"
    (port,) = free_ports(1)
    serving = (f"--secure-port={port}", "--bind-address=127.0.0.1", OPEN)
    with receiving() as collector, variables(monkeypatch, QUICK):
        document = ("apiVersion: moorage.dev/v1alpha1", "kind: TracingConfiguration", f"endpoint: {collector.address}")
        config.write_text("\n".join(document))

        def names(pod: str) -> set[str]:
            return {span.name for span in spans_of(plane, collector.spans, pod)}

        with scheduler(plane, log, "--config", str(config), *serving) as process:
            make_pod(plane, "small")
            make_pod(plane, "big", cpu="64")
            eventually_by(lambda: {"schedule", "event"} <= names("small"), process, log, "the pod's way is complete")
            eventually_by(lambda: {"attempt", "event"} <= names("big"), process, log, "the failure is told")
            assert "moorage_spans_exported_total" in ask(port, "/metrics")[1]
        found = collector.spans
    by_name = {span.name: span for span in spans_of(plane, found, "small")}
    root = by_name["schedule"]
    assert (root.span_id, root.parent_span_id) == (ids_of(uids(plane)["small"]).root.to_bytes(8, "big"), b"")
    assert {"watch", "queue", "attempt", "decide", "Filter", "NodeResourcesFit", "bind", "event"} <= by_name.keys()
    about = attributes(root.attributes)
    assert (about["k8s.pod.name"], about["k8s.namespace.name"], about["k8s.node.name"]) == ("small", "default", "n1")
    assert about["k8s.pod.uid"] == uids(plane)["small"]
    for name in ("watch", "queue", "attempt", "bind"):
        assert root.start_time_unix_nano <= by_name[name].start_time_unix_nano <= by_name[name].end_time_unix_nano
    assert by_name["bind"].end_time_unix_nano == root.end_time_unix_nano
    (failed,) = (span for span in spans_of(plane, found, "big") if span.name == "attempt")
    assert failed.status.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert {span.trace_id for span in found} == {ids_of(uid).trace.to_bytes(16, "big") for uid in uids(plane).values()}


def spans_of(plane: ControlPlane, spans: list[Span], pod: str) -> list[Span]:
    trace = ids_of(uids(plane)[pod]).trace.to_bytes(16, "big")
    return [span for span in spans if span.trace_id == trace]


COLLECTOR = """receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""


@contextmanager
def real_collector(folder: Path) -> Iterator[tuple[str, Path]]:
    """A collector of OpenTelemetry: its address, and the file that it tells spans in."""
    (port,) = free_ports(1)
    config, told = folder / "collector.yaml", folder / "spans"
    config.write_text(COLLECTOR.format(port=port))
    command = [str(others.program("collector", "collector", ".")), "--config", str(config)]
    with told.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(lambda: "Everything is ready" in told.read_text(), 60, told.read_text)
            yield f"http://127.0.0.1:{port}", told
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.long
def test_a_real_collector_takes_the_spans(
    empty_control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads ids, names, parents and attributes as they were meant; when it is gone, pods are bound all the same."""
    plane, log = empty_control_plane, tmp_path / "log"
    make_node(plane, "n1")
    with real_collector(tmp_path) as (address, told):
        given = {**QUICK, "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_SERVICE_NAME": "placer"}
        with variables(monkeypatch, given), scheduler(plane, log) as process:
            make_pod(plane, "web")
            uid = uids(plane)["web"]
            heading = f"Trace ID       : {ids_of(uid).trace:032x}"

            def names() -> list[str]:
                blocks = told.read_text().split("Span #")[1:]
                return [re.findall(r"Name           : (\S+)", each)[0] for each in blocks if heading in each]

            eventually_by(lambda: {"schedule", "event"} <= set(names()), process, log, "the collector has the trace")
    text = told.read_text()
    assert {"watch", "queue", "attempt", "decide", "Filter", "bind"} <= set(names())
    assert f"ID             : {ids_of(uid).root:016x}" in text
    assert f"Parent ID      : {ids_of(uid).root:016x}" in text
    assert f"-> k8s.pod.uid: Str({uid})" in text
    assert "-> service.name: Str(placer)" in text
    given = {**QUICK, "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with variables(monkeypatch, given), scheduler(plane, log) as process:
        make_pod(plane, "later")

        def bound() -> bool:
            return any(pod["spec"].get("nodeName") for pod in pods_of(plane) if pod["metadata"]["name"] == "later")

        eventually_by(bound, process, log, "the pod is bound without a collector")
        eventually_by(lambda: "spans are not exported" in log.read_text(), process, log, "the log says so")
    assert process.returncode == 0
