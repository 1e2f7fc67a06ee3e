"""The chronicle: watches an embedded cluster and its scheduler, and remembers and counts what happens.

Decisions are told when they are carried out, deletions when the pod is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.objects import KubeObject, condition_of, node_of, status_of
from moorage.core.commands import Bind, Command, KeeperCommand, RecordEvent
from moorage.core.events import BindDone
from moorage.core.phrases import listed
from moorage.views.story import Sightings, bound, completion, decided, ending
from moorage.views.words import WORDS, Facts, Happening, HappeningKind
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, pod_kind
from moorage.wire.templates import TemplateTable

_REMEMBERED = 100
_EVICTION = "DisruptionTarget"
_SEEN = frozenset({HappeningKind.RUNNING, HappeningKind.FINISHED})
"""What is told because it is seen of a pod."""


class Chronicle:
    """Everything that happened since the start, counted; the latest of it as it happened."""

    def __init__(self, cluster: EmbeddedCluster, began_s: float) -> None:
        self.recent: deque[Happening] = deque(maxlen=_REMEMBERED)
        """Oldest first, without those that only the curious want."""
        self.counts: dict[HappeningKind, int] = dict.fromkeys(HappeningKind, 0)
        self._cluster = cluster
        self._began_s = began_s
        self._watch = cluster.watch(("Pod", "Job"))
        self._kinds = {"Pod": pod_kind(TemplateTable()), "Job": BY_ID["Job"]}
        self._sightings = Sightings(settled=True)
        self._new: list[Happening] = []
        self._waiting_s: dict[str, float] = {}
        """`namespace/name` of a pod that fits nowhere -> since when."""

    def take(self) -> Sequence[Happening]:
        """What is new since this was last called."""
        new, self._new = self._new, []
        return new

    def tell(self, story: str) -> None:
        """An act of the scenario."""
        self._note([Happening(self._now_s(), HappeningKind.STORY, facts={"text": story})])

    def decided(self, command: Command | KeeperCommand) -> None:
        """The scheduler or the keeper decided something."""
        found = decided(command, self._now_s())
        if isinstance(command, RecordEvent):
            victim = self._cluster.store.find_uid(command.pod.uid)
            found = (_with(each, {"node": node_of(victim)}) for each in found if victim is not None)
        self._note(found)

    def bound(self, bind: Bind, answer: BindDone, scores: Mapping[str, int]) -> None:
        """A bind ended; `scores` are those of the nodes that fit."""
        score: Facts = {"score": scores[bind.node]} if bind.node in scores else {}
        devices = self._devices(bind)
        got: Facts = {"devices": listed(devices)} if devices else {}
        self._note([_with(bound(bind, answer, self._now_s()), {**score, **got})])

    def _devices(self, bind: Bind) -> list[str]:
        """The devices that the claims of a pod hold."""
        claims = (status_of(each) for each in self._cluster.store.list("ResourceClaim", bind.pod.namespace))
        own = (each for each in claims if any(user["uid"] == bind.pod.uid for user in each.get("reservedFor") or ()))
        return [result["device"] for each in own for result in each["allocation"]["devices"]["results"]]

    def follow(self) -> None:
        """Look at what the cluster did."""
        for change in self._watch.pull():
            try:
                before, now = self._read(change.kind, change.old), self._read(change.kind, change.object)
            except WireError:
                continue
            if change.kind == "Job":
                self._note(completion(before, now, self._now_s()))
            elif change.type is ChangeType.DELETED:
                self._waiting_s.pop(now.key, None)
                reason = condition_of(change.object, _EVICTION).get("reason", "")
                self._note(ending(now, self._now_s(), reason))
            else:
                seen = self._sightings.pod(before, now, self._now_s())
                self._note(each for each in seen if each.what in _SEEN)

    def _read(self, kind: str, obj: KubeObject | None) -> Any:
        return None if obj is None else self._kinds[kind].from_builtin(obj)

    def _note(self, happenings: Iterable[Happening]) -> None:
        for each in happenings:
            if WORDS[each.what].word:
                happening = self._timed(each)
                self.counts[each.what] += 1
                self._new.append(happening)
                if each.what is not HappeningKind.RUNNING:
                    self.recent.append(happening)

    def _timed(self, happening: Happening) -> Happening:
        """A pod that was placed says how long it has waited."""
        if happening.what is HappeningKind.WAITS:
            self._waiting_s.setdefault(happening.key, happening.at_s)
        elif happening.what is HappeningKind.PLACED and happening.key in self._waiting_s:
            waited_s = happening.at_s - self._waiting_s.pop(happening.key)
            return _with(happening, {"waited_s": round(waited_s, 3)})
        return happening

    def _now_s(self) -> float:
        return self._cluster.now_s - self._began_s


def _with(happening: Happening, facts: Facts) -> Happening:
    return replace(happening, facts={**happening.facts, **facts})
