"""The status of Queue objects: what a queue has, may have and waits for, and whether pods can use it.

Written only when it changes; at most `MOST_WRITES` at once, those that waited longest first. A condition says since
when it holds: what the object says, if it held before this process wrote for the first time. Queues of KAI and Volcano
have status of their own, which their controllers write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.core.commands import PatchObject, PodRef
from moorage.core.frozen import FrozenDict
from moorage.core.queueaccounts import QueueAccount
from moorage.core.queues import QUEUE
from moorage.core.state import ClusterState
from moorage.views.queuetree import amounts_document

MOST_WRITES = 50

Status = FrozenDict[str, Any]
Since = tuple[str, str]
"""The status of the condition Ready, and since when it has it."""


class QueueStatuses:
    """What was written on each queue."""

    def __init__(self, state: ClusterState, since: Mapping[str, Since] | None = None) -> None:
        """`since` is what the objects say, by name."""
        self._state = state
        self._since: dict[str, Since] = dict(since or {})
        self._written: dict[str, tuple[str, Status]] = {}
        """Name -> uid and status."""
        self._late: dict[str, None] = {}
        """Queues whose status has changed and waits, oldest first."""

    def plan(self, accounts: Iterable[QueueAccount], now_s: float) -> list[PatchObject]:
        """What to write now."""
        now_text = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ours = self._state.objects.get(QUEUE, {})
        found = {each.queue.name: each for each in accounts if ours.get(each.queue.name) == each.queue}
        self._written = {name: written for name, written in self._written.items() if name in found}
        self._since = {name: self._ready(name, each, now_text) for name, each in found.items()}
        statuses = {name: (each.queue.uid, _status(each, self._since[name])) for name, each in found.items()}
        changed = {name: None for name, now in statuses.items() if self._written.get(name) != now}
        late = list(dict.fromkeys([*(name for name in self._late if name in changed), *changed]))
        self._late = dict.fromkeys(late[MOST_WRITES:])
        for name in late[:MOST_WRITES]:
            self._written[name] = statuses[name]
        return [_write(name, *statuses[name]) for name in late[:MOST_WRITES]]

    def _ready(self, name: str, account: QueueAccount, now_text: str) -> Since:
        status = "False" if account.problem else "True"
        known = self._since.get(name)
        return known if known is not None and known[0] == status else (status, now_text)

    def failed(self, name: str) -> None:
        """A write did not succeed; it is tried again."""
        self._written.pop(name, None)


def _write(name: str, uid: str, status: Status) -> PatchObject:
    patch = FrozenDict({"status": status})
    return PatchObject(PodRef("", name, uid), QUEUE, "", name, patch, uid, subresource="status")


def _status(account: QueueAccount, since: Since) -> Status:
    generation = account.queue.generation
    ready = {
        "type": "Ready",
        "status": since[0],
        "lastTransitionTime": since[1],
        "reason": "NotUsable" if account.problem else "Usable",
        "message": account.problem,
        "observedGeneration": generation,
    }
    amounts = {field: FrozenDict(each) for field, each in amounts_document(account).items()}
    return FrozenDict({"observedGeneration": generation, **amounts, "conditions": (FrozenDict(ready),)})
