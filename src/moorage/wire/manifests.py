"""Files of Kubernetes objects, as `kubectl get -o yaml` and `-o json` print them, become single objects.

Lists (`List`, `PodList`, ...) are taken apart. Every object stays a plain dictionary and knows its place. Nothing here
stops at the first problem: all of all files are collected, each in one line, and objects without problems are still
available for further checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from moorage.core.values import dataclass
from moorage.wire.documents import read_documents
from moorage.wire.errors import WireError
from moorage.wire.kinds import Kind, find_kind, readable_versions
from moorage.wire.place import STDIN, Document, DocumentPlace, show_file
from moorage.wire.problems import ABSENT, Problem

DEFAULT_NAMESPACE = "default"
_LIST = "List"
_DEEPEST_LIST = 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of the input."""

    place: DocumentPlace
    api_version: str
    kind: str
    namespace: str
    """Empty for kinds without namespace; the default one where a namespaced kind names none."""
    name: str
    body: dict[str, Any]
    known: Kind | None = None
    """How to read it, None if Moorage does not read such objects."""

    @property
    def title(self) -> str:
        """Kind and name, as messages show them."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """API group, kind, namespace and name: what a cluster holds only once."""
        return self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name

    def problem(self, path: str, value: object, message: str) -> Problem:
        """A problem with a field of this object."""
        return Problem(str(self.place), f"{self.title}: {path}" if path else self.title, value, message)

    def read(self, kind: Kind) -> Any:
        """The core value, or a `Problem` if the object cannot be read."""
        try:
            return kind.from_builtin(self.body)
        except WireError as error:
            return Problem(str(self.place), self.title, ABSENT, error.problem)


@dataclass(slots=True)
class Manifests:
    """All objects of some files, in their order, and what is wrong or noteworthy."""

    objects: list[Manifest] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    own: Sequence[Kind] = ()
    """Kinds that are read besides those of the table."""

    def kind_of(self, api_version: str, name: str) -> Kind | None:
        """How objects of a kind are read; None if they are not."""
        own = (kind for kind in self.own if kind.name == name and api_version in kind.api_versions)
        return next(own, None) or find_kind(api_version, name)


def load_manifests(
    files: Iterable[str], read_stdin: Callable[[], bytes] | None = None, own: Sequence[Kind] = ()
) -> Manifests:
    """Read all files; `-` is standard input. Of objects that stand there twice the later one counts."""
    found = Manifests(own=own)
    for file in files:
        try:
            data = (read_stdin or _stdin)() if file == STDIN else Path(file).read_bytes()
        except (OSError, ValueError) as error:
            found.problems.append(Problem(show_file(file), "", ABSENT, _unreadable(error)))
            continue
        _parse(file, data, found)
    _drop_repeated(found)
    return found


def parse_manifests(file: str, data: bytes, own: Sequence[Kind] = ()) -> Manifests:
    """The objects in a text; `file` is only what messages call it."""
    found = Manifests(own=own)
    _parse(file, data, found)
    _drop_repeated(found)
    return found


def manifests_of(bodies: Iterable[dict[str, Any]], source: str, own: Sequence[Kind] = ()) -> Manifests:
    """Objects that are there already, from a live cluster for instance; `source` is what messages call the place."""
    found = Manifests(own=own)
    place = DocumentPlace(source)
    for body in bodies:
        manifest = _manifest(body, place, found)
        if manifest is not None:
            found.objects.append(manifest)
    return found


def _stdin() -> bytes:
    return sys.stdin.buffer.read()


def _unreadable(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "no such file; check the path"
        case IsADirectoryError():
            return "is a directory; name the files in it"
        case PermissionError():
            return "permission denied; make the file readable"
        case OSError():
            return f"cannot be read ({error.strerror or error})"
    return f"is not the name of a file ({error})"


def _parse(file: str, data: bytes, found: Manifests) -> None:
    documents, faults = read_documents(data)
    found.problems += [Problem(fault.source(file), "", ABSENT, fault.message) for fault in faults]
    if not documents and not faults:
        found.warnings.append(Problem(show_file(file), "", ABSENT, "holds no objects"))
    several = len(documents) > 1 or (bool(documents) and documents[0].number > 1) or bool(faults)
    for document in documents:
        place = DocumentPlace(file, document.number if several else None)
        for body, at in _flatten(document, place, found.problems):
            manifest = _manifest(body, at, found)
            if manifest is not None:
                found.objects.append(manifest)


def _flatten(
    document: Document, place: DocumentPlace, problems: list[Problem]
) -> Iterator[tuple[dict[str, Any], DocumentPlace]]:
    """The objects of a document with their places; items of nested lists are counted through."""
    if not _is_list(document.value):
        if isinstance(document.value, dict):
            yield document.value, place
        else:
            problems.append(_not_an_object(place, document.value))
        return
    for number, item in enumerate(_items(document.value, place, problems, 0), start=1):
        at = DocumentPlace(place.file, place.document, number)
        if isinstance(item, dict):
            yield item, at
        else:
            problems.append(_not_an_object(at, item))


def _is_list(value: object) -> bool:
    """Whether this is a list kind: kinds of single objects never have `items` at the top and a name like that."""
    return isinstance(value, dict) and str(value.get("kind", "")).endswith(_LIST) and "items" in value


def _items(body: dict[str, Any], place: DocumentPlace, problems: list[Problem], depth: int) -> Iterator[Any]:
    items = body["items"] if body["items"] is not None else []
    if not isinstance(items, list):
        problems.append(Problem(str(place), "items", items, "must be a list of objects"))
        return
    if depth > _DEEPEST_LIST:
        problems.append(Problem(str(place), "items", ABSENT, f"lists are nested more than {_DEEPEST_LIST} deep"))
        return
    kind = str(body["kind"]).removesuffix(_LIST)
    for item in items:
        if _is_list(item):
            yield from _items(item, place, problems, depth + 1)
        elif kind and isinstance(item, dict):
            # The API server leaves out in a PodList what the list itself says.
            item.setdefault("kind", kind)
            item.setdefault("apiVersion", body.get("apiVersion"))
            yield item
        else:
            yield item


def _not_an_object(place: DocumentPlace, value: object) -> Problem:
    return Problem(
        str(place), "", value, "is not a Kubernetes object; write a mapping with apiVersion, kind and metadata"
    )


def _manifest(body: dict[str, Any], place: DocumentPlace, found: Manifests) -> Manifest | None:
    """The object, or None and its problems if it does not say what it is."""
    before = len(found.problems)
    api_version = _text(body, "apiVersion", "apiVersion", place, found.problems)
    kind = _text(body, "kind", "kind", place, found.problems)
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        found.problems.append(Problem(str(place), "metadata", metadata, "must be a mapping with a name"))
        return None
    metadata = metadata or {}
    known = found.kind_of(api_version, kind)
    if api_version and kind and known is None:
        # It is not read further, so it need not even have a name (a Kustomization, a configuration).
        _warn_of_version(api_version, kind, place, found)
        return Manifest(place, api_version, kind, _said(metadata, "namespace"), _said(metadata, "name"), body)
    name = _text(metadata, "name", "metadata.name", place, found.problems)
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        found.problems.append(Problem(str(place), "metadata.namespace", namespace, "must be text; put it in quotes"))
    if len(found.problems) > before or known is None:
        return None
    namespace = (namespace or DEFAULT_NAMESPACE) if known.namespaced else ""
    return Manifest(place, api_version, kind, namespace, name, body, known)


def _said(metadata: dict[str, Any], key: str) -> str:
    """The text of a field, empty where it has none."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def _text(body: dict[str, Any], key: str, path: str, place: DocumentPlace, problems: list[Problem]) -> str:
    """The text of a field that every object has."""
    value = body.get(key)
    if isinstance(value, str) and value:
        return value
    if value is None or value == "":
        problems.append(Problem(str(place), path, ABSENT, "is missing; every object needs it"))
    else:
        problems.append(Problem(str(place), path, value, "must be text; put it in quotes"))
    return ""


def _warn_of_version(api_version: str, kind: str, place: DocumentPlace, found: Manifests) -> None:
    """Only for versions of groups that are read: a kind of the same name in a stranger's group is a stranger."""
    group = api_version.rpartition("/")[0]
    versions = [version for version in readable_versions(kind) if version.rpartition("/")[0] == group]
    if versions:
        message = f"this {kind} is ignored; it is read as {' or '.join(versions)}"
        found.warnings.append(Problem(str(place), "apiVersion", api_version, message))


def _drop_repeated(found: Manifests) -> None:
    """Keep the last of equal identities, at the place in the order where the first one stood."""
    by_identity: dict[tuple[str, ...], Manifest] = {}
    for manifest in found.objects:
        # What is not read may have no name, and is only counted: each of them stays.
        identity = manifest.identity if manifest.known else (*manifest.identity, str(manifest.place))
        earlier = by_identity.get(identity)
        if earlier is not None:
            message = f"stands in the input twice; this one counts, not the one in {earlier.place}"
            found.warnings.append(Problem(str(manifest.place), manifest.title, ABSENT, message))
        by_identity[identity] = manifest
    found.objects = list(by_identity.values())
