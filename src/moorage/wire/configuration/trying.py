"""`TrialConfiguration` of `moorage.dev/v1alpha1`: shape and sense.

Its findings are its own: a trial that cannot be read does not run, and everything else in the file holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Annotated, Any

import msgspec
from pydantic import Field

from moorage.core.selectors import EVERYTHING, Selector
from moorage.core.trials import MOST_NAME
from moorage.framework.arguments import Seconds
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import Profile, ProfileError, build_profile
from moorage.framework.registry import Registry
from moorage.framework.trying import AtEnd, Limit, TrialConfiguration, TrialLimits, TrialPods, differing
from moorage.wire.configuration import Beside
from moorage.wire.configuration.findings import Findings, at_least, positive
from moorage.wire.configuration.profiles import read_profiles
from moorage.wire.configuration.scheduler import read_scheduler
from moorage.wire.configuration.schema import ConfigurationDocument, Int32, ProfileShape, Shape
from moorage.wire.configuration.shapes import read_shape, without_nulls
from moorage.wire.documents import read_documents
from moorage.wire.errors import REFUSALS, FieldError
from moorage.wire.problems import ABSENT
from moorage.wire.selectors import LabelSelectorWire, label_selector

_ENDS = tuple(end.value for end in AtEnd)
MOST_NAMESPACES = 1000


class LimitShape(Shape):
    """How much worse the trial may be."""

    ratio: float | None = None
    amount: float | None = None


class WaitingLimitShape(Shape):
    """The same for a time."""

    ratio: float | None = None
    amount: Seconds | None = None


class WorseShape(Shape):
    """What counts as worse; everything has a default."""

    min_samples: Int32 | None = None
    lasting: Seconds | None = Field(default=None, alias="for")
    pending: LimitShape | None = None
    evictions: LimitShape | None = None
    failed_binds: LimitShape | None = None
    waiting_p99: WaitingLimitShape | None = None


class TrialPodsShape(Shape):
    """Which pods take part; at least one field is needed."""

    namespaces: list[str] | None = None
    namespace_selector: Any = None
    workload_percent: float | None = None


class TrialShape(ConfigurationDocument):
    """What is tried, by which pods, and for how long, is required."""

    name: str = "trial"
    pods: TrialPodsShape | None = None
    duration: Seconds | None = None
    at_end: str | None = None
    profiles: Annotated[list[ProfileShape], Field(default_factory=list)]
    profiles_file: str = ""
    worse: WorseShape | None = None


def read_trial(document: dict[str, Any], findings: Findings) -> TrialShape:
    """The document as far as it fits; what does not is reported."""
    return read_shape(TrialShape, document, findings)


def trial_of(
    shape: TrialShape,
    control: tuple[Configuration, Sequence[Profile]],
    registry: Registry,
    findings: Findings,
    beside: Beside | None,
) -> TrialConfiguration | None:
    """The trial beside a configuration without problems; None if there is something wrong with it."""
    pods, limits = _pods(shape.pods, findings), _limits(shape.worse, findings)
    duration_s = positive(shape.duration, "duration", findings)
    if duration_s is None and not findings.touches("duration"):
        findings.problem("duration", ABSENT, "required; write for how long it runs, such as 2h")
    if not 0 < len(shape.name) <= MOST_NAME:
        findings.problem("name", shape.name, f"must have 1 to {MOST_NAME} characters")
    profiles = _profiles(shape, control[0], registry, findings, beside)
    built = _built(profiles, control, registry, findings)
    at_end = _at_end(shape.at_end, findings)
    if findings.problems or duration_s is None:
        return None
    return TrialConfiguration(shape.name, pods, duration_s, profiles, at_end, limits, built)


# --- which pods ---


def _pods(shape: TrialPodsShape | None, findings: Findings) -> TrialPods:
    if findings.touches("pods"):
        return TrialPods()
    if shape is None or not shape.model_fields_set:
        findings.problem("pods", ABSENT, "required; write namespaces, namespaceSelector or workloadPercent")
        return TrialPods()
    names = None if shape.namespaces is None else tuple(dict.fromkeys(shape.namespaces))
    selector = None if shape.namespace_selector is None else _selector(shape.namespace_selector, findings)
    percent = 100.0 if shape.workload_percent is None else shape.workload_percent
    if not 0 <= percent <= 100:
        findings.problem("pods.workloadPercent", percent, "must be from 0 to 100")
    if len(names or ()) > MOST_NAMESPACES:
        message = f"must not name more than {MOST_NAMESPACES}; select them by label"
        findings.problem("pods.namespaces", len(names or ()), message)
    if percent == 0 or (not names and selector is None and names is not None):
        findings.notice("pods", ABSENT, "no pod takes part in the trial")
    elif percent == 100 and (selector == EVERYTHING or (names is None and selector is None)):
        findings.notice("pods", ABSENT, "every pod takes part, so there is nothing to compare the trial with")
    return TrialPods(names, selector, percent)


def _selector(value: Any, findings: Findings) -> Selector | None:
    try:
        wire = msgspec.convert(value, LabelSelectorWire)
        unknown = set(value) - {"matchLabels", "matchExpressions"} if isinstance(value, dict) else ()
        if unknown:
            findings.problem("pods.namespaceSelector", sorted(map(str, unknown)), "unknown field; remove it")
        return label_selector(wire, "pods.namespaceSelector")
    except (*REFUSALS, FieldError) as error:
        findings.problem("pods.namespaceSelector", value, f"not a label selector: {error}")
        return None


# --- the profiles ---


def _profiles(
    shape: TrialShape, control: Configuration, registry: Registry, findings: Findings, beside: Beside | None
) -> tuple[ProfileConfiguration, ...]:
    if findings.touches("profiles"):
        return ()
    if bool(shape.profiles) == bool(shape.profiles_file):
        remedy = "remove one of them" if shape.profiles else "write the profiles, or the name of a file that has them"
        findings.problem("profiles", ABSENT, f"exactly one of profiles and profilesFile is needed; {remedy}")
        return ()
    if shape.profiles_file:
        profiles = _from_file(shape.profiles_file, registry, findings, beside)
    else:
        if len(shape.profiles) == len(control.profiles) == 1 and shape.profiles[0].scheduler_name is None:
            shape.profiles[0].scheduler_name = control.profiles[0].scheduler_name
        profiles = read_profiles(shape.profiles, registry, findings)
    known = [profile.scheduler_name for profile in control.profiles]
    field = "profilesFile" if shape.profiles_file else "profiles"
    for profile in profiles:
        if profile.scheduler_name not in known and not findings.touches("profiles"):
            message = f"no profile of the configuration has this name; write one of {', '.join(known)}"
            findings.problem(field, profile.scheduler_name, message)
    return profiles


def _from_file(
    name: str, registry: Registry, findings: Findings, beside: Beside | None
) -> tuple[ProfileConfiguration, ...]:
    content = "files beside this one cannot be read here; write the profiles themselves"
    read: bytes | str = content if beside is None else beside(name)
    if isinstance(read, str):
        findings.problem("profilesFile", name, read)
        return ()
    documents, faults = read_documents(read)
    for fault in faults:
        findings.problem("profilesFile", fault.source(name), fault.message)
    schedulers = [each.value for each in documents if isinstance(each.value, dict) and "profiles" in each.value]
    if faults:
        return ()
    if len(schedulers) != 1:
        findings.problem("profilesFile", name, "must hold one KubeSchedulerConfiguration with profiles")
        return ()
    inner = Findings(f"{findings.source}: {name}")
    profiles = read_scheduler(without_nulls(schedulers[0]), registry, inner).profiles
    findings.problems += inner.problems
    return () if inner.problems else profiles


def _built(
    profiles: tuple[ProfileConfiguration, ...],
    control: tuple[Configuration, Sequence[Profile]],
    registry: Registry,
    findings: Findings,
) -> tuple[Profile, ...]:
    """The profiles, which must have what all pods share in common with those that they stand in for."""
    if findings.problems:
        return ()
    theirs = {profile.scheduler_name: profile for profile in control[1]}
    built: list[Profile] = []
    for index, profile in enumerate(profiles):
        try:
            made = build_profile(profile, registry)
        except ProfileError as error:
            findings.problem(f"profiles[{index}]", error.plugin or profile.scheduler_name, str(error))
            continue
        for plugin, what in differing(made, theirs[made.scheduler_name]):
            message = f"pods of both sides share {what}: enable it as the configuration does, with the same arguments"
            findings.problem(f"profiles[{index}]", plugin, message)
        built.append(made)
    return tuple(built)


# --- the rest ---


def _at_end(text: str | None, findings: Findings) -> AtEnd:
    if text is not None and text not in _ENDS:
        findings.problem("atEnd", text, f"write {' or '.join(_ENDS)}")
        return AtEnd.RETURN
    return AtEnd.RETURN if text is None else AtEnd(text)


def _limits(shape: WorseShape | None, findings: Findings) -> TrialLimits:
    limits = TrialLimits()
    if shape is None or findings.touches("worse"):
        return limits
    given: dict[str, Any] = {
        "min_samples": at_least(shape.min_samples, 1, "worse.minSamples", findings),
        "lasting_s": _not_negative(shape.lasting, "worse.for", findings),
        "pending": _limit(shape.pending, "pending", findings),
        "evictions": _limit(shape.evictions, "evictions", findings),
        "failed_binds": _limit(shape.failed_binds, "failedBinds", findings),
        "waiting_p99": _limit(shape.waiting_p99, "waitingP99", findings),
    }
    return replace(limits, **{name: value for name, value in given.items() if value is not None})


def _limit(shape: LimitShape | WaitingLimitShape | None, name: str, findings: Findings) -> Limit | None:
    if shape is None:
        return None
    if shape.ratio is None and shape.amount is None:
        findings.problem(f"worse.{name}", ABSENT, "write ratio, amount or both")
    if shape.ratio is not None and not 1 <= shape.ratio < inf:
        findings.problem(f"worse.{name}.ratio", shape.ratio, "must be 1 or more, and finite: 1.2 allows a fifth more")
    _not_negative(shape.amount, f"worse.{name}.amount", findings)
    return Limit(shape.ratio or 1.0, shape.amount or 0.0)


def _not_negative(number: float | None, path: str, findings: Findings) -> float | None:
    if number is not None and not 0 <= number < inf:
        findings.problem(path, number, "must not be negative, and must be finite")
    return number
