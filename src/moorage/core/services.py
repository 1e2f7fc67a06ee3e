"""Which services select a pod, without trying all services."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.objects import Service
from moorage.core.selectorindex import SelectorIndex
from moorage.core.selectors import selector_from_labels


class ServiceIndex:
    """Services by namespace and by the label pairs that they demand. Services without selector select nothing."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, SelectorIndex[Service]] = {}

    def replace(self, before: Service | None, after: Service | None) -> None:
        """Take over a change of one service; None stands for none."""
        if before is not None and before.selector:
            index = self._by_namespace[before.namespace]
            index.remove(before)
            if not len(index):
                del self._by_namespace[before.namespace]
        if after is not None and after.selector:
            index = self._by_namespace.setdefault(after.namespace, SelectorIndex())
            index.add(after, selector_from_labels(after.selector))

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Service]:
        """The services that select a pod with these labels."""
        index = self._by_namespace.get(namespace)
        if index is None:
            return []
        return [service for service in index.candidates(labels) if service.selector.items() <= labels.items()]
