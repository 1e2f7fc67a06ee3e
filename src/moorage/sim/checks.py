"""One file looked through: configuration documents and Kubernetes objects, in any mixture."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.framework.registry import Registry
from moorage.sim.annotations import annotation_problems
from moorage.sim.inputs import ObjectCheck
from moorage.sim.strategies import policy_problems
from moorage.wire.configuration import MOORAGE_GROUP, is_configuration, read_configuration_documents
from moorage.wire.manifests import Manifest, parse_manifests
from moorage.wire.place import Document
from moorage.wire.problems import Problem


@dataclass(slots=True)
class FileFindings:
    """What there is to say about a file."""

    checked: int = 0
    """Objects and configuration documents that were looked into."""
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    unread: dict[str, int] = field(default_factory=dict)
    """Kind -> number of objects of kinds that are not read."""


def check_file(file: str, data: bytes, registry: Registry) -> FileFindings:
    """Find everything that is wrong with the content of a file."""
    manifests = parse_manifests(file, data)
    found = FileFindings(problems=list(manifests.problems), notices=list(manifests.warnings))
    check = ObjectCheck()
    configuration: list[Document] = []
    for manifest in manifests.objects:
        if _belongs_to_configuration(manifest):
            configuration.append(Document(manifest.place.document or 1, 0, manifest.body))
        elif manifest.known is None:
            found.unread[manifest.kind] = found.unread.get(manifest.kind, 0) + 1
            continue
        else:
            found.problems += check.problems(manifest)
            found.problems += annotation_problems(manifest)
            found.problems += policy_problems(manifest)
        found.checked += 1
    if configuration:
        reading = read_configuration_documents(configuration, file, registry)
        found.problems += reading.problems
        found.notices += reading.notices
    return found


def _belongs_to_configuration(manifest: Manifest) -> bool:
    """Whether it is a configuration, or something in our own group that is neither that nor an object we know."""
    ours = manifest.api_version.partition("/")[0] == MOORAGE_GROUP and manifest.known is None
    return ours or is_configuration(manifest.body)
