"""Answers about pods that are alike, each kept for as long as its template lives.

A template lives while a pod has it. What is worked out about it goes with it, so that memory follows the pods that
there are; how many answers are kept, and of how large templates, is bounded nevertheless. A value must not refer to its
own template, which would then never go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from moorage.core.limits import KEPT_TEMPLATE_BYTES
from moorage.core.pods import PodTemplate

V = TypeVar("V")


class _Kept(ref[PodTemplate], Generic[V]):
    """A value, and the template that it is about, with what must be known of that when it is gone."""

    __slots__ = ("key", "size", "value")

    key: int
    size: int
    value: V


class TemplateCache(Generic[V]):
    """Values by template, told apart by identity: equal ones are one (`wire.templates`).

    It starts over when it has become too large; whatever is in it can be worked out again.
    """

    __slots__ = ("__weakref__", "_gone", "_kept", "_most", "kept_bytes")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[int, _Kept[V]] = {}
        self._gone = _forgetter(ref(self))
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, template: PodTemplate) -> V | None:
        """The value, None if there is none."""
        found = self._kept.get(id(template))
        return None if found is None else found.value

    def keep(self, template: PodTemplate, value: V) -> V:
        """Add or replace a value; returns it."""
        key = id(template)
        found = self._kept.get(key)
        if found is None:
            size = template.size
            if len(self._kept) >= self._most or self.kept_bytes + size > KEPT_TEMPLATE_BYTES:
                self.clear()
            self.kept_bytes += size
            found = self._kept[key] = _Kept(template, self._gone)
            found.key, found.size = key, size
        found.value = value
        return value

    def clear(self) -> None:
        """Start over."""
        self._kept.clear()
        self.kept_bytes = 0

    def forget(self, gone: _Kept[V]) -> None:
        """A template is gone."""
        del self._kept[gone.key]
        self.kept_bytes -= gone.size


def _forgetter(cache: ref[TemplateCache[V]]) -> Callable[[_Kept[V]], None]:
    """Tells a cache, if it is still there, that a template is gone; does not keep it alive."""

    def forget(gone: _Kept[V]) -> None:
        alive = cache()
        if alive is not None:
            alive.forget(gone)

    return forget
