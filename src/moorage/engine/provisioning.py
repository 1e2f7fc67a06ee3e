"""Gangs that wait for nodes, and what Cluster Autoscaler is told about them: one ProvisioningRequest each.

A request is written once a gang has not fit for a while, and deleted when it has started or is gone. No leader has to
remember anything for the next one: the name of a request follows from the gang, so a new leader finds what is there
and deletes what nobody waits for. Requests are bounded in number, in the cluster and in each namespace; gangs beyond
that are asked for when others have started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from moorage.core.commands import CapacitySet, PodRef, ReleaseCapacity, RequestCapacity
from moorage.core.events import CapacityDone
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import lasting
from moorage.core.membership import GangKey
from moorage.core.objects import object_key
from moorage.core.pods import Pod
from moorage.core.provisioning import (
    PROVISIONING_REQUEST,
    CapacityAsk,
    ProvisioningRequest,
    ask_for,
    consumed,
    request_name,
)
from moorage.core.state import NOWHERE
from moorage.engine.context import EngineContext
from moorage.engine.deadlines import Deadlines
from moorage.engine.evictor import ref_of
from moorage.engine.turn import Turn
from moorage.engine.units import Unit
from moorage.framework.contract import GangPatience

MOST_REQUESTS, MOST_IN_NAMESPACE = 100, 20
"""How many requests there may be at a time. Cluster Autoscaler takes them one by one, some every minute."""
_LINGERS_S = 5.0
"""How long the request of a gang stays that is being bound, or has lost a member: the bind may fail, the member may be
replaced."""
_SETTLES_S = 1.0
"""How long after a request was seen it is compared with its gang, as the members may be shown later than it is."""
_REST_S = 60.0
"""How long after a request that was written, failed or expired the next one of the same gang may follow."""
_LOOK_AGAIN_S = 600.0
"""How long after the server was found not to have such objects it is asked again."""

NeedsOf = Callable[[GangKey, Collection[Pod]], GangNeeds | None]


class Provisioning:
    """Which gangs have asked for nodes, and which are about to."""

    def __init__(self, context: EngineContext, needs: NeedsOf) -> None:
        self._context = context
        self._state = context.state
        self._needs = needs
        self._due: Deadlines[GangKey] = Deadlines()
        """Gangs to look at, and when."""
        self._misfits: dict[GangKey, None] = {}
        """Gangs that wait for nodes, as far as this process has tried them."""
        self._asked: dict[GangKey, None] = {}
        """Gangs with a command that is not answered yet."""
        self._concerned: dict[GangKey, None] = {}
        """Gangs with requests that something has happened to since the last review."""
        self._rests: dict[GangKey, float] = {}
        """Until when a gang gets no other request."""
        self._unserved_until_s = 0.0

    # --- what happens to gangs ---

    def misfit(self, gang: Unit, patience: GangPatience, now: float) -> None:
        """An attempt has shown that the gang does not fit on the nodes that are there."""
        if not patience.provisioning_class:
            return
        key = gang.key
        self._misfits[key] = None
        if key not in self._asked and now >= self._unserved_until_s:
            self._due.setdefault(key, max(gang.first_s + patience.provision_after_seconds, self._rests.get(key, now)))

    def concern(self, key: GangKey) -> None:
        """Something happened to a gang: look whether those that wait still need what was asked for."""
        if not self._state.objects.get(PROVISIONING_REQUEST):
            return
        if self._request_of(key) is not None and self._context.queue.gang(key) is not None:
            self._concerned[key] = None

    def left(self, key: GangKey, now: float) -> None:
        """Members of the gang have got nodes, or are gone: it may need its request no longer."""
        if key in self._misfits or self._request_of(key) is not None:
            self._misfits.pop(key, None)
            self._due.set(key, now + _LINGERS_S)

    def changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None, now: float) -> None:
        """A request was written, changed or deleted, by whomever."""
        self._are_served(now)
        request = after or before
        if request is not None and request.gang is not None:
            self._due.set(request.gang, now + (_SETTLES_S if after is not None else 0.0))

    def _are_served(self, now: float) -> None:
        """The server has such objects: gangs that could not ask may do so."""
        if self._unserved_until_s:
            self._unserved_until_s = 0.0
            for key in self._misfits:
                self._due.set(key, now)

    def done(self, event: CapacityDone, turn: Turn) -> None:
        """A command was carried out, or not; the watch shows what is there now."""
        self._asked.pop(event.gang, None)
        if not event.served:
            self._unserved_until_s = turn.now + _LOOK_AGAIN_S
            self._due.set(event.gang, self._unserved_until_s)
            return
        self._are_served(turn.now)
        self._rests[event.gang] = turn.now + _REST_S
        self._due.set(event.gang, turn.now + _REST_S)

    def request_of(self, pod: Pod) -> ProvisioningRequest | None:
        """The request of a pod's gang, if there is one."""
        return None if pod.template.gang is None else self._request_of(pod.template.gang)

    # --- review ---

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return bool(self._due or self._concerned)

    def next_s(self) -> float | None:
        """When it has."""
        return self._due.first_s()

    def review(self, turn: Turn) -> None:
        """Look at the gangs whose time has come."""
        concerned, self._concerned = self._concerned, {}
        for key in concerned:
            self._due.setdefault(key, turn.now + _LINGERS_S)
        for key in self._due.take_due(turn.now):
            if key not in self._asked:
                self._look(key, turn)

    def _look(self, key: GangKey, turn: Turn) -> None:
        request, wanted = self._request_of(key), self._wanted(key)
        if request is not None and (wanted is None or not wanted.is_met_by(request)):
            self._release(key, request, turn)
        elif wanted is None or (request is None and key not in self._misfits):
            self._forget(key, turn)
        elif request is not None:
            if self._silent(key, wanted):
                self._ask(key, wanted, turn)
        elif turn.now < self._rests.get(key, 0.0):
            self._due.set(key, self._rests[key])
        elif self._is_full(key):
            self._due.set(key, turn.now + _REST_S)
        else:
            self._ask(key, wanted, turn)

    def _forget(self, key: GangKey, turn: Turn) -> None:
        """The gang has no request and needs none; members that say otherwise would get no nodes from anybody."""
        self._misfits.pop(key, None)
        self._rests.pop(key, None)
        if self._saying(key):
            self._release(key, ProvisioningRequest(key.namespace, request_name(key)), turn)

    def _wanted(self, key: GangKey) -> CapacityAsk | None:
        """What the gang needs room for; None if it needs none as a whole, or has asked somebody else."""
        gang = self._context.queue.gang(key)
        runner = None if gang is None else self._context.runner_of(gang.pod)
        if gang is None or runner is None or runner.gangs is None:
            return None
        class_name = runner.gangs.gang_patience.provisioning_class
        waiting = [entry.pod for entry in gang.members.values() if not entry.pod.gates]
        needs = self._needs(key, waiting)
        if not class_name or needs is None or not 1 < needs.members <= len(waiting):
            return None
        name = request_name(key)
        if any(consumed(pod.template.annotations) not in ("", name) for pod in waiting):
            return None
        waiting.sort(key=lambda pod: (-pod.template.priority, pod.created_s, pod.name))
        return ask_for(class_name, waiting[: needs.members])

    def _request_of(self, key: GangKey) -> ProvisioningRequest | None:
        requests = self._state.objects.get(PROVISIONING_REQUEST)
        if not requests:
            return None
        found = requests.get(object_key(key.namespace, request_name(key)))
        return found if found is not None and found.gang == key else None

    def _is_full(self, key: GangKey) -> bool:
        there = {each.gang for each in self._state.objects.get(PROVISIONING_REQUEST, {}).values()} | self._asked.keys()
        ours = [each for each in there if each is not None]
        here = sum(1 for each in ours if each.namespace == key.namespace)
        return len(ours) >= MOST_REQUESTS or here >= MOST_IN_NAMESPACE

    # --- commands ---

    def _ask(self, key: GangKey, wanted: CapacityAsk, turn: Turn) -> None:
        pods = wanted.pods
        labels = self._domain(key)
        sets = tuple(CapacitySet(ref_of(each[0]), len(each), labels) for each in wanted.sets)
        silent = tuple(ref_of(pod) for pod in self._silent(key, wanted))
        self._asked[key] = None
        turn.commands.append(RequestCapacity(ref_of(pods[0]), key, request_name(key), wanted.class_name, sets, silent))

    def _silent(self, key: GangKey, wanted: CapacityAsk) -> list[Pod]:
        """Members that do not say that they consume the request."""
        name = request_name(key)
        return [pod for pod in wanted.pods if consumed(pod.template.annotations) != name]

    def _domain(self, key: GangKey) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Where members stand that the others must be with. Where a gang may still choose, this cannot be said."""
        gang = self._context.queue.gang(key)
        needs = None if gang is None else self._needs(key, [entry.pod for entry in gang.members.values()])
        label = None if needs is None else needs.terms.topology_key
        if label is None:
            return ()
        nodes = [self._state.node(record.row) for record in lasting(self._state, key) if record.row != NOWHERE]
        values = sorted({value for node in nodes if (value := node.labels.get(label)) is not None})
        return ((label, tuple(values)),) if values else ()

    def _release(self, key: GangKey, request: ProvisioningRequest, turn: Turn) -> None:
        owner = PodRef(key.namespace, "", request.owner)
        members = tuple(ref_of(pod) for pod in self._saying(key))
        self._asked[key] = None
        turn.commands.append(ReleaseCapacity(owner, key, request.name, request.uid, request.sets, members))

    def _saying(self, key: GangKey) -> list[Pod]:
        """Members that wait and say that they consume the gang's request."""
        gang, name = self._context.queue.gang(key), request_name(key)
        waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
        return [pod for pod in waiting if consumed(pod.template.annotations) == name]
