"""The chronicle: watches an embedded cluster and its scheduler, and turns what they do into happenings and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from moorage.adapters.memory.changes import Change, ChangeType
from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.objects import FINISHED, KubeObject, condition_of, is_terminating, node_of, status_of
from moorage.core.commands import Bind, EvictPod, PatchNode, RecordEvent
from moorage.engine.keeping import marks
from moorage.sim.demo.happenings import Happening, What

_REMEMBERED = 100
_EVICTION = "DisruptionTarget"


class Chronicle:
    """Everything that happened since the start, counted; the latest of it in words."""

    def __init__(self, cluster: EmbeddedCluster, began_s: float) -> None:
        self.recent: deque[Happening] = deque(maxlen=_REMEMBERED)
        """Oldest first, without those that only the curious want."""
        self.counts: dict[What, int] = dict.fromkeys(What, 0)
        self._cluster = cluster
        self._began_s = began_s
        self._watch = cluster.watch(("Pod", "Job"))
        self._new: list[Happening] = []
        self._told: dict[str, tuple[float, str]] = {}
        """Uid of a waiting pod -> since when it waits, and the reason it was told last."""

    def take(self) -> Sequence[Happening]:
        """What is new since this was last called."""
        new, self._new = self._new, []
        return new

    def tell(self, story: str) -> None:
        """An act of the scenario."""
        self._note(What.STORY, "", story)

    def placed(self, command: Bind, scores: Mapping[str, int], nodes: int) -> None:
        """A pod was bound; `scores` are those of the nodes that fit, `nodes` counts all."""
        facts: dict[str, object] = {"node": command.node}
        reasons: list[str] = []
        if command.node in scores:
            facts |= {"feasible": len(scores), "nodes": nodes, "score": scores[command.node]}
            reasons = [f"{len(scores)} of {nodes} nodes fit", f"score {scores[command.node]}"]
        since_s, _ = self._told.pop(command.pod.uid, (None, ""))
        if since_s is not None:
            reasons.append(f"waited {self._now_s() - since_s:.1f} s")
        reason = f" ({', '.join(reasons)})" if reasons else ""
        self._note(What.PLACED, command.pod.name, f"-> {command.node}{reason}", **facts)

    def waits(self, command: RecordEvent) -> None:
        """A pod fits nowhere; said again only when the reason is another one."""
        since_s, message = self._told.get(command.pod.uid, (self._now_s(), ""))
        if message == command.note:
            return
        self._told[command.pod.uid] = (since_s, command.note)
        self._note(What.WAITS, command.pod.name, command.note, message=command.note)

    def preempts(self, command: RecordEvent) -> None:
        """A pod is to go, and makes room for a more important one."""
        victim = self._cluster.store.find_uid(command.pod.uid)
        if command.related is None or victim is None:
            return
        facts = {"node": node_of(victim), "victim": command.pod.name}
        note = f"takes the place of {command.pod.name} on {node_of(victim)}"
        self._note(What.PREEMPTS, command.related.name, note, **facts)

    def keeps(self, command: PatchNode | EvictPod) -> None:
        """The keeper cordons or frees a node, or moves a pod while it still runs."""
        if isinstance(command, EvictPod):
            place = f"room on {command.place}" if command.place else "no room anywhere"
            facts = {"node": command.node, "cause": command.cause, "place": command.place}
            self._note(What.KEEPS, command.pod.name, f"leaves {command.node} ({command.cause}, {place})", **facts)
        elif command.unschedulable is not None:
            deed = "is cordoned" if command.unschedulable else "is free again"
            notice = command.annotations.get(marks.NOTICE)
            self._note(What.KEEPS, command.node, f"{deed} ({notice})" if notice else deed, node=command.node)

    def follow(self) -> None:
        """Look at what the cluster did."""
        for change in self._watch.pull():
            if change.kind == "Job":
                self._follow_job(change)
            elif change.type is ChangeType.DELETED:
                self._follow_end(change.object)
            elif change.old is not None:
                self._follow_phase(change.object, change.old)

    def _follow_job(self, change: Change) -> None:
        before = change.old is not None and condition_of(change.old, "Complete")
        if change.type is not ChangeType.DELETED and condition_of(change.object, "Complete") and not before:
            number = int(status_of(change.object).get("succeeded") or 0)
            self._note(What.COMPLETE, f"Job {_name(change.object)}", f"is complete, {_pods(number)}", succeeded=number)

    def _follow_end(self, pod: KubeObject) -> None:
        self._told.pop(pod["metadata"]["uid"], None)
        node = node_of(pod)
        facts = {"node": node} if node else {}
        reason = condition_of(pod, _EVICTION).get("reason")
        place = f"from {node}" if node else "before it had a node"
        if reason:
            self._note(What.EVICTED, _name(pod), f"{place} ({reason})", reason=reason, **facts)
        elif status_of(pod).get("phase") not in FINISHED:
            self._note(What.REMOVED, _name(pod), place, **facts)

    def _follow_phase(self, pod: KubeObject, old: KubeObject) -> None:
        phase = status_of(pod).get("phase")
        if phase == status_of(old).get("phase") or is_terminating(pod):
            return
        if phase == "Running":
            self._note(What.RUNNING, _name(pod), f"on {node_of(pod)}", node=node_of(pod))
        elif phase in FINISHED:
            self._note(What.FINISHED, _name(pod), f"on {node_of(pod)}", node=node_of(pod), phase=phase)

    def _note(self, what: What, subject: str, note: str, **facts: object) -> None:
        happening = Happening(self._now_s(), what, subject, note, facts)
        self.counts[what] += 1
        self._new.append(happening)
        if what is not What.RUNNING:
            self.recent.append(happening)

    def _now_s(self) -> float:
        return self._cluster.now_s - self._began_s


def _name(obj: KubeObject) -> str:
    return str(obj["metadata"]["name"])


def _pods(number: int) -> str:
    return f"{number} pod{'' if number == 1 else 's'}"
