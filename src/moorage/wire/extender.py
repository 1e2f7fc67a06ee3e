"""The JSON of scheduler extenders (`kube-scheduler/extender/v1`): what they are sent, and what they answer.

Keys are Go's field names, and every field is there, null where it does not apply. Answers are read as Go reads them:
keys match whatever their case, unknown ones are ignored, null is nothing. Pods and nodes pass through as JSON texts;
kube-scheduler's own copies lack `kind` and `apiVersion`, those of pods managedFields too, so they are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

import msgspec

from moorage.core.commands import PodRef
from moorage.core.limits import EXTENDER_TEXT_CHARS
from moorage.core.values import dataclass
from moorage.wire.errors import REFUSALS

_INT64 = 1 << 63

T = TypeVar("T")


class ExtenderAnswerError(ValueError):
    """An answer that is not what the protocol says; the text is one line."""


class NamedObject(NamedTuple):
    """A pod or node as extenders get it."""

    name: str
    uid: str
    resource_version: str
    json: bytes


class MetaVictims(NamedTuple):
    """What an extender says about one node: the uids of the pods to evict, and how many budgets that breaks."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Which nodes an extender kept, and why not the others."""

    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def plain_node(raw: bytes | msgspec.Raw) -> NamedObject:
    """A node of the API server as kube-scheduler would send it; ValueError if it is none."""
    return _named(_plain(raw))


def plain_pod(raw: bytes | msgspec.Raw) -> NamedObject:
    """A pod of the API server as kube-scheduler would send it; ValueError if it is none."""
    content = _plain(raw)
    content["metadata"].pop("managedFields", None)
    return _named(content)


def _plain(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    content = _whole(raw)
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise ExtenderAnswerError("an object without metadata")
    content.pop("kind", None)
    content.pop("apiVersion", None)
    return content


def _whole(raw: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except REFUSALS as error:
        raise ExtenderAnswerError(f"an object that cannot be read: {error}") from None


def _named(content: dict[str, Any]) -> NamedObject:
    name, uid, version = (str(content["metadata"].get(key, "")) for key in ("name", "uid", "resourceVersion"))
    return NamedObject(name, uid, version, msgspec.json.encode(content))


# --- what extenders are sent ---


def node_args(pod: bytes, nodes: Iterable[bytes] | None, names: Sequence[str] | None) -> bytes:
    """The question of filter and prioritize: whole nodes, or only their names."""
    whole = b"null" if nodes is None else b'{"metadata":{},"items":[%b]}' % b",".join(nodes)
    listed = b"null" if names is None else msgspec.json.encode(names)
    return b'{"Pod":%b,"Nodes":%b,"NodeNames":%b}' % (pod, whole, listed)


def preemption_args(
    pod: bytes, victims: Mapping[str, MetaVictims], whole_pods: Mapping[str, bytes] | None = None
) -> bytes:
    """The question of preempt: uids of the victims, or whole pods (by uid)."""
    nodes = {}
    for node, (uids, violations) in victims.items():
        pods = [{"UID": uid} if whole_pods is None else msgspec.Raw(whole_pods[uid]) for uid in uids]
        nodes[node] = {"Pods": pods, "NumPDBViolations": violations}
    whole, meta = (None, nodes) if whole_pods is None else (nodes, None)
    content = {"Pod": msgspec.Raw(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
    return msgspec.json.encode(content)


def binding_args(pod: PodRef, node: str) -> bytes:
    """The order to bind."""
    content = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
    return msgspec.json.encode(content)


# --- what they answer ---

# Only what is asked for is decoded, and as what it has to be: whatever else an answer holds costs next to nothing.
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None] | None)
_BY_NAME = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw] | None] | None)
_TEXT = msgspec.json.Decoder(str | None)
_TEXTS = msgspec.json.Decoder(list[str | None] | None)
_REASONS = msgspec.json.Decoder(dict[str, str | None] | None)
_NUMBER = msgspec.json.Decoder(int | None)
_WORDS: dict[Any, str] = {
    _OBJECT: "an object",
    _OBJECTS: "a list of objects",
    _BY_NAME: "an object of objects",
    _TEXT: "a string",
    _TEXTS: "a list of strings",
    _REASONS: "an object of strings",
    _NUMBER: "an integer",
}


def read_filter_result(body: bytes, *, by_name: bool) -> FilterResult:
    """`by_name`: the extender was sent names, and its `NodeNames` count; otherwise only `Nodes` do."""
    content = _answer(_OBJECT, body) or {}
    names = _part(_TEXTS, content, "NodeNames") if by_name else None
    if names is not None:
        kept = [name or "" for name in names]
    else:
        items = _part(_OBJECTS, _part(_OBJECT, content, "Nodes") or {}, "items") or ()
        metadata = (_part(_OBJECT, item or {}, "metadata") or {} for item in items)
        kept = [_part(_TEXT, each, "name") or "" for each in metadata]
    failed = _reasons(content, "FailedNodes")
    unresolvable = _reasons(content, "FailedAndUnresolvableNodes")
    return FilterResult(tuple(dict.fromkeys(kept)), failed, unresolvable, _words(content))


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """Node and score, as the extender lists them."""
    entries = [entry or {} for entry in _answer(_OBJECTS, body) or ()]
    return [(_part(_TEXT, entry, "Host") or "", _integer(entry, "Score")) for entry in entries]


def read_binding_result(body: bytes) -> str:
    """Why the pod was not bound; empty if it was."""
    return _words(_answer(_OBJECT, body) or {})


def read_preemption_result(body: bytes) -> dict[str, MetaVictims]:
    """What is left of the candidates, by node."""
    content = _answer(_OBJECT, body) or {}
    found: dict[str, MetaVictims] = {}
    for node, victims in (_part(_BY_NAME, content, "NodeNameToMetaVictims") or {}).items():
        fields = victims or {}
        pods = _part(_OBJECTS, fields, "Pods") or ()
        uids = tuple(_part(_TEXT, pod or {}, "UID") or "" for pod in pods)
        found[node] = MetaVictims(uids, _integer(fields, "NumPDBViolations"))
    return found


def _answer(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """The whole answer; what is no JSON at all is told apart from what is something else."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise ExtenderAnswerError(f"the answer is not {_WORDS[decoder]}") from None
    except REFUSALS as error:
        raise ExtenderAnswerError(f"the answer is not JSON: {error}") from None


def _part(decoder: msgspec.json.Decoder[T], content: Mapping[str, msgspec.Raw], key: str) -> T | None:
    """The value of a key, of whatever case; None where it is absent or null."""
    raw = content.get(key)
    if raw is None:
        wanted = key.lower()
        raw = next((value for name, value in content.items() if name.lower() == wanted), None)
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except REFUSALS:
        raise ExtenderAnswerError(f"{key} is not {_WORDS[decoder]}") from None


def _reasons(content: Mapping[str, msgspec.Raw], key: str) -> dict[str, str]:
    return {name: _cut(reason or "") for name, reason in (_part(_REASONS, content, key) or {}).items()}


def _words(content: Mapping[str, msgspec.Raw]) -> str:
    return _cut(_part(_TEXT, content, "Error") or "")


def _cut(text: str) -> str:
    return text if len(text) <= EXTENDER_TEXT_CHARS else text[: EXTENDER_TEXT_CHARS - 3] + "..."


def _integer(content: Mapping[str, msgspec.Raw], key: str) -> int:
    value = _part(_NUMBER, content, key) or 0
    if not -_INT64 <= value < _INT64:
        raise ExtenderAnswerError(f"{key} is not an integer of 64 bits")
    return value
