"""Configuration files: every document becomes a value, or every problem in all of them is listed.

A file holds at most one `KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`) and one document for each of
the other ways in (`moorage.dev/v1alpha1`). Nothing in it is passed over without a word: what Moorage does not do is in
`Reading.notices`.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.values import dataclass
from moorage.framework.admitting import WEBHOOK_KIND
from moorage.framework.configuration import Configuration
from moorage.framework.extending import EXTENDER_KIND
from moorage.framework.keeping import KEEPER_KIND
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.wire.documents import read_documents
from moorage.wire.place import Document, show_file
from moorage.wire.problems import ABSENT, Problem

__all__ = ["Reading", "default_reading", "is_configuration", "read_configuration", "read_configuration_documents"]

SCHEDULER_GROUP = "kubescheduler.config.k8s.io"
SCHEDULER_API = f"{SCHEDULER_GROUP}/v1"
SCHEDULER_KIND = "KubeSchedulerConfiguration"
MOORAGE_GROUP = "moorage.dev"
MOORAGE_API = f"{MOORAGE_GROUP}/v1alpha1"
WAY_IN_KINDS = (EXTENDER_KIND, WEBHOOK_KIND, KEEPER_KIND)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a configuration file says. With problems there is no configuration, and there are no profiles."""

    configuration: Configuration | None
    profiles: tuple[Profile, ...]
    problems: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()
    """One line each, to be said once at start: what is accepted and does nothing, and what looks like a mistake."""


def default_reading(registry: Registry) -> Reading:
    """What runs with no configuration file; `ProfileError` if the registry has no plugins that make a scheduler."""
    configuration = Configuration()
    return Reading(configuration, build_profiles(configuration, registry))


def is_configuration(document: object) -> bool:
    """Whether a document belongs into a configuration file, judged by its apiVersion and kind alone."""
    if not isinstance(document, dict):
        return False
    group = str(document.get("apiVersion", "")).partition("/")[0]
    kind = str(document.get("kind", ""))
    return group == SCHEDULER_GROUP or kind == SCHEDULER_KIND or (group == MOORAGE_GROUP and kind in WAY_IN_KINDS)


def read_configuration(data: bytes, file: str, registry: Registry) -> Reading:
    """Read a configuration file."""
    documents, faults = read_documents(data)
    problems = [Problem(fault.source(file), "", ABSENT, fault.message) for fault in faults]
    if not documents and not problems:
        problems.append(Problem(show_file(file), "", ABSENT, f"is empty; write a {SCHEDULER_KIND} of {SCHEDULER_API}"))
    reading = read_configuration_documents(documents, file, registry)
    if not problems:
        return reading
    return Reading(None, (), (*problems, *reading.problems), reading.notices)


def read_configuration_documents(documents: Sequence[Document], file: str, registry: Registry) -> Reading:
    """Read documents that were taken from a file already."""
    from moorage.wire.configuration.reader import ConfigurationReader  # noqa: PLC0415 - fifty models, for those who have a file

    reader = ConfigurationReader(file, registry, several=len(documents) > 1)
    for document in documents:
        reader.read(document)
    return reader.finish()
