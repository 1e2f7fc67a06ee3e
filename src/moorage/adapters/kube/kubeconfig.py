"""Reading kubeconfig files: from one or several files to the cluster and the user of the current context.

Pure but for reading the named files. Merging follows kubectl: the first file that sets a name wins, whole entries at a
time; relative file names are relative to the file they stand in. Unknown fields are ignored, as kubectl does, because
other tools keep their own there; a known field of the wrong type is an error that names its place.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from moorage.adapters.kube.errors import CredentialsError
from moorage.core.values import dataclass

SECRETS = frozenset({"token", "password", "client-key-data"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 64
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
PLAIN_HTTP = "moorage.dev/plain-http"
"""Extension of a cluster: a token may go to it over plain HTTP."""


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """A mapping in a kubeconfig that knows its place, so that every complaint can name it."""

    file: Path
    place: str
    fields: Mapping[str, Any]

    def error(self, field: str, value: object, remedy: str) -> CredentialsError:
        """Make the one-line complaint."""
        place = f"{self.place}.{field}" if self.place else field
        shown = "(hidden)" if field in SECRETS else _shown(value)
        return CredentialsError(f"{self.file}: {place}: {shown}: {remedy}")

    def text(self, field: str) -> str:
        """Read an optional string; absent and null are empty."""
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(field, value, "must be a string (put it in quotes)")
        return value

    def flag(self, field: str) -> bool:
        """Read an optional boolean; absent and null are false."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.error(field, value, "must be true or false")
        return bool(value)

    def entry(self, field: str) -> KubeconfigEntry | None:
        """Read an optional mapping."""
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(field, value, "must be a mapping")
        return KubeconfigEntry(self.file, f"{self.place}.{field}" if self.place else field, value)

    def entries(self, field: str) -> list[KubeconfigEntry]:
        """Read an optional list of mappings."""
        value = self.fields.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, value, "must be a list")
        place = f"{self.place}.{field}" if self.place else field
        found = [KubeconfigEntry(self.file, f"{place}[{index}]", item) for index, item in enumerate(value)]
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{field}[{index}]", item, "must be a mapping")
        return found

    def texts(self, field: str) -> list[str]:
        """Read an optional list of strings."""
        value = self.fields.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, value, "must be a list of strings (put numbers in quotes)")
        return value

    def path(self, field: str) -> Path | None:
        """Read an optional file name, relative to the kubeconfig it stands in."""
        value = self.text(field)
        return self.file.parent / value if value else None

    def data(self, field: str) -> bytes | None:
        """Read an optional base64 field."""
        value = self.text(field)
        if not value:
            return None
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError) as failure:
            raise self.error(field, value, "must be base64 of PEM text") from failure


@dataclass(frozen=True, slots=True)
class Context:
    """What the current context of a kubeconfig names."""

    name: str
    namespace: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry | None
    """None for a context without a user: requests are then anonymous."""


def read_context(files: Sequence[Path]) -> Context:
    """Read and merge the files and follow current-context."""
    documents = [_document(file) for file in files]
    holder = next((document for document in documents if document.text("current-context")), None)
    if holder is None:
        raise documents[0].error("current-context", "", "set it, e.g. with `kubectl config use-context NAME`")
    name = holder.text("current-context")
    contexts = _named(documents, "contexts", "context")
    if name not in contexts:
        raise holder.error("current-context", name, f"no such context; there is {_listed(contexts)}")
    context = contexts[name]
    cluster = _followed(context, "cluster", _named(documents, "clusters", "cluster"))
    if cluster is None:
        raise context.error("cluster", "", "name one of the clusters")
    user = _followed(context, "user", _named(documents, "users", "user"))
    return Context(name, context.text("namespace") or "default", cluster, user)


def server_of(cluster: KubeconfigEntry) -> str:
    """Check the address of the API server, and give it without the slash at the end."""
    server = cluster.text("server")
    if not is_address(server):
        raise cluster.error("server", server, "must be an address such as https://10.0.0.1:6443")
    if cluster.text("proxy-url"):
        remedy = "connections through a proxy are not supported; remove it and reach the server directly"
        raise cluster.error("proxy-url", cluster.text("proxy-url"), remedy)
    return server.rstrip("/")


def is_address(server: str) -> bool:
    """Whether an API server can be reached there."""
    try:
        parts = urlsplit(server)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def exec_extension(cluster: KubeconfigEntry) -> object:
    """Give the cluster's own settings for exec plugins, handed to them with provideClusterInfo."""
    return _extension(cluster, EXEC_EXTENSION)


def allows_plain_http(cluster: KubeconfigEntry) -> bool:
    """Whether the cluster says in so many words that a token may go to it in the clear."""
    return _extension(cluster, PLAIN_HTTP) is True


def _extension(cluster: KubeconfigEntry, name: str) -> object:
    for extension in cluster.entries("extensions"):
        if extension.text("name") == name:
            return extension.fields.get("extension")
    return None


def _document(file: Path) -> KubeconfigEntry:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as failure:
        raise CredentialsError(f"{file}: no such file; pass an existing kubeconfig") from failure
    except (OSError, UnicodeDecodeError) as failure:
        reason = getattr(failure, "strerror", None) or "not UTF-8 text"
        raise CredentialsError(f"{file}: cannot be read: {reason}") from failure
    try:
        _refuse_depth(text)
        loaded = yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is safe
    except RecursionError as failure:
        raise CredentialsError(f"{file}: is nested too deeply; must be a kubeconfig in YAML") from failure
    except yaml.YAMLError as failure:
        raise CredentialsError(f"{file}: {_yaml_problem(failure)}; must be a kubeconfig in YAML") from failure
    if loaded is None:
        loaded = {}
    if not isinstance(loaded, dict):
        raise CredentialsError(f"{file}: must be a kubeconfig (a mapping with clusters, contexts and users)")
    kind = loaded.get("kind", "Config")
    if kind != "Config":
        raise CredentialsError(f"{file}: kind: {_shown(kind)}: must be Config; is this a kubeconfig?")
    return KubeconfigEntry(file, "", loaded)


def _refuse_depth(text: str) -> None:
    """Raise RecursionError for what no kubeconfig is, before a parser spends time on it that grows with its square."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError


def _yaml_problem(failure: yaml.YAMLError) -> str:
    if isinstance(failure, yaml.MarkedYAMLError) and failure.problem_mark is not None:
        mark = failure.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {failure.problem or 'broken YAML'}"
    return f"broken YAML: {' '.join(str(failure).split())}"


def _named(documents: Sequence[KubeconfigEntry], plural: str, singular: str) -> dict[str, KubeconfigEntry]:
    """Merge one list of named entries; the first file that has a name wins."""
    merged: dict[str, KubeconfigEntry] = {}
    for document in documents:
        own: set[str] = set()
        for item in document.entries(plural):
            name = item.text("name")
            if name in own:
                raise item.error("name", name, "stands twice in the list; keep one")
            own.add(name)
            body = item.entry(singular) or KubeconfigEntry(item.file, f"{item.place}.{singular}", {})
            merged.setdefault(name, body)
    return merged


def _followed(context: KubeconfigEntry, field: str, entries: Mapping[str, KubeconfigEntry]) -> KubeconfigEntry | None:
    name = context.text(field)
    if not name:
        return None
    if name not in entries:
        raise context.error(field, name, f"no such {field}; there is {_listed(entries)}")
    return entries[name]


def _listed(entries: Mapping[str, KubeconfigEntry]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _shown(value: object) -> str:
    """Show a value in a complaint: short, on one line, quoted if it is text."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:76] + " ..."
