"""The world of a process that only shows a cluster: it gets all events and never decides.

What-ifs run on its engine in statements, so that pages show what the scheduler's own plugins say. Everything here
belongs to one thread. `now` is an argument; nothing reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from moorage.core.capacity import CapacityTypes
from moorage.core.deviceindex import DEVICE_KINDS
from moorage.core.events import (
    Event,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    TrialRecalled,
    TrialRefused,
)
from moorage.core.follow import SEEN
from moorage.core.membership import GangKey
from moorage.core.nodes import Node
from moorage.core.objects import NAMESPACE
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE_KINDS
from moorage.core.strategies import STRATEGY_KINDS
from moorage.core.trials import TrialRecord
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.keeping import marks
from moorage.engine.keeping.members import Members
from moorage.engine.keeping.signals import NodeNotice, Signals
from moorage.engine.keeping.splits import Splits
from moorage.engine.lifecycle import Step
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.keeping import KeeperConfiguration
from moorage.framework.profiles import Profile
from moorage.framework.trying import TrialConfiguration
from moorage.views.costs import CostMeter
from moorage.views.nodemap import NodeMap
from moorage.views.pending import reason_of
from moorage.views.rings import Rings
from moorage.views.series import Series
from moorage.views.shadowview import WorldShadow
from moorage.views.story import Sightings
from moorage.views.timeline import Timeline
from moorage.views.waiting import guess
from moorage.views.words import Happening


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pending pod as the scheduler itself knows it."""

    uid: str
    place: Place
    attempts: int
    since_s: float
    message: str
    story: tuple[Step, ...] = ()
    """Its latest steps, oldest first."""


