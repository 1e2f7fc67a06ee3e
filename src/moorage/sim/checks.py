"""One file looked through: configuration documents, also in ConfigMaps, and Kubernetes objects, in any mixture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from moorage.adapters.neighbours import neighbours_of
from moorage.core.values import dataclass
from moorage.framework.registry import Registry
from moorage.sim.annotations import annotation_problems
from moorage.sim.device_specs import device_notices, device_problems
from moorage.sim.inputs import ObjectCheck
from moorage.sim.queues import is_queue, queue_problems
from moorage.sim.specs import inside
from moorage.sim.strategies import policy_problems
from moorage.sim.workload_selectors import selector_problems
from moorage.wire.configuration import (
    MOORAGE_GROUP,
    SCHEDULER_GROUP,
    Reading,
    is_configuration,
    is_experiment,
    read_configuration,
    read_configuration_documents,
)
from moorage.wire.documents import read_documents
from moorage.wire.kinds import find_kind
from moorage.wire.manifests import Manifest, parse_manifests
from moorage.wire.place import Document
from moorage.wire.problems import Problem

if TYPE_CHECKING:
    from moorage.sim.experiments.document import ExperimentReading

_CONFIG_MAP = "ConfigMap"


@dataclass(slots=True)
class FileFindings:
    """What there is to say about a file."""

    checked: int = 0
    """Objects and configuration documents that were looked into."""
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    queues: list[Manifest] = field(default_factory=list)
    """Queues, which are looked at together with those of other files."""
    unread: dict[str, int] = field(default_factory=dict)
    """Kind -> number of objects of kinds that are not read."""

    def add(self, *readings: Reading) -> None:
        """Take over what there is to say about configuration files."""
        for reading in readings:
            self.problems += (*reading.problems, *reading.trial_problems)
            self.notices += reading.notices


def check_file(file: str, data: bytes, registry: Registry) -> FileFindings:
    """Find everything that is wrong with the content of a file."""
    manifests = parse_manifests(file, data)
    found = FileFindings(problems=list(manifests.problems), notices=list(manifests.warnings))
    check = ObjectCheck()
    configuration: list[Document] = []
    for manifest in manifests.objects:
        if is_experiment(manifest.body):
            reading = _experiment(manifest.body, file, registry)
            found.problems += reading.problems
            found.notices += reading.notices
        elif _belongs_to_configuration(manifest.body):
            configuration.append(Document(manifest.place.document or 1, 0, manifest.body))
        elif manifest.known is None:
            inner = list(_configuration_inside(manifest, registry))
            found.add(*inner)
            if not inner:
                found.unread[manifest.kind] = found.unread.get(manifest.kind, 0) + 1
                continue
        else:
            found.problems += check.problems(manifest)
            found.problems += selector_problems(manifest)
            found.problems += annotation_problems(manifest)
            found.problems += policy_problems(manifest)
            found.problems += queue_problems(manifest)
            found.queues += [manifest] if is_queue(manifest) else []
            found.problems += device_problems(manifest)
        found.checked += 1
    found.notices += device_notices(manifests.objects)
    if configuration:
        found.add(read_configuration_documents(configuration, file, registry, neighbours_of(file)))
    return found


def _experiment(body: dict[str, Any], file: str, registry: Registry) -> ExperimentReading:
    from moorage.sim.experiments.document import read_experiment_document  # noqa: PLC0415 - the simulator, for few files

    return read_experiment_document(body, file, registry)


def _configuration_inside(manifest: Manifest, registry: Registry) -> Iterator[Reading]:
    """What the configuration files in a ConfigMap say; nothing for other kinds, and for files of another sort."""
    if manifest.kind != _CONFIG_MAP:
        return
    for key, text in inside(manifest.body, "data").items():
        # Most ConfigMaps hold something else, and need not be parsed for that to be known.
        if not isinstance(text, str) or not any(group in text for group in (SCHEDULER_GROUP, MOORAGE_GROUP)):
            continue
        data = text.encode(errors="replace")
        documents, faults = read_documents(data)
        if faults or any(_belongs_to_configuration(document.value) for document in documents):
            yield read_configuration(data, f"{manifest.place}: {manifest.title}: data[{key}]", registry)


def _belongs_to_configuration(body: object) -> bool:
    """Whether it is a configuration, or something in our own group that is neither that nor an object we know."""
    if not isinstance(body, dict):
        return False
    api_version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    ours = api_version.partition("/")[0] == MOORAGE_GROUP and find_kind(api_version, kind) is None
    return ours or is_configuration(body)
