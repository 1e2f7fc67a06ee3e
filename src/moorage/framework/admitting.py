"""A `WebhookConfiguration` as a value: where the webhook listens, how the API server finds it, and its certificates.

`WebhookConfiguration()` is used if there is no document.
"""

from __future__ import annotations

from moorage.core.values import dataclass
from moorage.framework.configuration import ComponentConfiguration, Configuration

WEBHOOK_KIND = "WebhookConfiguration"
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class WebhookConfiguration(ComponentConfiguration):
    """Settings of the webhook."""

    kind: str = WEBHOOK_KIND
    profile: str = ""
    """Not used by strategies; every document has this field."""
    listen: str = "0.0.0.0:9443"
    """HOST:PORT."""
    webhook_name: str = "moorage-webhook"
    """Name of the MutatingWebhookConfiguration that is kept up to date; empty: none."""
    service_name: str = "moorage-webhook"
    service_namespace: str = ""
    """The Service through which the API server reaches the webhook; an empty namespace means the webhook's own."""
    url: str = ""
    """Where the API server reaches a webhook that runs outside the cluster; the object is then created if missing."""
    excluded_namespaces: tuple[str, ...] = (SYSTEM_NAMESPACE,)
    """Pods in these namespaces are never changed; the webhook's own namespace is always excluded."""
    ledger_s: float = 10.0
    """How long an admitted pod counts before it is seen; a later admission step may have rejected it."""
    longest_wait_s: float = 1.0
    """How long a request may wait for the pod's controller, or other replicas' pods, to be seen here."""
    fallback_s: float = 60.0
    """How long pods are sent to nodes that do not exist; then default scheduling decides on them."""
    certificate_file: str = ""
    key_file: str = ""
    """Where a certificate may be mounted; if there is none at the start, the webhook creates its own."""
    certificate_lifetime_s: float = 30 * 24 * 3600.0
    """Lifetime of the webhook's own certificates; they are replaced after two thirds of it."""
    certificate_spread_s: float = 10.0
    """How long API servers are given to learn of a new CA before a certificate signed by it is served."""
    shutdown_delay_s: float = 5.0
    """How long requests are still answered after SIGTERM, until all API servers stop sending them here."""


def webhook_configuration(configuration: Configuration) -> WebhookConfiguration:
    """The webhook's settings of a configuration file."""
    return configuration.component(WebhookConfiguration())
