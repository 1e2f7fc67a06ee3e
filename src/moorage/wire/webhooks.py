"""`MutatingWebhookConfiguration`: what has to be so for the API server to ask us, and nothing else of it.

Objects are plain dictionaries here, because everything in them that is not ours goes back to the server as it came.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from moorage.core.objects import NAMESPACE_NAME_LABEL
from moorage.core.values import dataclass

PATH = "/mutate"
HTTPS_PORT = 443
RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced"},
)


@dataclass(frozen=True, slots=True)
class WebhookService:
    """The Service through which the API server finds us."""

    namespace: str
    name: str
    port: int = HTTPS_PORT

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names that the API server may look for in our certificate."""
        short = f"{self.name}.{self.namespace}"
        return f"{short}.svc", f"{short}.svc.cluster.local", short


@dataclass(frozen=True, slots=True)
class Terms:
    """What our webhook configuration says."""

    name: str
    excluded: tuple[str, ...] = ()
    """Namespaces that the webhook is not called for."""
    service: WebhookService | None = None
    url: str = ""
    """Where we are found without a Service."""
    timeout_s: int = 2
    labels: dict[str, str] = field(default_factory=dict)


Bundle = Callable[[bytes], bytes]
"""What the CA bundle has to be, given what it is."""


def new_configuration(terms: Terms, bundle: Bundle) -> dict[str, Any]:
    """The whole object, for a server that has none."""
    metadata: dict[str, Any] = {"name": terms.name}
    if terms.labels:
        metadata["labels"] = dict(terms.labels)
    empty: dict[str, Any] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
    }
    return trued_configuration(empty, terms, bundle)


def trued_configuration(found: dict[str, Any], terms: Terms, bundle: Bundle) -> dict[str, Any]:
    """The object as it has to be: rules, excluded namespaces, CA bundle and a URL are ours, the rest stays as it is."""
    wanted = deepcopy(found)
    webhooks = [entry for entry in wanted.get("webhooks") or () if isinstance(entry, dict)]
    for entry in webhooks or [_new_entry(terms)]:
        client = entry.setdefault("clientConfig", {})
        if terms.url:
            client.pop("service", None)
            client["url"] = terms.url
        text = base64.b64encode(bundle(_decoded(client.get("caBundle")))).decode()
        if text:
            client["caBundle"] = text
        entry["rules"] = deepcopy(list(RULES))
        _exclude(entry, terms.excluded)
        if entry not in webhooks:
            webhooks.append(entry)
    wanted["webhooks"] = webhooks
    return wanted


def host_names(found: dict[str, Any]) -> tuple[str, ...]:
    """Under which names the object sends the API server to us."""
    names: list[str] = []
    for entry in found.get("webhooks") or ():
        client = entry.get("clientConfig") or {}
        if client.get("url"):
            names.append(urlsplit(client["url"]).hostname or "")
        elif service := client.get("service"):
            names += WebhookService(service.get("namespace") or "", service.get("name") or "").host_names
    return tuple(dict.fromkeys(name for name in names if name))


def addresses(found: dict[str, Any]) -> tuple[str, ...]:
    """Where the object sends the API server, each HOST:PORT."""
    sent: list[str] = []
    for entry in found.get("webhooks") or ():
        client = entry.get("clientConfig") or {}
        if client.get("url"):
            parts = urlsplit(client["url"])
            sent.append(f"{parts.hostname}:{parts.port or HTTPS_PORT}")
        elif service := client.get("service"):
            host = WebhookService(service.get("namespace") or "", service.get("name") or "").host_names[0]
            sent.append(f"{host}:{service.get('port') or HTTPS_PORT}")
    return tuple(dict.fromkeys(sent))


def excluded_namespaces(found: dict[str, Any]) -> frozenset[str] | None:
    """The namespaces whose pods no webhook of the object is asked about; None if more than namespaces' names decide."""
    excluded: list[frozenset[str]] = []
    for entry in found.get("webhooks") or ():
        selector = entry.get("namespaceSelector") or {}
        conditions = [condition for condition in selector.get("matchExpressions") or () if not _names(condition)]
        if conditions or selector.get("matchLabels") or entry.get("objectSelector") or entry.get("matchConditions"):
            return None
        expressions = selector.get("matchExpressions") or ()
        excluded.append(frozenset(name for each in expressions for name in each.get("values") or ()))
    return frozenset.intersection(*excluded) if excluded else None


def _names(expression: dict[str, Any]) -> bool:
    """Whether a condition on namespaces only excludes some by their names."""
    return expression.get("key") == NAMESPACE_NAME_LABEL and expression.get("operator") == "NotIn"


def ca_bundle(found: dict[str, Any]) -> bytes:
    """The CAs by which API servers trust us, PEM; empty without any."""
    entries = (entry for entry in found.get("webhooks") or () if isinstance(entry, dict))
    return b"".join(_decoded((entry.get("clientConfig") or {}).get("caBundle")) for entry in entries)


def _new_entry(terms: Terms) -> dict[str, Any]:
    client: dict[str, Any] = {"url": terms.url}
    if not terms.url and terms.service is not None:
        service = terms.service
        client = {"service": {"namespace": service.namespace, "name": service.name, "port": service.port, "path": PATH}}
    return {
        "name": "placement.moorage.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": terms.timeout_s,
    }


def _exclude(entry: dict[str, Any], excluded: Iterable[str]) -> None:
    """See that no pod of these namespaces is asked about; other conditions stay."""
    selector = entry.get("namespaceSelector") or {}
    expressions = list(selector.get("matchExpressions") or ())
    named: set[str] = set()
    for expression in expressions:
        if _names(expression):
            named.update(expression.get("values") or ())
    missing = [name for name in excluded if name not in named]
    if missing:
        expressions.append({"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": missing})
        entry["namespaceSelector"] = {**selector, "matchExpressions": expressions}


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""
