"""Which pods go first when a workload gets fewer replicas: by the rules of the controllers that would choose them.

A ReplicaSet removes, in this order: pods without a node, pods that do not run yet, pods that are not ready, pods with a
lower deletion cost, pods on nodes with more pods of the same workload, pods that became ready later, pods that were
restarted more often, and pods made later. Times are compared by the logarithm of their distance from now, and what is
equal then goes by uid, which is as good as chance. A StatefulSet removes the highest ordinals.

Pods of a Deployment's former ReplicaSets go before those of the newest one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from moorage.adapters.memory.controllers.replicasets import DELETION_COST
from moorage.adapters.memory.objects import (
    KubeObject,
    condition_of,
    is_ready,
    metadata_of,
    node_of,
    status_of,
    uid_of,
)
from moorage.core.times import time_s
from moorage.core.values import dataclass

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_INT32 = 2**31


@dataclass(frozen=True, slots=True)
class _Rank:
    """What the rules look at, of one pod."""

    firmly: tuple[Any, ...]
    """Compared as it stands."""
    ready_s: float | None
    restarts: int
    made_s: float | None
    uid: str


def removal_order(
    pods: Iterable[KubeObject], now_s: float, *, is_former: Callable[[KubeObject], bool] | None = None
) -> list[KubeObject]:
    """The live pods of a ReplicaSet or of all ReplicaSets of a Deployment, the one that goes first in front."""
    pods = [*pods]
    crowd = Counter(node_of(pod) for pod in pods)

    def rank(pod: KubeObject) -> _Rank:
        former = is_former is not None and is_former(pod)
        phase = _PHASES.get(str(status_of(pod).get("phase") or "Pending"), 1)
        place = (not former, bool(node_of(pod)), phase, is_ready(pod), _deletion_cost(pod), -crowd[node_of(pod)])
        ready_s = time_s(str(condition_of(pod, "Ready").get("lastTransitionTime"))) if is_ready(pod) else None
        return _Rank(
            place, ready_s, _restarts(pod), time_s(str(metadata_of(pod).get("creationTimestamp"))), uid_of(pod)
        )

    ranks = {uid_of(pod): rank(pod) for pod in pods}

    def compare(one: KubeObject, other: KubeObject) -> int:
        return _compare(ranks[uid_of(one)], ranks[uid_of(other)], now_s)

    return sorted(pods, key=cmp_to_key(compare))


def newest_sign_s(objects: Iterable[KubeObject], at_least_s: float) -> float:
    """The newest time that conditions tell of: with kubelets' heartbeats, about the moment of the picture."""
    texts = {
        str(condition.get(field))
        for obj in objects
        for condition in status_of(obj).get("conditions") or ()
        for field in ("lastHeartbeatTime", "lastTransitionTime")
    }
    return max(at_least_s, *(time_s(text) or 0.0 for text in texts), 0.0)


def by_falling_ordinal(pods: Iterable[KubeObject]) -> list[KubeObject]:
    """The pods of a StatefulSet, the one that goes first in front."""

    def ordinal(pod: KubeObject) -> tuple[int, str]:
        name = str(pod["metadata"]["name"])
        last = name.rpartition("-")[2]
        return (int(last) if last.isascii() and last.isdigit() else -1, name)

    return sorted(pods, key=ordinal, reverse=True)


def _compare(a: _Rank, b: _Rank, now_s: float) -> int:
    if a.firmly != b.firmly:
        return -1 if a.firmly < b.firmly else 1
    if a.ready_s is not None and b.ready_s is not None and a.ready_s != b.ready_s:
        return _by_age(a, b, a.ready_s, b.ready_s, now_s)
    if a.restarts != b.restarts:
        return -1 if a.restarts > b.restarts else 1
    if a.made_s is not None and b.made_s is not None and a.made_s != b.made_s:
        return _by_age(a, b, a.made_s, b.made_s, now_s)
    return _by_uid(a, b)


def _by_age(a: _Rank, b: _Rank, a_s: float, b_s: float, now_s: float) -> int:
    difference = _magnitude(now_s - a_s) - _magnitude(now_s - b_s)
    return difference or _by_uid(a, b)


def _magnitude(age_s: float) -> int:
    """The whole part of the binary logarithm of an age in nanoseconds; -1 for what is not in the past."""
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1


def _by_uid(a: _Rank, b: _Rank) -> int:
    return (a.uid > b.uid) - (a.uid < b.uid)


def _restarts(pod: KubeObject) -> int:
    statuses: Sequence[Mapping[str, Any]] = status_of(pod).get("containerStatuses") or ()
    return max((int(each.get("restartCount") or 0) for each in statuses), default=0)


def _deletion_cost(pod: KubeObject) -> int:
    """The number of the annotation, 0 where it is none that the controller accepts."""
    text = str((metadata_of(pod).get("annotations") or {}).get(DELETION_COST, "0"))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or digits != (digits.lstrip("0") or "0"):
        return 0
    return cost if -_INT32 <= (cost := int(text)) < _INT32 else 0
