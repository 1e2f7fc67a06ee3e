"""`TracingConfiguration`: defaults, values, mistakes."""

from __future__ import annotations

import pytest

from moorage.framework.registry import Registry
from moorage.framework.tracing import TRACING_KIND, TracingConfiguration
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Reading, read_configuration

SCHEDULER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: a}, {schedulerName: b}]
---
"""
HEADER = "apiVersion: moorage.dev/v1alpha1\nkind: TracingConfiguration\n"


def read(*lines: str, before: str = "") -> Reading:
    text = before + HEADER + "".join(f"{line}\n" for line in lines)
    return read_configuration(text.encode(), "f.yaml", Registry(BUILTIN))


def test_everything_has_a_default() -> None:
    """An empty document means what no document means."""
    reading = read()
    assert reading.configuration is not None
    assert reading.configuration.components[TRACING_KIND] == TracingConfiguration()


def test_it_is_about_every_profile() -> None:
    """Where there are several, none has to be named."""
    reading = read("endpoint: https://c:4318", "samplingRatePerMillion: 0", before=SCHEDULER)
    assert reading.configuration is not None, reading.problems
    want = TracingConfiguration(endpoint="https://c:4318", sampling_rate_per_million=0)
    assert reading.configuration.component(TracingConfiguration()) == want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("endpoint: collector:4317", 'endpoint: "collector:4317": write http://HOST:4318'),
        ("endpoint: ftp://c", 'endpoint: "ftp://c": write http://HOST:4318'),
        ("samplingRatePerMillion: -1", "samplingRatePerMillion: -1: must be between 0 and 1000000"),
        ("samplingRatePerMillion: 1000001", "must be between 0 and 1000000"),
        ("samplingRatePerMillion: many", "samplingRatePerMillion"),
        ("endpont: http://c", "endpont"),
        ("profile: a", "profile"),
    ],
)
def test_mistakes_are_named(line: str, want: str) -> None:
    """Field, value and remedy, in one line."""
    (problem,) = read(line).problems
    assert want in str(problem)
