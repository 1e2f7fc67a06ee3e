"""Carries the engine's commands out on the embedded cluster; what comes of them goes back as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.adapters.memory.disruption import evict
from moorage.adapters.memory.errors import ApiError, Conflict, NotFound, TooManyRequests
from moorage.adapters.memory.objects import KubeObject, node_of, status_of, timestamp, with_condition
from moorage.adapters.memory.store import Store
from moorage.core.commands import (
    Bind,
    ClearNode,
    Command,
    DeletePod,
    EvictPod,
    KeeperCommand,
    PatchNode,
    PatchObject,
    PatchPodStatus,
    PodRef,
    RecordEvent,
    ReleaseCapacity,
    RequestCapacity,
    Verb,
)
from moorage.core.events import (
    BindDone,
    BindOutcome,
    CapacityDone,
    DeleteDone,
    Event,
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodePatched,
    PatchDone,
    StatusDone,
)
from moorage.core.podclaims import MOST_CONSUMERS
from moorage.wire.assignments import condition_of_assignment
from moorage.wire.events import event_namespace, event_object
from moorage.wire.gangrecords import condition_of
from moorage.wire.kinds import BY_ID
from moorage.wire.patches import plain


class CommandRunner:
    """Runs commands at once, one by one."""

    def __init__(self, store: Store, *, keep_events: int = 1000) -> None:
        self._store = store
        self._keep_events = keep_events
        self._series: dict[tuple[str, str, str, str], tuple[str, str]] = {}
        """(pod uid, type, reason, note) -> namespace and name of the stored event, oldest first."""

    def run(self, command: Command) -> Event | None:
        """Carry out one command; the answer, None for commands that are not answered."""
        match command:
            case Bind():
                return self._bind(command)
            case DeletePod():
                return self._delete(command)
            case PatchObject():
                return self._patch_object(command)
            case PatchPodStatus():
                written = self._patch_status(command)
                return StatusDone(command.pod.uid, ok=written, token=command.token) if command.token else None
            case RequestCapacity() | ReleaseCapacity():
                return CapacityDone(
                    command.gang, ok=False, message="the embedded cluster has no autoscaler", served=False
                )
            case RecordEvent():
                self._record(command)
        return None

    def keep(self, command: KeeperCommand) -> KeeperEvent | None:
        """Carry out one of the keeper's commands; the answer, None for commands that are not answered."""
        if isinstance(command, EvictPod):
            return self._evict(command)
        if isinstance(command, ClearNode):
            self._clear(command)
            return None
        return self._patch_node(command) if isinstance(command, PatchNode) else self.run(command)

    def _evict(self, command: EvictPod) -> EvictDone:
        pod = command.pod
        try:
            evict(self._store, pod.namespace, pod.name, pod.uid)
        except (NotFound, Conflict) as error:
            return EvictDone(pod.uid, EvictOutcome.GONE, error.message)
        except TooManyRequests as error:
            return EvictDone(pod.uid, EvictOutcome.REFUSED, error.message)
        except ApiError as error:
            return EvictDone(pod.uid, EvictOutcome.FAILED, error.message)
        return EvictDone(pod.uid, EvictOutcome.EVICTED)

    def _clear(self, command: ClearNode) -> None:
        if self._store.find("Node", "", command.node) is not None:
            return
        for pod in command.pods:
            if self._find(pod) is not None:
                self._store.delete("Pod", pod.namespace, pod.name, grace_s=0, uid=pod.uid)

    def _patch_node(self, command: PatchNode) -> NodePatched:
        patch: dict[str, Any] = {"metadata": {"annotations": dict(command.annotations)}}
        if command.unschedulable is not None:
            patch["spec"] = {"unschedulable": command.unschedulable or None}
        try:
            self._store.patch("Node", "", command.node, patch, uid=command.uid)
        except NotFound:
            return NodePatched(command, ok=True)
        except ApiError as error:
            return NodePatched(command, ok=False, message=error.message)
        return NodePatched(command, ok=True)

    def _bind(self, command: Bind) -> BindDone:
        pod = command.pod
        if command.assigned is not None:
            self._patch_status(PatchPodStatus(pod, condition_of_assignment(command.assigned)))
        try:
            self._store.bind(pod.namespace, pod.name, pod.uid, command.node, command.annotations)
        except NotFound as error:
            return BindDone(pod.uid, BindOutcome.GONE, message=error.message)
        except Conflict as error:
            return self._refused(command, error.message)
        return BindDone(pod.uid, BindOutcome.BOUND, command.node)

    def _refused(self, command: Bind, message: str) -> BindDone:
        """What a refusal means, seen from the pod as it is now."""
        uid, pod = command.pod.uid, self._find(command.pod)
        if pod is None:
            return BindDone(uid, BindOutcome.GONE, message=message)
        bound_to = node_of(pod)
        if not bound_to:
            return BindDone(uid, BindOutcome.FAILED, command.node, message)
        outcome = BindOutcome.BOUND if bound_to == command.node else BindOutcome.ELSEWHERE
        return BindDone(uid, outcome, bound_to, message)

    def _delete(self, command: DeletePod) -> DeleteDone:
        ref = command.pod
        if self._find(ref) is None:
            return DeleteDone(ref.uid, ok=True)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": command.reason,
            "message": command.message,
        }
        try:
            self._store.set_condition("Pod", ref.namespace, ref.name, condition, uid=ref.uid)
            self._store.delete("Pod", ref.namespace, ref.name, uid=ref.uid)
        except ApiError as error:
            return DeleteDone(ref.uid, ok=False, message=error.message)
        return DeleteDone(ref.uid, ok=True)

    def _patch_status(self, command: PatchPodStatus) -> bool:
        pod = self._find(command.pod)
        if pod is None:
            return False
        status: dict[str, Any] = {**status_of(pod)}
        if command.nominated_node is not None:
            status["nominatedNodeName"] = command.nominated_node
            if not command.nominated_node:
                del status["nominatedNodeName"]
        given = condition_of(command)
        if given is not None:
            condition: dict[str, Any] = {"type": given.type, "status": given.status}
            parts = (("reason", given.reason), ("message", given.message))
            condition.update({name: text for name, text in parts if text})
            if command.observed_generation:
                condition["observedGeneration"] = command.observed_generation
            status = with_condition(status, condition, self._store.clock.now_s)
        self._store.put_status(pod, status)
        return True

    def _patch_object(self, command: PatchObject) -> PatchDone:
        key, patch = (command.kind, command.namespace, command.name), plain(command.patch)
        try:
            if command.verb is Verb.CREATE:
                kind, metadata = BY_ID[command.kind], {"name": command.name, "namespace": command.namespace}
                metadata |= patch.get("metadata", {})
                self._store.create(
                    {"apiVersion": kind.api_versions[0], "kind": kind.name, **patch, "metadata": metadata}
                )
                return PatchDone(command, ok=True)
            if command.verb is Verb.DELETE:
                self._store.delete(*key, uid=command.uid)
                return PatchDone(command, ok=True)
            present = self._store.get(*key)
            version = present["metadata"]["resourceVersion"]
            if command.resource_version not in ("", version):
                return PatchDone(command, ok=False, message=f"{'/'.join(filter(None, key))} has been modified")
            if command.subresource == "status":
                status = _merged(status_of(present), patch["status"])
                if len(status.get("reservedFor") or ()) > MOST_CONSUMERS:
                    told = f"status.reservedFor: Too many: must have at most {MOST_CONSUMERS} items"
                    return PatchDone(command, ok=False, message=f"{command.kind} {command.name} is invalid: {told}")
                made = self._store.put_status(present, status, uid=command.uid)
            else:
                made = self._store.patch(*key, _with_finalizers(present, _merged({}, patch)), uid=command.uid)
        except ApiError as error:
            return PatchDone(command, ok=False, message=error.message)
        return PatchDone(command, ok=True, version=made["metadata"]["resourceVersion"])

    def _record(self, command: RecordEvent) -> None:
        """Store the event, or count it to the series of its equals; the oldest ones make room."""
        if self._keep_events <= 0:
            return
        series_key = (command.pod.uid, command.type, command.reason, command.note)
        now = timestamp(self._store.clock.now_s)
        known = self._series.get(series_key)
        present = self._store.find("Event", *known) if known else None
        if known is not None and present is not None:
            count = int((present.get("series") or {}).get("count") or 1) + 1
            series = {"count": count, "lastObservedTime": now}
            self._store.patch("Event", *known, {"series": series})
            return
        name = f"{command.pod.name}.{self._store.suffix(16)}"
        self._store.create(event_object(command, name, now, command.reporter))
        self._series[series_key] = (event_namespace(command), name)
        while len(self._series) > self._keep_events:
            oldest = self._series.pop(next(iter(self._series)))
            if self._store.find("Event", *oldest) is not None:
                self._store.delete("Event", *oldest)

    def _find(self, ref: PodRef) -> KubeObject | None:
        pod = self._store.find("Pod", ref.namespace, ref.name)
        return pod if pod is not None and pod["metadata"]["uid"] == ref.uid else None


def _merged(present: Any, patch: Any) -> Any:
    """A strategic merge, as far as commands need it: items of lists are known by uid or type."""
    if isinstance(patch, Mapping):
        known = present if isinstance(present, Mapping) else {}
        return {**known, **{name: _merged(known.get(name), value) for name, value in patch.items()}}
    if isinstance(patch, list):
        if not all(isinstance(item, Mapping) and _identity(item) for item in patch):
            return patch
        new = {_identity(item): item for item in patch}
        added = (item for item in new.values() if item.get("$patch") != "delete")
        return [*(item for item in present or () if _identity(item) not in new), *added]
    return patch


def _with_finalizers(present: KubeObject, patch: dict[str, Any]) -> dict[str, Any]:
    """Finalizers of a patch are added to those that are there."""
    metadata = patch.get("metadata") or {}
    if not metadata.get("finalizers"):
        return patch
    known = present["metadata"].get("finalizers") or ()
    return {**patch, "metadata": {**metadata, "finalizers": [*dict.fromkeys((*known, *metadata["finalizers"]))]}}


def _identity(item: Mapping[str, Any]) -> Any:
    return item.get("uid") or item.get("type")
