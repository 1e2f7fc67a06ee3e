"""The pending pods of a live cluster, as far as the API server can tell; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from moorage.adapters import clock
from moorage.adapters.kube.resources import EVENTS
from moorage.app.look import Look, look
from moorage.core.events import ObjectSeen, PodSeen
from moorage.core.gangs import GROUP_KINDS, terms_of
from moorage.core.membership import GangKey
from moorage.core.objects import OWNED_KIND, PodGroup
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.units import Place
from moorage.framework.configuration import Configuration
from moorage.views.waiting import Tried, guess
from moorage.wire.eventviews import EventView, read_events
from moorage.wire.kinds import BY_ID

FAILED = "FailedScheduling"
_PLACES = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE, Place.GATED)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """One pod without a node."""

    namespace: str
    name: str
    scheduler_name: str
    place: Place
    age_s: float
    priority: int
    message: str
    gang: str | None = None
    """`namespace/name` of its gang."""
    gates: tuple[str, ...] = ()
    nominated_node: str | None = None
    attempts: int | None = None
    """As far as events show."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang with pending members."""

    namespace: str
    name: str
    min_available: int | None
    waiting: int
    standing: int


@dataclass(slots=True)
class WaitingList:
    """All pending pods, in the order in which the default queue tries them."""

    server: str
    pods: list[WaitingPod] = field(default_factory=list)
    gangs: list[WaitingGang] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many pods are in which place of the queue."""
        return {place.value: sum(pod.place is place for pod in self.pods) for place in _PLACES}


def list_waiting(kubeconfig: str | None, namespace: str | None = None) -> WaitingList:
    """Read the cluster; only pods of the namespace are listed if one is given. LookError if pods cannot be listed."""

    async def see(found: Look) -> WaitingList:
        waiting = WaitingList(found.server, warnings=found.warnings)
        events = await found.gang_events()
        pods = [event.pod for event in events if isinstance(event, PodSeen)]
        objects = (event.value for event in events if isinstance(event, ObjectSeen))
        groups = [each for each in objects if isinstance(each, PodGroup)]
        fill(waiting, pods, groups, await list_events(found, f"reason={FAILED}"), clock.now_s(), namespace)
        return waiting

    return look(see, kubeconfig, Configuration())


async def list_events(found: Look, selector: str) -> list[EventView]:
    """The events that a selector of fields lets through."""
    return read_events(await found.resource(EVENTS, selector))


def fill(
    found: WaitingList,
    pods: Iterable[Pod],
    groups: Iterable[PodGroup],
    events: Iterable[EventView],
    now_s: float,
    namespace: str | None = None,
) -> None:
    """Find out from what was listed which pods are pending, and in which place of the queue."""
    last: dict[str, EventView] = {}
    for event in events:
        uid = event.regarding.uid if event.regarding is not None else None
        if uid and (uid not in last or event.last_s >= last[uid].last_s):
            last[uid] = event
    pods = [pod for pod in pods if namespace is None or pod.namespace == namespace]
    waiting = [pod for pod in pods if pod.node is None and pod.deleted_s is None and not pod.finished]
    waiting.sort(key=lambda pod: (-pod.template.priority, pod.created_s, pod.key))
    found.pods = [_waiting_pod(pod, last.get(pod.uid), now_s) for pod in waiting]
    found.gangs = _gangs(pods, groups)


def _waiting_pod(pod: Pod, event: EventView | None, now_s: float) -> WaitingPod:
    tried = None if event is None else Tried(event.last_s, event.count, event.note or "")
    place, message = guess(pod, tried, now_s)
    return WaitingPod(
        pod.namespace,
        pod.name,
        pod.template.scheduler_name,
        place,
        max(0.0, now_s - pod.created_s),
        pod.template.priority,
        message,
        None if pod.template.gang is None else pod.template.gang.object_key,
        pod.gates,
        pod.nominated_node,
        None if event is None else event.count,
    )


def _gangs(pods: Iterable[Pod], groups: Iterable[PodGroup]) -> list[WaitingGang]:
    """The gangs of pending pods, with what they need according to the scheduler."""
    state = ClusterState()
    for group in groups:
        kind = next((each for each in GROUP_KINDS if BY_ID[each].group == group.api_group), OWNED_KIND)
        state.put_object(kind, group.key, group)
    members: dict[GangKey, list[Pod]] = {}
    for pod in pods:
        if pod.template.gang is not None and pod.deleted_s is None and not pod.finished:
            members.setdefault(pod.template.gang, []).append(pod)
    found = []
    for gang, each in sorted(members.items()):
        waiting = sum(pod.node is None for pod in each)
        if waiting:
            terms = terms_of(state, gang, each)
            needs = None if terms is None else terms.min_count
            found.append(WaitingGang(gang.namespace, gang.name, needs, waiting, len(each) - waiting))
    return found
