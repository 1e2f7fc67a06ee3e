"""Finds the gangs of pods whose owners are gangs: one rule, for every kind of owner, as a filter of events.

Events of the cluster go in. Those of owners are kept here; pods come out with the gang that follows from their chain of
controllers, each named by uid, and with the groups of these gangs (`OWNED_KIND`) beside them, as if somebody had
written a PodGroup. A pod that names a gang itself, or has no such owner, comes out as it is. Pods below an owner that
may become a gang are followed all the same: a JobSet that is told not to be one may be told otherwise later.

The topmost owner that is a gang counts: a JobSet, not its Jobs. What an owner reference says is believed only where the
object of that kind, name and uid exists, and its selector, if it has one, selects the pod. Pods and owners come by
different watches: a pod that belongs to a kind of gangs by its owner reference or by a label waits for an owner that is
not known yet, but not for long (`patience_s`), as it may never come.

Nothing here grows with history: owners are forgotten with their objects, gangs with their last pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from math import inf
from typing import NamedTuple, TypeAlias

from moorage.core.donejobs import Above, DoneJobs
from moorage.core.events import Event, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.gangowners import GangOwner, GangPart, gang_name, group_of, owner_of
from moorage.core.membership import Declared, GangKey, OwnedMember
from moorage.core.objects import OWNED_KIND, PodGroup, Workload
from moorage.core.pods import FINISHED, Owner, Pod, PodTemplate, with_owned, with_template
from moorage.core.topologyasks import TopologyAsk, numbers_at

POD = "Pod"
PATIENCE_S = 2.0
_LONGEST = 8
"""Owners above a pod; longer chains do not exist."""


class OwnerKind(NamedTuple):
    """A kind that may be above pods."""

    id: str
    """As in `wire.kinds`."""
    waits: bool = False
    """Whether a pod below one that is not known yet waits for it."""
    asks: bool = True
    """Whether a controller of Kubernetes' own may ask to be a gang."""


OwnerKinds: TypeAlias = Mapping[tuple[str, str], OwnerKind]
"""By API group and kind."""


class _Gang:
    """A gang of an owner that has pods."""

    __slots__ = ("done", "group", "key", "member", "members", "open", "owner", "part", "templates", "told", "topology")

    def __init__(self, key: GangKey, owner: GangOwner, part: GangPart, topology: TopologyAsk | None) -> None:
        self.key, self.owner, self.part, self.topology = key, owner, part, topology
        self.members: dict[str, None] = {}
        self.member = OwnedMember(key)
        """As the latest pod that is not like another was."""
        self.templates: dict[PodTemplate, PodTemplate] = {}
        """Template as decoded -> with the gang."""
        self.group: PodGroup | None = None
        """As it was last told."""
        self.done = 0
        """How many of its pods did not come back then."""
        self.told: tuple[object, ...] = ()
        """What that followed from."""
        self.open = True
        """Whether pods may join it by what is known of their controller: it is followed, and so is its owner."""


class _Followed:
    """A pod below an owner that matters."""

    __slots__ = ("controller", "gang", "made", "missing", "pod", "revision")

    def __init__(self, pod: Pod, controller: str, gang: _Gang | None, made: PodTemplate, revision: int) -> None:
        self.pod = pod
        """As it came."""
        self.controller = controller
        """Uid of its controller."""
        self.gang = gang
        self.made = made
        """Its template with the gang."""
        self.missing = ""
        """Uid of the owner at which its chain breaks off."""
        self.revision = revision
        """Up to which revision of the owners its gang is known to be right; -1 if it has to be looked at again."""


class _Known(NamedTuple):
    """What the pods of a controller have in common that has one gang for all of them."""

    revision: int
    """Of the owners."""
    owner: Owner
    """As the pods name it."""
    value: GangOwner | Workload
    gang: _Gang

    def holds(self, template: PodTemplate, owner: Owner) -> bool:
        """Whether it is true of a pod with this template, whose controller has the same uid."""
        value, ours = self.value, self.owner
        if owner.name != ours.name or owner.kind != ours.kind or owner.api_version != ours.api_version:
            return False
        selector = value.selector
        return value.namespace == template.namespace and (selector is None or selector.matches(template.labels))


