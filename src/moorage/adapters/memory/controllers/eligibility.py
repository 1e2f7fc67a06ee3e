"""On which nodes a DaemonSet wants a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from moorage.adapters.memory.controllers.templates import daemon_tolerations
from moorage.adapters.memory.errors import Invalid
from moorage.adapters.memory.objects import KubeObject, metadata_of, spec_of
from moorage.core.limits import Cutter
from moorage.core.selectors import selector_from_labels
from moorage.core.taints import NO_EXECUTE, NO_SCHEDULE, Taint, is_tolerated
from moorage.wire.errors import FieldError
from moorage.wire.placement import parse_affinity, parse_tolerations


def eligible_nodes(template: Mapping[str, Any], nodes: Iterable[KubeObject]) -> list[str]:
    """The names of the nodes that the template's node selector, affinity and tolerations allow, in the given order.

    As for the real controller, room on the node plays no part, and neither do preferences.
    """
    spec = spec_of(template)
    try:
        affinity, _, _ = parse_affinity(msgspec.json.encode(spec.get("affinity")), Cutter())
        tolerations = parse_tolerations(msgspec.json.encode(daemon_tolerations(spec)), Cutter())
    except FieldError as error:
        raise Invalid(str(error)) from error
    selector = selector_from_labels(spec.get("nodeSelector") or {})
    terms = None if affinity is None else affinity.required

    def allows(node: KubeObject) -> bool:
        name, labels = node["metadata"]["name"], metadata_of(node).get("labels") or {}
        if spec.get("nodeName") and spec["nodeName"] != name:
            return False
        if not selector.matches(labels):
            return False
        if terms is not None and not any(term.matches(name, labels) for term in terms):
            return False
        return all(is_tolerated(taint, tolerations) for taint in _repelling_taints(node))

    return [node["metadata"]["name"] for node in nodes if allows(node)]


def _repelling_taints(node: KubeObject) -> list[Taint]:
    given = spec_of(node).get("taints") or ()
    taints = [Taint(str(t.get("key")), str(t.get("value") or ""), str(t.get("effect"))) for t in given]
    return [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
