"""Flags of kube-scheduler that are accepted and do nothing here, with the reason; and the types of those that count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from moorage.cli.options import Function, boolean_option

_IN_MEMORY = "a certificate that is not given is made in memory"
_HTTP1 = "health and metrics are served over HTTP/1.1"
_TLS = "TLS 1.2 and 1.3 are served, with OpenSSL's strong ciphers"
_CACHE = "answers of the API server about readers of metrics are kept for 10 s"
_HEADERS = "readers of metrics show a token or a client certificate; headers of proxies are not trusted"
_NO_GO = "there are no Go profiles to serve"
_STDERR = "every line is written to stderr at once"
_METRICS = "all metrics are served, with all their labels"
_VERSIONS = "what the API server serves is found by discovery"

SWITCHES: Mapping[str, str] = {
    "--disable-http2-serving": _HTTP1,
    "--permit-address-sharing": "addresses are always shared",
    "--permit-port-sharing": "a port has one process",
    "--authentication-tolerate-lookup-failure": "a CA that cannot be looked up never keeps the scheduler from starting",
    "--contention-profiling": _NO_GO,
    "--profiling": _NO_GO,
    "--log-json-split-stream": _STDERR,
    "--log-text-split-stream": _STDERR,
}
"""Flags that need no value -> why they have no effect."""
SETTINGS: Mapping[str, str] = {
    "--cert-dir": _IN_MEMORY,
    "--http2-max-streams-per-connection": _HTTP1,
    "--tls-cipher-suites": _TLS,
    "--tls-curve-preferences": _TLS,
    "--tls-sni-cert-key": "there is one certificate, --tls-cert-file",
    "--authentication-token-webhook-cache-ttl": _CACHE,
    "--authorization-webhook-cache-authorized-ttl": _CACHE,
    "--authorization-webhook-cache-unauthorized-ttl": _CACHE,
    "--requestheader-allowed-names": _HEADERS,
    "--requestheader-client-ca-file": _HEADERS,
    "--requestheader-extra-headers-prefix": _HEADERS,
    "--requestheader-group-headers": _HEADERS,
    "--requestheader-uid-headers": _HEADERS,
    "--requestheader-username-headers": _HEADERS,
    "--kube-api-content-type": "Moorage speaks application/json",
    "--pod-max-in-unschedulable-pods-duration": "a pod is tried again after five minutes at the latest",
    "--emulated-version": _VERSIONS,
    "--min-compatibility-version": _VERSIONS,
    "--allow-metric-labels": _METRICS,
    "--allow-metric-labels-manifest": _METRICS,
    "--disabled-metrics": _METRICS,
    "--show-hidden-metrics-for-version": _METRICS,
    "--log-flush-frequency": _STDERR,
    "--log-json-info-buffer-size": _STDERR,
    "--log-text-info-buffer-size": _STDERR,
    "--vmodule": "-v counts for everything",
}
"""Flags with a value -> why they have no effect."""
_GATE = re.compile(r"(?:[a-z][-a-z0-9]*:)?[A-Z][A-Za-z0-9]*=(?:true|false)", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


def idle_options(command: Function) -> Function:
    """Add the flags that do nothing; `--help` does not show them."""
    for name in reversed(list(SWITCHES)):
        command = boolean_option(name, hidden=True)(command)
    for name in reversed(list(SETTINGS)):
        command = click.option(name, multiple=True, hidden=True)(command)
    return command


def idle_notes(given: Mapping[str, Any]) -> list[str]:
    """A line for each of them that was given."""
    reasons = {**SWITCHES, **SETTINGS}
    names = (name for name in reasons if given.get(name[2:].replace("-", "_")) not in (None, ()))
    return [f"{name} has no effect: {reasons[name]}" for name in names]


class Gates(click.ParamType[tuple[str, ...]]):
    """Feature gates: `Name=true,Name=false`, each with a component before it at most."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The gates, as they were written; called by click."""
        gates = tuple(part.strip() for part in str(value).split(",") if part.strip())
        for gate in gates:
            if _GATE.fullmatch(gate) is None:
                self.fail(f"{gate!r} is not a feature gate; write NAME=true or NAME=false", param, ctx)
        return gates


class DurationFlag(click.ParamType[float]):
    """A duration as Go writes it, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The seconds; called by click."""
        from moorage.core.durations import parse_duration  # noqa: PLC0415 - numpy comes with the package

        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class Decimal(click.ParamType[float]):
    """A number, perhaps with a fraction."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; called by click."""
        if _NUMBER.fullmatch(str(value)) is None:
            self.fail(f"{value!r} is not a number; write one such as 50", param, ctx)
        return float(value)
