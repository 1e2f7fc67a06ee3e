"""Answers about pods that are alike, kept by number and by bytes.

A template may hold what a tenant has written, and stays in memory for as long as a cache knows it, also when its pods
are gone: thousands of small ones are worth that, thousands of large ones are not.
"""

from __future__ import annotations

from typing import TypeVar

from moorage.core.limits import KEPT_TEMPLATE_BYTES
from moorage.core.pods import PodTemplate

V = TypeVar("V")


class TemplateCache(dict[PodTemplate, V]):
    """A dictionary that starts over when it has become too large; whatever is in it can be worked out again."""

    __slots__ = ("_most", "kept_bytes")

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.kept_bytes = 0

    def keep(self, template: PodTemplate, value: V) -> V:
        """Add or replace an entry; returns the value."""
        if template not in self:
            if len(self) >= self._most or self.kept_bytes + template.size > KEPT_TEMPLATE_BYTES:
                self.clear()
            self.kept_bytes += template.size
        self[template] = value
        return value

    def clear(self) -> None:
        """Start over."""
        super().clear()
        self.kept_bytes = 0
