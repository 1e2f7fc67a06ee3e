"""What a server serves: its version, and its groups, versions and resources.

One aggregated document where the server offers it (1.27 and newer), else the older documents, one per group version.
A group whose aggregated server is down is left out, not fatal: it is looked for again like any other missing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import msgspec

from moorage.adapters.kube.client import JSON, KubeClient
from moorage.adapters.kube.errors import ApiError, NoSuchPath, NotFound, ServerError, decode_answer
from moorage.adapters.kube.resources import Resource
from moorage.core.values import dataclass

_AGGREGATED = ",".join(
    [
        *(f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")),
        JSON,
    ]
)

_STRANGE = "this does not look like a Kubernetes API server"
_GROUPS = frozenset({"APIGroupDiscoveryList", "APIVersions", "APIGroupList"})


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Version of the API server."""

    git_version: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource as the server describes it."""

    resource: Resource
    verbs: frozenset[str]


@dataclass(frozen=True, slots=True)
class ServedResources:
    """Everything that a server serves, subresources aside. Versions of a group are in the server's order."""

    by_key: dict[tuple[str, str, str], ServedResource] = field(default_factory=dict)
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Groups and versions whose own server cannot be asked just now; what they have is not known."""

    def lacks(self, resource: Resource) -> bool:
        """Whether it is certain that the server does not have the resource."""
        return (resource.group, resource.version) not in self.unknown and not self._described(resource)

    def serves(self, resource: Resource) -> bool:
        """Whether this very version of the resource can be listed and watched."""
        served = self._described(resource)
        return served is not None and {"list", "watch"} <= served.verbs

    def offered(self, resource: Resource) -> Resource | None:
        """The resource in the best of its versions that the server has; None if it is certain that it has none.

        Where not all is known, in the one that was asked for. The core group is always served.
        """
        if not resource.group:
            return resource
        found = next((each for each in resource.versions if self.serves(each)), resource)
        return None if self.lacks(found) else found

    def _described(self, resource: Resource) -> ServedResource | None:
        return self.by_key.get((resource.group, resource.version, resource.plural))

    def find(self, group: str, plural: str, versions: Sequence[str] = ()) -> Resource | None:
        """Find a resource in the first of the versions that has it; without versions, in the server's preferred one."""
        for version in versions or self.versions.get(group, ()):
            served = self.by_key.get((group, version, plural))
            if served is not None:
                return served.resource
        return None


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion")
    major: str = ""
    minor: str = ""


class _Kind(msgspec.Struct):
    kind: str = ""


class _AggregatedResource(msgspec.Struct):
    resource: str
    scope: str = "Namespaced"
    verbs: list[str] | None = None
    response_kind: _Kind | None = msgspec.field(default=None, name="responseKind")


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = "Current"


class _Meta(msgspec.Struct):
    name: str = ""


class _AggregatedGroup(msgspec.Struct):
    metadata: _Meta
    versions: list[_AggregatedVersion] | None = None


class _GroupVersion(msgspec.Struct):
    version: str


class _PlainGroup(msgspec.Struct):
    name: str
    versions: list[_GroupVersion]


class _Groups(msgspec.Struct):
    """The answer of /api or /apis in any of its three forms."""

    kind: str = ""
    items: list[_AggregatedGroup] | None = None
    groups: list[_PlainGroup] | None = None
    versions: list[str] | None = None


class _PlainResource(msgspec.Struct):
    name: str
    namespaced: bool = False
    kind: str = ""
    verbs: list[str] | None = None


class _PlainResources(msgspec.Struct):
    resources: list[_PlainResource] | None = None


async def server_version(client: KubeClient) -> ServerVersion:
    """Ask the server for its version. Also the cheapest way to learn whether it can be reached."""
    view = decode_answer(await client.request("GET", "/version", limited=False), _Version, _STRANGE)
    return ServerVersion(view.git_version, _leading_number(view.major), _leading_number(view.minor))


async def served_resources(client: KubeClient, *, aggregated: bool = True) -> ServedResources:
    """Ask the server what it serves."""
    found = ServedResources()
    for path in ("/api", "/apis"):
        accept = _AGGREGATED if aggregated else JSON
        groups = decode_answer(await client.request("GET", path, accept=accept, limited=False), _Groups, _STRANGE)
        if groups.kind not in _GROUPS:
            raise ServerError(f"{_STRANGE}: {path} is of kind {groups.kind or '(none)'}")
        if groups.kind == "APIGroupDiscoveryList":
            for group in groups.items or ():
                _add_aggregated(found, group)
            continue
        plain = groups.groups or [_PlainGroup("", [_GroupVersion(version) for version in groups.versions or ()])]
        for each in plain:
            await _add_plain(client, found, each)
    return found


async def served_version(client: KubeClient, resource: Resource) -> Resource | None:
    """The resource in the version that the server has now (`ServedResources.offered`)."""
    return (await served_resources(client)).offered(resource) if resource.group else resource


async def describes(client: KubeClient, resource: Resource) -> bool:
    """Whether the server says that it has the resource in one of its versions; asks for the resource's group only."""
    for each in resource.versions:
        try:
            rows = await _described_at(client, each.group, each.version)
        except (NotFound, NoSuchPath):
            continue
        if any(row.name == each.plural for row in rows):
            return True
    return False


async def unserved(client: KubeClient, resource: Resource) -> bool:
    """Whether the server itself says that it has no such kind; a 404 may come from a proxy. It always has the core
    group.
    """
    return bool(resource.group) and (await served_resources(client)).lacks(resource)


def _add_aggregated(found: ServedResources, group: _AggregatedGroup) -> None:
    name = group.metadata.name
    # The server keeps describing an aggregated group that is down, and marks it stale.
    current = [version for version in group.versions or () if version.freshness == "Current"]
    found.unknown.update((name, each.version) for each in group.versions or () if each.freshness != "Current")
    found.versions[name] = tuple(version.version for version in current)
    for version in current:
        rows = (
            (
                each.resource,
                each.scope == "Namespaced",
                each.response_kind.kind if each.response_kind else "",
                each.verbs,
            )
            for each in version.resources or ()
        )
        _add(found, name, version.version, rows)


async def _add_plain(client: KubeClient, found: ServedResources, group: _PlainGroup) -> None:
    served: list[str] = []
    for version in (each.version for each in group.versions):
        try:
            described = await _described_at(client, group.name, version)
        except ApiError as error:
            if error.status in {404, 503}:
                found.unknown.add((group.name, version))
                continue
            raise
        served.append(version)
        _add(found, group.name, version, ((each.name, each.namespaced, each.kind, each.verbs) for each in described))
    found.versions[group.name] = tuple(served)


async def _described_at(client: KubeClient, group: str, version: str) -> list[_PlainResource]:
    """What a group has in a version, by its own document."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    view = decode_answer(await client.request("GET", path, limited=False), _PlainResources, _STRANGE)
    return view.resources or []


def _add(
    found: ServedResources, group: str, version: str, rows: Iterable[tuple[str, bool, str, list[str] | None]]
) -> None:
    for plural, namespaced, kind, verbs in rows:
        if "/" not in plural:
            resource = Resource(group, version, plural, namespaced, kind)
            found.by_key[group, version, plural] = ServedResource(resource, frozenset(verbs or ()))


def _leading_number(text: str) -> int:
    """Read `37` and also `37+`, as some providers write it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0
