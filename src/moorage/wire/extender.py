"""The JSON of scheduler extenders (`kube-scheduler/extender/v1`): what they are sent, and what they answer.

Keys are Go's field names, and every field is there, null where it does not apply. Answers are read as Go reads them:
keys match whatever their case, unknown ones are ignored, null is nothing. Pods and nodes pass through as JSON texts;
kube-scheduler's own copies lack `kind` and `apiVersion`, those of pods managedFields too, so they are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from moorage.core.commands import PodRef
from moorage.wire.errors import REFUSALS

_INT64 = 1 << 63


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
    content = _decode(raw)
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise ExtenderAnswerError("an object without metadata")
    content.pop("kind", None)
    content.pop("apiVersion", None)
    return content


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


def read_filter_result(body: bytes, *, by_name: bool) -> FilterResult:
    """`by_name`: the extender was sent names, and its `NodeNames` count; otherwise only `Nodes` do."""
    content = _object(_decode(body), "the answer")
    error = _text(_get(content, "Error"), "Error")
    names = _get(content, "NodeNames")
    nodes = _get(content, "Nodes")
    kept: list[str] = []
    if by_name and names is not None:
        kept = [_text(name, "NodeNames") for name in _list(names, "NodeNames")]
    elif nodes is not None:
        items = _list(_get(_object(nodes, "Nodes"), "items"), "Nodes.items")
        metadata = (_object(_get(_object(item, "Nodes.items"), "metadata"), "metadata") for item in items)
        kept = [_text(_get(each, "name"), "metadata.name") for each in metadata]
    failed = _texts(_get(content, "FailedNodes"), "FailedNodes")
    unresolvable = _texts(_get(content, "FailedAndUnresolvableNodes"), "FailedAndUnresolvableNodes")
    return FilterResult(tuple(dict.fromkeys(kept)), failed, unresolvable, error)


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """Node and score, as the extender lists them."""
    entries = [_object(entry, "a priority") for entry in _list(_decode(body), "the answer")]
    return [(_text(_get(entry, "Host"), "Host"), _integer(_get(entry, "Score"), "Score")) for entry in entries]


def read_binding_result(body: bytes) -> str:
    """Why the pod was not bound; empty if it was."""
    return _text(_get(_object(_decode(body), "the answer"), "Error"), "Error")


def read_preemption_result(body: bytes) -> dict[str, MetaVictims]:
    """What is left of the candidates, by node."""
    content = _object(_decode(body), "the answer")
    found: dict[str, MetaVictims] = {}
    for node, victims in _object(_get(content, "NodeNameToMetaVictims"), "NodeNameToMetaVictims").items():
        fields = _object(victims, "victims")
        pods = _list(_get(fields, "Pods"), "Pods")
        uids = tuple(_text(_get(_object(pod, "a victim"), "UID"), "UID") for pod in pods)
        found[node] = MetaVictims(uids, _integer(_get(fields, "NumPDBViolations"), "NumPDBViolations"))
    return found


def _decode(body: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(body)
    except REFUSALS as error:
        raise ExtenderAnswerError(f"the answer is not JSON: {error}") from None


def _get(content: Mapping[str, Any], key: str) -> Any:
    """The value of a key, of whatever case."""
    if key in content:
        return content[key]
    wanted = key.lower()
    return next((value for name, value in content.items() if name.lower() == wanted), None)


def _object(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ExtenderAnswerError(f"{where} is not an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ExtenderAnswerError(f"{where} is not a list")
    return value


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ExtenderAnswerError(f"{where} is not a string")
    return value


def _texts(value: Any, where: str) -> dict[str, str]:
    return {name: _text(reason, where) for name, reason in _object(value, where).items()}


def _integer(value: Any, where: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise ExtenderAnswerError(f"{where} is not an integer of 64 bits")
    return value
