"""What a gang did, judged from the events of one watch and nothing else.

A watch of one kind delivers every state of every object in the order in which it was stored, so what the ledger never
saw never was: a node that was beyond its room for a moment is noticed as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEMBER = "drill.moorage.dev/member"
"""Label of the pods that belong to the gang; other pods only take room."""
_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last state of a pod that is still there."""

    name: str
    node: str | None
    cpu_milli: int
    member: bool
    leaving: bool
    finished: bool


class Ledger:
    """All pods of one drill. `allocatable_milli` says how much cpu each node has."""

    def __init__(self, allocatable_milli: Mapping[str, int], min_count: int) -> None:
        self.twice: list[str] = []
        self.overcommitted: list[str] = []
        self._allocatable_milli = dict(allocatable_milli)
        self._min_count = min_count
        self._pods: dict[str, Sighting] = {}
        self._homes: dict[str, str] = {}
        self._known: set[str] = set()

    def foresee(self, pod: Mapping[str, Any]) -> None:
        """Take a pod that was just created, unless the watch was quicker."""
        if pod["metadata"]["uid"] not in self._known:
            self.see("ADDED", pod)

    def see(self, kind: str, pod: Mapping[str, Any]) -> None:
        """Take one event of the watch: ADDED, MODIFIED or DELETED."""
        uid = pod["metadata"]["uid"]
        self._known.add(uid)
        seen = _sighting(pod)
        if seen.node is not None:
            self._check_home(uid, seen.name, seen.node)
        if kind == "DELETED":
            self._pods.pop(uid, None)
            return
        self._pods[uid] = seen
        if seen.node is not None:
            self._check_room(seen.node)

    @property
    def members(self) -> list[Sighting]:
        """Members that are there to stay: those being deleted and the finished ones do not count."""
        return [pod for pod in self._pods.values() if pod.member and not pod.leaving and not pod.finished]

    @property
    def bound(self) -> int:
        """How many members that are there to stay have a node."""
        return sum(pod.node is not None for pod in self.members)

    @property
    def partial(self) -> bool:
        """Whether some members run but fewer than the gang needs."""
        return 0 < self.bound < self._min_count

    @property
    def whole(self) -> bool:
        """Whether the gang runs."""
        return self.bound >= self._min_count

    @property
    def free_nodes(self) -> list[str]:
        """Nodes without any pod, in order of name."""
        taken = {pod.node for pod in self._pods.values()}
        return sorted(node for node in self._allocatable_milli if node not in taken)

    @property
    def names(self) -> set[str]:
        """Names of all pods that are still there."""
        return {pod.name for pod in self._pods.values()}

    def _check_home(self, uid: str, name: str, node: str) -> None:
        home = self._homes.setdefault(uid, node)
        if home != node:
            self.twice.append(f"{name} was on {home} and then on {node}")

    def _check_room(self, node: str) -> None:
        used = sum(pod.cpu_milli for pod in self._pods.values() if pod.node == node and not pod.finished)
        room = self._allocatable_milli.get(node, 0)
        if used > room:
            self.overcommitted.append(f"{node} has {room}m of cpu and {used}m on it")


def cpu_milli(quantity: str) -> int:
    """Return a cpu quantity as the API server writes those of this drill: whole or in milli."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def _sighting(pod: Mapping[str, Any]) -> Sighting:
    meta, spec = pod["metadata"], pod["spec"]
    requests = [one.get("resources", {}).get("requests", {}).get("cpu", "0") for one in spec["containers"]]
    return Sighting(
        name=meta["name"],
        node=spec.get("nodeName"),
        cpu_milli=sum(cpu_milli(request) for request in requests),
        member=MEMBER in meta.get("labels", {}),
        leaving="deletionTimestamp" in meta,
        finished=pod.get("status", {}).get("phase") in _FINISHED,
    )
