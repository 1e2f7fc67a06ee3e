"""Answers about pods that are alike, each kept for as long as its template lives.

A template lives while a pod has it. What is worked out about it goes with it, so that memory follows the pods that
there are; how many answers are kept, and of how large templates, is bounded all the same. A value must not refer to
its own template, which would then never go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar
from weakref import ref

from moorage.core.limits import KEPT_TEMPLATE_BYTES
from moorage.core.pods import PodTemplate

V = TypeVar("V")


class _Ref(ref[PodTemplate]):
    """Knows what to tell of its template when that is gone."""

    __slots__ = ("key", "size")

    key: int
    size: int


class _Kept(NamedTuple, Generic[V]):
    value: V
    template: _Ref


class TemplateCache(Generic[V]):
    """Values by template, told apart by identity: equal ones are one (`wire.templates`).

    It starts over when it has become too large; whatever is in it can be worked out again.
    """

    __slots__ = ("_gone", "_kept", "_most", "kept_bytes")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[int, _Kept[V]] = {}
        self._gone: Callable[[_Ref], None] = self._forget
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
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= self._most or self.kept_bytes + template.size > KEPT_TEMPLATE_BYTES:
                self.clear()
            self.kept_bytes += template.size
            told = _Ref(template, self._gone)
            told.key, told.size = key, template.size
        else:
            told = known.template
        self._kept[key] = _Kept(value, told)
        return value

    def drop(self, template: PodTemplate) -> None:
        """Forget one, if it is known."""
        found = self._kept.pop(id(template), None)
        self.kept_bytes -= found.template.size if found is not None else 0

    def clear(self) -> None:
        """Start over."""
        self._kept.clear()
        self.kept_bytes = 0

    def _forget(self, gone: _Ref) -> None:
        del self._kept[gone.key]
        self.kept_bytes -= gone.size
