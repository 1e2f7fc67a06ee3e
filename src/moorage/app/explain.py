"""`moorage explain` on a live cluster: lists what the profiles read, judges one pod, and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import msgspec

from moorage.adapters import clock
from moorage.adapters.kube.errors import KubeError, NotFound
from moorage.adapters.kube.intake import KindIntake
from moorage.adapters.kube.leaserecord import parse_lease
from moorage.adapters.kube.resources import LEASES
from moorage.app.look import Look, look
from moorage.app.prices import read_prices
from moorage.app.sources import watched_kinds
from moorage.app.waiting import list_events
from moorage.core.events import Event, PodSeen, TrialRecalled
from moorage.core.objects import NAMESPACE
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.opinion import Opinion, form_opinion
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.wire.eventviews import EventView
from moorage.wire.nesting import decode_whole
from moorage.wire.rewriting import Rewriter
from moorage.wire.trialrecords import TRIAL_ANNOTATION, trial_record
from moorage.wire.workloadkinds import workloads_in


class Announcement(NamedTuple):
    """What an event of Kubernetes says about a pod."""

    last_s: float
    """When it last happened."""
    reason: str
    note: str
    times: int


@dataclass(slots=True)
class ClusterPicture:
    """A cluster at one moment, as events for an engine."""

    server: str
    namespace: str
    """The namespace of the kubeconfig's context."""
    events: list[Event] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    bodies: dict[tuple[str, str, str], tuple[str, msgspec.Raw]] = field(default_factory=dict)
    """(kind, namespace, name) -> the version of the API, and the object as the server returned it. Of kinds with one
    name each is found by its id, too."""
    tried: list[Event] = field(default_factory=list)
    """What the scheduler keeps of a trial of the configuration."""
    announced: list[EventView] = field(default_factory=list)
    """Events about pods of the name that was asked for."""

    def raw(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """An object whole, as plain values; None if there is none."""
        found = self.bodies.get((kind, namespace, name))
        if found is None:
            return None
        body: dict[str, Any] = decode_whole(found[1])
        return {"apiVersion": found[0], "kind": kind.partition(".")[0], **body}

    def story(self, pod: Pod) -> list[Announcement]:
        """What events of Kubernetes say that happened to the pod so far, oldest first."""
        about = [each for each in self.announced if each.regarding is not None and each.regarding.uid == pod.uid]
        about.sort(key=lambda each: each.last_s)
        return [Announcement(each.last_s, each.reason or "", each.note or "", each.count) for each in about]

    @property
    def pods(self) -> list[Pod]:
        """All pods that have not finished."""
        return [event.pod for event in self.events if isinstance(event, PodSeen)]


@dataclass(frozen=True, slots=True)
class Judge:
    """The profiles and settings to judge with."""

    configuration: Configuration
    profiles: Sequence[Profile]
    answers_to_all: bool = False

    def opinion(self, picture: ClusterPicture, pod: Pod, now_s: float | None = None) -> Opinion:
        """What these profiles say about one of the pods."""
        world = [event for event in picture.events if not (isinstance(event, PodSeen) and event.pod is pod)]
        now_s = clock.now_s() if now_s is None else now_s
        return form_opinion(
            self.profiles,
            EngineSettings(trial=self.configuration.trial),
            [*picture.tried, *world],
            pod,
            now_s,
            answers_to_all=self.answers_to_all,
            rewriter=Rewriter(picture.raw),
        )


async def _tried(found: Look, configuration: Configuration) -> tuple[list[Event], list[str]]:
    """What the scheduler's Lease says of the trial, for an engine, and warnings.

    Without a record nothing is known to be tried; if it cannot be read, the trial counts as running.
    """
    where = configuration.leader_election
    try:
        lease = parse_lease(await found.client.get(LEASES, where.resource_name, where.resource_namespace))
    except NotFound:
        return [], ["the scheduler keeps no record of the trial, so it is left out"]
    except KubeError as error:
        return [TrialRecalled()], [f"whether the trial runs cannot be read, it is taken to run: {error}"]
    text = lease.note(TRIAL_ANNOTATION)
    record = None if text is None else trial_record(text)
    if record is None or configuration.trial is None or record.digest != configuration.trial.digest:
        return [], ["the scheduler keeps no record of this trial, so it is left out"]
    return [TrialRecalled(record)], []


def take_picture(judge: Judge, kubeconfig: str | None, pod: str) -> ClusterPicture:
    """List all that the profiles read, and events about pods of a name; LookError if something cannot be listed."""

    async def see(found: Look) -> ClusterPicture:
        picture = ClusterPicture(found.server, found.namespace, warnings=found.warnings)
        trial = judge.configuration.trial
        every = EngineSettings(trial=trial).every(judge.profiles)
        if trial is not None:
            picture.tried, warnings = await _tried(found, judge.configuration)
            picture.warnings += warnings
        for kind in watched_kinds(every, () if trial is None else (NAMESPACE,)):
            api_version, raws = await found.kind(kind)
            intake = KindIntake(kind, picture.events.append)
            for raw in raws:
                value = found.read(kind, raw)
                if value is not None:
                    intake.upserted(value)
                    place = getattr(value, "namespace", ""), value.name
                    picture.bodies.setdefault((kind.name, *place), (api_version, raw))
                    picture.bodies[kind.id, *place] = (api_version, raw)
        picture.events = workloads_in(every).chains().filter(picture.events)
        picture.warnings += await read_prices(every, found.client, picture.events.append)
        if any(each.name == pod for each in picture.pods):
            picture.announced = await list_events(found, f"regarding.kind=Pod,regarding.name={pod}")
        return picture

    return look(see, kubeconfig, judge.configuration)
