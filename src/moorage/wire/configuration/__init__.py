"""Configuration files: every document becomes a value, or every problem in all of them is listed.

A file holds at most one `KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`) and one document for each of
the other ways in and for traces (`moorage.dev/v1alpha1`). Nothing in it is passed over without a word: what Moorage
does not do is in `Reading.notices`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from moorage.core.values import dataclass
from moorage.framework.admitting import WEBHOOK_KIND
from moorage.framework.configuration import Configuration
from moorage.framework.extending import EXTENDER_KIND
from moorage.framework.keeping import KEEPER_KIND
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.tracing import TRACING_KIND
from moorage.framework.trying import TRIAL_KIND
from moorage.wire.documents import read_documents
from moorage.wire.place import Document, show_file
from moorage.wire.problems import ABSENT, Problem

__all__ = [
    "Reading",
    "default_reading",
    "is_configuration",
    "is_experiment",
    "read_configuration",
    "read_configuration_documents",
]

SCHEDULER_GROUP = "kubescheduler.config.k8s.io"
SCHEDULER_API = f"{SCHEDULER_GROUP}/v1"
SCHEDULER_KIND = "KubeSchedulerConfiguration"
MOORAGE_GROUP = "moorage.dev"
MOORAGE_API = f"{MOORAGE_GROUP}/v1alpha1"
EXPERIMENT_KIND = "Experiment"
WAY_IN_KINDS = (EXTENDER_KIND, WEBHOOK_KIND, KEEPER_KIND, TRACING_KIND, TRIAL_KIND)
Beside: TypeAlias = Callable[[str], bytes | str]
"""Reads a file that a configuration file names; a text says why that is not possible."""
_TRIAL = re.compile(rb"^[ \t]*[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?" + TRIAL_KIND.encode(), re.MULTILINE)
_SEPARATOR = re.compile(rb"^---", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a configuration file says. With problems there is no configuration, and there are no profiles."""

    configuration: Configuration | None
    profiles: tuple[Profile, ...]
    problems: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()
    """One line each, to be said once at start: what is accepted and does nothing, and what looks like a mistake."""
    trial_problems: tuple[Problem, ...] = ()
    """What is wrong with the TrialConfiguration, which then counts as absent; everything else holds."""
    beside: tuple[str, ...] = ()
    """Other files that were read, by the names that the documents give them."""


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


def is_experiment(document: object) -> bool:
    """Whether a document says that it is an experiment, of whichever version; it is read by the simulator."""
    if not isinstance(document, dict) or document.get("kind") != EXPERIMENT_KIND:
        return False
    return str(document.get("apiVersion", "")).partition("/")[0] == MOORAGE_GROUP


def read_configuration(data: bytes, file: str, registry: Registry, beside: Beside | None = None) -> Reading:
    """Read a configuration file; `beside` reads others that it names."""
    documents, faults = read_documents(data)
    problems = [Problem(fault.source(file), "", ABSENT, fault.message) for fault in faults]
    trial_faults = {problem for problem, fault in zip(problems, faults, strict=True) if _is_in_trial(data, fault.line)}
    if not documents and not problems:
        problems.append(Problem(show_file(file), "", ABSENT, f"is empty; write a {SCHEDULER_KIND} of {SCHEDULER_API}"))
    reading = read_configuration_documents(documents, file, registry, beside)
    others = tuple(problem for problem in problems if problem not in trial_faults)
    trial_problems = (*(problem for problem in problems if problem in trial_faults), *reading.trial_problems)
    if others:
        return Reading(None, (), (*others, *reading.problems), reading.notices, trial_problems, reading.beside)
    return replace(reading, trial_problems=trial_problems)


def _is_in_trial(data: bytes, line: int) -> bool:
    """Whether a line, from 1, is in a document that says it is a trial; one with faults cannot be asked."""
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(data)), len(data)]
    lines = [data.count(b"\n", 0, start) + 1 for start in starts]
    return any(
        _TRIAL.search(data, start, end) is not None
        for start, end, first, last in zip(starts, starts[1:], lines, lines[1:], strict=False)
        if first <= line <= last
    )


def read_configuration_documents(
    documents: Sequence[Document], file: str, registry: Registry, beside: Beside | None = None
) -> Reading:
    """Read documents that were taken from a file already."""
    from moorage.wire.configuration.reader import ConfigurationReader  # noqa: PLC0415 - fifty models, for those who have a file

    reader = ConfigurationReader(file, registry, several=len(documents) > 1, beside=beside)
    for document in documents:
        reader.read(document)
    return reader.finish()
