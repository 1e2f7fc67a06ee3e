"""What both schedulers are asked: a cluster, and pods that come one after the other while the cluster changes.

Objects are plain dictionaries. Names of things that belong to one question begin with `@-`; the caller puts a
prefix of its own in place of the `@`, so that no two questions share a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]
MARK = "@-"


@dataclass(frozen=True, slots=True)
class Step:
    """What changes in the cluster, and the pod that comes then."""

    pod: Object
    put: list[Object] = field(default_factory=list)
    """Objects that are made, or take the place of those of the same name."""
    remove: list[Key] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster and its steps."""

    seed: int
    kind: str
    objects: list[Object]
    steps: list[Step]

    def named(self, prefix: str) -> Question:
        """The same question with names of its own."""
        text = json.dumps([self.objects, [[step.pod, step.put, step.remove] for step in self.steps]])
        objects, steps = json.loads(text.replace(MARK, f"{prefix}-"))
        made = [Step(pod, put, [(key[0], key[1], key[2]) for key in remove]) for pod, put, remove in steps]
        return Question(self.seed, self.kind, objects, made)


def key_of(obj: Object) -> Key:
    """Kind, namespace and name."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


class World:
    """The objects of a cluster as they are now."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = {key_of(obj): obj for obj in objects}

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())

    def put(self, obj: Object) -> None:
        """Add an object, or put it in place of the one of its name."""
        self._objects[key_of(obj)] = obj

    def remove(self, key: Key) -> None:
        """Take an object away."""
        self._objects.pop(key, None)

    def replace(self, kind: str, objects: Iterable[Object]) -> None:
        """Put these objects in place of all of their kind."""
        self._objects = {key: obj for key, obj in self._objects.items() if key[0] != kind}
        for obj in objects:
            self.put(obj)

    def with_pod(self, pod: Object) -> list[Object]:
        """All objects, the pod last."""
        return [*self._objects.values(), pod]
