"""The door of the embedded API server: defaulting, with the classes that the store holds."""

from __future__ import annotations

from typing import Any

from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.defaulting import Classes, at_birth, default_object
from moorage.adapters.memory.errors import Forbidden, Invalid
from moorage.adapters.memory.objects import KubeObject, controller_of, metadata_of
from moorage.adapters.memory.store import Store, resource_name


class StoreAdmission:
    """Admits objects to one store. Strict, it refuses what the API server refuses; otherwise it warns and goes on.

    Warnings are kept once each, and once per owner for pods that a controller makes.
    """

    def __init__(self, store: Store, *, strict: bool) -> None:
        self._store = store
        self._lineage = Lineage(store)
        self._strict = strict
        self._classes = Classes()
        self._classes_version = -1
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the API server would have refused, one line each."""
        return tuple(self._warnings)

    def create(self, obj: KubeObject) -> KubeObject:
        """Admit and store a new object, as a POST does."""
        return self._store.create(at_birth(self.admit(obj)))

    def load(self, obj: KubeObject) -> KubeObject:
        """Admit and store an object of a snapshot; its identity, times and status stay."""
        return self._store.load(self.admit(obj))

    def admit(self, obj: KubeObject) -> KubeObject:
        """The defaulted object; Invalid when it is malformed, Forbidden when strict and it has problems."""
        try:
            admitted = default_object(obj, self._current_classes())
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            raise Invalid(f"{_name(obj)} is malformed: {error}") from error
        if admitted.problems and self._strict:
            name = metadata_of(obj).get("name")
            raise Forbidden(f'{resource_name(str(obj["kind"]))} "{name}" is forbidden: {admitted.problems[0]}')
        for problem in admitted.problems:
            self._warnings[f"{self._responsible(obj)}: {problem}"] = None
        return admitted.object

    def _current_classes(self) -> Classes:
        version = max(self._store.kind_version("PriorityClass"), self._store.kind_version("RuntimeClass"))
        if version != self._classes_version:
            self._classes = Classes(
                {obj["metadata"]["name"]: obj for obj in self._store.list("PriorityClass")},
                {obj["metadata"]["name"]: obj for obj in self._store.list("RuntimeClass")},
            )
            self._classes_version = version
        return self._classes

    def _responsible(self, obj: KubeObject) -> str:
        """The object that a person would have to change: the topmost owner of a made pod, else the object itself."""
        above = [*self._lineage.ancestors(obj)]
        if above:
            return _name(above[-1])
        owner = controller_of(obj)
        if owner is None:
            return _name(obj)
        return f"{owner.get('kind')} {metadata_of(obj).get('namespace') or 'default'}/{owner.get('name')}"


def _name(obj: KubeObject) -> str:
    metadata: Any = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{obj.get('kind')} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
