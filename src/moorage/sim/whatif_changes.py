"""Planned changes to a cluster as values, and the texts that name them.

Every text that cannot be understood, and every node or workload that is not there, is a `ChangeError` of one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from moorage.core.phrases import counted
from moorage.core.values import dataclass

MOST_REPLICAS = 1_000_000
MOST_NODES = 100_000
_MOST_SUGGESTIONS = 3
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)

SCALABLE: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"),
    "ReplicationController": ("replicationcontroller", "replicationcontrollers", "rc"),
    "StatefulSet": ("statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"),
}
"""Kinds with a number of replicas -> what kubectl's users call them, in lower case."""
QUEUE_FIELDS = ("parent", "priority", "preemptMinRuntime", "reclaimMinRuntime")
SHARE_FIELDS = ("quota", "weight", "limit")
"""Fields of a queue, and of one of its resources, that can be set."""
_SET_QUEUE_REMEDY = "write NAME/FIELD=VALUE, such as team-a/quota.nvidia.com/gpu=4 or team-a/priority=200"
_SCALE_REMEDY = "write KIND/NAME=N or NAMESPACE/KIND/NAME=N, such as Deployment/web=5"


class ChangeError(ValueError):
    """Changes that cannot be made; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Drain:
    """A node is cordoned and its pods are evicted, as `kubectl drain` does it."""

    node: str

    def __str__(self) -> str:
        return f"drain {self.node}"


@dataclass(frozen=True, slots=True)
class Scale:
    """A workload gets another number of replicas."""

    kind: str
    namespace: str
    name: str
    replicas: int

    @property
    def title(self) -> str:
        """Kind, namespace and name, as messages show them."""
        return f"{self.kind} {self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"scale {self.title} to {self.replicas}"


@dataclass(frozen=True, slots=True)
class AddNodes:
    """Some new nodes that are like one that is there."""

    number: int
    like: str

    def __str__(self) -> str:
        return f"add {counted(self.number, 'node')} like {self.like}"


@dataclass(frozen=True, slots=True)
class Afresh:
    """Every pod that does not belong to its node is placed anew, as if all of them were pending."""

    def __str__(self) -> str:
        return "place all pods afresh"


@dataclass(frozen=True, slots=True)
class SetQueue:
    """A field of a queue gets another value, or its default if that is empty."""

    queue: str
    field: str
    resource: str
    """The resource that the field is about; empty for fields of the queue itself."""
    value: str

    @property
    def path(self) -> str:
        """The field as it is written on the command line."""
        return f"{self.field}.{self.resource}" if self.resource else self.field

    def __str__(self) -> str:
        return f"set {self.path} of queue {self.queue} to {self.value or 'its default'}"


Change: TypeAlias = Drain | Scale | AddNodes | SetQueue | Afresh


def parse_scale(text: str, namespace: str = "default") -> Scale:
    """`KIND/NAME=N` or `NAMESPACE/KIND/NAME=N`; `namespace` is that of texts which name none."""
    path, equals, number = text.rpartition("=")
    parts = path.split("/")
    if not equals or len(parts) not in (2, 3) or not all(parts):
        raise ChangeError([f"scale: {text!r} is not understood; {_SCALE_REMEDY}"])
    *where, kind_text, name = parts
    kind = _kind_of(kind_text)
    if kind is None:
        known = ", ".join(SCALABLE)
        raise ChangeError([f"scale: {text!r}: {kind_text!r} has no number of replicas; write one of {known}"])
    if not _NUMBER.fullmatch(number) or int(number) > MOST_REPLICAS:
        raise ChangeError([f"scale: {text!r}: {number!r} is not a number of replicas; write 0 to {MOST_REPLICAS}"])
    return Scale(kind, where[0] if where else namespace, name, int(number))


def parse_set_queue(text: str) -> SetQueue:
    """`NAME/FIELD=VALUE`; fields of a resource name it: `team-a/quota.nvidia.com/gpu=4`."""
    path, equals, value = text.partition("=")
    name, slash, place = path.partition("/")
    field, dot, resource = place.partition(".")
    if not equals or not slash or not name or not place:
        raise ChangeError([f"set-queue: {text!r} is not understood; {_SET_QUEUE_REMEDY}"])
    if field not in (*QUEUE_FIELDS, *SHARE_FIELDS):
        remedy = did_you_mean(field, (*QUEUE_FIELDS, *SHARE_FIELDS))
        raise ChangeError([f"set-queue: {text!r}: {field!r} is no field of a queue; {remedy}"])
    if (field in SHARE_FIELDS) != bool(resource) or (dot and not resource):
        wanted = f"write {field}" if field in QUEUE_FIELDS else f"name the resource, such as {field}.nvidia.com/gpu"
        raise ChangeError([f"set-queue: {text!r}: {place!r} is no field of a queue; {wanted}"])
    return SetQueue(name, field, resource, value.strip())


def _kind_of(text: str) -> str | None:
    word = text.lower()
    return next((kind for kind, words in SCALABLE.items() if word in words), None)


def check_changes(changes: Iterable[Change], names: Iterable[tuple[str, str, str]]) -> None:
    """ChangeError unless all of it can be done; `names` are (kind, namespace, name) of what is there."""
    known: dict[str, set[tuple[str, str]]] = {}
    for kind, namespace, name in names:
        known.setdefault(kind, set()).add((namespace, name))
    problems = [problem for change in changes if (problem := _excess(change) or _absence(change, known))]
    if problems:
        raise ChangeError(problems)


def _excess(change: Change) -> str:
    """What is too much or too little about a change, empty if nothing is; texts were looked at when they were read."""
    if isinstance(change, AddNodes) and not 1 <= change.number <= MOST_NODES:
        return f"{change}: {change.number} is not a number of nodes; write 1 to {MOST_NODES}"
    if isinstance(change, Scale) and not 0 <= change.replicas <= MOST_REPLICAS:
        return f"{change}: {change.replicas} is not a number of replicas; write 0 to {MOST_REPLICAS}"
    return ""


def _absence(change: Change, known: Mapping[str, set[tuple[str, str]]]) -> str:
    """What is missing for a change, empty if nothing is."""
    match change:
        case Drain(node) | AddNodes(_, node) if ("", node) not in known.get("Node", ()):
            nodes = sorted(name for _, name in known.get("Node", ()))
            return f"{change}: there is no node {node!r}; {did_you_mean(node, nodes)}"
        case SetQueue(name) if ("", name) not in known.get("Queue", ()):
            queues = sorted(each for _, each in known.get("Queue", ()))
            return f"{change}: there is no queue {name!r}; {did_you_mean(name, queues)}"
        case Scale(kind, namespace, name) if (namespace, name) not in known.get(kind, ()):
            elsewhere = sorted(where for where, each in known.get(kind, ()) if each == name)[:_MOST_SUGGESTIONS]
            if elsewhere:
                remedy = f"did you mean {' or '.join(f'{where}/{kind}/{name}' for where in elsewhere)}?"
            else:
                here = sorted(each for where, each in known.get(kind, ()) if where == namespace)
                remedy = did_you_mean(name, here)
            return f"{change}: there is no {change.title}; {remedy}"
    return ""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: similar names, or some existing ones."""
    near = get_close_matches(name, known, n=_MOST_SUGGESTIONS)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if not known:
        return "there is none at all"
    left = len(known) - _MOST_SUGGESTIONS
    more = f" or {counted(left, 'other')}" if left > 0 else ""
    return f"name one of {', '.join(known[:_MOST_SUGGESTIONS])}{more}"
