"""A `TracingConfiguration` as a value: where the spans of pods go, and of how many pods.

Fields are named as in Kubernetes' own `TracingConfiguration`. The variables of OpenTelemetry win over them.
"""

from __future__ import annotations

from moorage.core.values import dataclass
from moorage.framework.configuration import ComponentConfiguration

TRACING_KIND = "TracingConfiguration"
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class TracingConfiguration(ComponentConfiguration):
    """Settings of traces; without an endpoint there are none, unless a variable names one."""

    kind: str = TRACING_KIND
    profile: str = ""
    """Not used: spans are made for the pods of every profile."""
    endpoint: str = ""
    """The collector's address for OTLP over HTTP, without the path: `http://HOST:4318`."""
    sampling_rate_per_million: int = MILLION
    """How many of a million pods have a trace."""
