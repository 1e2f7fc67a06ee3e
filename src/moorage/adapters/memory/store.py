"""The API server's storage: objects by kind, namespace and name, with its preconditions and its answers.

Invariants:
- Every commit gives the object the next resource version, strictly rising over the whole store, and appends one change
  to the log; replaying the log from empty gives the stored state. A request that changes nothing commits nothing.
- Stored objects are frozen (see `objects`): a commit puts a new dictionary in place and shares the untouched parts.
- The indexes (owner uid -> children, node -> pods, uid -> key) always agree with the objects.
- `status` is a part of its own for every kind: `replace` and `patch` leave it alone, `patch_status` changes only it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from moorage.adapters.memory.changes import ChangeType, StoreChange, StoreLog, Watch
from moorage.adapters.memory.clock import Clock
from moorage.adapters.memory.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from moorage.adapters.memory.objects import (
    FINISHED,
    KubeObject,
    ObjectKey,
    is_terminating,
    key_of,
    merge_patch,
    metadata_of,
    node_of,
    spec_of,
    status_of,
    timestamp,
    with_condition,
)
from moorage.core.labelnames import REGION, ZONE

DEFAULT_GRACE_S = 30
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names: no vowels, so no words."""
TOPOLOGY_LABELS = (ZONE, REGION)
"""Node labels that the API server copies to a pod when it is bound."""
_KEPT_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def resource_name(kind: str) -> str:
    """The plural, lower-case name that the API server's messages use."""
    lower = kind.lower()
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x")) else "s")


