"""The JSON of scheduler extenders from the other side: the questions that we are asked, and our answers.

Keys are Go's field names in answers; in questions they match whatever their case, as Go reads them. Whole nodes are
never decoded: they go through as the texts that they are, and only their names are looked at. 29 MB of nodes cost two
passes over the bytes, not a tree of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from moorage.core.commands import PodRef
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.wire.errors import REFUSALS, QuestionError, WireError
from moorage.wire.extender import MetaVictims
from moorage.wire.pod import decode_pod
from moorage.wire.templates import TemplateTable

_NULL = msgspec.Raw(b"null")
_NAME_FIRST = b'{"metadata":{"name":"'
"""How Go writes the beginning of a node."""
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """What filter and prioritize are asked."""

    pod: Pod
    names: list[str]
    items: list[msgspec.Raw] | None
    """The whole nodes in the order of `names`, None if only names were sent (nodeCacheCapable)."""


@dataclass(frozen=True, slots=True)
class PreemptionQuestion:
    """What preempt is asked: candidates by node."""

    pod: Pod
    victims: dict[str, MetaVictims]


class _NodeArgs(msgspec.Struct, gc=False):
    pod: msgspec.Raw = msgspec.field(default=_NULL, name="Pod")
    nodes: _Nodes | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")

    @property
    def complete(self) -> bool:
        """Whether all is there that is needed."""
        return self.pod != _NULL and (self.nodes is not None or self.node_names is not None)


class _Nodes(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Named


class _Victims(msgspec.Struct, gc=False):
    pods: list[_Object] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _MetaPod(msgspec.Struct, gc=False):
    uid: str = msgspec.field(default="", name="UID")


class _MetaVictims(msgspec.Struct, gc=False):
    pods: list[_MetaPod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptionArgs(msgspec.Struct, gc=False):
    pod: msgspec.Raw = msgspec.field(default=_NULL, name="Pod")
    victims: dict[str, _Victims] | None = msgspec.field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, _MetaVictims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")

    @property
    def complete(self) -> bool:
        """Whether all is there that is needed."""
        return self.pod != _NULL and (self.victims is not None or self.meta_victims is not None)


class _BindingArgs(msgspec.Struct, gc=False):
    name: str = msgspec.field(default="", name="PodName")
    namespace: str = msgspec.field(default="", name="PodNamespace")
    uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")

    @property
    def complete(self) -> bool:
        """Whether all is there that is needed."""
        return bool(self.name and self.namespace and self.uid and self.node)


class _Priority(msgspec.Struct, gc=False):
    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


Args = TypeVar("Args", _NodeArgs, _PreemptionArgs, _BindingArgs)

_node_args = msgspec.json.Decoder(_NodeArgs)
_preemption_args = msgspec.json.Decoder(_PreemptionArgs)
_binding_args = msgspec.json.Decoder(_BindingArgs)
_object = msgspec.json.Decoder(_Object)
_any_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


# --- questions ---


def read_node_question(body: bytes, table: TemplateTable | None = None) -> NodeQuestion:
    """An `ExtenderArgs`; `QuestionError` if it is none. The nodes are slices of `body`, which must stay as it is."""
    args = _read(_node_args, body)
    pod = _pod(args.pod, table)
    if args.nodes is not None:
        items = args.nodes.items or []
        return NodeQuestion(pod, [_name_of(item, place) for place, item in enumerate(items)], items)
    if args.node_names is not None:
        return NodeQuestion(pod, args.node_names, None)
    raise QuestionError("neither Nodes nor NodeNames is there; send one of them")


def read_preemption_question(body: bytes, table: TemplateTable | None = None) -> PreemptionQuestion:
    """An `ExtenderPreemptionArgs`; `QuestionError` if it is none."""
    args = _read(_preemption_args, body)
    pod = _pod(args.pod, table)
    if args.meta_victims is None and args.victims is None:
        raise QuestionError("neither NodeNameToVictims nor NodeNameToMetaVictims is there; send one of them")
    found: dict[str, MetaVictims] = {}
    for node, meta in (args.meta_victims or {}).items():
        found[node] = MetaVictims(tuple(each.uid for each in meta.pods or ()), meta.violations)
    for node, whole in (args.victims or {}).items():
        uids = tuple(each.metadata.uid for each in whole.pods or ())
        found.setdefault(node, MetaVictims(uids, whole.violations))
    return PreemptionQuestion(pod, found)


def read_binding_question(body: bytes) -> tuple[PodRef, str]:
    """An `ExtenderBindingArgs`: the pod and the node; `QuestionError` if it is none."""
    args = _read(_binding_args, body)
    fields = {"PodName": args.name, "PodNamespace": args.namespace, "PodUID": args.uid, "Node": args.node}
    missing = [name for name, value in fields.items() if not value]
    if missing:
        raise QuestionError(f"{missing[0]} is missing; send the pod's name, namespace and uid, and the node")
    return PodRef(args.namespace, args.name, args.uid), args.node


def _read(decoder: msgspec.json.Decoder[Args], body: bytes) -> Args:
    """The arguments; a second look, if something is missing, allows keys of any case."""
    try:
        args = decoder.decode(body)
        if not args.complete:
            args = decoder.decode(_in_go_case(body, decoder.type))
    except REFUSALS as error:
        raise QuestionError(_wrong(error)) from None
    return args


def _in_go_case(body: bytes, wanted: type[msgspec.Struct]) -> bytes:
    names = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(wanted)}
    content = _any_object.decode(body)
    return msgspec.json.encode({names.get(key.lower(), key): value for key, value in content.items()})


def _wrong(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, msgspec.ValidationError):
        return f"not what the extender protocol (v1) says: {text}"
    return f"not JSON: {text or type(error).__name__}"


def _pod(raw: msgspec.Raw, table: TemplateTable | None) -> Pod:
    if bytes(raw) == b"null":
        raise QuestionError("Pod is missing; send the pod that is to be placed")
    try:
        return decode_pod(bytes(raw), table)
    except WireError as error:
        raise QuestionError(f"Pod: {error}") from None


def _name_of(item: msgspec.Raw, place: int) -> str:
    """The name of a node; where Go wrote the node, it is found without reading on."""
    head = bytes(memoryview(item)[: len(_NAME_FIRST) + _LONGEST_NAME + 1])
    if head.startswith(_NAME_FIRST):
        name, quote, _ = head[len(_NAME_FIRST) :].partition(b'"')
        if name and quote and name.isascii() and b"\\" not in name:
            return name.decode()
    try:
        found = _object.decode(item).metadata.name
    except REFUSALS as error:
        raise QuestionError(f"Nodes.items[{place}]: {_wrong(error)}") from None
    if not found:
        raise QuestionError(f"Nodes.items[{place}].metadata.name is missing; send whole nodes")
    return found


# --- answers ---


def filter_answer(
    question: NodeQuestion, kept: Iterable[int], failed: Mapping[str, str], unresolvable: Mapping[str, str]
) -> bytes:
    """An `ExtenderFilterResult` with the nodes at the places in `kept`: whole if they were sent whole, else names."""
    whole, names = b"null", b"null"
    if question.items is None:
        names = msgspec.json.encode([question.names[place] for place in kept])
    else:
        items = question.items
        whole = b"".join((b'{"metadata":{},"items":[', b",".join([items[place] for place in kept]), b"]}"))
    parts = (
        b'{"Nodes":', whole,
        b',"NodeNames":', names,
        b',"FailedNodes":', msgspec.json.encode(failed),
        b',"FailedAndUnresolvableNodes":', msgspec.json.encode(unresolvable),
        b',"Error":""}',
    )  # fmt: skip
    return b"".join(parts)


def filter_error(message: str) -> bytes:
    """An `ExtenderFilterResult` that says that there is none."""
    content = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
    return msgspec.json.encode({**content, "Error": message})


def priorities_answer(names: Sequence[str], scores: Iterable[int]) -> bytes:
    """A `HostPriorityList`."""
    return msgspec.json.encode(list(map(_Priority, names, scores)))


def preemption_answer(victims: Mapping[str, MetaVictims]) -> bytes:
    """An `ExtenderPreemptionResult`."""
    nodes: dict[str, Any] = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in victims.items()
    }
    return msgspec.json.encode({"NodeNameToMetaVictims": nodes})


def binding_answer(error: str) -> bytes:
    """An `ExtenderBindingResult`; the empty text for success."""
    return msgspec.json.encode({"Error": error})
