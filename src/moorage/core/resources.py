"""Amounts of resources that pods request: cpu in milli, everything else in whole units (bytes, pieces)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from moorage.core.limits import AMOUNT
from moorage.core.values import dataclass

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
"""What NodeResourcesFit's score assumes for a container that requests nothing."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What a pod takes from a node. `amounts` is sorted by name and leaves out zeros.

    `score_cpu_milli` and `score_memory_bytes` are the same sums with the defaults above put in for containers that
    request nothing: scores use them, filters never do.
    """

    amounts: tuple[tuple[str, int], ...] = ()
    score_cpu_milli: int = DEFAULT_CPU_MILLI
    score_memory_bytes: int = DEFAULT_MEMORY_BYTES
    newcomer: Requests | None = None
    """What NodeResourcesFit's score counts for the pod while it has no node, where that differs: the containers without
    the pod's own `resources`, which kube-scheduler leaves out there, and only there."""
    _hash: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        fields = (self.amounts, self.score_cpu_milli, self.score_memory_bytes, self.newcomer)
        object.__setattr__(self, "_hash", hash(fields))

    def __hash__(self) -> int:
        return self._hash

    def get(self, name: str) -> int:
        """The amount of one resource, 0 where it is not requested."""
        return next((amount for key, amount in self.amounts if key == name), 0)


NO_REQUESTS = Requests()


def make_requests(
    amounts: Mapping[str, int], score_cpu_milli: int, score_memory_bytes: int, newcomer: Requests | None = None
) -> Requests:
    """Build the value from unsorted amounts that may hold zeros; each is at most `AMOUNT`."""
    return Requests(
        tuple(sorted((name, min(amount, AMOUNT)) for name, amount in amounts.items() if amount)),
        min(score_cpu_milli, AMOUNT),
        min(score_memory_bytes, AMOUNT),
        newcomer,
    )
