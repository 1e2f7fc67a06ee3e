"""Which replicas of a component run at the same time: each keeps its own Lease, as API servers do.

A replica counts as long as its Lease changes at least every `DURATION_S`, by our own clock: clocks of machines are
never compared. Leases that were left behind are removed after a while. Without permission to write or to watch leases
every replica assumes that it is the only one.

There is no election, but an order, by the age of the Leases. Every replica writes on its Lease where it can be asked,
and which older one it asks itself. So the oldest knows whether it is the only one that decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import AlreadyExists, KubeError, NotFound
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import LEASES
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.wire.leases import LeaseSpecWire, LeaseWire, decode_lease

LABEL = "moorage.dev/replica-of"
ADDRESS = "moorage.dev/replica-address"
FOLLOWS = "moorage.dev/replica-follows"
RENEW_S = 5.0
DURATION_S = 20.0
ABANDONED_S = 300.0

log = structlog.get_logger()


class _Replica(NamedTuple):
    """A replica, as its Lease was last seen."""

    age: tuple[str, str]
    """When the Lease was created, and its name: smaller is older."""
    address: str
    follows: str
    version: str
    changed_s: float


class Company(NamedTuple):
    """The other replicas."""

    others: int = 0
    elders: tuple[tuple[str, str], ...] = ()
    """Name and address of those that are older than this one and can be asked, the oldest first."""
    followed: bool = False
    """Whether all others follow one that is there."""


class Presence:
    """One replica among those of the same `component` in the same namespace; `changed` gets the others.

    `address` is where this one can be asked, HOST:PORT; empty if it cannot.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        component: str,
        me: str,
        changed: Callable[[Company], None],
        *,
        address: str = "",
        jitter: Callable[[], float],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._component = component
        self._me = me
        self._changed = changed
        self._address = address
        self._monotonic_s = monotonic_s
        self._replicas: dict[str, _Replica] = {}
        """By name, this one included."""
        self._follows = ""
        self._renewed_s = monotonic_s()
        self._written = False
        self._tried = asyncio.Event()
        self._complained = False
        self._reflector: Reflector[LeaseWire] = Reflector(
            client,
            LEASES,
            self,
            parse=decode_lease,
            jitter=jitter,
            namespace=namespace,
            label_selector=f"{LABEL}={component}",
        )

    async def run(self) -> None:
        """Be present until cancelled."""
        await self._reflector.beside(self._stay())

    async def _stay(self) -> None:
        while True:
            await self._renew()
            self._tried.set()
            await self._sweep()
            await asyncio.sleep(RENEW_S)

    async def settled(self) -> None:
        """Wait until others can know of us, and we know of them; or it is known that this cannot be."""
        await self._tried.wait()
        await self._reflector.settled()

    async def follow(self, elder: str) -> None:
        """Say which one this replica asks; empty: none."""
        if elder != self._follows:
            self._follows = elder
            await self._renew()

    async def leave(self) -> None:
        """Remove our Lease."""
        if self._written:
            with contextlib.suppress(KubeError):
                await self._client.delete(LEASES, self._me, self._namespace)

    # --- what the reflector sees ---

    def replaced(self, objects: list[LeaseWire]) -> None:
        """All Leases that exist now."""
        names = {lease.metadata.name for lease in objects}
        self._replicas = {name: replica for name, replica in self._replicas.items() if name in names}
        for lease in objects:
            self._see(lease)
        self._tell()

    def upserted(self, obj: LeaseWire) -> None:
        """A Lease was created or changed."""
        self._see(obj)
        self._tell()

    def deleted(self, meta: ObjectMeta) -> None:
        """A Lease was removed."""
        self._replicas.pop(meta.name, None)
        self._tell()

    def _see(self, lease: LeaseWire) -> None:
        meta, version = lease.metadata, (lease.spec or LeaseSpecWire()).renew_time or ""
        known, notes = self._replicas.get(meta.name), meta.annotations or {}
        changed_s = known.changed_s if known is not None and known.version == version else self._monotonic_s()
        self._replicas[meta.name] = _Replica(
            (meta.creation_timestamp, meta.name), notes.get(ADDRESS, ""), notes.get(FOLLOWS, ""), version, changed_s
        )

    def _tell(self) -> None:
        now_s = self._monotonic_s()
        alive = {name: each for name, each in self._replicas.items() if now_s - each.changed_s <= DURATION_S}
        mine = alive.get(self._me)
        others = sorted((each for name, each in alive.items() if name != self._me), key=lambda each: each.age)
        # One whose own Lease is overdue may have been given up by the others.
        current = mine is not None and now_s - self._renewed_s <= DURATION_S
        older = [each for each in others if mine is None or each.age < mine.age]
        elders = tuple((each.age[1], each.address) for each in older if each.address)
        self._changed(Company(len(others), elders, current and all(each.follows in alive for each in others)))

    # --- our own ---

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._me,
            "leaseDurationSeconds": int(DURATION_S),
            "renewTime": micro_time(clock.now_s()),
        }
        began_s = self._monotonic_s()
        notes = {ADDRESS: self._address, FOLLOWS: self._follows}
        try:
            if self._written:
                with contextlib.suppress(NotFound):
                    changes = {"metadata": {"annotations": notes}, "spec": spec}
                    await self._client.patch(LEASES, self._me, changes, self._namespace)
                    self._renewed_s = began_s
                    return
            labels = {LABEL: self._component}
            metadata = {"name": self._me, "namespace": self._namespace, "labels": labels, "annotations": notes}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(LEASES, lease, self._namespace)
            self._written, self._complained, self._renewed_s = True, False, began_s
        except KubeError as error:
            if not self._complained:
                log.warning("other replicas do not hear of this one", error=str(error))
            self._complained = True

    async def _sweep(self) -> None:
        """Look again, since silence is no event; and remove what was left behind."""
        self._tell()
        now_s = self._monotonic_s()
        for name in [name for name, each in self._replicas.items() if now_s - each.changed_s > ABANDONED_S]:
            with contextlib.suppress(KubeError):
                await self._client.delete(LEASES, name, self._namespace)
