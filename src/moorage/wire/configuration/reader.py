"""Goes through the documents of a configuration file: shapes, their sense, and the profiles that come of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from moorage.framework.admitting import WEBHOOK_KIND
from moorage.framework.configuration import ComponentConfiguration, Configuration
from moorage.framework.extending import EXTENDER_KIND
from moorage.framework.keeping import KEEPER_KIND
from moorage.framework.profiles import Profile, ProfileError, build_profile
from moorage.framework.registry import Registry, closest
from moorage.framework.tracing import TRACING_KIND
from moorage.framework.trying import TRIAL_KIND, TrialConfiguration
from moorage.wire.configuration import (
    MOORAGE_API,
    MOORAGE_GROUP,
    SCHEDULER_API,
    SCHEDULER_GROUP,
    SCHEDULER_KIND,
    WAY_IN_KINDS,
    Beside,
    Reading,
)
from moorage.wire.configuration.admitting import WebhookShape, read_webhook
from moorage.wire.configuration.extending import ExtenderDocumentShape, read_extender
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.keeping import KeeperShape, read_keeper
from moorage.wire.configuration.scheduler import read_scheduler
from moorage.wire.configuration.schema import ComponentShape, ConfigurationDocument
from moorage.wire.configuration.shapes import read_shape, without_nulls
from moorage.wire.configuration.tracing import TracingShape, read_tracing
from moorage.wire.configuration.trying import TrialShape, read_trial, trial_of
from moorage.wire.place import Document, DocumentPlace, show_file
from moorage.wire.problems import ABSENT, Problem

_SHAPES: Mapping[str, type[ConfigurationDocument]] = {
    EXTENDER_KIND: ExtenderDocumentShape,
    WEBHOOK_KIND: WebhookShape,
    KEEPER_KIND: KeeperShape,
    TRACING_KIND: TracingShape,
}


class ConfigurationReader:
    """Takes the documents of one file; each has its findings, as each has its place."""

    def __init__(self, file: str, registry: Registry, *, several: bool, beside: Beside | None = None) -> None:
        self._beside = beside
        self._files: list[str] = []
        self._trial: TrialShape | None = None
        self._trial_findings: list[Findings] = []
        self._file = file
        self._registry = registry
        self._several = several
        self._findings: list[Findings] = []
        self._first: dict[str, str] = {}
        self._scheduler: tuple[Configuration, Findings] | None = None
        self._components: list[tuple[ConfigurationDocument, Findings]] = []

    def read(self, document: Document) -> None:
        """Take the next document."""
        place = DocumentPlace(self._file, document.number if self._several else None)
        findings = Findings(str(place))
        is_trial = isinstance(document.value, dict) and document.value.get("kind") == TRIAL_KIND
        (self._trial_findings if is_trial else self._findings).append(findings)
        if not isinstance(document.value, dict):
            findings.problem("", document.value, f"must be a mapping; write a {SCHEDULER_KIND} of {SCHEDULER_API}")
            return
        value = without_nulls(document.value)
        if not self._is_known(value, findings):
            return
        kind = value["kind"]
        if kind in self._first:
            findings.problem("kind", kind, f"stands twice in this file, first in {self._first[kind]}; remove one")
        self._first.setdefault(kind, str(place))
        if kind == SCHEDULER_KIND:
            read = read_scheduler(value, self._registry, findings), findings
            self._scheduler = self._scheduler or read
        elif kind == TRIAL_KIND:
            self._trial = read_trial(value, findings)
        else:
            shape = _SHAPES.get(kind, ComponentShape)
            self._components.append((read_shape(shape, value, findings), findings))

    def _is_known(self, value: dict[str, Any], findings: Findings) -> bool:
        """Check apiVersion and kind; a document that says it is something else is not looked into."""
        api, kind = value.get("apiVersion", ABSENT), value.get("kind", ABSENT)
        group = str(api).partition("/")[0]
        kinds = WAY_IN_KINDS if group == MOORAGE_GROUP else (SCHEDULER_KIND,)
        wanted = MOORAGE_API if group == MOORAGE_GROUP or kind in WAY_IN_KINDS else SCHEDULER_API
        if api != wanted:
            reason = "this version is not read" if group in (SCHEDULER_GROUP, MOORAGE_GROUP) else "not a configuration"
            findings.problem("apiVersion", api, f"{'required' if api is ABSENT else reason}; write {wanted}")
        elif kind not in kinds:
            meant = closest(str(kind), kinds) if isinstance(kind, str) else None
            remedy = f"did you mean {meant}?" if meant else f"write {' or '.join(kinds)}"
            findings.problem("kind", kind, f"{'required' if kind is ABSENT else 'unknown in ' + wanted}; {remedy}")
        return not findings.problems

    def finish(self) -> Reading:
        """Put the documents together, and build the profiles to see that the plugins accept their arguments."""
        configuration, findings = self._scheduler or (Configuration(), Findings(show_file(self._file)))
        components = {shape.kind: self._component(shape, configuration, own) for shape, own in self._components}
        profiles: list[Profile] = []
        if not any(one.problems for one in self._findings):
            profiles = self._build(configuration, findings)
        problems = _distinct(problem for one in (*self._findings, findings) for problem in one.problems)
        trial = None if problems else self._read_trial(configuration, profiles)
        everyone = (*self._findings, *self._trial_findings)
        notices = _distinct(notice for one in everyone for notice in one.notices)
        trial_problems = _distinct(problem for one in self._trial_findings for problem in one.problems)
        if problems:
            return Reading(None, (), problems, notices, trial_problems)
        complete = dataclasses.replace(configuration, components=components, trial=trial)
        return Reading(complete, tuple(profiles), (), notices, trial_problems, tuple(self._files))

    def _read_trial(self, configuration: Configuration, profiles: Iterable[Profile]) -> TrialConfiguration | None:
        """The trial, if there is one without problems; it stands beside profiles that have none."""
        if self._trial is None or len(self._trial_findings) > 1:
            return None
        (findings,) = self._trial_findings
        if self._trial.profiles_file:
            self._files.append(self._trial.profiles_file)
        return trial_of(self._trial, (configuration, tuple(profiles)), self._registry, findings, self._beside)

    def _component(
        self, shape: ConfigurationDocument, configuration: Configuration, findings: Findings
    ) -> ComponentConfiguration:
        if isinstance(shape, TracingShape):
            return read_tracing(shape, findings)
        if not isinstance(shape, ComponentShape):
            raise TypeError(f"{shape.kind} has a shape and no reader")
        profile = self._profile_of(shape, configuration, findings)
        if isinstance(shape, KeeperShape):
            return read_keeper(shape, profile, findings)
        if isinstance(shape, ExtenderDocumentShape):
            return read_extender(shape, profile, findings)
        if isinstance(shape, WebhookShape):
            return read_webhook(shape, profile, findings)
        return ComponentConfiguration(shape.kind, profile)

    def _profile_of(self, shape: ComponentShape, configuration: Configuration, findings: Findings) -> str:
        names = [profile.scheduler_name for profile in configuration.profiles]
        unread = self._scheduler is None and any(one.problems for one in self._findings)
        if unread or findings.touches("profile"):
            return ""
        if not shape.profile and len(names) > 1:
            findings.problem("profile", ABSENT, f"required, as there are several; write one of {', '.join(names)}")
        elif shape.profile and shape.profile not in names:
            findings.problem("profile", shape.profile, f"no profile has this name; write one of {', '.join(names)}")
        return shape.profile or names[0]

    def _build(self, configuration: Configuration, findings: Findings) -> list[Profile]:
        built: list[Profile] = []
        for index, profile in enumerate(configuration.profiles):
            try:
                built.append(build_profile(profile, self._registry))
            except ProfileError as error:
                findings.problem(f"profiles[{index}]", error.plugin or profile.scheduler_name, str(error))
        return built


def _distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each line once, in order: values may be lists, so the problems themselves cannot be keys."""
    return tuple({str(problem): problem for problem in problems}.values())
