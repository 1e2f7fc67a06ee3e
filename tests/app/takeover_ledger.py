"""Who judges the takeover drill: a watch of pods and one of the Lease, and the API server's audit log.

Nothing here uses Moorage's client. Everything in one etcd shares one count of revisions, so a bind and a change of the
Lease are put in order by their resource versions, without a clock: a bind whose term is not that of the Lease as it
was at that revision is of an old term. A watch delivers every state of every object, so what was not seen never was.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientError

from tests.gangs.cluster import Cluster
from tests.gangs.ledger import cpu_milli

TERM = "moorage.dev/term"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "Request",
            "resources": [{"group": "", "resources": ["pods/binding"]}],
            "omitStages": ["RequestReceived"],
        },
        {"level": "None"},
    ],
}
"""What the API server has to note down: every bind with its body, and how it was answered."""
_FENCE = "leadership term"
_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod when it was first seen on a node."""

    pod: str
    node: str
    term: str
    revision: int
    seen_s: float


@dataclass(frozen=True, slots=True)
class Reign:
    """The Lease from when it named somebody else, or nobody; `seen_s` is monotonic, `moment_s` the wall clock."""

    holder: str
    term: str
    revision: int
    seen_s: float
    moment_s: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A bind that somebody asked for, from the audit log."""

    pod: str
    term: str
    moment_s: float
    code: int
    message: str

    @property
    def accepted(self) -> bool:
        """Whether the API server did it."""
        return 200 <= self.code < 300

    @property
    def fenced(self) -> bool:
        """Whether the admission policy refused it."""
        return _FENCE in self.message


class Ledger:
    """All pods and all reigns of one drill. `room_milli` is the cpu of every node."""

    def __init__(self, room_milli: int) -> None:
        self.twice: list[str] = []
        self.overcommitted: list[str] = []
        self.bound: dict[str, Bound] = {}
        """By uid."""
        self.reigns: list[Reign] = []
        self.refused: set[str] = set()
        """Pods that were told that they fit nowhere, by name."""
        self.used_milli: Counter[str] = Counter()
        self.room_milli = room_milli

    def see_pod(self, pod: dict[str, Any]) -> None:
        """Take a state of a pod."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            reasons = [each.get("reason") for each in pod["status"].get("conditions", [])]
            if "Unschedulable" in reasons:
                self.refused.add(meta["name"])
            return
        home = self.bound.get(meta["uid"])
        if home is not None:
            if home.node != node:
                self.twice.append(f"{home.pod} was on {home.node} and then on {node}")
            return
        term = meta.get("annotations", {}).get(TERM, "none")
        self.bound[meta["uid"]] = Bound(meta["name"], node, term, int(meta["resourceVersion"]), time.monotonic())
        self.refused.discard(meta["name"])
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        self.used_milli[node] += cpu_milli(requests["cpu"])
        if self.used_milli[node] > self.room_milli:
            self.overcommitted.append(f"{node} has {self.room_milli}m of cpu and {self.used_milli[node]}m on it")

    def see_lease(self, lease: dict[str, Any]) -> None:
        """Take a state of the Lease."""
        spec = lease["spec"]
        holder = spec.get("holderIdentity") or ""
        term = f"{spec.get('leaseTransitions') or 0}/{holder}"
        if self.reigns and self.reigns[-1].term == term:
            return
        revision = int(lease["metadata"]["resourceVersion"])
        self.reigns.append(Reign(holder, term, revision, time.monotonic(), time.time()))

    @property
    def leader(self) -> Reign | None:
        """Who leads now; None while nobody does."""
        return self.reigns[-1] if self.reigns and self.reigns[-1].holder else None

    def successor(self, before: Reign) -> Reign | None:
        """The first leader after this one."""
        later = self.reigns[self.reigns.index(before) + 1 :]
        return next((reign for reign in later if reign.holder), None)

    def first_bind(self, reign: Reign) -> Bound | None:
        """The first pod that a leader bound."""
        own = [home for home in self.bound.values() if home.term == reign.term]
        return min(own, key=lambda home: home.revision, default=None)

    def binds_of(self, reign: Reign) -> int:
        """How many pods this leader has bound."""
        return sum(home.term == reign.term for home in self.bound.values())

    def stale_binds(self) -> list[str]:
        """Binds that were accepted when the Lease already named another term."""
        revisions = [reign.revision for reign in self.reigns]
        stale = []
        for home in self.bound.values():
            index = bisect.bisect(revisions, home.revision) - 1
            current = self.reigns[index].term if index >= 0 else "none"
            if home.term != current:
                stale.append(f"{home.pod} was bound in term {home.term} when the term was {current}")
        return stale

    def late_attempts(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Binds of a term that were sent after the next leader's Lease had been seen."""
        ended = {before.term: after.moment_s for before, after in zip(self.reigns, self.reigns[1:], strict=False)}
        return [each for each in attempts if each.moment_s > ended.get(each.term, float("inf"))]


class Watch:
    """Hands every state of the objects of one kind to `see`; has handed over the list when it opens."""

    def __init__(self, cluster: Cluster, path: str, see: Callable[[dict[str, Any]], None], selector: str = "") -> None:
        self.lost = ""
        """Why it may have missed something; empty in a sound drill."""
        self._cluster = cluster
        self._path = path
        self._see = see
        self._query = {"fieldSelector": selector} if selector else {}
        self._version = ""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        async with self._cluster.session.get(self._path, params=self._query) as answer:
            listed = await answer.json()
        self._version = listed["metadata"]["resourceVersion"]
        for item in listed["items"]:
            self._see(item)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.lost:
            with contextlib.suppress(ClientError):
                await self._follow()
            await asyncio.sleep(_AGAIN_S)

    async def _follow(self) -> None:
        query = {"watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true", **self._query}
        async with self._cluster.session.get(self._path, params=query) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR" or "metadata" not in event["object"]:
                    self.lost = f"the watch of {self._path} broke off: {line[:200]!r}"
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] in {"ADDED", "MODIFIED"}:
                    self._see(event["object"])


def read_attempts(audit_log: Path) -> list[Attempt]:
    """Every bind that the API server was asked for; those of dry runs are left out."""
    lines = audit_log.read_text().splitlines() if audit_log.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [_attempt(event) for event in events if "dryRun" not in event["requestURI"]]


def _attempt(event: dict[str, Any]) -> Attempt:
    moment = dt.datetime.fromisoformat(event["requestReceivedTimestamp"])
    annotations = event.get("requestObject", {}).get("metadata", {}).get("annotations", {})
    status = event.get("responseStatus", {})
    return Attempt(
        event["objectRef"]["name"],
        annotations.get(TERM, "none"),
        moment.timestamp(),
        status.get("code", 0),
        status.get("message", ""),
    )
