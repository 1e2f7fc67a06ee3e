"""Event objects (`events.k8s.io/v1`) of what is recorded about pods and nodes."""

from __future__ import annotations

from typing import Any

from moorage.core.commands import PodRef, RecordEvent

_FIELD_LIMIT = 128
"""The API server refuses longer ones."""
_NOTE_BYTES = 1024
_NOTE_CUT = b" ..."


def event_namespace(command: RecordEvent) -> str:
    """Where the event is kept: of a node, which has no namespace, as the API server's clients do it."""
    return command.pod.namespace or "default"


def event_object(command: RecordEvent, name: str, time: str, instance: str) -> dict[str, Any]:
    """The event under this name, first seen at this time, reported by this instance."""
    event: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": event_namespace(command)},
        "eventTime": time,
        "type": command.type,
        "reason": command.reason[:_FIELD_LIMIT],
        "action": command.action[:_FIELD_LIMIT],
        "note": cut_note(command.note),
        "regarding": _reference(command.pod, command.kind),
        "reportingController": command.reporter,
        "reportingInstance": instance[:_FIELD_LIMIT],
    }
    if command.related is not None:
        event["related"] = _reference(command.related)
    return event


def cut_note(note: str) -> str:
    """Cut a note to what the API server takes, 1024 bytes, as kube-scheduler does."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES:
        return note
    return encoded[: _NOTE_BYTES - len(_NOTE_CUT)].decode("utf-8", "ignore") + _NOTE_CUT.decode()


def _reference(ref: PodRef, kind: str = "Pod") -> dict[str, str]:
    namespace = {"namespace": ref.namespace} if ref.namespace else {}
    return {"apiVersion": "v1", "kind": kind, **namespace, "name": ref.name, "uid": ref.uid}
