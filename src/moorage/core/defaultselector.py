"""Which pods belong together without saying so: those that the same services and the same controller select."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moorage.core.objects import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
    Service,
    Workload,
    object_key,
)
from moorage.core.pods import PodTemplate
from moorage.core.selectors import Operator, Requirement, Selector

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

SOURCE_KINDS = frozenset({SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET})
"""What the default selector of a pod depends on."""

_API_VERSIONS = {REPLICATION_CONTROLLER: "v1", REPLICA_SET: "apps/v1", STATEFUL_SET: "apps/v1"}


class SelectorSources(NamedTuple):
    """What selects a pod; equal sources give equal selectors."""

    services: tuple[Service, ...]
    kind: str
    """Of the controller; empty if there is none."""
    selector: Selector | None
    """Of the controller."""


def selector_sources(state: ClusterState, template: PodTemplate) -> SelectorSources:
    """The services and the controller that select a pod; cheap enough for every decision."""
    services = tuple(state.services.selecting(template.namespace, template.labels))
    owner = template.owner
    if owner is None or _API_VERSIONS.get(owner.kind) != owner.api_version:
        return SelectorSources(services, "", None)
    found: Workload | None = state.object(owner.kind, object_key(template.namespace, owner.name))
    return SelectorSources(services, owner.kind, None if found is None else found.selector)


def default_selector(sources: SelectorSources) -> Selector:
    """The selector that all sources make together; one without requirements where nothing selects the pod."""
    pairs: dict[str, str] = {}
    for service in sources.services:
        pairs.update(service.selector)
    more: tuple[Requirement, ...] = () if sources.selector is None else sources.selector.requirements
    if sources.kind == REPLICATION_CONTROLLER:
        pairs.update((requirement.key, requirement.values[0]) for requirement in more)
        more = ()
    demanded = tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(pairs.items()))
    return Selector(tuple(dict.fromkeys((*demanded, *more))))