@dataclass(frozen=True, slots=True)
class QueueTold:
    """The scheduler's whole queue; from the first one on, it counts instead of what pods show."""

    entries: tuple[QueueEntry, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The initial state is complete; everything from now on is news."""


_SHOWN_WITH_PODS = frozenset({*DEVICE_KINDS, *QUEUE_KINDS, NAMESPACE})
"""Kinds of objects that say what pods get."""

Told: TypeAlias = Event | QueueTold | Happening | Settled


@dataclass(slots=True)
class Versions:
    """Numbers that rise whenever a page has something new to show."""

    queue: int = 0
    strategies: int = 0
    spot: int = 0
    pods: int = 0
    trial: int = 0


class World:
    """One cluster as an observer sees it."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        answers_to_all: bool = False,
        keeper: KeeperConfiguration | None = None,
        seed: int = 0,
        derives: bool = True,
        rings: Rings | None = None,
        trial: TrialConfiguration | None = None,
        shadow: WorldShadow | None = None,
    ) -> None:
        """With `derives`, happenings are derived from events; otherwise they come in through `tell`.

        `rings` are where the series of the charts are kept. Of the `trial` of the configuration, the profiles are used
        while the scheduler says that it is in force (`TrialRecalled`). `shadow` compares decisions, and gets all
        events, too.
        """
        settings = keeper or KeeperConfiguration()
        self.shadow = shadow
        self.engine = Engine(profiles, EngineSettings(seed=seed, trial=trial), answers_to_all=answers_to_all)
        self.state = self.engine.state
        self.types = CapacityTypes()
        self.pods: dict[str, Pod] = {}
        """Every unfinished pod, by uid."""
        self.by_key: dict[str, str] = {}
        """`namespace/name` -> uid."""
        self.waiting: dict[str, Pod] = {}
        """Pods without a node that are not being deleted, in order of arrival."""
        self.gangs: dict[GangKey, dict[str, None]] = {}
        """Uids of the members of every gang."""
        self.fallen: dict[str, None] = {}
        """Uids of pods that fell back from spot capacity."""
        self.notices: dict[str, list[NodeNotice]] = {}
        """The notices of nodes that are about to go away."""
        self.queue: dict[str, QueueEntry] | None = None
        """What the scheduler says about pending pods; None if only the pods themselves are known."""
        self.trial: TrialRecord | None = None
        """What the scheduler keeps of the latest trial."""
        self.members = Members()
        self.splits = Splits(self.state)
        self.timeline = Timeline()
        self.versions = Versions()
        self.nodes = NodeMap(self.state, self.types, self.notices.__contains__)
        self.costs = CostMeter(self.state, self.types)
        self.series = Series(self.state, self.types, self.costs, Rings() if rings is None else rings)
        self._known: dict[str, Node] = {}
        self._signals = Signals(settings.signals, settings.notice_s)
        self._sightings = Sightings()
        self._derives = derives
        self._hearers: dict[type, Callable[[Any, float], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            ObjectSeen: self._object_changed,
            ObjectGone: self._object_changed,
            QueueTold: self._queue_told,
            Happening: lambda happening, _: self._happened(happening),
            Settled: self._settled,
            TrialRecalled: self._trial_recalled,
        }

    def tell(self, told: Iterable[Told], now: float) -> None:
        """Apply what happened, in order."""
        self.series.tick(now)
        events: list[Event] = []
        for item in told:
            hearer = self._hearers.get(type(item))
            if hearer is not None:
                hearer(item, now)
            if isinstance(item, TrialRecalled):
                events += self._of_trial()
            elif isinstance(item, SEEN):  # answers to commands do not matter here; their effects are seen
                events.append(item)
                if self.shadow is not None:
                    self.shadow.tell(item, now)
        self.engine.handle(events, now, budget=0)
        self._review()

    def pod(self, key: str) -> Pod | None:
        """The pod `namespace/name`."""
        return self.pods.get(self.by_key.get(key, ""))

    def node(self, name: str) -> Node | None:
        """The node of this name."""
        return self._known.get(name)

    def place(self, pod: Pod) -> tuple[Place, str]:
        """Where a pending pod is, and why: as the scheduler says, else as the pod shows."""
        entry = None if self.queue is None else self.queue.get(pod.uid)
        return guess(pod) if entry is None else (entry.place, entry.message)

    def _of_trial(self) -> list[Event]:
        """What the engine is told of the trial: it follows the scheduler, and neither begins nor ends one by itself."""
        sides, record = self.engine.sides, self.trial
        wanted = record is not None and record.in_force and sides.terms is not None
        if not wanted or record is None or sides.terms is None or sides.terms.digest != record.digest:
            return [TrialRefused("the scheduler has ended it")] if sides.on else []
        return [] if sides.on else [TrialRecalled(record)]

    # --- events in ---

    def _trial_recalled(self, event: TrialRecalled, _: float) -> None:
        if event.record != self.trial:
            self.trial = event.record
            self.versions.trial += 1

    def _happened(self, *happenings: Happening) -> None:
        self.timeline.add(*happenings)
        for each in happenings:
            self.series.happened(each)

    def _settled(self, _: Settled, now: float) -> None:
        self._sightings.settled = self._derives
        if self.shadow is not None:
            self.shadow.begin(now)

    def _queue_told(self, told: QueueTold, now: float) -> None:
        self.queue = {entry.uid: entry for entry in told.entries}
        for pod in self.waiting.values():
            self.series.waits(pod, reason_of(*self.place(pod)), now)
        self.versions.queue += 1

    def _pod_seen(self, event: PodSeen, now: float) -> None:
        pod = event.pod
        before = self.pods.get(pod.uid)
        self._happened(*self._sightings.pod(before, pod, now))
        if pod.finished:
            self._forget(pod.uid)
            return
        if before is not None and before.template.gang != pod.template.gang:
            self._part(before)
        self.pods[pod.uid] = pod
        self.by_key[pod.key] = pod.uid
        self.members.see(pod)
        self._file(pod, now)
        if pod.node is not None and (before is None or before.node is None):
            self.series.placed(pod, now, is_new=before is None)
        self.versions.pods += 1

    def _file(self, pod: Pod, now: float) -> None:
        """Put a pod into the lists that it belongs to, and remove it from the others."""
        if pod.node is None and pod.deleted_s is None:
            self.waiting[pod.uid] = pod
            self.series.waits(pod, reason_of(*self.place(pod)), now)
            self.versions.queue += 1
        elif self.waiting.pop(pod.uid, None) is not None:
            self.versions.queue += 1
            if pod.node is None:
                self.series.gone(pod.uid)
        gang = pod.template.gang
        if gang is not None:
            self.gangs.setdefault(gang, {})[pod.uid] = None
            self.versions.queue += 1
        if marks.FALLBACK in pod.template.annotations:
            self.fallen[pod.uid] = None
            self.versions.spot += 1

    def _pod_gone(self, event: PodGone, now: float) -> None:
        before = self.pods.get(event.uid)
        if before is not None:
            self._happened(*self._sightings.pod_gone(before, now))
        self._forget(event.uid)

    def _forget(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self.members.gone(uid)
        self.series.gone(uid)
        if pod is None:
            return
        self.versions.pods += 1
        if self.by_key.get(pod.key) == uid:
            del self.by_key[pod.key]
        if self.waiting.pop(uid, None) is not None:
            self.versions.queue += 1
        if uid in self.fallen:
            del self.fallen[uid]
            self.versions.spot += 1
        self._part(pod)

    def _part(self, pod: Pod) -> None:
        """Remove a pod from its gang."""
        gang = pod.template.gang
        if gang is not None:
            self.gangs.get(gang, {}).pop(pod.uid, None)
            if not self.gangs.get(gang):
                self.gangs.pop(gang, None)

    def _node_seen(self, event: NodeSeen, now: float) -> None:
        node = event.node
        before = self._known.get(node.name)
        self._known[node.name] = node
        self._happened(*self._sightings.node(before, node, now))
        found = self._signals.notices(node)
        if found != self.notices.get(node.name, []):
            self.versions.spot += 1
            if found:
                self.notices[node.name] = found
            else:
                del self.notices[node.name]
        if before is None or before.labels != node.labels:
            self.members.touch_all()
            self.versions.spot += 1

    def _node_gone(self, event: NodeGone, now: float) -> None:
        self._happened(*self._sightings.node_gone(event.name, now))
        self._known.pop(event.name, None)
        self.notices.pop(event.name, None)
        self.members.touch_all()
        self.versions.spot += 1

    def _object_changed(self, event: ObjectSeen | ObjectGone, _: float) -> None:
        if event.kind in STRATEGY_KINDS:
            self.members.touch_namespace(event.key.partition("/")[0])
            self.versions.strategies += 1
        elif event.kind == "PriceList":
            self.versions.spot += 1
        elif event.kind in _SHOWN_WITH_PODS:
            self.versions.pods += 1

    def _review(self) -> None:
        """Review the workloads to which something happened."""
        before = self.splits.version
        for owner in self.members.take_touched():
            self.splits.review(owner, self.members.of(owner))
        self.versions.strategies += self.splits.version - before
