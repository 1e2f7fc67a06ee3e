"""Whether and how traces are exported: OpenTelemetry's variables first, the configuration file second.

Traces are off unless a variable or the file names a collector, or asks for an exporter. A value that cannot be used
raises `TracingError`: a process that was asked for traces and would write none says so at its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.values import dataclass
from moorage.framework.tracing import MILLION, TracingConfiguration
from moorage.wire.configuration.tracing import is_collector

OTLP, CONSOLE, NONE = "otlp", "console", "none"
_EXPORTERS = (OTLP, CONSOLE, NONE)
_PROTOCOL = "http/protobuf"
_ALWAYS = {"always_on": 1.0, "parentbased_always_on": 1.0, "always_off": 0.0, "parentbased_always_off": 0.0}
_RATIOS = ("traceidratio", "parentbased_traceidratio")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"
_MOST_DIGITS = 20
_SHOWN = 100


class TracingError(Exception):
    """Traces are asked for and not possible; says what to change."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """How spans are exported. Headers, certificates and timeouts are left to OpenTelemetry's own variables."""

    exporter: str
    endpoint: str
    """The whole address, with its path; empty for OpenTelemetry's default or an exporter without one."""
    ratio: float
    """The share of pods that have a trace."""
    asked_by: str
    """What turned traces on, for messages."""
    queue_size: int = 2048
    batch_size: int = 512
    delay_s: float = 5.0


def settings_of(configuration: TracingConfiguration, variables: Mapping[str, str]) -> TracingSettings | None:
    """What is asked for; None if traces are off. Raises TracingError."""
    given = {name: value.strip() for name, value in variables.items() if name.startswith("OTEL_") and value.strip()}
    exporter = given.get("OTEL_TRACES_EXPORTER", "").lower()
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == NONE:
        return None
    asked_by = next((name for name in ("OTEL_TRACES_EXPORTER", *_ENDPOINTS) if name in given), "")
    if not asked_by and not configuration.endpoint:
        return None
    if exporter and exporter not in _EXPORTERS:
        raise TracingError(f"OTEL_TRACES_EXPORTER={exporter}: not known; write {' or '.join(_EXPORTERS)}")
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if given.get(name, _PROTOCOL) != _PROTOCOL:
            remedy = f"spans are sent as {_PROTOCOL}; remove it, and name the collector's port for HTTP, usually 4318"
            raise TracingError(f"{name}={given[name]}: {remedy}")
    batch_size = _whole(given, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
    queue_size = _whole(given, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)
    return TracingSettings(
        exporter or OTLP,
        _endpoint(configuration, given),
        _ratio(configuration, given),
        asked_by or "the configuration's TracingConfiguration",
        queue_size,
        min(batch_size, queue_size),
        _whole(given, "OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000,
    )


def _endpoint(configuration: TracingConfiguration, given: Mapping[str, str]) -> str:
    for name in _ENDPOINTS:
        if name in given and not is_collector(given[name]):
            raise TracingError(f"{name}={given[name]}: not an address; write http://HOST:4318")
    for name in _ENDPOINTS:
        if name in given:
            return given[name] if name == _ENDPOINTS[0] else given[name].rstrip("/") + _PATH
    return configuration.endpoint.rstrip("/") + _PATH if configuration.endpoint else ""


def _ratio(configuration: TracingConfiguration, given: Mapping[str, str]) -> float:
    name = given.get("OTEL_TRACES_SAMPLER", "").lower()
    if not name:
        return configuration.sampling_rate_per_million / MILLION
    if name in _ALWAYS:
        return _ALWAYS[name]
    if name not in _RATIOS:
        raise TracingError(f"OTEL_TRACES_SAMPLER={name}: not known; write {', '.join((*_ALWAYS, *_RATIOS))}")
    text = given.get("OTEL_TRACES_SAMPLER_ARG", "1")
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise TracingError(f"OTEL_TRACES_SAMPLER_ARG={text}: not a share; write a number between 0 and 1")
    return ratio


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and 0 < int(text) <= 1_000_000):
        raise TracingError(f"{name}={text[:_SHOWN]}: not usable; write a whole number from 1 to 1000000")
    return int(text)
