"""`WebhookConfiguration`: defaults, values, mistakes."""

from __future__ import annotations

import pytest

from moorage.framework.admitting import WEBHOOK_KIND, WebhookConfiguration, webhook_configuration
from moorage.framework.configuration import Configuration
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Reading, read_configuration

HEADER = "apiVersion: moorage.dev/v1alpha1\nkind: WebhookConfiguration\n"


def read(*lines: str) -> Reading:
    text = HEADER + "".join(f"{line}\n" for line in lines)
    return read_configuration(text.encode(), "f.yaml", Registry(BUILTIN))


def test_everything_has_a_default() -> None:
    """An empty document means what no document means."""
    reading = read()
    assert reading.problems == ()
    assert reading.configuration is not None
    assert reading.configuration.components[WEBHOOK_KIND] == WebhookConfiguration(profile="moorage")
    assert webhook_configuration(Configuration()) == WebhookConfiguration()


def test_every_field() -> None:
    """All of them at once."""
    reading = read(
        "profile: moorage",
        "listen: ':8443'",
        "webhookName: hook",
        "serviceName: svc",
        "serviceNamespace: system",
        "url: https://h:8443/mutate",
        "excludedNamespaces: [kube-system, infra, infra]",
        "ledgerTime: 20s",
        "longestWait: 500ms",
        "fallbackAfter: 2m",
        "certificateFile: /c",
        "keyFile: /k",
        "certificateLifetime: 48h",
        "certificateSpread: 1m",
        "shutdownDelay: 0s",
    )
    assert reading.configuration is not None, reading.problems
    assert webhook_configuration(reading.configuration) == WebhookConfiguration(
        profile="moorage",
        listen=":8443",
        webhook_name="hook",
        service_name="svc",
        service_namespace="system",
        url="https://h:8443/mutate",
        excluded_namespaces=("kube-system", "infra"),
        ledger_s=20.0,
        longest_wait_s=0.5,
        fallback_s=120.0,
        certificate_file="/c",
        key_file="/k",
        certificate_lifetime_s=48 * 3600.0,
        certificate_spread_s=60.0,
        shutdown_delay_s=0.0,
    )


@pytest.mark.parametrize(
    ("line", "path", "remedy"),
    [
        ("listen: here", "listen", "write HOST:PORT"),
        ("webhookName: Not_A_Name", "webhookName", "write a name"),
        ("url: http://h/mutate", "url", "write https://HOST:PORT/mutate"),
        ("url: 'https://['", "url", "write https://HOST:PORT/mutate"),
        ("url: https://h:1/other", "url", "write https://HOST:PORT/mutate"),
        ("excludedNamespaces: [a, 7]", "excludedNamespaces[1]", "write the name of a namespace"),
        ("ledgerTime: 0s", "ledgerTime", "between 1s and 600s"),
        ("longestWait: 2s", "longestWait", "between 0s and 1.5s"),
        ("fallbackAfter: 25h", "fallbackAfter", "between 0s and 86400s"),
        ("certificateLifetime: 1s", "certificateLifetime", "between 60s"),
        ("certificateSpread: 2h\ncertificateLifetime: 3h", "certificateSpread", "between 0s and 3600s"),
        ("certificateSpread: 30s\ncertificateLifetime: 60s", "certificateSpread", "shorter than a third"),
        ("certificateFile: /c", "certificateFile", "needs keyFile"),
        ("shutdownDelay: 1h", "shutdownDelay", "between 0s and 300s"),
        ("lisen: ':1'", "lisen", "listen"),
    ],
)
def test_mistakes_are_named(line: str, path: str, remedy: str) -> None:
    """Path, value and remedy."""
    (problem,) = read(line).problems
    assert problem.path == path
    assert remedy in str(problem)
