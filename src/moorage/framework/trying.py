"""A `TrialConfiguration` as a value: other profiles for some of the pods, for a while, and what counts as worse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import StrEnum

from pydantic import BaseModel

from moorage.core.hashing import name_uuid
from moorage.core.selectors import Selector
from moorage.core.values import dataclass
from moorage.framework.configuration import ProfileConfiguration
from moorage.framework.contract import Named, PlansUnits, ReadsPriority, SharesQueues
from moorage.framework.instances import Instances
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile

TRIAL_KIND = "TrialConfiguration"


class AtEnd(StrEnum):
    """What happens when the time of a trial is over and it was not worse."""

    RETURN = "Return"
    """Its pods go back to the profiles of the KubeSchedulerConfiguration."""
    KEEP = "Keep"
    """Its pods keep its profiles until the document is changed or removed."""


@dataclass(frozen=True, slots=True)
class TrialPods:
    """Which pods take part: those of the namespaces, and of these a share of the workloads."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    """Namespaces with such labels, beside those that are named. Where both are None, all namespaces count."""
    workload_percent: float = 100.0


@dataclass(frozen=True, slots=True)
class Limit:
    """How much worse a side may be: this many times the other one's value, and that much on top."""

    ratio: float = 1.0
    amount: float = 0.0

    def passed(self, value: float, other: float) -> bool:
        """Whether a value is beyond what the other side's allows."""
        return value > other * self.ratio + self.amount


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What counts as worse."""

    min_samples: int = 20
    """Pods that each side must have had before the sides are compared."""
    lasting_s: float = 30.0
    """For how long a limit must be passed."""
    pending: Limit = Limit(1.2, 5.0)
    """Pods that were tried in vain and wait; amounts are numbers of pods, for sides of equal size."""
    evictions: Limit = Limit(1.2, 5.0)
    failed_binds: Limit = Limit(1.2, 5.0)
    waiting_p99: Limit = Limit(1.5, 10.0)
    """The time within which 99 % of the pods are placed, in seconds."""


@dataclass(frozen=True, slots=True)
class TrialConfiguration:
    """What is tried."""

    name: str
    pods: TrialPods
    duration_s: float
    profiles: tuple[ProfileConfiguration, ...]
    """As written. Scheduler names are those of the configuration."""
    at_end: AtEnd = AtEnd.RETURN
    limits: TrialLimits = TrialLimits()
    built: tuple[Profile, ...] = field(default=(), compare=False, repr=False)
    """The profiles."""

    @property
    def digest(self) -> str:
        """Of what is tried and with which pods, whichever way the profiles are written; not of duration and limits."""
        return name_uuid(0, repr((self.name, self.pods, *map(_shown, self.built))))


def _shown(profile: Profile) -> object:
    """What a profile consists of, in one order."""
    points = [(point.value, [factory.name for factory in made]) for point, made in sorted(profile.by_point.items())]
    args = [(factory.name, _sorted(factory.args)) for factory in profile.plugins]
    weights = sorted(profile.weights.items())
    return profile.scheduler_name, [each for each in points if each[1]], weights, sorted(args, key=lambda each: each[0])


def _sorted(value: object) -> object:
    """A value whose repr is equal in every process: sets have an order."""
    if isinstance(value, dict):
        return sorted(((repr(key), _sorted(each)) for key, each in value.items()), key=lambda pair: pair[0])
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_sorted(each) for each in value]
    if isinstance(value, BaseModel):
        return type(value).__name__, _sorted(dict(value))
    return value


_SHARED: tuple[tuple[type[Named], str], ...] = (
    (PlansUnits, "one plan"),
    (SharesQueues, "the shares of queues"),
    (ReadsPriority, "one order of priorities"),
)
"""Hooks of plugins that decide for all pods together, and what about."""


def differing(trial: Profile, control: Profile) -> Iterator[tuple[str, str]]:
    """Plugins that must be the same on both sides and are not: name, and what pods of both sides share by it."""
    told: set[str] = set()
    ours, theirs = _shared(trial), _shared(control)
    for name, what in {**theirs, **ours}.items():
        alike = name in ours and name in theirs and _args(trial, name) == _args(control, name)
        if not alike and name not in told:
            told.add(name)
            yield name, what


def _shared(profile: Profile) -> dict[str, str]:
    """The names of such plugins, and what is shared by them."""
    plugins = Instances(profile)
    found = {factory.name: "one queue" for factory in profile.at(Point.QUEUE_SORT)}
    for hook, what in _SHARED:
        found |= {plugin.name: what for plugin in plugins.having(hook)}
    return found


def _args(profile: Profile, name: str) -> object:
    return next((factory.args for factory in profile.plugins if factory.name == name), None)
