"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.core.values import dataclass

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_TAINT_KEY = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """One taint of a node or a device."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """One toleration of a pod; an empty key with Exists tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def barring(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """The taints that forbid scheduling and are not tolerated."""
    return (t for t in taints if t.effect in (NO_SCHEDULE, NO_EXECUTE) and not is_tolerated(t, tolerations))


def is_barred(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint that forbids scheduling is not tolerated."""
    return next(barring(taints, tolerations), None) is not None


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
