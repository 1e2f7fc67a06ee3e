"""Objects of a snapshot or of hand-written files, made ready to be stored together.

Hand-written objects have no uid, and their owner references then point nowhere. They are matched by kind, namespace and
name instead, once, here; everything after works with uids only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.adapters.memory.defaulting import default_namespace
from moorage.adapters.memory.objects import CLUSTER_SCOPED, KubeObject, ObjectKey, key_of, metadata_of
from moorage.adapters.memory.store import Store

_FIRST = ("PriorityClass", "RuntimeClass")
"""Kinds that admission looks up while the others come in."""


def prepare(objects: Iterable[KubeObject], store: Store) -> list[KubeObject]:
    """The objects in the order in which to load them: with namespaces, uids and matching owner references."""
    prepared: list[KubeObject] = []
    made_up: dict[ObjectKey, str] = {}
    known: set[str] = set()
    for given in objects:
        obj = default_namespace(given)
        metadata = metadata_of(obj)
        uid = metadata.get("uid")
        if not uid or uid in known:
            uid = store.new_uid()
            obj = {**obj, "metadata": {**metadata, "uid": uid}}
            made_up[key_of(obj)] = uid
        known.add(uid)
        prepared.append(obj)
    resolved = [_resolve_owners(obj, known, made_up) for obj in prepared]
    return sorted(resolved, key=lambda obj: obj.get("kind") not in _FIRST)


def _resolve_owners(obj: KubeObject, known: set[str], made_up: Mapping[ObjectKey, str]) -> KubeObject:
    metadata = metadata_of(obj)
    references = metadata.get("ownerReferences")
    if not references or all(reference.get("uid") in known for reference in references):
        return obj
    namespace = metadata.get("namespace") or ""
    resolved = [_resolve(reference, namespace, known, made_up) for reference in references]
    return {**obj, "metadata": {**metadata, "ownerReferences": resolved}}


def _resolve(
    reference: Mapping[str, Any], namespace: str, known: set[str], made_up: Mapping[ObjectKey, str]
) -> Mapping[str, Any]:
    kind = str(reference.get("kind"))
    where = "" if kind in CLUSTER_SCOPED else namespace
    uid = made_up.get(ObjectKey(kind, where, str(reference.get("name"))))
    return reference if uid is None or reference.get("uid") in known else {**reference, "uid": uid}
