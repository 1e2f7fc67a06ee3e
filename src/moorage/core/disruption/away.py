"""Pods that leave in a what-if with everything that goes with them, and come back as what they were.

What goes with a pod: what it takes of its node, the devices included that it shares, what is reserved for it on its
way, and what its claims hold. In truth a claim stays allocated until the API server says otherwise.

Invariants:
- all of this happens inside a statement of the caller, which undoes it;
- a pod that is put back is the very record that left, with the same devices and claims.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum

from moorage.core.claims import Allocation, ResourceClaim
from moorage.core.disruption.claims import come_back, give_up, still_free
from moorage.core.gangs import taken_along
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import importance, staying
from moorage.core.volumeindex import Reservation


class Future(Enum):
    """What becomes of a pod that leaves."""

    GONE = "gone"
    """It is deleted, though another one may be made: what its claims hold is free once nobody else uses them."""
    MOVED = "moved"
    """It goes elsewhere: what was made for it is chosen anew there. A claim apart from it keeps its devices."""


GONE, MOVED = Future.GONE, Future.MOVED
_NO_CLAIMS: Mapping[str, ResourceClaim] = {}
_NOTHING: Mapping[str, Allocation] = {}


class _Home:
    """Where a pod was, and what it had besides what its record says."""

    __slots__ = ("claims", "devices", "record", "row", "volumes")

    def __init__(self, record: PodRecord) -> None:
        self.record, self.row = record, record.row
        self.claims = _NO_CLAIMS
        """Those that it used, by key."""
        self.devices = _NOTHING
        """What is reserved for its claims if it is on its way."""
        self.volumes: Reservation | None = None


class Away:
    """Pods that left in one statement, with where they were."""

    def __init__(
        self, state: ClusterState, *, with_claims: bool = True, released: Callable[[str], object] | None = None
    ) -> None:
        """`with_claims`: what their claims hold leaves with them, which kube-scheduler's own search leaves out.

        `released` is told of every pod that gives up a place, for what else is held for it there.
        """
        self.state = state
        self._released = released
        self._with_claims = with_claims
        self._homes: dict[str, _Home] = {}

    # --- leaving ---

    def take(self, records: Iterable[PodRecord | None], future: Future) -> None:
        """These leave the nodes on which they are now; those that are on none already are left out."""
        for record in records:
            if record is not None:
                self._take(record.pod.uid, future)

    def _take(self, uid: str, future: Future) -> None:
        state, record, home = self.state, self.state.record(uid), self._homes.get(uid)
        if record is None:
            return
        is_home = home is None or home.record is record
        if home is None or is_home:
            home = self._homes[uid] = _Home(record)
        state.remove_pod(uid)
        if not self._with_claims:
            return
        if self._released is not None:
            self._released(uid)
        devices, volumes = _release(state, uid)
        if is_home:
            home.devices, home.volumes = devices, volumes
            home.claims = give_up(state, record.pod, gone=future is GONE) or _NO_CLAIMS

    def take_along(self, victims: Iterable[PodRecord], future: Future) -> tuple[PodRecord, ...]:
        """Take these, and the members of their gangs that have to leave with them; the latter."""
        companions = companions_of(self.state, victims)
        self.take((*victims, *companions), future)
        return companions

    # --- coming back ---

    def put_back(self, record: PodRecord) -> None:
        """One of them is back where it was, whatever has become of that place."""
        uid, state = record.pod.uid, self.state
        home, now = self._homes[uid], state.record(uid)
        if now is home.record:
            return
        if now is not None:
            let_go(state, uid)
            if self._released is not None:
                self._released(uid)
        state.put_back(home.record)
        if home.claims:
            come_back(state, home.record.pod, home.claims)
        if home.devices or home.volumes is not None:
            _reserve_again(state, uid, home)

    def could_return(self, record: PodRecord) -> bool:
        """Whether what a pod that is away held of devices is free for it; the rest of its node is for filters to judge.

        Filters cannot tell: to them devices of a node are all alike, while a pod that stays has the same as before.
        """
        home, state = self._homes[record.pod.uid], self.state
        row, ask, held = state.row_of(home.record.node), record.pod.share, home.record.devices
        if row is None:
            return False
        if ask is not None and held and not state.shares().has_room(ask, row, held):
            return False
        return not home.claims or still_free(state, state.node(row), home.claims)

    def stays(self, uid: str) -> bool:
        """Whether a pod is where it was, with all that it had; true of others than those that left."""
        home, now = self._homes.get(uid), self.state.record(uid)
        if home is None or now is home.record:
            return True
        if now is None or now.node != home.record.node or home.claims:
            return False
        return now.devices == home.record.devices

    # --- which ---

    def home(self, uid: str) -> PodRecord:
        """A pod that left, as it was where it was."""
        return self._homes[uid].record

    def adopt(self, later: Away, without: Container[str]) -> None:
        """Others left later, `without` these; what left both times was at home before the first."""
        for uid, home in later._homes.items():
            if uid not in without:
                self._homes.setdefault(uid, home)

    def row_of(self, uid: str) -> int:
        """The row where a pod was that left; NOWHERE if its node was not known."""
        return self._homes[uid].row

    @property
    def rows(self) -> list[int]:
        """The rows that they left."""
        return [home.row for home in self._homes.values()]

    @property
    def records(self) -> list[PodRecord]:
        """All that left, those included that were put back."""
        return [home.record for home in self._homes.values()]

    def __contains__(self, uid: str) -> bool:
        return uid in self._homes

    def ordered(self) -> list[PodRecord]:
        """The same, most important first."""
        return sorted(self.records, key=importance)


def companions_of(state: ClusterState, victims: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
    """Gang members that have to be evicted with these, in a stable order; none for victims that are leaving anyway."""
    if not state.gangs:
        return ()
    return tuple(taken_along(state, [record for record in victims if staying(state, record)]))


def let_go(state: ClusterState, uid: str) -> PodRecord | None:
    """A pod that was placed in a what-if leaves that place, and gives up what was reserved for it there."""
    record = state.remove_pod(uid)
    _release(state, uid)
    return record


def _release(state: ClusterState, uid: str) -> tuple[Mapping[str, Allocation], Reservation | None]:
    """A pod gives up, for the rest of a what-if, what is reserved for it; returns that."""
    devices, volumes = state.devices.set_aside(uid), state.volumes.reservation(uid)
    if devices:
        state.undo.note(lambda: state.devices.reserve(uid, devices))
    if volumes is not None:
        state.volumes.release(uid)
        state.undo.note(lambda: state.volumes.reserve(uid, volumes))
    return devices, volumes


def _reserve_again(state: ClusterState, uid: str, home: _Home) -> None:
    state.undo.note(lambda: give_up_reservations(state, uid))
    state.devices.reserve(uid, home.devices)
    if home.volumes is not None:
        state.volumes.reserve(uid, home.volumes)


def give_up_reservations(state: ClusterState, uid: str) -> None:
    """A pod that was placed in a what-if has nothing reserved any more; to undo what was."""
    state.devices.set_aside(uid)
    state.volumes.release(uid)
