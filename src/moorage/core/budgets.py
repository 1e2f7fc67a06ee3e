"""PodDisruptionBudgets as numbers: which of them cover a pod, and how many disruptions each still allows.

Each budget has a number, its place in the order of the keys. A budget without selector, or with an empty one, covers
nothing; nor does any budget cover a pod without labels, or one that it counts as disrupted already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import RUNNING, Pod, PodTemplate
from moorage.core.templatecache import TemplateCache

_KEPT = 16_384


class Budgets:
    """All budgets of one moment; make a new one when an object has changed."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self.all = tuple(sorted(budgets, key=lambda budget: budget.key))
        self.allowed: Ints = np.array([budget.disruptions_allowed for budget in self.all], dtype=np.int64)
        self._in_namespace: dict[str, list[tuple[int, PodDisruptionBudget]]] = {}
        for number, budget in enumerate(self.all):
            if budget.selector.requirements:
                self._in_namespace.setdefault(budget.namespace, []).append((number, budget))
        self._of_template: TemplateCache[tuple[int, ...]] = TemplateCache(_KEPT)

    def __len__(self) -> int:
        return len(self.all)

    def covering(self, pod: Pod) -> tuple[int, ...]:
        """Numbers of the budgets that a disruption of this pod would use up."""
        found = self._of_template.get(pod.template)
        if found is None:
            found = self._of_template.keep(pod.template, self._matching(pod.template))
        return tuple(number for number in found if not _holds(self.all[number].disrupted_pods, pod.name))

    def charged(self, pod: Pod) -> tuple[int, ...]:
        """Numbers of the budgets that pay for an eviction of this pod, as the API server asks them.

        It does not ask about pods that do not run, and budgets may spare those that are not ready.
        """
        if pod.phase != RUNNING:
            return ()
        return tuple(number for number in self.covering(pod) if pod.ready or not self.all[number].spares_unready)

    def refusing(self, pods: Iterable[Pod], spent: Ints | None = None) -> PodDisruptionBudget | None:
        """A budget that does not allow all of these to go, None if all do; `spent` is what they do not know of yet."""
        left = self.allowed.copy() if spent is None else self.allowed - spent
        for pod in pods:
            for number in self.charged(pod):
                left[number] -= 1
                if left[number] < 0:
                    return self.all[number]
        return None

    def covers_like(self, other: Budgets) -> bool:
        """Whether these cover the same pods under the same numbers; what they allow may differ."""
        return len(self.all) == len(other.all) and all(
            (a.key, a.selector, a.disrupted_pods) == (b.key, b.selector, b.disrupted_pods)
            for a, b in zip(self.all, other.all, strict=True)
        )

    def _matching(self, template: PodTemplate) -> tuple[int, ...]:
        if not template.labels:
            return ()
        candidates = self._in_namespace.get(template.namespace, ())
        return tuple(number for number, budget in candidates if budget.selector.matches(template.labels))


def _holds(names: tuple[str, ...], name: str) -> bool:
    """Whether a name is among sorted ones, which may be many while nodes are drained."""
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name


def same_objects(kept: Mapping[str, PodDisruptionBudget], now: Mapping[str, PodDisruptionBudget]) -> bool:
    """Whether two tables hold the very same values."""
    return len(kept) == len(now) and all(kept.get(key) is value for key, value in now.items())