class _Chain(NamedTuple):
    """What there is above a pod."""

    source: GangOwner | None
    topology: TopologyAsk | None
    missing: Owner | None
    """The owner at which it breaks off."""
    waits: bool
    """Whether that one is worth waiting for."""


_NOTHING_ABOVE = _Chain(None, None, None, waits=False)
_NO_GANG_ABOVE = _Chain(None, None, None, waits=False)
"""Owners that make no gang, one of which may come to."""


class OwnerChains:
    """One filter for the events of one cluster."""

    def __init__(self, kinds: OwnerKinds, marks: frozenset[str] = frozenset(), patience_s: float = PATIENCE_S) -> None:
        """`marks` are labels that only pods of kinds worth waiting for have."""
        self._patience_s = patience_s
        self._follow_kinds(kinds, marks)
        self._owners: dict[str, GangOwner | Workload] = {}
        """By uid."""
        self._uids: dict[tuple[str, str], str] = {}
        """Kind and key -> uid."""
        self._pods: dict[str, _Followed] = {}
        self._missed: dict[str, dict[str, None]] = {}
        """Uid of an owner that is not known -> pods below it."""
        self._below: dict[str, dict[str, None]] = {}
        """Uid of a controller -> the pods and owners that name it."""
        self._gangs: dict[GangKey, _Gang] = {}
        self._gangs_of: dict[str, dict[GangKey, None]] = {}
        """Uid of an owner -> its gangs."""
        self._done = DoneJobs()
        self._deadlines: dict[str, float] = {}
        """Pods that wait for an owner -> until when; the first one ends first."""
        self._known: dict[str, _Known] = {}
        """By uid of the controller; most pods are found here."""
        self._revision = 0
        """Counts changes of owners after which pods below them may be in other gangs."""
        self.awaited: set[str] = set()
        """Kinds that a pod has begun to wait for; readers empty it."""

    def _follow_kinds(self, kinds: OwnerKinds, marks: frozenset[str]) -> None:
        self._kinds, self._marks = kinds, marks
        self._ids = {kind.id for kind in kinds.values()}
        self._asking = {kind.id for kind in kinds.values() if kind.asks}
        self._named = {kind.id: name for name, kind in kinds.items()}
        """Kind -> its API group and kind, as owner references name it."""

    def __len__(self) -> int:
        """How many pods are followed."""
        return len(self._pods)

    @property
    def next_s(self) -> float | None:
        """When `settle` has something to do."""
        return next(iter(self._deadlines.values()), None)

    def reconfigured(self, kinds: OwnerKinds, marks: frozenset[str]) -> list[Event]:
        """Other kinds count from now on; owners of kinds that no longer do are forgotten, and their gangs with them."""
        self._follow_kinds(kinds, marks)
        self._revision += 1
        for place, uid in list(self._uids.items()):
            if place[0] not in self._ids:
                del self._uids[place]
                self._unlink_owner(uid)
                self._done.drop(uid)
        self._known.clear()
        return [each for followed in list(self._pods.values()) for each in self._again(followed, sure=True)]

    def filter(self, events: Iterable[Event]) -> list[Event]:
        """The events of one moment: what is not known then does not exist."""
        found: list[Event] = []
        places: dict[str, int] = {}
        followed = [each for event in events for each in self.follow(event, 0.0)]
        for each in (*followed, *self.settle(inf)):
            place = places.setdefault(each.pod.uid, len(found)) if isinstance(each, PodSeen) else len(found)
            if place < len(found):
                found[place] = each  # it was told before its owner was known
            else:
                found.append(each)
        return found

    def follow(self, event: Event, now: float) -> Iterable[Event]:
        """What becomes of an event."""
        if isinstance(event, PodSeen):
            return self._pod_seen(event, now)
        if isinstance(event, PodGone):
            return self._pod_gone(event)
        if isinstance(event, ObjectSeen) and event.kind in self._ids:
            return self._owner_seen(event)
        if isinstance(event, ObjectGone) and event.kind in self._ids:
            return self._owner_gone(event)
        return (event,)

    def settle(self, now: float) -> list[Event]:
        """Pods whose owner did not come in time go without it."""
        due = [uid for uid, _ in takewhile(lambda each: each[1] <= now, self._deadlines.items())]
        events: list[Event] = []
        for uid in due:
            del self._deadlines[uid]
            events += self._again(self._pods[uid])
        return events

    # --- owners ---

    def _owner_seen(self, event: ObjectSeen) -> Iterator[Event]:
        value = event.value
        told = isinstance(value, Workload)
        if told:
            yield event
            value = (owner_of(value) if event.kind in self._asking else None) or value
        uid, place = value.uid, (event.kind, event.key)
        before = self._owners.get(uid)
        if self._uids.get(place, uid) != uid:
            yield from self._forget_owner(place)
        self._owners[uid], self._uids[place] = value, uid
        _move(self._below, uid, _controller(before), _controller(value))
        if told and event.kind == "Job":
            yield from self._tell_done(self._done.note(event.value))
        if before is None:
            for pod in list(self._missed.pop(uid, ())):
                yield from self._again(self._pods[pod])
        elif before != value:
            yield from self._changed(uid, before, value)

    def _changed(self, uid: str, before: GangOwner | Workload, after: GangOwner | Workload) -> Iterator[Event]:
        decides = _decides(before) != _decides(after)
        self._revision += decides
        if isinstance(before, GangOwner) and isinstance(after, GangOwner) and _divides(before) == _divides(after):
            for gang in [self._gangs[key] for key in self._gangs_of.get(uid, ())]:
                part = gang.part._replace(least=after.later.get(gang.part.name, after.least))
                if gang.topology == gang.owner.topology:
                    gang.topology = after.topology
                gang.owner, gang.part = after, part
                yield from self._tell(gang)
        elif decides:
            for pod in self._pods_below(uid):
                yield from self._again(self._pods[pod], sure=True)

    def _pods_below(self, uid: str) -> list[str]:
        """The pods below an owner, at any distance; whatever references say, each one once."""
        seen = dict.fromkeys((uid,))
        at = [uid]
        while at:
            found = [each for each in self._below.get(at.pop(), ()) if each not in seen]
            seen.update(dict.fromkeys(found))
            at += found
        return [each for each in seen if each in self._pods]

    def _owner_gone(self, event: ObjectGone) -> Iterator[Event]:
        if (event.kind, event.key) in self._uids:
            yield from self._forget_owner((event.kind, event.key))
        if event.kind in _PLAIN:
            yield event

    def _forget_owner(self, place: tuple[str, str]) -> Iterator[Event]:
        """Its gangs stay until their pods are gone, which are deleted after it."""
        uid = self._uids.pop(place)
        self._unlink_owner(uid)
        yield from self._tell_done(self._done.drop(uid))

    def _unlink_owner(self, uid: str) -> None:
        _move(self._below, uid, _controller(self._owners.pop(uid)), "")
        self._known.pop(uid, None)
        for key in self._gangs_of.get(uid, ()):
            self._gangs[key].open = False

    def _tell_done(self, changed: Iterable[Above]) -> Iterator[Event]:
        """Pods of Jobs below these owners that do not come back are more or fewer; gangs cannot wait for them."""
        for above in changed:
            owner = self._owners.get(above.uid)
            if owner is not None and (owner.namespace, owner.name) != (above.namespace, above.name):
                continue
            for key in self._gangs_of.get(above.uid, ()):
                gang = self._gangs[key]
                if self._done_pods(gang) != gang.done:
                    yield from self._tell(gang)

    # --- pods ---

    def _pod_seen(self, event: PodSeen, now: float) -> Iterable[Event]:
        pod = event.pod
        template = pod.template
        owner = template.owner
        followed = self._pods.get(pod.uid)
        if followed is None:
            if owner is None or template.gang is not None:
                return (event,)
            known = self._known.get(owner.uid)
            if known is not None and self._may_join(known, pod, owner):
                gang = known.gang
                made = self._template(gang, template)
                self._follow_pod(_Followed(pod, owner.uid, gang, made, known.revision))
                gang.members[pod.uid] = None
                return (PodSeen(with_template(pod, made)),)
            chain = self._chain(template)
            if chain is _NOTHING_ABOVE:
                return (event,)
            followed = self._follow_pod(_Followed(pod, owner.uid, None, template, -1))
            if chain.waits and chain.missing is not None:
                self._deadlines[pod.uid] = now + self._patience_s
                kind = self._kind(chain.missing)
                self.awaited.update(() if kind is None else (kind.id,))
            if pod.uid in self._missed:
                return self._with_those_below(followed, chain)
        else:
            same = followed.pod.template is template and followed.gang is not None
            followed.pod = pod
            if same and followed.revision == self._revision and pod.phase not in FINISHED:
                return (PodSeen(with_template(pod, followed.made)),)
            self._move_pod(followed, "" if owner is None else owner.uid)
            chain = self._chain(template) if template.gang is None else _NOTHING_ABOVE
        return self._resolved(followed, chain)

    def _may_join(self, known: _Known, pod: Pod, owner: Owner) -> bool:
        """Whether a new pod can be added to the gang of its controller's others, with nothing else to be done."""
        if known.revision != self._revision or not known.gang.open:
            return False
        return pod.uid not in self._missed and pod.phase not in FINISHED and known.holds(pod.template, owner)

    def _follow_pod(self, followed: _Followed) -> _Followed:
        uid = followed.pod.uid
        self._pods[uid] = followed
        below = self._below.get(followed.controller)
        if below is None:
            below = self._below[followed.controller] = {}
        below[uid] = None
        return followed

    def _move_pod(self, followed: _Followed, controller: str) -> None:
        """A pod may be orphaned, or adopted; one without a controller stands under no uid."""
        if controller != followed.controller:
            self._below.setdefault(controller, {})[followed.pod.uid] = None
            _move(self._below, followed.pod.uid, followed.controller, "")
            followed.controller = controller

    def _remember(self, owner: Owner | None, chain: _Chain, gang: _Gang) -> None:
        """Remember what a pod's controller means, if it means the same for all of its pods."""
        source = chain.source
        value = None if owner is None else self._owners.get(owner.uid)
        if owner is None or value is None or source is None or not source.is_one_gang:
            return
        gang.open = True
        self._known[owner.uid] = _Known(self._revision, owner, value, gang)

    def _with_those_below(self, followed: _Followed, chain: _Chain) -> list[Event]:
        """A pod that others named as their owner before it was known."""
        events = self._resolved(followed, chain)
        for pod in list(self._missed.pop(followed.pod.uid)):
            events += self._again(self._pods[pod])
        return events

    def _again(self, followed: _Followed, *, sure: bool = False) -> list[Event]:
        """A pod as it is now, as the chain above it is now. `sure`: what is missing is not merely on its way."""
        template = followed.pod.template
        chain = self._chain(template) if template.gang is None else _NOTHING_ABOVE
        if sure and chain.missing is not None:
            chain = chain._replace(missing=None)
        return self._resolved(followed, chain)

    def _resolved(self, followed: _Followed, chain: _Chain) -> list[Event]:
        pod = followed.pod
        waits = chain.waits and pod.uid in self._deadlines
        known = followed.gang is not None and followed.gang.part.least > 0
        if chain.missing is not None and known and not waits:
            gang: _Gang | None = followed.gang  # an owner that is gone, and the pod will be, too
        else:
            gang = self._gang(chain, pod.template, waits)
        events: list[Event] = []
        if gang is not followed.gang:
            events += self._leave(followed)
            followed.gang = gang
            if gang is not None:
                gang.members[pod.uid] = None
        if not waits:
            self._deadlines.pop(pod.uid, None)
        self._note(followed, chain)
        followed.revision = self._revision if chain.missing is None else -1
        if gang is not None:
            if chain.missing is None:
                self._remember(pod.template.owner, chain, gang)
            events += self._tell(gang)
            followed.made = self._template(gang, pod.template)
            pod = with_template(pod, followed.made)
        events.append(PodSeen(pod))
        if pod.phase in FINISHED:
            events += self._drop(pod.uid)
        return events

    def _pod_gone(self, event: PodGone) -> Iterable[Event]:
        if event.uid not in self._pods:
            return (event,)
        return (event, *self._drop(event.uid))

    def _drop(self, uid: str) -> Iterable[Event]:
        followed = self._pods.pop(uid)
        below = self._below[followed.controller]
        del below[uid]
        if not below:
            del self._below[followed.controller]
        if self._deadlines:
            self._deadlines.pop(uid, None)
        if followed.missing:
            self._note(followed, _NOTHING_ABOVE)
        return self._leave(followed)

    def _note(self, followed: _Followed, chain: _Chain) -> None:
        """Note at which owner the chain of a pod breaks off."""
        missing = "" if chain.missing is None else chain.missing.uid
        _move(self._missed, followed.pod.uid, followed.missing, missing)
        followed.missing = missing

    # --- gangs ---

    def _chain(self, template: PodTemplate) -> _Chain:
        """The owners above a pod."""
        at = template.owner
        source: GangOwner | None = None
        topology: TopologyAsk | None = None
        none = _NOTHING_ABOVE
        for _ in range(_LONGEST):
            kind = None if at is None else self._kind(at)
            if at is None or kind is None:
                break
            value = self._above(at)
            if value is None:
                waits = kind.waits or not self._marks.isdisjoint(template.labels)
                matters = waits or source is not None or kind.id != POD
                return _Chain(source, topology, at, waits) if matters else _NOTHING_ABOVE
            if value.kind != kind.id or value.name != at.name or value.namespace != template.namespace:
                break
            if at is template.owner and value.selector is not None and not value.selector.matches(template.labels):
                break
            if isinstance(value, GangOwner):
                none = _NO_GANG_ABOVE
                topology = topology or value.topology
                if value.least:
                    source, topology = value, value.topology or topology
            at = value.owner
        return none if source is None else _Chain(source, topology, None, waits=False)

    def _kind(self, owner: Owner) -> OwnerKind | None:
        return self._kinds.get((owner.api_version.rpartition("/")[0], owner.kind))

    def _above(self, owner: Owner) -> GangOwner | Workload | None:
        """The object that an owner reference names; a pod stands for itself with its owner."""
        if owner.kind != POD:
            return self._owners.get(owner.uid)
        followed = self._pods.get(owner.uid)
        if followed is None:
            return None
        pod = followed.pod
        return Workload(POD, pod.namespace, pod.name, pod.uid, owner=pod.template.owner)

    def _gang(self, chain: _Chain, template: PodTemplate, waits: bool) -> _Gang | None:
        """The gang that a pod is in, which may be made for it."""
        source, missing = chain.source, chain.missing
        if waits and missing is not None:
            kind = self._kind(missing)
            id_ = missing.kind if kind is None else kind.id
            source = GangOwner(id_, template.namespace, missing.name, missing.uid)
            part: GangPart | None = GangPart("", 0)
        else:
            part = None if source is None else source.part_of(template.labels)
        if source is None or part is None:
            return None
        key = GangKey(template.namespace, gang_name(source, part), Declared.OWNER)
        gang = self._gangs.get(key)
        if gang is None or (gang.owner.uid != source.uid and part.least):
            members = {} if gang is None else gang.members
            if gang is not None:
                self._unlink(gang)
                gang.open = False
            gang = self._gangs[key] = _Gang(key, source, part, chain.topology)
            gang.members = members
            for uid in members:
                self._pods[uid].gang = gang
        elif part.least and gang.owner is not source and gang.owner != source:
            gang.owner, gang.part, gang.topology = source, part, chain.topology
            gang.templates.clear()  # roles and ranks may be read from other labels
        self._gangs_of.setdefault(gang.owner.uid, {})[key] = None
        return gang

    def _tell(self, gang: _Gang) -> Iterable[Event]:
        """The group of a gang, if it is not known as it is now; one whose owner is not known has none."""
        if not gang.part.least:
            return ()
        owner, part, done = gang.owner, gang.part, self._done_pods(gang)
        gang.done, said = done, (owner, part, done, gang.topology)
        if said == gang.told:
            return ()
        gang.told = said
        group = group_of(owner, part, done, gang.topology)
        if group == gang.group:
            return ()
        gang.group = group
        return (ObjectSeen(OWNED_KIND, group.key, group),)

    def _done_pods(self, gang: _Gang) -> int:
        """How many pods of a gang do not come back; more than it must place make no difference."""
        owner, part = gang.owner, gang.part
        named = self._named.get(owner.kind)
        below = 0 if named is None else self._done.of(owner, named, part)
        return min(owner.done + below, part.least)

    def _template(self, gang: _Gang, template: PodTemplate) -> PodTemplate:
        found = gang.templates.get(template)
        if found is None:
            owner = gang.owner
            role = template.labels.get(owner.role_label, "") if owner.role_label else ""
            rank = None
            if owner.rank_labels:
                rank = numbers_at(owner.rank_labels, template.labels, template.annotations)
            if len(gang.templates) > 2 * len(gang.members):
                gang.templates.clear()
            owned = gang.member
            if owned.role != role or owned.rank != rank:
                owned = gang.member = OwnedMember(gang.key, role, rank)
            found = gang.templates[template] = with_owned(template, owned, gang.key)
        return found

    def _leave(self, followed: _Followed) -> Iterable[Event]:
        gang, followed.gang = followed.gang, None
        if gang is None:
            return ()
        gang.members.pop(followed.pod.uid, None)
        if gang.members or self._gangs.get(gang.key) is not gang:
            return ()
        gang.open = False
        del self._gangs[gang.key]
        self._unlink(gang)
        return () if gang.group is None else (ObjectGone(OWNED_KIND, gang.group.key),)

    def _unlink(self, gang: _Gang) -> None:
        of = self._gangs_of.get(gang.owner.uid)
        if of is not None:
            of.pop(gang.key, None)
            if not of:
                del self._gangs_of[gang.owner.uid]


_PLAIN = frozenset({"Job", "StatefulSet", "ReplicaSet", "Deployment", "ReplicationController"})
"""Kinds that others read, too."""


def _decides(owner: GangOwner | Workload) -> tuple[object, ...]:
    """What decides in which gang the pods below an owner are, and what they ask of the levels there."""
    return (*_divides(owner), owner.topology) if isinstance(owner, GangOwner) else (owner.owner, owner.selector)


def _divides(owner: GangOwner) -> tuple[object, ...]:
    """What decides in which gang the pods below an owner are."""
    return owner.owner, owner.selector, owner.divides


def _controller(owner: GangOwner | Workload | None) -> str:
    """Uid of what is above an owner; empty if nothing is."""
    return "" if owner is None or owner.owner is None else owner.owner.uid


def _move(index: dict[str, dict[str, None]], uid: str, before: str, after: str) -> None:
    """A pod or an owner stands under another uid; empty is none."""
    if before == after:
        return
    if before:
        at = index.get(before)
        if at is not None and uid in at:
            del at[uid]
            if not at:
                del index[before]
    if after:
        index.setdefault(after, {})[uid] = None