class Store:
    """All objects of one embedded cluster. Not for several threads."""

    def __init__(self, clock: Clock, *, seed: int = 0) -> None:
        self.clock = clock
        self._random = random.Random(seed)
        self._kinds: dict[str, dict[tuple[str, str], KubeObject]] = {}
        self._keys: dict[str, ObjectKey] = {}
        self._serials: dict[str, int] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._log = StoreLog()
        self._version = 0
        self._kind_versions: dict[str, int] = {}
        self._made = 0

    # Reading

    @property
    def resource_version(self) -> int:
        """The version of the newest commit."""
        return self._version

    @property
    def made(self) -> int:
        """How many objects have ever been stored: the serial of the newest."""
        return self._made

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """The object, None when there is none."""
        return self._kinds.get(kind, {}).get((namespace, name))

    def get(self, kind: str, namespace: str, name: str) -> KubeObject:
        """The object; NotFound when there is none."""
        obj = self.find(kind, namespace, name)
        if obj is None:
            raise NotFound(f'{resource_name(kind)} "{name}" not found')
        return obj

    def find_uid(self, uid: str) -> KubeObject | None:
        """The object with this uid, None when there is none."""
        key = self._keys.get(uid)
        return None if key is None else self.find(*key)

    def list(self, kind: str, namespace: str | None = None) -> list[KubeObject]:
        """All objects of a kind, oldest first; of one namespace if given."""
        objects = self._kinds.get(kind, {})
        if namespace is None:
            return [*objects.values()]
        return [obj for (where, _), obj in objects.items() if where == namespace]

    def kinds(self) -> tuple[str, ...]:
        """The kinds of which there has ever been an object."""
        return tuple(self._kinds)

    def kind_version(self, kind: str) -> int:
        """The version of the newest commit to an object of this kind, 0 before the first."""
        return self._kind_versions.get(kind, 0)

    def owner(self, obj: KubeObject, reference: Mapping[str, Any]) -> KubeObject | None:
        """The object that an owner reference of `obj` means; one of another namespace is not it."""
        found = self.find_uid(str(reference.get("uid")))
        return found if found is not None and _may_own(key_of(found).namespace, obj) else None

    def children(self, owner: KubeObject, uid: str | None = None, *, kind: str | None = None) -> tuple[KubeObject, ...]:
        """The objects, or those of one kind, that have an owner reference to this one, oldest first; or to `uid`, in
        its namespace.
        """
        uids = self._children.get(uid or owner["metadata"]["uid"], ())
        found, namespace = map(self.find_uid, uids), key_of(owner).namespace
        owned = tuple(obj for obj in found if obj is not None and _may_own(namespace, obj))
        return owned if kind is None else tuple(obj for obj in owned if obj["kind"] == kind)

    def pods_on(self, node: str) -> tuple[KubeObject, ...]:
        """The pods bound to the node, in the order in which they were bound."""
        found = (self.find_uid(uid) for uid in self._on_node.get(node, ()))
        return tuple(pod for pod in found if pod is not None)

    def serial(self, uid: str) -> int:
        """Place of a stored object in the order of creation, from 1 on; 0 for an unknown uid."""
        return self._serials.get(uid, 0)

    def watch(self, kinds: Iterable[str] | None = None, *, replay: bool = False) -> Watch:
        """Follow these kinds (None: all) from now on; with `replay` the present objects come first as ADDED."""
        wanted = None if kinds is None else (*kinds,)
        present = self.kinds() if wanted is None else wanted
        initial = (
            [StoreChange(ChangeType.ADDED, k, obj, None) for k in present for obj in self.list(k)] if replay else ()
        )
        return self._log.open(wanted, initial)

    # Writing

    def create(self, obj: KubeObject) -> KubeObject:
        """Store a new object as the API server does: identity, times and version are its own, not the caller's."""
        metadata = dict(metadata_of(obj))
        for field in (*_KEPT_METADATA, "resourceVersion"):
            metadata.pop(field, None)
        return self.load({**obj, "metadata": metadata})

    def load(self, obj: KubeObject) -> KubeObject:
        """Store an object of a snapshot: uid, times and status stay as given; only what is missing is made up."""
        kind = obj.get("kind")
        if not kind or not isinstance(kind, str):
            raise BadRequest("kind is missing: every object needs apiVersion, kind and metadata.name")
        metadata = dict(metadata_of(obj))
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise Invalid(f"{kind}: metadata.name: Required value: name or generateName is required")
            metadata["name"] = metadata["generateName"] + self.suffix()
        if self.find(kind, metadata.get("namespace") or "", metadata["name"]) is not None:
            raise AlreadyExists(f'{resource_name(kind)} "{metadata["name"]}" already exists')
        if metadata.get("uid") in self._keys or not metadata.get("uid"):
            metadata["uid"] = self.new_uid()
        if not metadata.get("creationTimestamp"):
            metadata["creationTimestamp"] = timestamp(self.clock.now_s)
        metadata.setdefault("generation", 1)
        return self._commit(None, {**obj, "metadata": metadata})

    def replace(self, obj: KubeObject) -> KubeObject:
        """Put the object in place of the one of its name; a resource version or uid in it is a precondition."""
        kind, namespace, name = key_of(obj)
        old = self.get(kind, namespace, name)
        given, kept = obj["metadata"], old["metadata"]
        self._check_uid(kind, old, given.get("uid"))
        version = given.get("resourceVersion")
        if version and version != kept["resourceVersion"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource_name(kind)} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
        new = {**obj, "metadata": dict(given)}
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
        return self._update(old, new)

    def patch(
        self, kind: str, namespace: str, name: str, patch: Mapping[str, Any], *, uid: str | None = None
    ) -> KubeObject:
        """Merge a JSON merge patch into everything but the status."""
        old = self.get(kind, namespace, name)
        self._check_uid(kind, old, uid)
        new = merge_patch(old, {part: value for part, value in patch.items() if part != "status"})
        return self._update(old, {**new, "metadata": dict(new["metadata"])})

    def patch_status(
        self, kind: str, namespace: str, name: str, status: Mapping[str, Any], *, uid: str | None = None
    ) -> KubeObject:
        """Merge a JSON merge patch into the status."""
        old = self.get(kind, namespace, name)
        return self.put_status(old, merge_patch(status_of(old), status), uid=uid)

    def put_status(self, obj: KubeObject, status: Mapping[str, Any], *, uid: str | None = None) -> KubeObject:
        """Replace the status of the object of this name."""
        kind, namespace, name = key_of(obj)
        old = self.get(kind, namespace, name)
        self._check_uid(kind, old, uid)
        if status_of(old) == status:
            return old
        return self._commit(old, {**old, "metadata": {**old["metadata"]}, "status": status})

    def set_condition(
        self, kind: str, namespace: str, name: str, condition: Mapping[str, Any], *, uid: str | None = None
    ) -> KubeObject:
        """Write one condition, found by its type; the API's strategic merge does the same."""
        old = self.get(kind, namespace, name)
        return self.put_status(old, with_condition(status_of(old), condition, self.clock.now_s), uid=uid)

    def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> KubeObject:
        """Bind a pod, with the API server's refusals; an empty uid is no precondition. The node need not exist."""
        pod = self.get("Pod", namespace, name)
        self._check_uid("Pod", pod, uid)
        refusal = _bind_refusal(pod)
        if refusal:
            raise Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} {refusal}')
        metadata = dict(pod["metadata"])
        target = self.find("Node", "", node)
        labels = metadata_of(target).get("labels") or {} if target is not None else {}
        copied = {label: labels[label] for label in TOPOLOGY_LABELS if label in labels}
        if copied:
            metadata["labels"] = {**(metadata.get("labels") or {}), **copied}
        if annotations:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
        status = with_condition(status_of(pod), {"type": "PodScheduled", "status": "True"}, self.clock.now_s)
        status.pop("nominatedNodeName", None)
        return self._commit(
            pod, {**pod, "metadata": metadata, "spec": {**spec_of(pod), "nodeName": node}, "status": status}
        )

    def delete(
        self, kind: str, namespace: str, name: str, *, grace_s: int | None = None, uid: str | None = None
    ) -> KubeObject:
        """Begin or finish a deletion; the object's last state. Pods on a node are given their grace period first."""
        obj = self.get(kind, namespace, name)
        self._check_uid(kind, obj, uid)
        grace_s = _effective_grace_s(obj, grace_s) if kind == "Pod" else 0
        if grace_s == 0 and not metadata_of(obj).get("finalizers"):
            return self._remove(obj)
        if is_terminating(obj) and int(metadata_of(obj).get("deletionGracePeriodSeconds") or 0) <= grace_s:
            return obj
        metadata = {
            **obj["metadata"],
            "deletionTimestamp": timestamp(self.clock.now_s + grace_s),
            "deletionGracePeriodSeconds": grace_s,
            "generation": int(obj["metadata"].get("generation") or 0) + 1,
        }
        return self._commit(obj, {**obj, "metadata": metadata})

    def suffix(self, length: int = 5) -> str:
        """A random part of a generated name, from the store's seed."""
        return "".join(self._random.choices(SUFFIX_ALPHABET, k=length))

    def new_uid(self) -> str:
        """A new unique uid, from the store's seed."""
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    # Inside

    def _update(self, old: KubeObject, new: dict[str, Any]) -> KubeObject:
        """Commit a changed object whose metadata is already a copy; finish a deletion that waited for finalizers."""
        kept, metadata = old["metadata"], new["metadata"]
        for field in (*_KEPT_METADATA, "resourceVersion", "name", "namespace"):
            if field in kept:
                metadata[field] = kept[field]
            else:
                metadata.pop(field, None)
        if new == old:
            return old
        if new["kind"] == "Pod" and node_of(new) != node_of(old):
            raise Invalid(f'Pod "{metadata["name"]}" is invalid: spec.nodeName: Forbidden: set it with bind')
        if new.get("spec") != old.get("spec"):
            metadata["generation"] = int(kept.get("generation") or 0) + 1
        committed = self._commit(old, new)
        if is_terminating(committed) and not metadata.get("finalizers") and kept.get("finalizers"):
            return self._remove(committed)
        return committed

    def _check_uid(self, kind: str, obj: KubeObject, uid: str | None) -> None:
        actual = obj["metadata"]["uid"]
        if uid and uid != actual:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource_name(kind)} "{obj["metadata"]["name"]}": Precondition '
                f"failed: UID in precondition: {uid}, UID in object meta: {actual}"
            )

    def _commit(self, old: KubeObject | None, new: dict[str, Any]) -> KubeObject:
        """Put `new` in place; its metadata must not be shared."""
        key = key_of(new)
        self._version += 1
        self._kind_versions[key.kind] = self._version
        metadata = new["metadata"]
        metadata["resourceVersion"] = str(self._version)
        uid = metadata["uid"]
        if old is None:
            self._made += 1
            self._serials[uid] = self._made
            self._keys[uid] = key
        self._kinds.setdefault(key.kind, {})[key[1:]] = new
        self._index(uid, old, new)
        change_type = ChangeType.ADDED if old is None else ChangeType.MODIFIED
        self._log.append(StoreChange(change_type, key.kind, new, old))
        return new

    def _remove(self, obj: KubeObject) -> KubeObject:
        key = key_of(obj)
        self._version += 1
        self._kind_versions[key.kind] = self._version
        uid = obj["metadata"]["uid"]
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        del self._kinds[key.kind][key[1:]]
        del self._keys[uid]
        del self._serials[uid]
        self._index(uid, obj, None)
        self._log.append(StoreChange(ChangeType.DELETED, key.kind, last, obj))
        return last

    def _index(self, uid: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """Bring the owner and node indexes from the old state of an object to the new one."""
        owners_before = () if old is None else old["metadata"].get("ownerReferences") or ()
        owners_after = () if new is None else new["metadata"].get("ownerReferences") or ()
        if owners_before is not owners_after:
            _move(self._children, uid, _uids(owners_before), _uids(owners_after))
        if (old or new or {}).get("kind") == "Pod":
            before = node_of(old) if old is not None else ""
            after = node_of(new) if new is not None else ""
            if before != after:
                _move(self._on_node, uid, (before,) if before else (), (after,) if after else ())


def _may_own(namespace: str, obj: KubeObject) -> bool:
    """Whether an owner of this namespace (empty: of none) can have the object."""
    return namespace in ("", key_of(obj).namespace)


def _uids(references: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(reference["uid"] for reference in references if reference.get("uid"))


def _move(index: dict[str, dict[str, None]], uid: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Take the uid out of the entries `before` and put it into those of `after`; empty entries go."""
    for entry in before:
        if entry not in after and entry in index:
            index[entry].pop(uid, None)
            if not index[entry]:
                del index[entry]
    for entry in after:
        index.setdefault(entry, {})[uid] = None


def _bind_refusal(pod: KubeObject) -> str:
    """Why the API server does not bind this pod; empty when it does."""
    if is_terminating(pod):
        return "is being deleted, cannot be assigned to a host"
    if node_of(pod):
        return f'is already assigned to node "{node_of(pod)}"'
    if spec_of(pod).get("schedulingGates"):
        return "has non-empty .spec.schedulingGates"
    return ""


def _effective_grace_s(pod: KubeObject, asked_s: int | None) -> int:
    """The grace period that the API server grants: none to pods that no kubelet runs."""
    if not node_of(pod) or status_of(pod).get("phase") in FINISHED:
        return 0
    default_s = spec_of(pod).get("terminationGracePeriodSeconds")
    grace_s = asked_s if asked_s is not None else DEFAULT_GRACE_S if default_s is None else int(default_s)
    return 1 if grace_s < 0 else grace_s
