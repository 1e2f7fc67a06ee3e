"""A `WebhookConfiguration` as a value: where the webhook listens, how the API server finds it, and its certificates.

`WebhookConfiguration()` is what runs with no document.
"""

from __future__ import annotations

from dataclasses import dataclass

from moorage.framework.configuration import Configuration, WayIn

WEBHOOK_KIND = "WebhookConfiguration"
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class WebhookConfiguration(WayIn):
    """What only the webhook needs."""

    kind: str = WEBHOOK_KIND
    profile: str = ""
    """Strategies need none; it is there because every document has it."""
    listen: str = "0.0.0.0:9443"
    """HOST:PORT."""
    webhook_name: str = "moorage-webhook"
    """Name of the MutatingWebhookConfiguration that is kept true; empty: none is."""
    service_name: str = "moorage-webhook"
    service_namespace: str = ""
    """The Service through which the API server finds the webhook; no namespace: the webhook's own."""
    url: str = ""
    """Where the API server finds a webhook that runs outside of the cluster; then the object is made, too."""
    excluded_namespaces: tuple[str, ...] = (SYSTEM_NAMESPACE,)
    """Whose pods are never touched; the webhook's own namespace is always among them."""
    ledger_s: float = 10.0
    """How long a pod that was admitted counts without having been seen; it may have been refused after us."""
    longest_wait_s: float = 1.0
    """How long a question waits at most for what others know already: the pod's controller, or other replicas' pods."""
    certificate_file: str = ""
    key_file: str = ""
    """Where a certificate may be mounted; while there is none at the start, one is made here."""
    certificate_lifetime_s: float = 30 * 24 * 3600.0
    """Of certificates that are made here; they are replaced after two thirds of it."""
    certificate_spread_s: float = 10.0
    """How long API servers may take to hear of a new authority before a certificate from it is served."""
    shutdown_delay_s: float = 5.0
    """How long questions are answered after SIGTERM, until everybody knows that this replica goes."""


def webhook_configuration(configuration: Configuration) -> WebhookConfiguration:
    """What a configuration file says about the webhook."""
    found = configuration.ways_in.get(WEBHOOK_KIND)
    return found if isinstance(found, WebhookConfiguration) else WebhookConfiguration()
