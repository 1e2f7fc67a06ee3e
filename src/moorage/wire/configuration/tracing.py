"""`TracingConfiguration` of `moorage.dev/v1alpha1`: shape and sense."""

from __future__ import annotations

from urllib.parse import urlsplit

from moorage.framework.tracing import MILLION, TracingConfiguration
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.schema import ConfigurationDocument, Int32


class TracingShape(ConfigurationDocument):
    """Everything has a default."""

    endpoint: str = ""
    sampling_rate_per_million: Int32 | None = None


def read_tracing(shape: TracingShape, findings: Findings) -> TracingConfiguration:
    """The configuration with its defaults; what makes no sense is reported."""
    if shape.endpoint and not is_collector(shape.endpoint):
        findings.problem("endpoint", shape.endpoint, "write http://HOST:4318 or https://HOST:PORT")
    rate = shape.sampling_rate_per_million
    if rate is not None and not 0 <= rate <= MILLION:
        findings.problem("samplingRatePerMillion", rate, f"must be between 0 and {MILLION}")
    return TracingConfiguration(endpoint=shape.endpoint, sampling_rate_per_million=MILLION if rate is None else rate)


def is_collector(address: str) -> bool:
    """Whether this is an address that OTLP over HTTP can be sent to."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
