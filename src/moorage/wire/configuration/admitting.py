"""`WebhookConfiguration` of `moorage.dev/v1alpha1`: shape and sense."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from moorage.framework.admitting import WebhookConfiguration
from moorage.framework.arguments import Seconds
from moorage.wire.configuration.extending import address
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.schema import ComponentShape

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST_WAIT_S = 1.5
"""The API server gives up after two seconds."""
_SHORTEST_LIFE_S = 60.0


class WebhookShape(ComponentShape):
    """Everything has a default."""

    listen: str | None = None
    webhook_name: str | None = None
    service_name: str | None = None
    service_namespace: str | None = None
    url: str | None = None
    excluded_namespaces: list[Any] | None = None
    ledger_time: Seconds | None = None
    longest_wait: Seconds | None = None
    fallback_after: Seconds | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    certificate_lifetime: Seconds | None = None
    certificate_spread: Seconds | None = None
    shutdown_delay: Seconds | None = None


def read_webhook(shape: WebhookShape, profile: str, findings: Findings) -> WebhookConfiguration:
    """The configuration with its defaults; what makes no sense is reported."""
    given: dict[str, Any] = {
        "listen": address(shape.listen, WebhookConfiguration().listen, findings),
        "webhook_name": _name(shape.webhook_name, "webhookName", findings),
        "service_name": _name(shape.service_name, "serviceName", findings),
        "service_namespace": _name(shape.service_namespace, "serviceNamespace", findings),
        "url": _url(shape.url, findings),
        "excluded_namespaces": _namespaces(shape.excluded_namespaces, findings),
        "ledger_s": _between(shape.ledger_time, 1.0, 600.0, "ledgerTime", findings),
        "longest_wait_s": _between(shape.longest_wait, 0.0, _LONGEST_WAIT_S, "longestWait", findings),
        "fallback_s": _between(shape.fallback_after, 0.0, 86400.0, "fallbackAfter", findings),
        "certificate_file": shape.certificate_file,
        "key_file": shape.key_file,
        "certificate_lifetime_s": _between(
            shape.certificate_lifetime, _SHORTEST_LIFE_S, 10 * 365 * 86400.0, "certificateLifetime", findings
        ),
        "certificate_spread_s": _between(shape.certificate_spread, 0.0, 3600.0, "certificateSpread", findings),
        "shutdown_delay_s": _between(shape.shutdown_delay, 0.0, 300.0, "shutdownDelay", findings),
    }
    if bool(shape.certificate_file) != bool(shape.key_file):
        given_one, missing = (
            ("certificateFile", "keyFile") if shape.certificate_file else ("keyFile", "certificateFile")
        )
        value = shape.certificate_file or shape.key_file
        findings.problem(given_one, value, f"needs {missing}, as a certificate and its key go together; give both")
    settings = {name: value for name, value in given.items() if value is not None}
    found = WebhookConfiguration(profile=profile, **settings)
    if found.certificate_spread_s >= found.certificate_lifetime_s / 3 and not findings.problems:
        message = f"must be shorter than a third of certificateLifetime, which is {found.certificate_lifetime_s:g}s"
        findings.problem("certificateSpread", f"{found.certificate_spread_s:g}s", message)
    return found


def _name(text: str | None, path: str, findings: Findings) -> str | None:
    if text and not _NAME.fullmatch(text):
        findings.problem(path, text, "write a name of small letters, digits, - and .")
    return text


def _url(text: str | None, findings: Findings) -> str | None:
    if text:
        try:
            parts = urlsplit(text)
            good = parts.scheme == "https" and bool(parts.hostname) and parts.path == "/mutate"
        except ValueError:
            good = False
        if not good:
            findings.problem("url", text, "write https://HOST:PORT/mutate")
    return text


def _namespaces(names: list[Any] | None, findings: Findings) -> tuple[str, ...] | None:
    if names is None:
        return None
    for index, name in enumerate(names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            findings.problem(f"excludedNamespaces[{index}]", name, "write the name of a namespace")
    return tuple(dict.fromkeys(str(name) for name in names))


def _between(seconds: float | None, least: float, most: float, path: str, findings: Findings) -> float | None:
    if seconds is not None and not least <= seconds <= most:
        findings.problem(path, f"{seconds:g}s", f"must be between {least:g}s and {most:g}s")
    return seconds
